"""Find the inserted chunks nearest to a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from lookfar.collections import ulids
from lookfar.retrieve.answer.diversify import Passage
from lookfar.retrieve.answer.excerpt import cite
from lookfar.retrieve.ranking import Results

if TYPE_CHECKING:
    from lookfar.collections.databases import Documents
    from lookfar.config import SearchSettings
    from lookfar.model import Hit, Incomplete
    from lookfar.ports import Place
    from lookfar.retrieve.ranking import Source

_NO_LIMIT: Final = 10**9


@dataclass(frozen=True, slots=True)
class Similar:
    """A chunk that is near to a text."""

    chunk_id: str
    doc_id: str
    text: str
    score: float | None
    """Cosine distance: smaller is nearer. None if words found it and no model compared it; 0
    would mean an identical text."""
    chunk_index: int
    """The number of the chunk in its document, from 0."""
    metadata: Mapping[str, Any]


@dataclass(slots=True)
class Measured:
    """Whether the scores of an answer are distances between vectors."""

    by_meaning: bool = False


def nearest(
    sources: Sequence[Source],
    settings: SearchSettings,
    explain: bool,
    measured: Measured | None = None,
) -> Results:
    """Answer with single chunks, the nearest first; ``score`` is their cosine distance.

    Candidates are found by meaning and by words, as in any search. Without a model, or if it knows
    no word of the query, ``score`` is 1 minus the rank score, and ``measured`` says so.
    """
    from lookfar.retrieve.search import rank

    ranking = rank(sources, settings)
    best = ranking.order()[: ranking.plan.top_k]
    by_meaning = ranking.plan.vector is not None
    if measured is not None:
        measured.by_meaning = by_meaning
    distances = {
        # Rounding can make a similarity slightly larger than 1.
        at: 1.0 - min(1.0, ranking.candidates[at].vector if by_meaning else ranking.scores[at])
        for at in best
    }
    best.sort(key=lambda at: round(distances[at], 6))
    passages = [
        _make_passage(at, distances[at], candidate.place, candidate.source)
        for at in best
        for candidate in (ranking.candidates[at],)
    ]
    explanation = ranking.explain if explain else None
    most = settings.max_excerpt_chars
    return Results(*cite(passages, sources, max_chars=most, explain=explanation))


def nearest_by_vector(source: Source, top_k: int) -> tuple[list[Hit], list[Incomplete]]:
    """Return exactly the ``top_k`` nearest chunks, or all if there are fewer."""
    plan = source.plan
    assert plan.vector is not None
    near = source.snapshot.vector_search(plan.vector, top_k, plan.filters)
    # Rounding can make a similarity slightly larger than 1.
    passages = [
        _make_passage(at, 1.0 - min(1.0, similarity), place, 0)
        for at, (place, similarity) in enumerate(near[:top_k])
    ]
    return cite(passages, [source], max_chars=_NO_LIMIT, explain=None)


def _make_passage(best: int, distance: float, place: Place, source: int) -> Passage:
    return Passage(
        best=best,
        score=distance,
        place=place,
        source=source,
        start=place.start,
        end=place.end,
        start_line=place.start_line,
        end_line=place.end_line,
    )


def settings_for(settings: SearchSettings) -> SearchSettings:
    """Return search settings for answers that are whole chunks."""
    return replace(settings, merge_gap=0, per_document=0, max_excerpt_chars=_NO_LIMIT)


def describe_chunks(database: Documents, hits: Sequence[Hit], measured: Measured) -> list[Similar]:
    """Return the chunks behind the hits of a database, in their order.

    A document that was deleted while the answer was made has no metadata any more, and is dropped.
    """
    metadata = database.metadata_of_all({hit.uri for hit in hits})
    return [
        Similar(
            chunk_id=ulids.encode(bytes.fromhex(hit.chunk_id)),
            doc_id=hit.uri,
            text=hit.text,
            score=hit.score if measured.by_meaning else None,
            chunk_index=hit.part - 1,
            metadata=metadata[hit.uri],
        )
        for hit in hits
        if hit.uri in metadata
    ]
