"""Search with fixed shares of meaning and words, for scores that can be added up by hand.

It can replace :func:`lookfar.retrieve.search.search`. There are no boosts, no score for the whole
document, no limit per document and no trust in the model.

A score is ``vector * cosine + keyword * bm25``, where negative cosines count as 0 and BM25 is
divided by the best among the candidates. The best chunks are chosen first and joined afterwards, so
there may be fewer hits than asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lookfar.retrieve.answer.diversify import Passage, join_chunks
from lookfar.retrieve.answer.excerpt import cite
from lookfar.retrieve.ranking import Ranking, Source
from lookfar.retrieve.search import collect_candidates
from lookfar.retrieve.stages.wording import score_word_pairs

if TYPE_CHECKING:
    from lookfar.config import SearchSettings
    from lookfar.model import Hit, Incomplete

SearchFunction = Callable[
    [Sequence[Source], "SearchSettings", bool], "tuple[list[Hit], list[Incomplete]]"
]
"""From the collections to cited hits; the flag says whether scores are explained."""

MEANING = "vector"
WORDS = "keyword"


def make_share_search(*, vector: float, keyword: float, gap: int) -> SearchFunction:
    """Return a search with these shares that joins spans less than ``gap`` characters apart."""

    def answer(
        sources: Sequence[Source], settings: SearchSettings, explain: bool
    ) -> tuple[list[Hit], list[Incomplete]]:
        ranking = collect_candidates(sources, settings)
        candidates = ranking.candidates
        beside = score_word_pairs(ranking, sources, candidates)
        # Words in the same order as in the question count up to twice.
        words = [candidate.keyword * (1 + beside.get(candidate, 0.0)) for candidate in candidates]
        most = max(words, default=0.0) or 1.0
        by_meaning = [vector * min(max(candidate.vector, 0.0), 1.0) for candidate in candidates]
        by_words = [keyword * score / most for score in words]
        ranking = ranking.add_step(MEANING, by_meaning, lambda c: f"cosine {c.vector:.3f}")
        ranking = ranking.add_step(WORDS, by_words, lambda c: f"bm25 {c.keyword:.3f}")
        best = [at for at in ranking.order() if ranking.scores[at] > 0][: ranking.plan.top_k]
        hits, stale = cite(
            _join_passages(ranking, best, gap),
            sources,
            max_chars=settings.max_excerpt_chars,
            explain=ranking.explain if explain else None,
        )
        return hits, [*ranking.notes, *stale]

    return answer


def _join_passages(ranking: Ranking, best: Sequence[int], gap: int) -> list[Passage]:
    """Turn chunks into passages; those that nearly touch become one, with the better score."""
    documents: dict[tuple[int, int], list[int]] = defaultdict(list)
    for at in best:
        documents[ranking.candidates[at].document].append(at)
    runs: list[list[int]] = []
    for group in documents.values():
        end = -1
        for at in sorted(group, key=lambda at: ranking.candidates[at].place.start):
            place = ranking.candidates[at].place
            if end >= 0 and place.start < end + gap:
                runs[-1].append(at)
            else:
                runs.append([at])
            end = max(end, place.end)
    passages = [join_chunks(ranking, run) for run in runs]
    return sorted(
        passages,
        key=lambda passage: (-passage.score, passage.place.uri, passage.start, passage.source),
    )
