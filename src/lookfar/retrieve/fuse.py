"""Two scores into one: a weighted sum of normalised scores.

Takes: a ranking with keyword and vector scores. Gives: fused scores between 0
and 1. Refuses: rank-only fusion, which on the question sets loses to its own
keyword half wherever words decide.
"""

from __future__ import annotations

from collections.abc import Sequence

from lookfar.retrieve.ranking import Candidate, Ranking, Stage


def weighted_sum(vector_weight: float, keyword_weight: float) -> Stage:
    """Each lane scaled to its own best and worst, then mixed."""

    def fuse(ranking: Ranking) -> Ranking:
        plan, candidates = ranking.plan, ranking.candidates
        vector_share = vector_weight if plan.vector is not None else 0.0
        keyword_share = keyword_weight if plan.mode != "vector" else 0.0
        total = vector_share + keyword_share or 1.0
        words = _scaled([c.keyword for c in candidates], floor=0.0)
        meaning = _scaled([c.vector for c in candidates])
        fused = [
            _mixed(each, vector_share / total * near, keyword_share / total * told)
            for each, near, told in zip(candidates, meaning, words, strict=True)
        ]
        return ranking.reordered(fused)

    return fuse


def _mixed(candidate: Candidate, meaning: float, words: float) -> Candidate:
    by_words = candidate.scored(words, "keyword", f"bm25 {candidate.keyword:.3f}")
    return by_words.scored(words + meaning, "vector", f"cosine {candidate.vector:.3f}")


def _scaled(values: Sequence[float], floor: float | None = None) -> list[float]:
    if not values:
        return []
    low = min(values) if floor is None else floor
    width = max(values) - low
    return [(value - low) / width if width > 0 else 0.0 for value in values]
