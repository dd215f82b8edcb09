"""Which part of a document an edit means.

Takes: a parsed document, and a heading path, lines or a citation. Gives: the section or the
span. Refuses: to guess. What is not there is ``NotFound`` with the nearest there is, what
several sections could be is ``Ambiguous`` with all of them, and a citation of what is no
longer there is a ``Conflict``.

How heading paths are written, ``store.headings`` knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256
from unicodedata import normalize

from lookfar.common.lines import Lines
from lookfar.errors import Ambiguous, Conflict, InvalidArgument, NotFound
from lookfar.model import Document, Section, Span
from lookfar.store.catalogue.heading_paths import called, freed, path_parts, shown

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Where:
    """A part of a document: at most one of the fields is set, none means all of it."""

    path: str | Sequence[str] = ()
    """From the root and with case."""
    heading: str = ""
    """The end of a path, in any case."""
    lines: tuple[int, int] | None = None
    chars: tuple[int, int] | None = None
    sha256: str = ""
    """Of what was cited at ``chars``, or the first digits of it."""


@dataclass(frozen=True, slots=True)
class Place:
    """What was meant: a section, a span that is none, or the document."""

    span: Span
    section: Section | None = None
    everything: bool = False
    """Nothing in particular was named; lines from the first to the last are a span."""


def find(document: Document, where: Where) -> Place:
    """The part that is meant; the whole document where nothing is named."""
    lines = Lines(document.text)
    if where.path:
        section = _strictly(document, where.path)
        return Place(section.span, section)
    if where.heading:
        section = _loosely(document, where.heading)
        return Place(section.span, section)
    if where.lines is not None:
        return Place(_lines(document, lines, *where.lines))
    if where.chars is not None:
        start, end = _cited(document, lines, *where.chars, where.sha256)
        return Place(lines.span(start, end))
    return Place(lines.span(0, len(document.text)), everything=True)


def _strictly(document: Document, path: str | Sequence[str]) -> Section:
    ways = path_parts(path) if isinstance(path, str) else [tuple(map(freed, path))]
    wanted = [_composed(way) for way in ways]
    found = [each for each in document.sections if each.path and _composed(each.path) in wanted]
    text = path if isinstance(path, str) else shown(path)
    return _only(document, found, text)


def _loosely(document: Document, heading: str) -> Section:
    named = [section for section in document.sections if section.path]
    return _only(document, called(named, heading), heading)


def _only(document: Document, found: Sequence[Section], wanted: str) -> Section:
    if len(found) == 1:
        return found[0]
    about = {"uri": document.uri, "heading_path": wanted}
    if not found:
        paths = list(dict.fromkeys(shown(each.path) for each in document.sections if each.path))
        near = get_close_matches(wanted, paths, n=3, cutoff=0.3) or paths[:3]
        raise NotFound(
            f"{document.uri} has no section {wanted!r}.",
            hint=f"Nearest: {'; '.join(near)}." if near else "It has no headings at all.",
            details={**about, "candidates": near},
        )
    candidates = [
        f"{shown(each.path)} (lines {each.span.start_line}-{each.span.end_line})" for each in found
    ]
    raise Ambiguous(
        f"{len(found)} sections of {document.uri} are called {wanted!r}.",
        hint=f"Name the outer heading too, or the lines: {'; '.join(candidates[:5])}.",
        details={**about, "candidates": candidates},
    )


def _lines(document: Document, lines: Lines, first: int, last: int) -> Span:
    # Beyond the end is a mistake here, though a reader would forgive it.
    if not 1 <= first <= last <= len(lines) or not document.text:
        raise NotFound(
            f"{document.uri} has {len(lines)} lines, not {first}-{last}.",
            hint="Name lines that exist.",
            details={"uri": document.uri, "lines": len(lines)},
        )
    end = len(document.text) if last == len(lines) else lines.start_of(last + 1)
    return lines.span(lines.start_of(first), end)


def _cited(document: Document, lines: Lines, start: int, end: int, sha: str) -> tuple[int, int]:
    """Where the cited text stands: there, or else on the one line that it begins now."""
    text, length = document.text, end - start
    if end <= len(text) and _is(text[start:end], sha):
        return start, end
    found = [
        at for at in _starts(lines) if at + length <= len(text) and _is(text[at : at + length], sha)
    ]
    if len(found) == 1:
        return found[0], found[0] + length
    if found:
        candidates = [f"line {lines.line_of(at)}" for at in found]
        raise Ambiguous(
            f"What was cited stands in {document.uri} {len(found)} times.",
            hint=f"Name the lines: {', '.join(candidates[:_SHOWN])}.",
            details={"uri": document.uri, "candidates": candidates},
        )
    raise Conflict(
        f"{document.uri} no longer says what was cited.",
        hint="Read or search again, and cite what stands there now.",
        details={"uri": document.uri, "expected": sha},
    )


def _starts(lines: Lines) -> Iterator[int]:
    return (lines.start_of(number) for number in range(1, len(lines) + 1))


def _is(text: str, sha: str) -> bool:
    return sha256(text.encode("utf-8")).hexdigest().startswith(sha)


def _composed(path: Sequence[str]) -> tuple[str, ...]:
    """A path whose accents are written in one way, as nobody sees in which they are."""
    return tuple(normalize("NFC", title) for title in path)


def refuse_no_section(place: Place, what: str) -> Section:
    """The section, for whom nothing else will do."""
    if place.section is None:
        raise InvalidArgument(
            f"{what} needs a section, and none was named.", hint="Name its heading: URI#Heading."
        )
    return place.section
