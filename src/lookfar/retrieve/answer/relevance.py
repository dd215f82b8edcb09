"""Note when nothing in an answer seems to be about the question.

The measure is the best BM25 of a document, as a share of the weight of all words in the question,
plus the best cosine. The thresholds are tuned with ``bench/quality.py --doubt``: no answered
question gets the note, and half of those without an answer do. A question in quite different words
than its answer looks the same as one without an answer, so a higher threshold would cost trust.
"""

from __future__ import annotations

from typing import Final

from lookfar.model import Incomplete
from lookfar.retrieve.ranking import Ranking

WORDS_AND_MEANING: Final = 0.5
WORDS_ALONE: Final = 0.2
FEWEST: Final = 1000
"""Minimum number of chunks and documents: in a small corpus most words are rare."""
NOTHING_RELEVANT: Final = "nothing_relevant"


def measure_relevance(ranking: Ranking) -> float | None:
    """Return the relevance of the best candidates; below 1 is too low, ``None`` is unknown."""
    asked = sum(ranking.rarity.values())
    if ranking.plan.mode == "vector" or not asked or not ranking.candidates:
        return None
    if ranking.entries < FEWEST:
        return None
    words = max(candidate.page for candidate in ranking.candidates) / asked
    if ranking.plan.vector is None:
        return words / WORDS_ALONE
    near = max(candidate.vector for candidate in ranking.candidates)
    return (words + near) / WORDS_AND_MEANING


def note_low_relevance(ranking: Ranking) -> list[Incomplete]:
    """Return a note if nothing seems to be about the question."""
    relevance = measure_relevance(ranking)
    if relevance is None or relevance >= 1:
        return []
    detail = (
        f"low confidence ({relevance:.0%}): these passages share few words with the question;"
        " try other words"
    )
    return [Incomplete(NOTHING_RELEVANT, detail)]
