"""Score short texts that the keyword index does not contain on their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from lookfar.store.keywords.analyser import terms_of

_USUAL_LENGTH = 40
_SATURATION = 1.2
_LENGTH_SHARE = 0.75


def score_words(text: str, rarity: Mapping[str, float]) -> tuple[float, int]:
    """Return a score on the scale of BM25 for a text, and its number of words."""
    terms = Counter(terms_of(text))
    length = terms.total()
    damped = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * length / _USUAL_LENGTH)
    score = sum(
        weight * terms[term] * (_SATURATION + 1) / (terms[term] + damped)
        for term, weight in rarity.items()
        if term in terms
    )
    return score, length
