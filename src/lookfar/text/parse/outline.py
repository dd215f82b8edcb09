"""Build the section tree from headings; this defines where a section ends.

A section runs from the start of its heading line to the next heading of its level or above, or to
the end of the text. Text before the first heading is section 0, at level 0 and without a title,
unless it is blank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lookfar.common.lines import Lines
from lookfar.model import Section


class Heading(NamedTuple):
    """A heading found by a parser; offsets cover whole lines."""

    level: int
    title: str
    start: int
    body: int
    """Offset of the first character after the heading line(s)."""


def build_sections(
    headings: Sequence[Heading], text: str, lines: Lines, body: int = 0
) -> tuple[Section, ...]:
    """Build the section tree; ``body`` is the offset after the front matter."""
    sections: list[Section] = []
    first = headings[0].start if headings else len(text)
    if text[body:first].strip():
        sections.append(Section(0, -1, 0, "", (), lines.span(body, first), body))
    ends = _ends(headings, len(text))
    enclosing: list[Section] = []
    for heading, end in zip(headings, ends, strict=True):
        while enclosing and enclosing[-1].level >= heading.level:
            enclosing.pop()
        parent = enclosing[-1] if enclosing else None
        section = Section(
            ordinal=len(sections),
            parent=parent.ordinal if parent else -1,
            level=heading.level,
            title=heading.title,
            path=(*(parent.path if parent else ()), heading.title),
            span=lines.span(heading.start, end),
            body=heading.body,
        )
        sections.append(section)
        enclosing.append(section)
    return tuple(sections)


def _ends(headings: Sequence[Heading], length: int) -> list[int]:
    """Return the end of each section: the next heading of its level or above, or the end."""
    ends = [length] * len(headings)
    still_open: list[int] = []
    for index, heading in enumerate(headings):
        while still_open and headings[still_open[-1]].level >= heading.level:
            ends[still_open.pop()] = heading.start
        still_open.append(index)
    return ends


def find_title(sections: Sequence[Section]) -> str:
    """Return the first title at level 1, else the first title."""
    titled = [section for section in sections if section.title]
    top = [section for section in titled if section.level == 1]
    return (top or titled)[0].title if titled else ""
