"""Split text without headings into pieces of a size in characters, at sentence ends.

Each piece can repeat the end of the one before it; without these repeats, the pieces tile the
text. A sentence that is too long is cut between words, and a word that is too long by length, but
never between a character and its combining marks. Sentences end at Japanese, Chinese and Western
full stops and at newlines.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from lookfar.text.chunk.parts import is_one_character

VERSION = 1
"""Increase it whenever the same text and sizes give other pieces."""

_END = re.compile(
    r"[.!?…]+[\"'”’)\]]*(?:\s+|\Z)"
    r"|(?:[。！？｡]|．(?!\d))+[」』）】〕〉》”’\"]*[^\S\n]*\n*"
    r"|\n+"
)
_LONGEST_CHARACTER = 32


class Piece(NamedTuple):
    """A span, and how many of its first characters repeat the piece before it."""

    start: int
    end: int
    overlap: int


def split_sentences(text: str, size: int, overlap: int = 0) -> list[Piece]:
    """Split a text into pieces of at most ``size`` characters, including what they repeat."""
    assert 0 <= overlap < size
    ends = [match.end() for match in _END.finditer(text) if _divisible(text, match.end())]
    pieces: list[Piece] = []
    at = 0
    while at < len(text):
        start = _repeated_from(text, ends, at, overlap) if pieces else 0
        end = _find_end(text, ends, at, start + size)
        pieces.append(Piece(start, end, at - start))
        at = end
    return pieces


def _find_end(text: str, ends: list[int], at: int, limit: int) -> int:
    """Return the end of the piece whose own text starts at ``at``, at most ``limit``."""
    if limit >= len(text):
        return len(text)
    last = bisect_right(ends, limit) - 1
    if last >= 0 and ends[last] > at:
        return ends[last]
    for cut in range(limit, at + (limit - at) // 2, -1):
        if _starts_word(text, cut):
            return cut
    return _character_boundary(text, at, limit)


def _character_boundary(text: str, start: int, target: int) -> int:
    for cut in range(target, max(start, target - _LONGEST_CHARACTER), -1):
        if _divisible(text, cut):
            return cut
    return target


def _repeated_from(text: str, ends: list[int], at: int, overlap: int) -> int:
    """Return where the repeated text starts: at a sentence if that keeps half of it, or a word."""
    first = max(0, at - overlap)
    if first == at:
        return at
    sentence = bisect_left(ends, first)
    if sentence < len(ends) and ends[sentence] <= at - overlap // 2:
        return ends[sentence]
    for cut in range(max(first, 1), at - overlap // 2):
        if _starts_word(text, cut):
            return cut
    return next((cut for cut in range(max(first, 1), at) if _divisible(text, cut)), at)


def _divisible(text: str, cut: int) -> bool:
    """Whether a cut here divides neither a character nor a CRLF."""
    if cut >= len(text):
        return True
    before, after = text[cut - 1], text[cut]
    return not is_one_character(before, after) and (before, after) != ("\r", "\n")


def _starts_word(text: str, cut: int) -> bool:
    return text[cut - 1].isspace() and not text[cut].isspace() and _divisible(text, cut)
