"""Find the inserted chunks that are most similar to a text."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from lookfar.collections import ulids
from lookfar.collections.databases import log_timing
from lookfar.collections.inserting import filter_tags
from lookfar.errors import ModelUnavailable
from lookfar.library.asking import Scope, ask_sources
from lookfar.library.searching import Question, search
from lookfar.model import Filters
from lookfar.retrieve.answer.diversify import Passage
from lookfar.retrieve.answer.excerpt import cite
from lookfar.retrieve.ranking import Results

if TYPE_CHECKING:
    from lookfar.collections.databases import Documents
    from lookfar.config import SearchSettings
    from lookfar.library.members import Members
    from lookfar.model import Hit, Incomplete
    from lookfar.ports import Place
    from lookfar.retrieve.ranking import Source

Order = Literal["vector", "hybrid"]


def find_similar(
    members: Members,
    text: str,
    *,
    database: str,
    top_k: int | None,
    having: Mapping[str, Any] | None,
    order: Order,
) -> tuple[list[Similar], tuple[Incomplete, ...]]:
    """Return the inserted chunks nearest to a text, and notes on what may be missing."""
    documents = members.database(database)
    filters = Filters(tags=filter_tags(having or {}))
    if not database and not documents.exists:
        return [], ()
    started, measured = time.perf_counter(), Measured()
    if order == "vector":
        wanted = members.settings.search.top_k if top_k is None else top_k
        hits, notes = _find_by_vector(members, documents, text, wanted, filters)
        measured.by_meaning = True
    else:
        hits, notes = _find_hybrid(members, documents, text, top_k, filters, measured)
    chunks = describe_chunks(documents, hits, measured)
    log_timing("find", started, documents.database, len(chunks))
    return chunks, notes


def _find_by_vector(
    members: Members,
    documents: Documents,
    text: str,
    top_k: int,
    filters: Filters,
) -> tuple[list[Hit], tuple[Incomplete, ...]]:
    """Compare every chunk with the text; a model that fails or is missing is an error."""
    from lookfar.retrieve.question.plan import make_vector_plan

    documents.require()
    if documents.embedder is None:
        raise ModelUnavailable(
            "Distances need an embedding model, and there is none.",
            hint="Set embed.provider, or search by words.",
            developer=documents.without_model,
        )
    plans = {documents.name: make_vector_plan(text, filters, documents.embedder)}
    scope = Scope((documents.name,), filters)

    def look(sources: Sequence[Source], notes: list[Incomplete]) -> list[Hit]:
        hits, changed = nearest_by_vector(sources[0], top_k)
        notes += changed
        return hits

    selected = {documents.name: documents}
    hits, _, notes = ask_sources(members, selected, plans, scope, look)
    return hits, tuple(notes)


def _find_hybrid(
    members: Members,
    documents: Documents,
    text: str,
    top_k: int | None,
    filters: Filters,
    measured: Measured,
) -> tuple[list[Hit], tuple[Incomplete, ...]]:
    """Find candidates by meaning and by words, as in any search."""
    question = Question(
        text,
        top_k=top_k,
        tuned=settings_for(members.settings.search),
        answering=partial(nearest, measured=measured),
    )
    answer = search(members, question, Scope((documents.name,), filters))
    without_model = [note for note in answer.incomplete if note.reason == "no_model"]
    if without_model and documents.embedder is not None and not measured.by_meaning:
        raise ModelUnavailable(
            "The embedding model failed, so no distance can be measured.",
            hint="Try again, or look for the words with a search.",
            developer=without_model[0].detail,
        )
    return list(answer.hits), answer.incomplete


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
