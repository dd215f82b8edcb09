"""Judge whether the best hits answer the question, on scales that are the same for every question.

The *fit* says how well the text of the best candidate fits the question. It adds its cosine
similarity, the BM25 score of its document as a share of the total weight of the question's words,
and the share of these words that occur at all. Among more texts the best one looks better by
chance, so their number counts against it. Boosts by links do not count: the text of a page that a
good page describes need not have the words of the question. The *lead* says how far the best
document is ahead of the tenth: if many score about as well, the right one may not be among them. To
measure the figures again after a change of the ranking, run ``bench/quality.py DIR --doubt``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from heapq import nlargest
from operator import mul, sub
from typing import Final

from lookfar.config import SearchSettings
from lookfar.embed.providers import BUNDLED
from lookfar.model import Confidence, Incomplete
from lookfar.retrieve.question.names import BETWEEN_NAMES
from lookfar.retrieve.question.plan import field_weights
from lookfar.retrieve.ranking import LINKS, Candidate, Document, Ranking, Source
from lookfar.store.keywords.analyser import terms_of

BY_MEANING: Final = (1.0, 0.25, 0.25, -0.075, -0.12)
"""The weights of cosine, BM25, known words, logarithm of the size, and 1 in the fit. The last is
such that one right answer of a hundred is doubted."""
BY_WORDS: Final = (0.0, 0.35, 0.35, -0.026, -0.175)
"""The same if only words can be judged: without a model, or with one other than the bundled model,
whose cosines have another range."""
FEWEST: Final = 1000
"""If only words can be judged, a collection with fewer entries than this has no confidence."""
FITS_WELL: Final = 0.2
LEADS: Final = 0.28
"""The least fit and lead of an answer with high confidence."""
_BEHIND: Final = 10
SHOWN: Final = 3
"""How many hits are shown if the confidence is low."""


def measure_relevance(ranking: Ranking) -> tuple[float, float] | None:
    """Return the fit of the best candidate, of which 0 is enough, and its lead, or ``None``."""
    weight = sum(ranking.rarity.values())
    plan = ranking.plan
    if plan.mode == "vector" or not weight or not ranking.candidates:
        return None
    weights = BY_MEANING
    if plan.vector is None or plan.embedder is None or plan.embedder.name != BUNDLED:
        if ranking.entries < FEWEST:
            return None
        weights = BY_WORDS
    best = _find_best_by_itself(ranking)
    size = math.log(max(ranking.entries, 1))
    values = (best.vector, best.page / weight, ranking.known_share, size, 1.0)
    fit = sum(map(mul, weights, values))
    # A definition need not have words of the question.
    if ranking.named and ranking.best().chunk in ranking.named:
        fit = max(fit, FITS_WELL)
    return fit, _measure_lead(ranking)


def _measure_lead(ranking: Ranking) -> float:
    """Return how far the score of the best document is above that of the tenth."""
    scores: dict[Document, float] = {}
    for document, score in zip(ranking.candidates.documents, ranking.scores, strict=True):
        scores[document] = max(score, scores.get(document, 0.0))
    first = nlargest(_BEHIND, scores.values())
    return first[0] - (first[-1] if len(first) == _BEHIND else 0.0)


def _find_best_by_itself(ranking: Ranking) -> Candidate:
    """Return the best candidate without boosts by links."""
    scores = ranking.scores
    for step in ranking.steps:
        if step.stage == LINKS:
            scores = tuple(map(sub, scores, step.added))
    return replace(ranking, scores=scores).best()


def lacks_words(ranking: Ranking, sources: Sequence[Source], settings: SearchSettings) -> bool:
    """Return whether the best document lacks some word of the question.

    A document with all the words is worth showing, even if its relevance is low. ``Owner.member``
    is seldom written where the member is defined: below its owner, its parts are enough.
    """
    best = _find_best_by_itself(ranking)
    snapshot, document = sources[best.source].snapshot, best.place.document
    if document < 0 and (page := snapshot.document(best.place.uri)):
        document = page["id"]  # That of the page from which a program was cut out.
    weights, names = field_weights(settings)[1], ranking.plan.names
    headings = {term for title in (best.place.title, *best.place.path) for term in terms_of(title)}
    return not all(
        snapshot.page_scores({term: 1.0}, weights, [document]).get(document)
        for term in ranking.rarity
        if not BETWEEN_NAMES.search(term) or headings.isdisjoint(names.get(term, ())[:1])
    )


def judge_confidence(relevance: tuple[float, float] | None) -> Confidence | None:
    if relevance is None:
        return None
    fit, lead = relevance
    return "low" if fit < 0 else "high" if fit >= FITS_WELL and lead >= LEADS else "medium"


def note_low_relevance() -> Incomplete:
    """Return the note for an answer whose confidence is low."""
    return Incomplete(
        "nothing_relevant", "no passage fits well, so it may not be in here; the nearest are shown"
    )
