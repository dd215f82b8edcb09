"""Split a passage of prose into entries, such as the items of a list.

An overview describes what it covers in entries: an item with what is indented below it, a row of a
table, or a paragraph. An item contains its nested items, which are entries as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_LINE: Final = re.compile(
    r"^(?P<indent>[ \t]*)"
    r"(?:(?P<heading>#{1,6}[ \t])|(?P<item>(?:[-*+•]|\d{1,9}[.)])[ \t]|\|))?"
    r"[^\n]*",
    re.MULTILINE,
)


class Entry(NamedTuple):
    """A part of a passage, by character offsets."""

    start: int
    first_line_end: int
    end: int


class _Open(NamedTuple):
    """An entry whose end has not been found yet."""

    indent: int
    start: int
    first_line_end: int


def split_entries(text: str) -> list[Entry]:
    """Return the entries of a passage in the order of their starts, outer ones first."""
    entries: list[Entry] = []
    opened: list[_Open] = []

    def close_until(indent: int, end: int) -> None:
        """Close the open entries that do not contain a line with this indentation."""
        while opened and opened[-1].indent >= indent:
            _, start, first_line_end = opened.pop()
            entries.append(Entry(start, first_line_end, end))

    after_blank = True
    for line in _LINE.finditer(text):
        start, end = line.span()
        indent = line.end("indent") - start
        if indent == end - start:
            after_blank = True
            continue
        if line["heading"]:
            close_until(0, start)
        elif line["item"] or after_blank:
            close_until(indent, start)
            opened.append(_Open(indent, start, end))
        # Any other line continues the entry above it. Text below a heading begins one.
        elif not opened:
            opened.append(_Open(indent, start, end))
        after_blank = False
    close_until(0, len(text))
    return sorted(entries, key=lambda entry: (entry.start, -entry.end))


def find_innermost(entries: Sequence[Entry], at: int) -> Entry | None:
    """Return the smallest entry that contains an offset."""
    inside = (entry for entry in reversed(entries) if entry.start <= at < entry.end)
    return next(inside, None)
