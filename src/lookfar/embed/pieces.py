"""The tokenizer of the bundled model: text to words, words to parts, parts to pieces.

Identifiers are split and lower-cased (``getUserById`` is four words). Japanese, which has no
spaces, is split where the script changes: a run of kanji, hiragana or katakana is looked up as a
whole before it is split further. A part is split into the pieces with the lowest total cost. An
unknown character shares a row of the table with others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from math import inf
from unicodedata import normalize

_KANJI = "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff"
_HIRAGANA = "\u3041-\u3096\u309d\u309e"
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff"
_HANGUL = "\uac00-\ud7af"
_CJK = _KANJI + _HIRAGANA + _KATAKANA + _HANGUL
_RUN = re.compile(
    rf"[^\W_{_CJK}]+|[{_KANJI}]{{1,32}}|[{_HIRAGANA}]{{1,32}}|[{_KATAKANA}]{{1,32}}|[{_HANGUL}]{{1,32}}"
)
_BLANKED = bytes(code if chr(code).isalnum() and code < 128 else 32 for code in range(256))
# Letters that do not start a part of an identifier: any script but CJK.
_SMALL = rf"[^\W\d_A-Z{_CJK}]"
LONGEST_PART = 32
# Longer runs are sliced, because splitting is quadratic in the length.
_PARTS = re.compile(rf"[A-Z]{{1,32}}(?!{_SMALL})|[A-Z]?{_SMALL}{{1,32}}|[0-9]{{1,4}}")
# The same for ASCII, where a search is twice as quick.
_ASCII_PARTS = re.compile(r"[A-Z]{1,32}(?![a-z])|[A-Z]?[a-z]{1,32}|[0-9]{1,4}")
_IS_CJK = re.compile(f"[{_CJK}]")
# Most of what NFKC changes in Japanese is punctuation, which never is part of a word. Without it,
# normalising usually changes nothing and need not copy the text.
_WIDE_MARKS = "（）：？！～…\u3000"
WORD_START = "▁"
SHARED_ROWS = 256
"""Rows for unknown characters, before the rows of the pieces."""
_MAX_PIECE = 16
_COST_OF_UNKNOWN = 24.0
_COST_OF_START = 6.0
_PREFIX = 3
_SHORT = tuple(range(1, _PREFIX))
_WORTH_TABLE = 100
"""Splits from which a table of the lengths of pieces is worth its 20 ms; a question needs few."""


def words(text: str) -> list[str]:
    """Split into runs of letters and digits of one script; ASCII needs no regex."""
    if text.isascii():
        return text.encode().translate(_BLANKED).decode().split()
    for mark in _WIDE_MARKS:
        text = text.replace(mark, " ")
    runs: list[str] = _RUN.findall(normalize("NFKC", text))
    return runs


def parts(word: str) -> list[str]:
    """Split an identifier into its parts, in lower case."""
    plain = (word.islower() or word[1:].islower()) and len(word) <= LONGEST_PART
    if plain or _starts_with_cjk(word):
        return [word.lower()]
    pattern = _ASCII_PARTS if word.isascii() else _PARTS
    return [part.lower() for part in pattern.findall(word)]


def mark_start(part: str) -> str:
    """Mark the start of a word, as the pieces do, in scripts with spaces."""
    return part if _starts_with_cjk(part) else WORD_START + part


def _starts_with_cjk(word: str) -> bool:
    return not word.isascii() and _IS_CJK.match(word) is not None


class Pieces:
    """Splits a part into the pieces with the lowest total cost."""

    def __init__(self, pieces: Sequence[str], costs: Sequence[float]) -> None:
        rows = range(SHARED_ROWS, SHARED_ROWS + len(pieces))
        self._row_of = dict(zip(pieces, rows, strict=True))
        self._costs = [0.0] * SHARED_ROWS + list(costs)
        self._splits = 0
        self._lengths: dict[str, Sequence[int]] | None = None

    def __call__(self, part: str) -> list[int]:
        text = mark_start(part)
        whole = self._row_of.get(text)
        if whole is not None:
            return [whole]
        starts, rows_by_end = self._split(text)
        rows: list[int] = []
        end = len(text)
        while end:
            if rows_by_end[end] >= 0:
                rows.append(rows_by_end[end])
            end = starts[end]
        return rows[::-1]

    def _split(self, text: str) -> tuple[list[int], list[int]]:
        """Return where the last piece of each beginning of ``text`` starts, and its row."""
        find_row, costs, length = self._row_of.get, self._costs, len(text)
        find_lengths = self._make_lengths()
        best = [0.0] + [inf] * length
        starts, rows = [0] * (length + 1), [-1] * (length + 1)
        for start, character in enumerate(text):
            end, so_far = start + 1, best[start]
            if so_far >= best[length]:
                continue  # Costs are positive: a split of the whole is known that costs less.
            # An unknown character shares a row; the mark of a word's start has none.
            if character == WORD_START:
                if best[end] >= _COST_OF_START:
                    best[end], starts[end], rows[end] = _COST_OF_START, 0, -1
            elif best[end] >= so_far + _COST_OF_UNKNOWN:
                best[end], starts[end] = so_far + _COST_OF_UNKNOWN, start
                rows[end] = ord(character) % SHARED_ROWS
            for size in find_lengths(text[start : start + _PREFIX], _SHORT):
                end = start + size
                if end > length:
                    break
                row = find_row(text[start:end])
                if row is not None:
                    cost = so_far + costs[row]
                    if cost < best[end]:
                        best[end], starts[end], rows[end] = cost, start, row
        return starts, rows

    def _make_lengths(self) -> Callable[[str, Sequence[int]], Sequence[int]]:
        """Return a function for the lengths of the pieces that begin with given characters."""
        self._splits += 1
        if self._lengths is None:
            if self._splits < _WORTH_TABLE:
                return _list_all_lengths
            lengths: dict[str, int] = {}
            for piece in self._row_of:
                prefix = piece[:_PREFIX]
                lengths[prefix] = lengths.get(prefix, 0) | 1 << len(piece)
            # Few sets of lengths differ, so the table is small.
            self._lengths = {prefix: _read_bits(bits) for prefix, bits in lengths.items()}
        return self._lengths.get


@cache
def _read_bits(bits: int) -> Sequence[int]:
    longer = (size for size in range(_PREFIX, _MAX_PIECE + 1) if bits >> size & 1)
    return (*_SHORT, *longer)


def _list_all_lengths(_: str, __: Sequence[int]) -> Sequence[int]:
    return range(1, _MAX_PIECE + 1)
