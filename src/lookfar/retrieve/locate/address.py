"""Format and parse addresses of documents and their parts.

lookfar://docs/guide.md                                a document
lookfar://docs/guide.md#Install > Linux                a section
lookfar://docs/guide.md:10-20                          lines
lookfar://docs/guide.md?chars=120-980&sha256=ab12...   a citation: a span and its hash
"""

from __future__ import annotations

import re
from urllib.parse import parse_qs, quote, unquote

from lookfar.errors import InvalidArgument
from lookfar.model import Span, Target
from lookfar.retrieve.locate.target import line_range

SCHEME = "lookfar://"
_LINES = re.compile(r"(.+):(\d{1,12})(?:-(\d{1,12}))?")
_CHARS = re.compile(r"(\d{1,12})-(\d{1,12})")
_DIGEST = re.compile(r"[0-9a-f]{8,64}")
_SHOWN_DIGITS = 16


def format_address(collection: str, uri: str) -> str:
    return f"{SCHEME}{quote(collection, safe='')}/{quote(uri, safe='/')}"


def format_lines(collection: str, place: str) -> str:
    """Return the address of lines, given as ``guide.md:10-20``."""
    uri, _, lines = place.rpartition(":")
    return f"{format_address(collection, uri)}:{lines}"


def format_citation(collection: str, uri: str, span: Span, sha256: str) -> str:
    """Return the address of a span, with the start of its hash."""
    cited = f"chars={span.start}-{span.end}&sha256={sha256[:_SHOWN_DIGITS]}"
    return f"{format_address(collection, uri)}?{cited}"


def strip_to_document(address: str) -> str:
    """Return the address of the document, without the part that the address names."""
    place = address.partition("#")[0].partition("?")[0]
    lines = _LINES.fullmatch(place)
    return lines[1] if lines else place


def parse_address(text: str) -> tuple[str, Target]:
    """Return the collection that an address names, and the target inside it."""
    place, _, heading = text.removeprefix(SCHEME).partition("#")
    place, _, query = place.partition("?")
    name, _, path = place.partition("/")
    lines = _LINES.fullmatch(path)
    uri = unquote(lines[1] if lines else path)
    if not name or not uri:
        raise InvalidArgument(
            f"{text!r} does not name a document.", hint=f"Write {SCHEME}COLLECTION/URI."
        )
    if query:
        chars, digest = _parse_citation(query)
        return unquote(name), Target(uri, chars=chars, sha256=digest)
    if lines:
        return unquote(name), Target(uri, lines=line_range(lines[2], lines[3]))
    return unquote(name), Target(uri, heading=unquote(heading).strip())


def _parse_citation(query: str) -> tuple[tuple[int, int], str]:
    given = {key: values[-1] for key, values in parse_qs(query).items()}
    chars = _CHARS.fullmatch(given.get("chars", ""))
    digest = given.get("sha256", "").lower()
    if chars is None or not _DIGEST.fullmatch(digest) or int(chars[1]) > int(chars[2]):
        raise InvalidArgument(
            f"{query!r} is not a citation.",
            hint="Pass it as the search returned it: ?chars=START-END&sha256=DIGITS.",
        )
    return (int(chars[1]), int(chars[2])), digest
