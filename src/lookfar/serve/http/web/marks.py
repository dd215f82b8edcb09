"""Which words of a text answer to a question: to be marked, and to choose what is shown first.

Takes: a question and a text. Gives: spans of words, and the few neighbouring lines that say most
about the question. Refuses: nothing; where no word answers, a text is shown from its beginning.

A page asks for this with every letter that somebody types, so words are looked up once.
"""

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
"""Letters of a word in our script that would light up everywhere."""
_WORD_LENGTH: Final = 40
"""Characters that are given up so that no word is cut."""


def words_of(query: str) -> frozenset[str]:
    """The terms of a question that are worth marking."""
    terms = frozenset(terms_of(query))
    telling = {t for t in terms if (len(t) > _SHORT or not t.isascii()) and not is_stop_word(t)}
    return frozenset(telling) or terms


def marked(text: str, words: frozenset[str]) -> Spans:
    """Where in a text words of the question stand; neighbours are one."""
    found: Spans = []
    for match in _WORD.finditer(text):
        if not words.isdisjoint(_terms(match[0])):
            if found and text[found[-1][1] : match.start()] == " ":
                found[-1] = (found[-1][0], match.end())
            else:
                found.append(match.span())
    return found


def window(text: str, spans: Sequence[tuple[int, int]], size: int) -> tuple[int, int]:
    """The part of about so many characters that holds the most marks, cut between words."""
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
