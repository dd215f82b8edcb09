"""The text of a file: decoded, or extracted from a document in a child process.

Some text files whose format is usually extracted are read as source instead: HTML templates, and
files from which nothing can be extracted.
"""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import Final, NamedTuple

from lookfar.index.extraction import Extraction
from lookfar.index.reconcile import name_extractor
from lookfar.model import Places, Skipped
from lookfar.sources.fingerprints import is_binary
from lookfar.text.encodings import decode
from lookfar.text.extract.extracted import Extracted
from lookfar.text.extract.formats import extractor_for
from lookfar.text.normalise import normalise_lines, normalise_text
from lookfar.text.parse.html_templates import is_template

_TEXT_FORMATS: Final = frozenset((".html", ".csv", ".ipynb", ".tex", ".srt", ".canvas", ".eml"))
"""The first extension of each text format: files in these formats can be read as source."""
_MOST_SOURCE: Final = 1 << 20
"""Larger files are not read as source."""


class Content(NamedTuple):
    """The normalised text of a file, and how it was read."""

    text: str
    raw_sha: bytes
    """SHA-256 of the file's bytes."""
    warnings: tuple[str, ...] = ()
    encoding: str = ""
    title: str = ""
    """The title in the file's metadata, if it was extracted."""
    extractor: str = ""
    """Name and version of the extractor; empty for a file that has none."""
    as_source: bool = False
    """Whether the text is the source of the file, although there is an extractor for it."""
    places: Places = ()


def decode_content(raw: bytes) -> Content:
    """Return the content of a text file."""
    decoded = decode(raw)
    return Content(
        normalise_lines(decoded.text), sha256(raw).digest(), decoded.warnings, decoded.encoding
    )


def restore_content(text: str, metadata: str) -> Content:
    """Return the content of a stored document from its text and its metadata."""
    stored = json.loads(metadata)
    return Content(
        text,
        b"",
        title=stored.get("file_title", ""),
        extractor=stored.get("extractor", ""),
        as_source=stored.get("as_source", False),
    )


def extract_content(uri: str, raw: bytes, extraction: Extraction) -> Content | Skipped:
    """Return the content of a file whose name has an extractor, or why it is skipped."""
    row = extractor_for(uri)
    assert row is not None
    if row.extensions[0] == ".html" and is_template(raw):
        return _read_as_source(uri, raw)
    extracted = extraction.extract(uri, raw)
    if isinstance(extracted, Extracted):
        return Content(
            text=normalise_text(extracted.text),
            raw_sha=sha256(raw).digest(),
            warnings=extracted.warnings,
            title=extracted.title,
            extractor=name_extractor(uri),
            places=tuple((place.start, place.label) for place in extracted.places),
        )
    is_text = row.extensions[0] in _TEXT_FORMATS and len(raw) <= _MOST_SOURCE
    if is_text and raw.strip() and not is_binary(raw, known=False):
        source = _read_as_source(uri, raw)
        warning = f"read as source, because {extracted.detail}"
        return source._replace(warnings=(warning, *source.warnings))
    return replace(extracted, uri=uri)


def _read_as_source(uri: str, raw: bytes) -> Content:
    return decode_content(raw)._replace(extractor=name_extractor(uri), as_source=True)
