"""Find the words of a text that match a question, to mark them and to choose an excerpt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from lookfar.retrieve.question.plan import is_stop_word
from lookfar.store.keywords.analyser import terms_of

Spans = list[tuple[int, int]]

_WORD: Final = re.compile(r"\w+")
_SHORT: Final = 2
"""ASCII words up to this length are not marked: they are everywhere."""
_WORD_LENGTH: Final = 40
"""How many characters an excerpt may give up to end between words."""


def marked_terms(query: str) -> frozenset[str]:
    terms = frozenset(terms_of(query))
    distinctive = {t for t in terms if (len(t) > _SHORT or not t.isascii()) and not is_stop_word(t)}
    return frozenset(distinctive) or terms


def find_marks(text: str, terms: frozenset[str]) -> Spans:
    """Return the spans of matching words; adjacent words are one span."""
    spans: Spans = []
    for match in _WORD.finditer(text):
        if not terms.isdisjoint(_terms(match[0])):
            if spans and text[spans[-1][1] : match.start()] == " ":
                spans[-1] = (spans[-1][0], match.end())
            else:
                spans.append(match.span())
    return spans


def best_window(text: str, spans: Sequence[tuple[int, int]], size: int) -> tuple[int, int]:
    """Return the part of about ``size`` characters with the most marks, cut between words."""
    if len(text) <= size:
        return 0, len(text)
    best, most, last = 0, 0, 0
    for at, (start, _) in enumerate(spans):
        while last < len(spans) and spans[last][1] <= start + size:
            last += 1
        if last - at > most:
            best, most = start, last - at
    begin = max(0, min(best - size // 4, len(text) - size))
    line = text.rfind("\n", begin, best) + 1
    if line:
        begin = line
    elif begin:
        begin = text.find(" ", begin, begin + _WORD_LENGTH) + 1 or begin
    end = min(begin + size, len(text))
    if end < len(text):
        first = end - _WORD_LENGTH
        end = max(text.rfind(" ", first, end), text.rfind("\n", first, end)) + 1 or end
    return begin, end


@lru_cache(maxsize=1 << 16)
def _terms(word: str) -> frozenset[str]:
    return frozenset(terms_of(word))
