"""Split a passage of prose into entries, such as the items of a list.

An overview describes what it covers in entries: an item with what is indented below it, a row of a
table, or a paragraph. An item contains its nested items, which are entries as well.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from lookfar.common.recent import RecentValues
from lookfar.store.keywords.analyser import analyse

_MARKED: Final = re.compile(r"(?P<heading>#{1,6}[ \t])|(?P<item>(?:[-*+•]|\d{1,9}[.)])[ \t]|\|)")
_MARKS: Final = frozenset("#-*+•|")
"""What a heading or an item begins with, besides numbers."""
_SEPARATORS: Final = re.compile(r"[\W_]+")
_MOST_BYTES: Final = 24 << 20
_BYTES: Final = 700
_BYTES_PER_CHARACTER: Final = 3
"""Of a passage with the words and names of its entries, in the cache."""


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


class PassageEntries:
    """The entries of one passage, and the words of those that were asked for.

    Words are analysed once: questions of one topic read the same overviews.
    """

    __slots__ = ("_ends", "_first_lines", "_line_ends", "_starts", "_terms", "_text")

    def __init__(self, text: str) -> None:
        entries = split_entries(text)
        self._text = text
        # Arrays, because thousands of passages are kept.
        self._starts = array("I", [entry.start for entry in entries])
        self._line_ends = array("I", [entry.first_line_end for entry in entries])
        self._ends = array("I", [entry.end for entry in entries])
        self._terms: dict[int, str] = {}
        self._first_lines: str | None = None

    def find_innermost(self, at: int) -> int | None:
        """Return the number of the smallest entry that contains an offset."""
        for number in range(bisect_right(self._starts, at) - 1, -1, -1):
            if at < self._ends[number]:
                return number
        return None

    def weigh(self, number: int, terms: Iterable[tuple[str, float]]) -> float:
        """Add up the weights of the terms in an entry; each is given between spaces."""
        have = self._terms.get(number)
        if have is None:
            text = self._text[self._starts[number] : self._ends[number]]
            have = self._terms[number] = f" {analyse(text)} "
        return sum([weight for term, weight in terms if term in have])

    def spell_first_lines(self) -> str:
        """Return a line for each entry: the words of its first line, each between spaces."""
        if self._first_lines is None:
            spans = zip(self._starts, self._line_ends, strict=True)
            lines = (f" {spell_out(self._text[start:end])} " for start, end in spans)
            self._first_lines = "\n".join(lines)
        return self._first_lines


NO_ENTRIES: Final = PassageEntries("")
_recent: Final[RecentValues[bytes, PassageEntries]] = RecentValues(_MOST_BYTES)
"""By the hash of the passage, so that an entry is never stale."""


def find_known(sha: bytes) -> PassageEntries | None:
    """Return the entries of a passage with this hash, if they were read lately."""
    return _recent.get(sha)


def forget_entries() -> None:
    """Release what was read lately."""
    _recent.clear()


def split_passage(sha: bytes, text: str) -> PassageEntries:
    """Split a passage with this hash, and keep the result for the next questions."""
    entries = PassageEntries(text)
    _recent.add(sha, entries, _BYTES + _BYTES_PER_CHARACTER * len(text))
    return entries


def spell_out(name: str) -> str:
    """Return the words of a name, in lower case and separated by spaces."""
    return _SEPARATORS.sub(" ", name.lower()).strip()
