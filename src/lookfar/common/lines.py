"""Offsets and lines of a text: line numbers, ranges, the header row of a table, UTF-16 units."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from lookfar.model import Span

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_NEWLINE = ord("\n")
TABLE_RULE = re.compile(r"[ \t]*\|[ \t]*:?-+:?[ \t]*\|")
"""The line below the header row of a table."""


class Lines:
    """Line numbers of one text, counted from 1; only ``\\n`` ends a line."""

    __slots__ = ("_starts",)

    def __init__(self, text: str) -> None:
        import numpy as np  # Here, because programs that only start must start quickly.

        characters: NDArray[np.unsignedinteger[Any]]
        if text.isascii():
            characters = np.frombuffer(text.encode("ascii"), np.uint8)
        else:
            characters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        self._starts: list[int] = [0, *(np.flatnonzero(characters == _NEWLINE) + 1).tolist()]
        # A final newline does not start another line.
        if len(self._starts) > 1 and self._starts[-1] == len(text):
            self._starts.pop()

    def line_of(self, offset: int) -> int:
        """Return the line of the character at ``offset``, or the last one beyond the end."""
        return bisect_right(self._starts, offset)

    def __len__(self) -> int:
        """Return the number of lines; an empty text has one."""
        return len(self._starts)

    def start_of(self, line: int) -> int:
        """Return the offset at which ``line``, or at most the last line, starts."""
        return self._starts[min(line, len(self._starts)) - 1]

    def span(self, start: int, end: int) -> Span:
        """Return the span of ``text[start:end]``; its last line is that of ``end - 1``."""
        starts = self._starts
        last = end - 1 if end > start else start
        return Span(start, end, bisect_right(starts, start), bisect_right(starts, last))


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return the starts and the ends of ranges of offsets, in order; overlapping ones are one."""
    starts: list[int] = []
    ends: list[int] = []
    for start, end in sorted(ranges):
        if ends and start < ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(start)
            ends.append(end)
    return starts, ends


def inside_of(ranges: Iterable[tuple[int, int]]) -> Callable[[int], bool]:
    """Return a function that says whether an offset is inside one of these ranges."""
    starts, ends = merge_ranges(ranges)

    def is_inside(offset: int) -> bool:
        at = bisect_right(starts, offset) - 1
        return at >= 0 and offset < ends[at]

    return is_inside


def find_header(lines: Sequence[str], at: int) -> int | None:
    """Return the number of the header row above a line of a table; None if there is none."""
    while at > 0 and lines[at].lstrip().startswith("|"):
        if TABLE_RULE.match(lines[at]):
            return at - 1
        at -= 1
    return None


def count_units(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut_units(text: str, most: int) -> str:
    """Return the beginning of a text with at most this many units, and whole characters only."""
    if count_units(text) <= most:
        return text
    units = text.encode("utf-16-le", "surrogatepass")[: 2 * most]
    return units.decode("utf-16-le", "ignore")
