"""The JSON routes of the web page: a table of tools at ``/api/NAME``."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from pydantic import Field

from lookfar import __version__
from lookfar.common.conditions import parse_conditions
from lookfar.common.hidden_characters import flags
from lookfar.errors import InvalidArgument
from lookfar.index.progress import Progress
from lookfar.model import Filters, Hit, Lane, Listed, Mode
from lookfar.retrieve.locate.address import format_citation
from lookfar.serve.http.web.document import ROWS as DOCUMENT_ROWS
from lookfar.serve.http.web.marks import best_window, find_marks, marked_terms
from lookfar.serve.http.web.result_pages import Facets, FacetValues, Listings, Page, count
from lookfar.serve.show import json_shapes
from lookfar.serve.tools.dates import moment
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool

_LISTINGS: Final = "web.listings"
_LOCK: Final = threading.Lock()
_EXCERPT_CHARS: Final = 280
_PREVIEW_CHARS: Final = 1600
_RECENT: Final = 12
_MOST_LISTED: Final = 1_000
_MOST_TAGS: Final = 200
_WAIT_SECONDS: Final = 10.0
"""How long a rollback waits for another writer."""


class SearchInput(Input):
    query: Annotated[
        str, Field(max_length=10_000, description="Without words, the documents that match")
    ] = ""
    lanes: list[Lane] = []
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


def _search(session: Session, given: SearchInput, call: Call) -> Result:
    page = Page()
    listings = _listings(session)
    filters = Filters(
        prefix=given.prefix,
        tags=tuple(given.tags),
        lanes=tuple(given.lanes),
        languages=tuple(given.languages),
        where=tuple(given.where),
        after=moment(given.after, "after"),
        before=moment(given.before, "before"),
    )
    if not given.query.strip():
        return _list_documents(session, given, filters, call)
    answer = session.library.search(
        given.query,
        mode=given.mode or None,
        filters=filters,
        explain=True,
        commits=True,
        memories=True,
        on_progress=call.on_progress(),
        answering=listings.answering(
            # Conditions in words, such as due<today, mean another day tomorrow.
            (given.query, given.mode, filters, given.depth, parse_conditions(filters.where)),
            depth=given.depth,
            offset=given.offset,
            limit=given.limit,
            prefix=given.prefix,
            page=page,
        ),
    )
    terms = marked_terms(given.query)
    ranked = page.ranked
    total = len(ranked.passages) if ranked else 0
    data = json_shapes.answer(answer)
    data["hits"] = []
    for hit, facts in zip(answer.hits, page.facts, strict=True):
        shape = _hit(hit, terms)
        shape["language"] = facts.language if facts else ""
        shape["modified"] = _format_time(facts.modified_ns) if facts else ""
        shape["tags"] = list(facts.tags) if facts else []
        data["hits"].append(shape)
    data |= {
        "offset": given.offset,
        "total": total,
        "more": total >= given.depth,
        "facets": _facets(ranked.facets if ranked else {}),
    }
    return Result(data, "")


def _list_documents(session: Session, given: SearchInput, filters: Filters, call: Call) -> Result:
    """Return the documents that the filters admit, newest first, in place of hits."""
    if not filters:
        raise InvalidArgument(
            "There is nothing to search for.", hint="Send a query, or filters alone to list."
        )
    listing = session.library.list_documents(
        filters,
        limit=_MOST_LISTED,
        commits=True,
        memories=True,
        newest_first=True,
        on_progress=call.on_progress(),
    )
    shown = listing.documents[given.offset : given.offset + given.limit]
    data = {
        "query": "",
        "hits": [],
        "documents": [_listed(document) for document in shown],
        "generations": dict(listing.generations),
        "incomplete": json_shapes.incomplete(listing.incomplete),
        "offset": given.offset,
        "total": listing.total,
        "more": listing.total > len(listing.documents),
        "facets": _facets(count(map(_facet_values, listing.documents), given.prefix)),
    }
    return Result(data, "")


def _listings(session: Session) -> Listings:
    with _LOCK:
        listings: Listings = session.memory.setdefault(_LISTINGS, Listings())
    return listings


def _hit(hit: Hit, terms: frozenset[str]) -> Json:
    shape = json_shapes.hit(hit, explain=True)
    text = hit.text[:_PREVIEW_CHARS]
    spans = find_marks(text, terms)
    # The page already shows the heading.
    head = text.find("\n") + 1 if text.startswith("#") else 0
    begin, end = best_window(
        text[head:], [(s - head, e - head) for s, e in spans if s >= head], _EXCERPT_CHARS
    )
    excerpt = text[head + begin : head + end]
    shape["cite"] = format_citation(hit.collection, hit.uri, hit.span, hit.sha256)
    shape["flags"] = flags(hit.text)
    shape["text"], shape["marks"] = text, spans
    shape["excerpt"], shape["excerpt_marks"] = excerpt, find_marks(excerpt, terms)
    return shape


def _facets(facets: Facets) -> Json:
    return {
        name: [{"value": value, "count": number} for value, number in values]
        for name, values in facets.items()
    }


def _format_time(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds // 10**9, UTC).isoformat() if nanoseconds else ""


class NoInput(Input):
    pass


def _overview(session: Session, _given: NoInput, _: Call) -> Result:
    documents = session.library.listed()
    latest = sorted(documents, key=lambda document: (-document.modified_ns, document.uri))
    data = {
        "version": __version__,
        "collections": list(session.library.collections),
        "documents": len(documents),
        "facets": _facets(count(map(_facet_values, documents))),
        "tags": json_shapes.plain(session.library.tags()[:_MOST_TAGS]),
        "properties": json_shapes.properties(session.library.properties()),
        "recent": [_listed(document) for document in latest[:_RECENT]],
    }
    return Result(data, "")


def _facet_values(document: Listed) -> FacetValues:
    return FacetValues(
        document.lane, document.uri, document.language, document.modified_ns, document.tags
    )


def _listed(document: Listed) -> Json:
    return {
        "collection": document.collection,
        "uri": document.uri,
        "title": document.title,
        "lane": document.lane,
        "language": document.language,
        "modified": _format_time(document.modified_ns),
        "day": document.day,
        "tags": list(document.tags),
    }


class GraphInput(Input):
    collection: str = ""
    around: Annotated[str, Field(description="A URI: only documents close to it")] = ""
    community: Annotated[int, Field(ge=-1, description="Only this community; -1 means all")] = -1
    most: Annotated[int, Field(ge=1, le=1000)] = 300


def _graph(session: Session, given: GraphInput, call: Call) -> Result:
    library = session.library
    library.first_index(on_progress=call.on_progress())
    graph = library.graph(
        most=given.most,
        around=given.around,
        community=given.community if given.community >= 0 else None,
        collection=given.collection or next(iter(library.collections), ""),
    )
    data = {
        "collection": graph.collection,
        "generation": graph.generation,
        "documents": graph.documents,
        "nodes": json_shapes.plain(graph.nodes),
        "edges": json_shapes.plain(graph.edges),
        "communities": json_shapes.plain(graph.communities[:100]),
    }
    return Result(data, "")


class CollectionInput(Input):
    collection: str = ""


def _generations(session: Session, given: CollectionInput, _: Call) -> Result:
    library = session.library
    name = given.collection or next(iter(library.collections), "")
    snapshots = library.snapshots(collection=name) if library.folder(name).indexed else ()
    return Result(
        {"collection": name, **json_shapes.snapshots(snapshots, library.folder(name).held)}, ""
    )


class DiffInput(Input):
    older: Annotated[int, Field(ge=1, le=2**53)]
    newer: Annotated[int, Field(ge=1, le=2**53)]
    collection: str = ""


def _diff(session: Session, given: DiffInput, _: Call) -> Result:
    library = session.library
    name = given.collection or next(iter(library.collections), "")
    diff = library.diff(given.older, given.newer, collection=name)
    return Result({"collection": name, **json_shapes.diff(diff)}, "")


class RollBackInput(Input):
    generation: Annotated[int, Field(ge=1, le=2**53)]
    confirm: bool = False
    collection: str = ""


def _roll_back(session: Session, given: RollBackInput, call: Call) -> Result:
    library = session.library
    name = given.collection or next(iter(library.collections), "")
    if not given.confirm and not call.confirm(
        f"Answer from generation {given.generation} of {name} until it is indexed again?"
    ):
        raise InvalidArgument("Nothing was changed.", hint="Confirm to go ahead.")
    snapshot = library.roll_back(given.generation, collection=name, wait_seconds=_WAIT_SECONDS)
    return Result(
        {"collection": name, **json_shapes.snapshot(snapshot, library.folder(name).held)}, ""
    )


class EvaluateInput(Input):
    mode: Mode = "hybrid"
    count: Annotated[
        int, Field(ge=1, le=200, description="Questions generated from the folder")
    ] = 60
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0
    k: Annotated[int, Field(ge=1, le=50)] = 10


def _evaluate(session: Session, given: EvaluateInput, call: Call) -> Result:
    from lookfar.evaluate import evaluate, known_items
    from lookfar.evaluate.results import results_as_json

    library, report = session.library, call.on_progress()
    library.first_index(on_progress=report)
    judged = known_items(library, count=given.count, seed=given.seed, on_progress=report)
    results = evaluate(
        library,
        judged,
        k=given.k,
        mode=given.mode,
        label=given.mode,
        on_progress=report,
        # Reporting raises if the client has left.
        on_question=lambda done, total: report(Progress(done, total, 0, 0)),
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
    Tool("graph", "Linked documents and their communities.", GraphInput, _graph),
    Tool(
        "generations", "The stored generations of an index.", CollectionInput, _generations,
    ),
    Tool("diff", "What changed from one generation to another.", DiffInput, _diff),
    Tool(
        "rollback",
        "Answer from an earlier generation until the folder is indexed again. Asks first.",
        RollBackInput, _roll_back, read_only=False, destructive=True,
    ),
    Tool(
        "evaluate",
        "Ask questions generated from the folder itself, and score the answers.",
        EvaluateInput, _evaluate,
    ),
)  # fmt: skip
