"""Judge whether the best hit fits the question, on a scale that is the same for every question.

The measure adds two numbers for the best candidate: the BM25 score of its document, divided by the
total weight of the question's words, and its cosine similarity. Boosts by links do not count: the
text of a page that a good page describes need not have the words of the question. The sum is
divided by a threshold that correct answers usually reach. The thresholds were measured by asking
the questions of one question set about the documents of another (``bench/quality.py --doubt``), in
folders of 40 to 14,000 documents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from operator import sub
from typing import Final

from lookfar.config import SearchSettings
from lookfar.embed.providers import BUNDLED
from lookfar.model import Confidence, Incomplete
from lookfar.retrieve.question.field_weights import page_weights
from lookfar.retrieve.ranking import LINKS, Candidate, Ranking, Source

PROSE: Final = 0.74
CODE: Final = 0.64
"""The threshold for code is lower than for prose: code seldom has the words of a question."""
SMALL: Final = 3500
"""The number of chunks for which ``PROSE`` and ``CODE`` were measured. The thresholds
rise with the logarithm of the number: among more texts, the best one looks better by chance."""
PER_SIZE: Final = 0.1
PER_SIZE_BELOW: Final = 0.03
WORDS_ALONE: Final = 0.2
"""The threshold if only words can be judged: without a model, or with one other than the bundled
model, whose cosines have another range."""
FEWEST: Final = 1000
"""If only words can be judged, a collection with fewer entries than this has no confidence."""
HIGH: Final = 1.5
SHOWN: Final = 3
"""How many hits are shown if the confidence is low."""


def measure_relevance(ranking: Ranking) -> float | None:
    """Return the relevance of the best candidate; below 1 is too low, ``None`` is unknown."""
    weight = sum(ranking.rarity.values())
    plan = ranking.plan
    if plan.mode == "vector" or not weight or not ranking.candidates:
        return None
    if plan.vector is None or plan.embedder is None or plan.embedder.name != BUNDLED:
        if ranking.entries < FEWEST:
            return None
        return max(candidate.page for candidate in ranking.candidates) / weight / WORDS_ALONE
    best = _find_best_by_itself(ranking)
    limit = CODE if best.place.lane == "code" else PROSE
    size = math.log(max(ranking.entries, 1) / SMALL)
    limit += (PER_SIZE if size > 0 else PER_SIZE_BELOW) * size
    return (best.page / weight + best.vector) / limit


def _find_best_by_itself(ranking: Ranking) -> Candidate:
    """Return the best candidate without boosts by links."""
    scores = ranking.scores
    for step in ranking.steps:
        if step.stage == LINKS:
            scores = tuple(map(sub, scores, step.added))
    return replace(ranking, scores=scores).best()


def lacks_words(ranking: Ranking, sources: Sequence[Source], settings: SearchSettings) -> bool:
    """Return whether the best document lacks some word of the question.

    A document with all the words is worth showing, even if its relevance is low.
    """
    best = _find_best_by_itself(ranking)
    snapshot, document = sources[best.source].snapshot, best.place.document
    weights = page_weights(settings)
    return not all(
        snapshot.page_scores({term: 1.0}, weights, [document]).get(document)
        for term in ranking.rarity
    )


def judge_confidence(relevance: float | None) -> Confidence | None:
    if relevance is None:
        return None
    return "low" if relevance < 1 else "high" if relevance >= HIGH else "medium"


def note_low_relevance() -> Incomplete:
    """Return the note for an answer whose confidence is low."""
    return Incomplete(
        "nothing_relevant", "probably not in this collection; the nearest passages are shown"
    )
