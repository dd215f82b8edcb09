"""Text without headings to pieces of so many characters, cut where sentences end.

Takes: a text, the size of a piece and how much each repeats of the one before it, both in
characters. Gives: spans in order; without what they repeat they tile the text. Refuses: to
cut a character from the marks that belong to it, and nothing else: a sentence that fits no
piece is cut between words, and a word that fits none by length.

Sentences end at Japanese, Chinese and Western full stops and at newlines.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from lookfar.text.chunk.parts import belongs

VERSION = 1
"""Raise whenever the same text and sizes would give other pieces."""

_END = re.compile(
    r"[.!?…]+[\"'”’)\]]*(?:\s+|\Z)"
    r"|(?:[。！？｡]|．(?!\d))+[」』）】〕〉》”’\"]*[^\S\n]*\n*"
    r"|\n+"
)
_LONGEST_CHARACTER = 32


class Piece(NamedTuple):
    """A span, and how many of its first characters the piece before it has too."""

    start: int
    end: int
    overlap: int


def pieces(text: str, size: int, overlap: int = 0) -> list[Piece]:
    """The text in pieces of at most ``size`` characters, what they repeat included."""
    assert 0 <= overlap < size
    ends = [match.end() for match in _END.finditer(text) if _divisible(text, match.end())]
    found: list[Piece] = []
    at = 0
    while at < len(text):
        start = _repeated_from(text, ends, at, overlap) if found else 0
        end = _end(text, ends, at, start + size)
        found.append(Piece(start, end, at - start))
        at = end
    return found


def _end(text: str, ends: list[int], at: int, limit: int) -> int:
    """Where the piece ends whose own text begins at ``at``: after ``at``, not beyond ``limit``."""
    if limit >= len(text):
        return len(text)
    last = bisect_right(ends, limit) - 1
    if last >= 0 and ends[last] > at:
        return ends[last]
    for cut in range(limit, at + (limit - at) // 2, -1):
        if _begins_word(text, cut):
            return cut
    return _whole_character(text, at, limit)


def _whole_character(text: str, start: int, target: int) -> int:
    for cut in range(target, max(start, target - _LONGEST_CHARACTER), -1):
        if _divisible(text, cut):
            return cut
    return target


def _repeated_from(text: str, ends: list[int], at: int, overlap: int) -> int:
    """Where the repeated text begins: with a sentence if that leaves half of it, or a word."""
    first = max(0, at - overlap)
    if first == at:
        return at
    sentence = bisect_left(ends, first)
    if sentence < len(ends) and ends[sentence] <= at - overlap // 2:
        return ends[sentence]
    for cut in range(max(first, 1), at - overlap // 2):
        if _begins_word(text, cut):
            return cut
    return next((cut for cut in range(max(first, 1), at) if _divisible(text, cut)), at)


def _divisible(text: str, cut: int) -> bool:
    """Whether a cut here leaves every character whole, and every line break too."""
    if cut >= len(text):
        return True
    before, after = text[cut - 1], text[cut]
    return not belongs(before, after) and (before, after) != ("\r", "\n")


def _begins_word(text: str, cut: int) -> bool:
    return text[cut - 1].isspace() and not text[cut].isspace() and _divisible(text, cut)
