"""The JSON routes of the web page: a table of tools at ``/api/NAME``."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final, Literal

from pydantic import Field

from lookfar import __version__
from lookfar.common.caller import check_cancelled
from lookfar.common.conditions import parse_conditions
from lookfar.common.hidden_characters import flags
from lookfar.errors import InvalidArgument
from lookfar.library.searching import ANY_WORDS
from lookfar.model import Filters, Hit, Lane, Listed, Mode
from lookfar.retrieve.locate.address import format_citation
from lookfar.serve.http.web.changes import ROWS as HISTORY_ROWS
from lookfar.serve.http.web.document import ROWS as DOCUMENT_ROWS
from lookfar.serve.http.web.facets import FacetValues, count_facets, facets_as_json
from lookfar.serve.http.web.graph_routes import ROWS as GRAPH_ROWS
from lookfar.serve.http.web.marks import find_marks, marked_terms
from lookfar.serve.http.web.result_pages import (
    PREVIEW_CHARS,
    Listings,
    Page,
    list_documents,
)
from lookfar.serve.http.web.skipped import ROWS as SKIPPED_ROWS
from lookfar.serve.http.web.source_routes import ROWS as SOURCE_ROWS
from lookfar.serve.http.web.suggestions import suggest
from lookfar.serve.show import json_shapes
from lookfar.serve.show.snippet import make_snippet
from lookfar.serve.tools.dates import format_time, moment
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool

_LISTINGS: Final = "web.listings"
_LOCK: Final = threading.Lock()
_EXCERPT_CHARS: Final = 280
_RECENT: Final = 12
_MOST_TAGS: Final = 200


class SearchInput(Input):
    query: Annotated[
        str, Field(max_length=10_000, description="Without words, the documents that match")
    ] = ""
    lanes: list[Lane] = []
    collections: Annotated[list[str], Field(description="Only these collections")] = []
    prefix: Annotated[str, Field(description="Only paths that start with this")] = ""
    languages: list[str] = []
    tags: list[str] = []
    where: Annotated[
        list[str], Field(description="Conditions: status=active, due<2026-12-01, has:aliases")
    ] = []
    after: Annotated[str, Field(description="Since this date, like 2026-01-31 or last week")] = ""
    before: str = ""
    mode: Mode | Literal[""] = ""
    offset: Annotated[int, Field(ge=0, le=10_000)] = 0
    limit: Annotated[int, Field(ge=1, le=100)] = 25
    depth: Annotated[
        int,
        Field(
            ge=10, le=10_000, description="How many results are ranked; pages are slices of them"
        ),
    ] = 100


def _search(session: Session, given: SearchInput, _: Call) -> Result:
    page = Page()
    filters = Filters(
        prefix=given.prefix,
        tags=tuple(given.tags),
        lanes=tuple(given.lanes),
        languages=tuple(given.languages),
        where=tuple(given.where),
        after=moment(given.after, "after"),
        before=moment(given.before, "before"),
    )
    listed = not given.query.strip()
    if listed and not filters and not given.collections:
        raise InvalidArgument(
            "There is nothing to search for.", hint="Send a query, a filter, or both."
        )
    collections = tuple(given.collections)
    # The key contains parsed conditions, because due<today means another date tomorrow.
    conditions = parse_conditions(filters.where)
    key = (given.query, given.mode, filters, collections, given.depth, conditions)
    answering = (
        list_documents(given.offset, given.limit, given.prefix, page)
        if listed
        else _listings(session).answering(
            key,
            depth=given.depth,
            offset=given.offset,
            limit=given.limit,
            prefix=given.prefix,
            page=page,
        )
    )
    answer = session.library.search(
        ANY_WORDS if listed else given.query,
        mode="keyword" if listed else given.mode or None,
        filters=filters,
        collections=collections,
        explain=not listed,
        commits=True,
        memories=True,
        sources=True,
        answering=answering,
    )
    # This route returns hits in its own shape.
    data = json_shapes.answer(replace(answer, hits=()))
    data["query"] = given.query
    data["hits"] = [] if listed else _hits(answer.hits, page, given.query)
    data["documents"] = _listed_rows(page) if listed else []
    data |= {
        "offset": given.offset,
        "total": page.total,
        "more": not listed and page.total >= given.depth,
        "facets": facets_as_json(page.facets),
    }
    data["facets"]["property"] = json_shapes.properties(page.properties)
    return Result(data, "")


def _hits(hits: Sequence[Hit], page: Page, query: str) -> list[Json]:
    terms = marked_terms(query)
    shapes = []
    for hit, facts in zip(hits, page.facts, strict=True):
        language = facts.language if facts else ""
        shape = _hit(hit, terms, language)
        shape["language"] = language
        shape["modified"] = format_time(facts.modified_ns) if facts else ""
        shape["tags"] = list(facts.tags) if facts else []
        shapes.append(shape)
    return shapes


def _listed_rows(page: Page) -> list[Json]:
    """Return the documents that filters found, with their first characters."""
    rows = []
    for facts, collection, text in zip(page.facts, page.collections, page.beginnings, strict=True):
        assert facts is not None
        rows.append(
            {
                "collection": collection,
                "uri": facts.uri,
                "title": facts.title,
                "lane": facts.lane,
                "language": facts.language,
                "modified": format_time(facts.modified_ns),
                "day": facts.day,
                "tags": list(facts.tags),
                "flags": flags(text),
                "excerpt": make_snippet(text, facts.language, _EXCERPT_CHARS).text,
            }
        )
    return rows


def _listings(session: Session) -> Listings:
    with _LOCK:
        listings: Listings = session.memory.setdefault(_LISTINGS, Listings())
    return listings


def _hit(hit: Hit, terms: frozenset[str], language: str) -> Json:
    shape = json_shapes.hit(hit, explain=True)
    text = hit.text
    # The page already shows the headings.
    heading = "\0" if hit.lane == "code" else "#"
    head = text.find("\n") + 1 if text.startswith(heading) else 0
    spans = ((span.start - hit.span.start, span.end - hit.span.start) for span in hit.focus)
    answering = next((span for span in spans if not text.startswith(heading, span[0])), None)
    snippet = make_snippet(text, language, _EXCERPT_CHARS, answering or (head, head))
    if answering and answering[1] > PREVIEW_CHARS:
        text = "…\n" + text[text.rfind("\n", 0, answering[0]) + 1 :]
    text = text[:PREVIEW_CHARS]
    shape["cite"] = format_citation(hit.collection, hit.uri, hit.span, hit.sha256)
    shape["flags"] = flags(hit.text)
    shape["text"], shape["marks"] = text, find_marks(text, terms)
    shape["excerpt"], shape["excerpt_marks"] = snippet.text, find_marks(snippet.text, terms)
    shape["answer_end"] = snippet.answer
    return shape


class NoInput(Input):
    pass


def _overview(session: Session, _given: NoInput, _: Call) -> Result:
    library = session.library
    documents = library.listed()
    latest = sorted(documents, key=lambda document: (-document.modified_ns, document.uri))
    facets = count_facets(FacetValues.of(document, document.collection) for document in documents)
    data = {
        "version": __version__,
        "collections": list(library.collections),
        "documents": len(documents),
        "facets": facets_as_json(facets),
        "tags": json_shapes.plain(library.tags()[:_MOST_TAGS]),
        "properties": json_shapes.properties(library.properties()),
        "recent": [_listed(document) for document in latest[:_RECENT]],
        "suggestions": suggest(library, latest, facets),
    }
    return Result(data, "")


def _listed(document: Listed) -> Json:
    return {
        "collection": document.collection,
        "uri": document.uri,
        "title": document.title,
        "lane": document.lane,
        "language": document.language,
        "modified": format_time(document.modified_ns),
        "day": document.day,
        "tags": list(document.tags),
    }


class EvaluateInput(Input):
    mode: Mode = "hybrid"
    count: Annotated[
        int, Field(ge=1, le=200, description="Questions generated from the folder")
    ] = 60
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0
    k: Annotated[int, Field(ge=1, le=50)] = 10


def _evaluate(session: Session, given: EvaluateInput, _: Call) -> Result:
    from lookfar.evaluate import evaluate, known_items
    from lookfar.evaluate.results import results_as_json

    library = session.library
    library.first_index()
    judged = known_items(library, count=given.count, seed=given.seed)
    results = evaluate(
        library,
        judged,
        k=given.k,
        mode=given.mode,
        label=given.mode,
        on_question=lambda _done, _total: check_cancelled(),
    )
    return Result(results_as_json(results), "")


ROWS: Sequence[Tool] = (
    Tool(
        "search",
        "All results of a question, page by page, with counts for filters.",
        SearchInput, _search,
    ),
    Tool("overview", "What is indexed, by kind, and what changed last.", NoInput, _overview),
    *DOCUMENT_ROWS,
    *GRAPH_ROWS,
    *HISTORY_ROWS,
    *SKIPPED_ROWS,
    *SOURCE_ROWS,
    Tool(
        "evaluate",
        "Ask questions generated from the folder itself, and score the answers.",
        EvaluateInput, _evaluate,
    ),
)  # fmt: skip
