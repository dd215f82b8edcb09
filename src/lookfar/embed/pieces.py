"""Words to pieces: how the bundled model reads a text.

Takes: a text, and the list of pieces that the model knows, with what each costs. Gives: the
words of the text, the parts of a word, and the ids of a part's pieces. Refuses: nothing; a
character that the model never met shares a row with others of its kind.

Identifiers are split and lower-cased (``getUserById`` is four words to a reader), and Japanese,
which has no spaces, is cut where the script changes: a run of kanji, of hiragana or of katakana
is looked up as a whole before it is taken apart. A part is taken apart the cheapest way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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
# Letters that start no part of an identifier: of any script but CJK.
_SMALL = rf"[^\W\d_A-Z{_CJK}]"
LONGEST_PART = 32
# A run longer than any word is taken in slices, as its pieces cost the square of its length.
_PARTS = re.compile(rf"[A-Z]{{1,32}}(?!{_SMALL})|[A-Z]?{_SMALL}{{1,32}}|[0-9]{{1,4}}")
_IS_CJK = re.compile(f"[{_CJK}]")
# Most of what NFKC changes in Japanese is punctuation, which is no word either way. Where that is
# taken out, nothing is left to change, and the whole text need not be written anew.
_WIDE_MARKS = "（）：？！～…\u3000"
WORD_START = "▁"
SHARED_ROWS = 256
"""Rows for characters that are no piece, before the rows of the pieces."""
_LONGEST_PIECE = 16
_COST_OF_UNKNOWN = 24.0
_COST_OF_START = 6.0


def words(text: str) -> list[str]:
    """Runs of letters and digits of one script. Most texts are ASCII: those need no regex."""
    if text.isascii():
        return text.encode().translate(_BLANKED).decode().split()
    for mark in _WIDE_MARKS:
        text = text.replace(mark, " ")
    found: list[str] = _RUN.findall(normalize("NFKC", text))
    return found


def parts(word: str) -> list[str]:
    """What a reader sees in an identifier, in lower case."""
    plain = (word.islower() or word[1:].islower()) and len(word) <= LONGEST_PART
    if plain or _IS_CJK.match(word):
        return [word.lower()]
    return [part.lower() for part in _PARTS.findall(word)]


def marked(part: str) -> str:
    """A part as pieces spell it: where words have spaces, their start shows."""
    return part if _IS_CJK.match(part) else WORD_START + part


class Pieces:
    """The cheapest way to spell a part."""

    def __init__(self, spelt: Sequence[str], costs: Sequence[float]) -> None:
        rows = range(SHARED_ROWS, SHARED_ROWS + len(spelt))
        self._row_of = dict(zip(spelt, rows, strict=True))
        self._costs = costs

    def __call__(self, part: str) -> list[int]:
        text = marked(part)
        whole = self._row_of.get(text)
        if whole is not None:
            return [whole]
        end_of_best: list[tuple[float, int, int]] = [(0.0, 0, -1)]
        for end in range(1, len(text) + 1):
            # A character that is no piece shares a row; the mark of a word's start has none.
            if text[end - 1] == WORD_START:
                best = (_COST_OF_START, 0, -1)
            else:
                row = ord(text[end - 1]) % SHARED_ROWS
                best = (end_of_best[end - 1][0] + _COST_OF_UNKNOWN, end - 1, row)
            for start in range(max(0, end - _LONGEST_PIECE), end):
                found = self._row_of.get(text[start:end])
                if found is not None:
                    cost = end_of_best[start][0] + self._costs[found - SHARED_ROWS]
                    if cost < best[0]:
                        best = (cost, start, found)
            end_of_best.append(best)
        rows: list[int] = []
        at = len(text)
        while at:
            _, at, row = end_of_best[at]
            if row >= 0:
                rows.append(row)
        return rows[::-1]
