"""Choose the passages of an answer from a ranking; steps that are off are not imported."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lookfar.config import SearchSettings
from lookfar.model import Incomplete
from lookfar.retrieve.answer.diversify import (
    Passage,
    make_passages,
    spread_commits,
    spread_documents,
)
from lookfar.retrieve.answer.duplicates import fold_equal, fold_near, fold_same_words
from lookfar.retrieve.question.intent import wants_commits
from lookfar.retrieve.ranking import Ranking, Source


def choose_passages(
    ranking: Ranking, sources: Sequence[Source], settings: SearchSettings
) -> tuple[list[Passage], list[Incomplete]]:
    """Return the passages to show, without duplicates, and notes on what may be missing."""
    wanted = ranking.plan.top_k
    notes: list[Incomplete] = []
    text_of = partial(_read_passage, sources, {})
    passages = make_passages(
        ranking,
        per_document=settings.per_document,
        merge_gap=settings.merge_gap,
        max_chars=settings.max_excerpt_chars,
    )
    if settings.crowding < 1:
        passages = spread_documents(passages, settings.crowding)
    if not wants_commits(ranking.plan):
        passages = spread_commits(passages)
    if settings.min_confidence:
        passages = drop_weak(passages, settings.min_confidence)
    if settings.dedup_exact:
        passages = fold_equal(passages)
    if settings.dedup_semantic or settings.mmr:
        from lookfar.retrieve.answer.similarity import POOL, compute_cosines, reorder_by_novelty
    if settings.dedup_semantic:
        passages = fold_near(
            passages, compute_cosines(passages, sources), settings.semantic_threshold
        )
    if settings.dedup_ngram:
        # Fold as deep as later steps look, whatever ``top_k`` is: all that they reorder and the
        # next one; and widening may drop all but one passage of each document.
        of_one = (settings.per_document or len(passages)) if settings.parents else 1
        pool = max(POOL if settings.mmr else 0, settings.rerank_top if settings.rerank else 0)
        deep = max(wanted * of_one, pool + 1)
        passages = fold_same_words(passages, text_of, settings.ngram_threshold, deep)
    if settings.mmr:
        passages = reorder_by_novelty(
            passages, compute_cosines(passages[:POOL], sources), settings.mmr_lambda
        )
    if settings.rerank:
        from lookfar.retrieve.answer.rerank import rerank_passages

        model = next((source.reranker for source in sources if source.reranker is not None), None)
        passages, notes = rerank_passages(
            passages, ranking.plan.text, text_of, model, settings.rerank_top
        )
    if settings.parents:
        from lookfar.retrieve.answer.parents import widen_to_sections

        # Never so wide that the excerpt would be cut off before the passage itself.
        most = min(settings.parent_max_chars, settings.max_excerpt_chars)
        passages = widen_to_sections(passages, sources, most, wanted)
    if settings.doubt and ranking.plan.mode == "hybrid":
        # The least candidate has a scaled score of zero: no word of it and little else matched.
        passages = [passage for passage in passages[:wanted] if round(passage.score, 3)]
    return passages[:wanted], notes


def drop_weak(passages: Sequence[Passage], least: float) -> list[Passage]:
    """Return the passages whose score is at least this share of the best."""
    best = passages[0].score if passages else 0.0
    return [passage for passage in passages if best > 0 and passage.score >= least * best]


def _read_passage(
    sources: Sequence[Source], known: dict[tuple[int, str], str], passage: Passage
) -> str:
    document = (passage.source, passage.place.uri)
    if document not in known:
        known[document] = sources[passage.source].snapshot.text(passage.place.uri) or ""
    return known[document][passage.start : passage.end]
