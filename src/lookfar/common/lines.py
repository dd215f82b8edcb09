"""Offsets to line numbers, for every room that makes spans.

Takes: a normalised text. Gives: the line of an offset, and spans with both.
Refuses: nothing; the end of the text, and what lies beyond, is on its last line.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, count
from operator import add

from lookfar.model import Span


class Lines:
    """Line numbers of one text, counted from 1; only ``\\n`` ends a line."""

    __slots__ = ("_starts",)

    def __init__(self, text: str) -> None:
        lengths = map(len, text.split("\n"))
        # Sums leave out the newlines themselves; adding the line index puts them back.
        self._starts: list[int] = list(map(add, accumulate(lengths, initial=0), count()))
        # The last sum is the end of the text. It starts no line, and neither does what
        # follows the final newline: the end of the text belongs to its last line.
        self._starts.pop()
        if len(self._starts) > 1 and self._starts[-1] == len(text):
            self._starts.pop()

    def line_of(self, offset: int) -> int:
        """The line that holds the character at ``offset``."""
        return bisect_right(self._starts, offset)

    def __len__(self) -> int:
        """How many lines there are; an empty text has one."""
        return len(self._starts)

    def start_of(self, line: int) -> int:
        """The offset at which ``line`` starts; beyond the last line, where that one does."""
        return self._starts[min(line, len(self._starts)) - 1]

    def span(self, start: int, end: int) -> Span:
        """``text[start:end]`` with its lines; the last is that of ``end - 1``."""
        starts = self._starts
        last = end - 1 if end > start else start
        return Span(start, end, bisect_right(starts, start), bisect_right(starts, last))
