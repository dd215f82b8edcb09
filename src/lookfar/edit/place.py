"""Find the part of a document that an edit names.

A heading path, lines or a citation leads to exactly one section or span. A part that does not
exist raises ``NotFound`` with the nearest candidates, a name that several sections share raises
``Ambiguous`` with all of them, and a citation of text that is gone raises ``Conflict``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256
from unicodedata import normalize

from lookfar.common.lines import Lines
from lookfar.errors import Ambiguous, Conflict, InvalidArgument, NotFound
from lookfar.model import Document, Section, Span, Target
from lookfar.store.catalogue.heading_paths import (
    clean_heading,
    format_path,
    match_headings,
    split_path,
)
from lookfar.text.parse.block_ids import find_block

_MAX_LISTED = 10
_PREAMBLE = ("",)
"""The path of the text before the first heading."""


@dataclass(frozen=True, slots=True)
class NamedPart:
    """A section, a span that is not a section, or the whole document."""

    span: Span
    section: Section | None = None
    everything: bool = False
    """No part was named. Lines from the first to the last are a span instead."""
    preamble: bool = False
    """The text between the front matter and the first heading, which may be blank."""


def find(document: Document, target: Target, path: str | Sequence[str] = ()) -> NamedPart:
    """Return the part that ``path`` or else ``target`` names, or the whole document.

    ``path`` is a complete heading path and is compared with case.
    """
    lines = Lines(document.text)
    if not isinstance(path, str) and tuple(path) == _PREAMBLE:
        starts = (section.span.start for section in document.sections if section.level)
        end = min(starts, default=len(document.text))
        return NamedPart(lines.span(document.body, end), preamble=True)
    if path:
        section = _find_path(document, path)
        return NamedPart(section.span, section)
    if target.heading.startswith("^"):
        block = find_block(document, target.heading)
        return NamedPart(lines.span(block.start, block.end))
    if target.heading:
        section = _find_heading(document, target.heading)
        return NamedPart(section.span, section)
    if target.lines is not None:
        return NamedPart(_find_lines(document, lines, *target.lines))
    if target.chars is not None:
        start, end = _find_citation(document, lines, *target.chars, target.sha256)
        return NamedPart(lines.span(start, end))
    return NamedPart(lines.span(0, len(document.text)), everything=True)


def require_section(place: NamedPart, operation: str) -> Section:
    """Return the section of a place; ``InvalidArgument`` if it is not one."""
    if place.section is None:
        raise InvalidArgument(
            f"{operation} needs a section, and none was named.",
            hint="Name its heading: URI#Heading.",
        )
    return place.section


def _find_path(document: Document, path: str | Sequence[str]) -> Section:
    readings = split_path(path) if isinstance(path, str) else [tuple(map(clean_heading, path))]
    wanted = [_compose_accents(reading) for reading in readings]
    matches = [
        section
        for section in document.sections
        if section.path and _compose_accents(section.path) in wanted
    ]
    return _only_match(document, matches, path if isinstance(path, str) else format_path(path))


def _find_heading(document: Document, heading: str) -> Section:
    named = [section for section in document.sections if section.path]
    return _only_match(document, match_headings(named, heading), heading)


def _only_match(document: Document, matches: Sequence[Section], wanted: str) -> Section:
    if len(matches) == 1:
        return matches[0]
    details = {"uri": document.uri, "heading_path": wanted}
    if not matches:
        paths = [format_path(section.path) for section in document.sections if section.path]
        paths = list(dict.fromkeys(paths))
        near = get_close_matches(wanted, paths, n=3, cutoff=0.3) or paths[:3]
        raise NotFound(
            f"{document.uri} has no section {wanted!r}.",
            hint=f"Nearest: {'; '.join(near)}." if near else "The document has no headings.",
            details={**details, "candidates": near},
        )
    candidates = [
        f"{format_path(section.path)} (lines {section.span.start_line}-{section.span.end_line})"
        for section in matches
    ]
    raise Ambiguous(
        f"{document.uri} has {len(matches)} sections called {wanted!r}.",
        hint=f"Name the parent heading too, or the lines: {'; '.join(candidates[:5])}.",
        details={**details, "candidates": candidates},
    )


def _find_lines(document: Document, lines: Lines, first: int, last: int) -> Span:
    # Reading past the end is fine; an edit past the end is a mistake.
    if not 1 <= first <= last <= len(lines) or not document.text:
        raise NotFound(
            f"{document.uri} has {len(lines)} lines, not {first}-{last}.",
            hint="Name lines that exist.",
            details={"uri": document.uri, "lines": len(lines)},
        )
    end = len(document.text) if last == len(lines) else lines.start_of(last + 1)
    return lines.span(lines.start_of(first), end)


def _find_citation(
    document: Document, lines: Lines, start: int, end: int, sha: str
) -> tuple[int, int]:
    """Return the offsets of the cited text: unchanged, or moved to the start of another line."""
    text, length = document.text, end - start
    if end <= len(text) and _matches_digest(text[start:end], sha):
        return start, end
    line_starts = (lines.start_of(number) for number in range(1, len(lines) + 1))
    matches = [
        offset
        for offset in line_starts
        if offset + length <= len(text) and _matches_digest(text[offset : offset + length], sha)
    ]
    if len(matches) == 1:
        return matches[0], matches[0] + length
    if matches:
        candidates = [f"line {lines.line_of(offset)}" for offset in matches]
        raise Ambiguous(
            f"The cited text occurs {len(matches)} times in {document.uri}.",
            hint=f"Name the lines: {', '.join(candidates[:_MAX_LISTED])}.",
            details={"uri": document.uri, "candidates": candidates},
        )
    raise Conflict(
        f"{document.uri} no longer contains the cited text.",
        hint="Read or search again, and cite the current text.",
        details={"uri": document.uri, "expected": sha},
    )


def _matches_digest(text: str, sha: str) -> bool:
    return sha256(text.encode("utf-8")).hexdigest().startswith(sha)


def _compose_accents(path: Sequence[str]) -> tuple[str, ...]:
    """Normalise a path to NFC: composed and decomposed accents look the same to a reader."""
    return tuple(normalize("NFC", title) for title in path)
