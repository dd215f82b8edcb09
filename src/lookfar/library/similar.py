"""Find the inserted chunks that are most similar to a text."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from lookfar.collections.databases import log_timing
from lookfar.collections.inserting import filter_tags
from lookfar.collections.similar import (
    Measured,
    describe_chunks,
    nearest,
    nearest_by_vector,
    settings_for,
)
from lookfar.errors import ModelUnavailable
from lookfar.library.asking import Scope, open_sources, retry_healed
from lookfar.library.searching import Question, search
from lookfar.model import Filters

if TYPE_CHECKING:
    from lookfar.collections.databases import Documents
    from lookfar.collections.similar import Similar
    from lookfar.library.members import Members
    from lookfar.model import Hit, Incomplete

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

    def answer() -> tuple[list[Hit], list[Incomplete]]:
        with ExitStack() as stack:
            selected = {documents.name: documents}
            sources, notes = open_sources(members, selected, plans, scope, stack)
            hits, changed = nearest_by_vector(sources[0], top_k)
            return hits, [*notes, *changed]

    (hits, notes), healed = retry_healed(answer, {documents.name: documents})
    return hits, (*healed, *notes)


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
