"""Parse what ``read`` was asked for, and locate it in the document.

A target is ``URI``, ``URI#Heading``, ``URI#Outer > Inner``, ``URI#^block`` or ``URI:10-20``, in
source code also ``URI#Outer.inner``, in an extracted text ``URI#page=3``; or a citation, which is
checked against its hash. :mod:`lookfar.retrieve.locate.resolve` says which document is meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from hashlib import sha256

from lookfar.common.lines import Lines
from lookfar.errors import Ambiguous, InvalidArgument, NotFound
from lookfar.model import Document, Section, Span, State, Target
from lookfar.retrieve.locate.places import describe_missing, find_place
from lookfar.retrieve.locate.sections import find_moved, find_path
from lookfar.retrieve.locate.symbols import choose_in_document, match_names
from lookfar.store.catalogue.heading_paths import format_path, match_headings
from lookfar.text.parse.block_ids import find_block

_LINES = re.compile(r"(?P<uri>.+):(?P<first>\d{1,12})(?:-(?P<last>\d{1,12}))?")
_MOST_SIGNS = 16
"""Number of ``#`` in a target at which its URI may end."""
_SEPARATOR = re.compile(r"\s*(?:>|→)\s*")


def parse_target(text: str, exists: bool, known: Callable[[str], bool] | None = None) -> Target:
    """Parse a target; with ``exists``, all of ``text`` is the URI of a document.

    A path may contain a ``#``, as in ``C#/notes.md``. If ``known`` reports which URIs exist, the
    longest one is taken, otherwise everything before the first ``#``.
    """
    if exists:
        return Target(text)
    match = _LINES.fullmatch(text)
    uri, hash_sign, heading = text.partition("#")
    if known is not None and hash_sign and (match is not None or "#" in heading):
        *before, last = text.rsplit("#", _MOST_SIGNS)
        while before:
            if known(named := "#".join(before)):
                return Target(named, last.strip())
            last = f"{before.pop()}#{last}"
        if match is not None and known(match["uri"]):
            return Target(match["uri"], lines=line_range(match["first"], match["last"]))
    if hash_sign and heading.strip():
        return Target(uri, heading.strip())
    if match is None:
        return Target(uri)
    return Target(match["uri"], lines=line_range(match["first"], match["last"]))


def line_range(first: str, last: str | None) -> tuple[int, int]:
    """Parse two line numbers; without the second, the range is one line."""
    low, high = int(first), int(last or first)
    if not 1 <= low <= high:
        raise InvalidArgument(
            f"Lines {low}-{high} are not a range.",
            hint="Lines count from 1; write the smaller number first.",
        )
    return low, high


def locate(document: Document, target: Target) -> tuple[tuple[str, ...], Span]:
    """Return the heading path and the span of a target in this document."""
    lines = Lines(document.text)
    if target.heading:
        place = find_place(document.places, target.heading, len(document.text))
        if place is not None:
            return find_path(document.sections, place[0]), lines.span(*place)
        if target.heading.startswith("^"):
            block = find_block(document, target.heading)
            return find_path(document.sections, block.start), lines.span(block.start, block.end)
        section = _find_section(document, target)
        return section.path, section.span
    if target.lines:
        first, last = target.lines
        if first > len(lines):
            raise NotFound(
                f"{document.uri} has {len(lines)} lines, not {first}.",
                hint=f"Use lines 1 to {len(lines)}.",
            )
        last = min(last, len(lines))
        start, end = lines.start_of(first), lines.start_of(last + 1)
        if last == len(lines):
            end = len(document.text)
        return find_path(document.sections, start), lines.span(start, end)
    return (), lines.span(0, len(document.text))


def widen_to_lines(text: str, span: Span) -> Span:
    """Return a span with all of its first and last line: several definitions can share one."""
    lines = Lines(text)
    end = text.find("\n", max(span.end - 1, span.start))
    return lines.span(lines.start_of(span.start_line), end + 1 if end >= 0 else len(text))


def check_citation(
    document: Document, target: Target, indexed: str | None
) -> tuple[tuple[str, ...], Span, State]:
    """Return the headings, the current span and the state of a cited text.

    The text is looked up in ``indexed``, the text in the index, if that still matches the citation.
    Otherwise only its hash is known, and it is found again only at the start of a line.
    """
    assert target.chars is not None
    start, end = target.chars
    text, lines = document.text, Lines(document.text)

    def holds(source: str, at: int) -> bool:
        cited = source[at : at + end - start]
        return sha256(cited.encode("utf-8")).hexdigest().startswith(target.sha256)

    if holds(text, start) and end <= len(text):
        return find_path(document.sections, start), lines.span(start, end), "same"
    position = -1
    if indexed is not None and holds(indexed, start):
        position = find_moved(indexed[start:end], start, text, indexed)
    else:
        starts = (lines.start_of(number) for number in range(1, len(lines) + 1))
        position = next(
            (at for at in starts if at + end - start <= len(text) and holds(text, at)), -1
        )
        position = (
            find_moved(text[position : position + end - start], start, text)
            if position >= 0
            else -1
        )
    if position >= 0:
        span = lines.span(position, position + end - start)
        return find_path(document.sections, position), span, "moved"
    start = min(start, len(text))
    return find_path(document.sections, start), lines.span(start, min(end, len(text))), "changed"


def _find_section(document: Document, target: Target) -> Section:
    named = [section for section in document.sections if section.path]
    sections = _find_definitions(document, named, target.heading)
    sections = sections or match_headings(named, target.heading)
    if len(sections) == 1:
        return sections[0]
    if not sections:
        if instead := describe_missing(document.places, target.heading):
            raise NotFound(f"{document.uri} has no {target.heading}.", hint=instead)
        titles = {format_path(section.path): None for section in named}
        near = get_close_matches(target.heading, list(titles), n=3, cutoff=0.3)
        raise NotFound(
            f"{document.uri} has no section {target.heading!r}.",
            hint=f"Nearest: {'; '.join(near)}."
            if near
            else "lookfar outline URI lists the sections.",
            details={"candidates": near},
        )
    candidates = [
        f"{format_path(section.path)} (lines {section.span.start_line}-{section.span.end_line})"
        for section in sections
    ]
    raise Ambiguous(
        f"{len(sections)} sections of {document.uri} are called {target.heading!r}.",
        hint=f"Add the outer heading, or use the lines: {'; '.join(candidates[:5])}.",
        details={"candidates": candidates},
    )


def _find_definitions(document: Document, named: Sequence[Section], name: str) -> list[Section]:
    """Return the definitions that a name can mean, or only the one whose whole path it is."""
    if document.lane != "code":
        return []
    sections = match_names(named, name)
    whole = [section for section in sections if len(section.path) == len(_SEPARATOR.split(name))]
    if len(whole) == 1:
        return whole
    return choose_in_document(document, sections, name) if len(sections) > 1 else sections
