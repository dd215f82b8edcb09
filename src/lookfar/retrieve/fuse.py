"""Several scores into one: a weighted sum of normalised scores.

Takes: a ranking with keyword, page and vector scores. Gives: fused scores between
0 and 1. Refuses: rank-only fusion, which on the question sets loses to its own
keyword half wherever words decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

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
        chunk = (1 - page_share) / total
        page = page_share / total
        if words:
            by_chunk = _scaled([c.keyword for c in candidates], words * chunk, floor=0.0)
            by_page = _scaled([c.page for c in candidates], words * page, floor=0.0)
            ranking = ranking.plus("keyword", by_chunk, lambda c: f"bm25 {c.keyword:.3f}")
            ranking = ranking.plus(
                "page keyword", by_page, lambda c: f"bm25 {c.page:.3f}", whole_document=True
            )
        if meaning:
            near = _scaled([c.vector for c in candidates], meaning * chunk)
            page_near = _scaled(_page_vectors(candidates), meaning * page)
            ranking = ranking.plus("vector", near, lambda c: f"cosine {c.vector:.3f}")
            ranking = ranking.plus("page vector", page_near, _nearest_chunks, whole_document=True)
        return ranking

    return fuse


def _nearest_chunks(_: Candidate) -> str:
    return f"mean of the {_CHUNKS_FOR_A_PAGE} nearest chunks of the document"


def _page_vectors(candidates: Sequence[Candidate]) -> list[float]:
    """How near a document is as a whole: the mean of its nearest chunks."""
    near: dict[tuple[int, int], list[float]] = defaultdict(list)
    for each in candidates:
        near[each.document].append(each.vector)
    page = {
        document: sum(sorted(values)[-_CHUNKS_FOR_A_PAGE:]) / min(len(values), _CHUNKS_FOR_A_PAGE)
        for document, values in near.items()
    }
    return [page[each.document] for each in candidates]


def _scaled(values: Sequence[float], share: float, floor: float | None = None) -> list[float]:
    """``values`` between 0 (the worst, or ``floor``) and ``share`` (the best)."""
    if not values:
        return []
    low = min(values) if floor is None else floor
    width = max(values) - low
    if width <= 0:
        return [share if value > 0 else 0.0 for value in values]
    return [(value - low) * share / width for value in values]
