"""Two scores into one: a weighted sum of normalised scores.

Takes: a ranking with keyword and vector scores. Gives: fused scores between 0
and 1. Refuses: rank-only fusion, which on the question sets loses to its own
keyword half wherever words decide.
"""

from __future__ import annotations

from collections.abc import Sequence

from lookfar.retrieve.ranking import Candidate, Ranking, Stage


def weighted_sum(vector_weight: float, keyword_weight: float, page_share: float) -> Stage:
    """Each lane scaled to its own best and worst, then mixed.

    Words count twice: in the chunk, and with ``page_share`` in the document it
    stands in, because a long question is seldom answered in one paragraph's words.
    """

    def fuse(ranking: Ranking) -> Ranking:
        plan, candidates = ranking.plan, ranking.candidates
        vector_share = vector_weight if plan.vector is not None else 0.0
        keyword_share = keyword_weight if plan.mode != "vector" else 0.0
        total = vector_share + keyword_share or 1.0
        shares = (
            keyword_share / total * (1 - page_share),
            keyword_share / total * page_share,
            vector_share / total,
        )
        lanes = (
            _scaled([c.keyword for c in candidates], floor=0.0),
            _scaled([c.page for c in candidates], floor=0.0),
            _scaled([c.vector for c in candidates]),
        )
        return ranking.reordered(
            _mixed(each, [share * value for share, value in zip(shares, values, strict=True)])
            for each, *values in zip(candidates, *lanes, strict=True)
        )

    return fuse


def _mixed(candidate: Candidate, parts: Sequence[float]) -> Candidate:
    chunk, page, meaning = parts
    candidate = candidate.scored(chunk, "keyword", f"bm25 {candidate.keyword:.3f}")
    candidate = candidate.scored(chunk + page, "page", f"bm25 {candidate.page:.3f}")
    return candidate.scored(chunk + page + meaning, "vector", f"cosine {candidate.vector:.3f}")


def _scaled(values: Sequence[float], floor: float | None = None) -> list[float]:
    if not values:
        return []
    low = min(values) if floor is None else floor
    width = max(values) - low
    return [(value - low) / width if width > 0 else 0.0 for value in values]
