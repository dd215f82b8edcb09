"""Whether anything here answers at all: an honest "nothing relevant" beside the best there is.

Takes: a ranking. Gives: how much speaks for its best candidates, 1 being just enough, and the
note for an answer where less does. Refuses: to judge a search by meaning alone, whose scores
tell too little by themselves, and a search of few documents.

The measure: the best BM25 of a document as a share of what the words of the question weigh
together, plus the best cosine. Measured on questions whose answer is among the best ten
against questions of other sets asked of the same documents (``bench/quality.py --doubt``):
no answered question is doubted, and half of those that have no answer here are. A question in
quite other words than its answer looks the same as one without, so more would cost trust.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lookfar.model import Incomplete

if TYPE_CHECKING:
    from lookfar.retrieve.ranking import Ranking

WORDS_AND_MEANING: Final = 0.5
WORDS_ALONE: Final = 0.2
FEWEST: Final = 1000
"""Chunks and documents that can be judged so: to a handful most words of a question are new."""
NOTHING_RELEVANT: Final = "nothing_relevant"


def measure_relevance(ranking: Ranking) -> float | None:
    """How much speaks for the best; below 1 too little does. ``None`` where nobody can tell."""
    asked = sum(ranking.rarity.values())
    if ranking.plan.mode == "vector" or not asked or not ranking.candidates:
        return None
    if ranking.entries < FEWEST:
        return None
    words = max(each.page for each in ranking.candidates) / asked
    if ranking.plan.vector is None:
        return words / WORDS_ALONE
    near = max(each.vector for each in ranking.candidates)
    return (words + near) / WORDS_AND_MEANING


def note_low_relevance(ranking: Ranking) -> list[Incomplete]:
    """The note that nothing here seems to be about what was asked; none where something is."""
    found = measure_relevance(ranking)
    if found is None or found >= 1:
        return []
    detail = (
        f"the best hits have {found:.0%} of what speaks for an answer at the least;"
        " try other words, or look elsewhere"
    )
    return [Incomplete(NOTHING_RELEVANT, detail)]
