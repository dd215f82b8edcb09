"""Offsets to line numbers, for every room that makes spans.

Takes: a normalised text. Gives: the line of an offset and spans with both.
Refuses: nothing; offsets beyond the text fall on its last line.
"""

from __future__ import annotations

from bisect import bisect_left

from lookfar.model import Span


class Lines:
    """Line numbers of one text, found by bisection over its newlines."""

    __slots__ = ("_newlines",)

    def __init__(self, text: str) -> None:
        newlines: list[int] = []
        at = text.find("\n")
        while at >= 0:
            newlines.append(at)
            at = text.find("\n", at + 1)
        self._newlines = newlines

    def line_of(self, offset: int) -> int:
        """The line, counted from 1, that holds the character at ``offset``."""
        return bisect_left(self._newlines, offset) + 1

    def start_of(self, line: int) -> int:
        """Offset of the first character of ``line``."""
        if line <= 1:
            return 0
        return self._newlines[min(line - 2, len(self._newlines) - 1)] + 1

    def span(self, start: int, end: int) -> Span:
        """``[start, end)`` with the lines of its first and last character."""
        return Span(start, end, self.line_of(start), self.line_of(max(start, end - 1)))

    def __len__(self) -> int:
        return len(self._newlines)
