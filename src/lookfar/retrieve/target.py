"""What ``read`` was asked for: a document, a section of it, or some lines.

Takes: ``URI``, ``URI#Heading``, ``URI#Outer > Inner`` or ``URI:10-20``, and the
parsed document. Gives: the section and span meant. Refuses: to guess; a heading
that several sections have is an error that lists them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from lookfar.errors import Ambiguous, InvalidArgument, NotFound
from lookfar.lines import Lines
from lookfar.model import Document, Section, Span

_LINES = re.compile(r"(?P<uri>.+):(?P<first>\d+)(?:-(?P<last>\d+))?")
_SEPARATOR = re.compile(r"\s*(?:>|→)\s*")


@dataclass(frozen=True, slots=True)
class Target:
    """A URI and at most one of heading or lines."""

    uri: str
    heading: str = ""
    lines: tuple[int, int] | None = None


def parse_target(text: str, exists: bool) -> Target:
    """Take a target apart; ``exists`` says that ``text`` as it stands is a document's URI."""
    if exists:
        return Target(text)
    uri, hash_sign, heading = text.partition("#")
    if hash_sign and heading.strip():
        return Target(uri, heading.strip())
    match = _LINES.fullmatch(text)
    if match is None:
        return Target(uri)
    first = int(match["first"])
    last = int(match["last"] or first)
    if not 1 <= first <= last:
        raise InvalidArgument(
            f"Lines {first}-{last} are not a range.", hint="Count from 1, smaller number first."
        )
    return Target(match["uri"], lines=(first, last))


def locate(document: Document, target: Target) -> tuple[tuple[str, ...], Span]:
    """The heading path and span that a target means in this document."""
    lines = Lines(document.text)
    if target.heading:
        section = _section(document, target)
        return section.path, section.span
    if target.lines:
        first, last = target.lines
        if first > len(lines):
            raise NotFound(
                f"{document.uri} has {len(lines)} lines, not {first}.",
                hint="Ask for lines that exist.",
            )
        last = min(last, len(lines))
        start, end = lines.start_of(first), lines.start_of(last + 1)
        if last == len(lines):
            end = len(document.text)
        return _path_at(document.sections, start), lines.span(start, end)
    return (), lines.span(0, len(document.text))


def _section(document: Document, target: Target) -> Section:
    wanted = tuple(_folded(part) for part in _SEPARATOR.split(target.heading))
    named = [section for section in document.sections if section.path]
    found = [section for section in named if _ends_with(section.path, wanted)]
    whole = [section for section in found if len(section.path) == len(wanted)]
    if len(whole) == 1 or len(found) == 1:
        return (whole if len(whole) == 1 else found)[0]
    if not found:
        titles = {" > ".join(section.path): None for section in named}
        near = get_close_matches(target.heading, list(titles), n=3, cutoff=0.3)
        raise NotFound(
            f"{document.uri} has no section {target.heading!r}.",
            hint=f"Nearest: {'; '.join(near)}." if near else "See: lookfar outline URI",
            details={"candidates": near},
        )
    candidates = [
        f"{' > '.join(section.path)} (lines {section.span.start_line}-{section.span.end_line})"
        for section in found
    ]
    raise Ambiguous(
        f"{len(found)} sections of {document.uri} are called {target.heading!r}.",
        hint=f"Name the outer heading too, or the lines: {'; '.join(candidates[:5])}.",
        details={"candidates": candidates},
    )


def _ends_with(path: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return len(path) >= len(wanted) and all(
        _folded(title) == part or _slug(title) == part
        for title, part in zip(path[-len(wanted) :], wanted, strict=True)
    )


def _folded(title: str) -> str:
    return " ".join(title.casefold().split())


def _slug(title: str) -> str:
    """The anchor that web renderings give a heading."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", title.casefold()).strip())


def _path_at(sections: Iterable[Section], offset: int) -> tuple[str, ...]:
    path: tuple[str, ...] = ()
    for section in sections:
        if section.span.start <= offset < section.span.end:
            path = section.path
    return path
