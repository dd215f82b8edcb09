"""Split a passage of prose into entries, such as the items of a list.

An overview describes what it covers in entries: an item with what is indented below it, a row of a
table, or a paragraph. An item contains its nested items, which are entries as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_MARKED: Final = re.compile(r"(?P<heading>#{1,6}[ \t])|(?P<item>(?:[-*+•]|\d{1,9}[.)])[ \t]|\|)")
_MARKS: Final = frozenset("#-*+•|")
"""What a heading or an item begins with, besides numbers."""


class Entry(NamedTuple):
    """A part of a passage, by character offsets."""

    start: int
    first_line_end: int
    end: int


class _Open(NamedTuple):
    """An entry whose end has not been found yet."""

    indent: int
    number: int


def split_entries(text: str) -> list[Entry]:
    """Return the entries of a passage in the order of their starts, outer ones first."""
    begun: list[tuple[int, int]] = []
    ends: list[int] = []
    opened: list[_Open] = []

    def close_until(indent: int, end: int) -> None:
        """Close the open entries that do not contain a line with this indentation."""
        while opened and opened[-1].indent >= indent:
            ends[opened.pop().number] = end

    after_blank, next_start = True, 0
    for line in text.split("\n"):
        start, next_start = next_start, next_start + len(line) + 1
        content = line.lstrip(" \t")
        if not content:
            after_blank = True
            continue
        indent = len(line) - len(content)
        marked = None
        # Most lines are neither, and looking at a character is cheaper than matching.
        if content[0] in _MARKS or content[0].isdecimal():
            marked = _MARKED.match(content)
        is_heading = marked is not None and marked.lastgroup == "heading"
        if is_heading:
            close_until(0, start)
        # A line that is not an item continues the entry above it. Text below a heading begins one.
        elif marked is not None or after_blank or not opened:
            close_until(indent, start)
            opened.append(_Open(indent, len(begun)))
            begun.append((start, start + len(line)))
            ends.append(start)
        after_blank = False
    close_until(0, len(text))
    return [Entry(*first_line, end) for first_line, end in zip(begun, ends, strict=True)]


def find_innermost(entries: Sequence[Entry], at: int) -> Entry | None:
    """Return the smallest entry that contains an offset."""
    inside = (entry for entry in reversed(entries) if entry.start <= at < entry.end)
    return next(inside, None)
