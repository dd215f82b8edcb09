"""Several scores into one: a weighted sum of normalised scores.

Takes: a ranking with keyword, page and vector scores. Gives: fused scores between
0 and 1. Refuses: rank-only fusion, which on the question sets loses to its own
keyword half wherever words decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import mul

from lookfar.retrieve.ranking import Candidate, Ranking, Stage

_CHUNKS_FOR_A_PAGE = 3


def weighted_sum(vector_weight: float, keyword_weight: float, page_share: float) -> Stage:
    """Each lane scaled to its own best and worst, then mixed.

    Both lanes count twice: for the chunk, and with ``page_share`` for the document
    it stands in, because a question is seldom answered in one paragraph's words.
    """

    def fuse(ranking: Ranking) -> Ranking:
        plan, candidates = ranking.plan, ranking.candidates
        meaning = vector_weight * plan.vector_trust if plan.mode == "hybrid" else 1.0
        meaning = meaning if plan.vector is not None else 0.0
        words = keyword_weight if plan.mode != "vector" else 0.0
        total = meaning + words or 1.0
        shares = [
            lane / total * share
            for lane in (words, meaning)
            for share in (1 - page_share, page_share)
        ]
        lanes = (
            _scaled([c.keyword for c in candidates], floor=0.0),
            _scaled([c.page for c in candidates], floor=0.0),
            _scaled([c.vector for c in candidates]),
            _scaled(_page_vectors(candidates)),
        )
        return ranking.reordered(
            _mixed(each, list(map(mul, shares, values)))
            for each, *values in zip(candidates, *lanes, strict=True)
        )

    return fuse


def _page_vectors(candidates: Sequence[Candidate]) -> list[float]:
    """How near a document is as a whole: the mean of its nearest chunks."""
    near: dict[int, list[float]] = defaultdict(list)
    for each in candidates:
        near[each.place.document].append(each.vector)
    page = {
        document: sum(sorted(values)[-_CHUNKS_FOR_A_PAGE:]) / min(len(values), _CHUNKS_FOR_A_PAGE)
        for document, values in near.items()
    }
    return [page[each.place.document] for each in candidates]


def _mixed(candidate: Candidate, parts: Sequence[float]) -> Candidate:
    chunk, page, near, page_near = parts
    candidate = candidate.scored(chunk, "keyword", f"bm25 {candidate.keyword:.3f}")
    candidate = candidate.scored(chunk + page, "page keyword", f"bm25 {candidate.page:.3f}")
    score = chunk + page + near
    candidate = candidate.scored(score, "vector", f"cosine {candidate.vector:.3f}")
    return candidate.scored(score + page_near, "page vector", "nearest chunks of the document")


def _scaled(values: Sequence[float], floor: float | None = None) -> list[float]:
    if not values:
        return []
    low = min(values) if floor is None else floor
    width = max(values) - low
    return [(value - low) / width if width > 0 else 0.0 for value in values]
