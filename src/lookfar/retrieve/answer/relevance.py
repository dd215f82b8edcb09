"""Judge whether the best hit fits the question, on a scale that is the same for every question.

The measure is taken of the best candidate: the BM25 of its document, as a share of the weight of
all words in the question, plus its cosine. It is divided by the least that right answers have. The
limits come from questions of one set asked of the documents of another (``bench/quality.py
--doubt``), in folders of 40 to 14,000 documents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from lookfar.config import SearchSettings
from lookfar.embed.providers import BUNDLED
from lookfar.model import Confidence, Incomplete
from lookfar.retrieve.question.field_weights import page_weights
from lookfar.retrieve.ranking import Ranking, Source

PROSE: Final = 0.72
CODE: Final = 0.62
"""Lower than for prose: code seldom has the words of a question."""
SMALL: Final = 5000
"""Chunks and documents for which these limits are. They rise with the logarithm of the number:
among more texts, the best of them looks better by chance."""
PER_SIZE: Final = 0.1
PER_SIZE_BELOW: Final = 0.03
WORDS_ALONE: Final = 0.2
"""The limit if only words can be judged: without a model, or with one whose cosines have another
range than those of the bundled one."""
FEWEST: Final = 1000
"""By words alone, a collection with fewer entries is not judged."""
HIGH: Final = 1.5
SHOWN: Final = 3
"""Hits that are shown if the confidence is low."""


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
    best = ranking.candidates[ranking.order()[0]]
    limit = CODE if best.place.lane == "code" else PROSE
    size = math.log(max(ranking.entries, 1) / SMALL)
    limit += (PER_SIZE if size > 0 else PER_SIZE_BELOW) * size
    return (best.page / weight + best.vector) / limit


def lacks_words(ranking: Ranking, sources: Sequence[Source], settings: SearchSettings) -> bool:
    """Return whether the best document lacks some word of the question.

    One that has them all is worth a look, however short the question or long the document is.
    """
    best = ranking.candidates[ranking.order()[0]]
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
