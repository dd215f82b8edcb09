"""Find the words of a text that match a question, to mark them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from lookfar.retrieve.question.plan import is_stop_word
from lookfar.store.keywords.analyser import terms_of

Spans = list[tuple[int, int]]

_WORD: Final = re.compile(r"\w+")
_SHORT: Final = 2
"""ASCII words up to this length are not marked: they are everywhere."""


def marked_terms(query: str) -> frozenset[str]:
    terms = frozenset(terms_of(query))
    distinctive = {t for t in terms if (len(t) > _SHORT or not t.isascii()) and not is_stop_word(t)}
    return frozenset(distinctive) or terms


def find_marks(text: str, terms: frozenset[str]) -> Spans:
    """Return the spans of matching words; adjacent words are one span."""
    # A text repeats its words, and few of them match.
    matching = {word for word in set(_WORD.findall(text)) if not terms.isdisjoint(_terms(word))}
    spans: Spans = []
    for match in _WORD.finditer(text) if matching else ():
        if match[0] in matching:
            if spans and text[spans[-1][1] : match.start()] == " ":
                spans[-1] = (spans[-1][0], match.end())
            else:
                spans.append(match.span())
    return spans


@lru_cache(maxsize=1 << 16)
def _terms(word: str) -> frozenset[str]:
    return frozenset(terms_of(word))
