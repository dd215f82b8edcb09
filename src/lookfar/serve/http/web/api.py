"""What the page asks for: rows of a table like the tools, at ``/api/NAME``.

Takes: checked arguments and a session. Gives: JSON that is described in the OpenAPI document
beside the tools. Refuses: what the library refuses; to go back to an earlier generation without
being told that it is meant, or where the caller may only read.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from lookfar import __version__
from lookfar.common.hidden_characters import flags
from lookfar.errors import InvalidArgument
from lookfar.index.progress import Progress
from lookfar.model import Filters, Hit, Lane, Listed, Mode
from lookfar.retrieve.locate.address import format_citation
from lookfar.serve.http.web.marks import marked, window, words_of
from lookfar.serve.http.web.result_pages import Facets, Listings, Narrowing, Page, count
from lookfar.serve.show import json_shapes
from lookfar.serve.tools.dates import moment
from lookfar.serve.tools.related import usual_kinds
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool

_LISTINGS: Final = "web.listings"
_LOCK: Final = threading.Lock()
_EXCERPT: Final = 280
_PREVIEW: Final = 1600
_RECENT: Final = 12
_LONGEST: Final = 400_000
"""Characters of a document that a page shows at once."""
_PATIENCE: Final = 10.0
"""Seconds that a roll-back waits for whoever writes just now."""


# --- search -------------------------------------------------------------------------------------


class SearchInput(Input):
    query: Annotated[str, Field(min_length=1, max_length=10_000)]
    lanes: list[Lane] = []
    prefix: Annotated[str, Field(description="Only paths that start so")] = ""
    languages: list[str] = []
    tags: list[str] = []
    after: Annotated[str, Field(description="Modified since, ISO date")] = ""
    before: str = ""
    mode: Mode | Literal[""] = ""
    offset: Annotated[int, Field(ge=0, le=10_000)] = 0
    limit: Annotated[int, Field(ge=1, le=100)] = 25
    depth: Annotated[
        int, Field(ge=10, le=10_000, description="How many are ranked; pages are parts of those")
    ] = 100


def _search(session: Session, given: SearchInput, call: Call) -> Result:
    page = Page()
    listings = _listings(session)
    filters = Filters(
        prefix=given.prefix,
        tags=tuple(given.tags),
        lanes=tuple(given.lanes),
        languages=tuple(given.languages),
        after=moment(given.after, "after"),
        before=moment(given.before, "before"),
    )
    found = session.library.search(
        given.query,
        mode=given.mode or None,
        filters=filters,
        explain=True,
        commits=True,
        memories=True,
        on_progress=call.on_progress(),
        answering=listings.answering(
            (given.query, given.mode, filters, given.depth),
            depth=given.depth,
            offset=given.offset,
            limit=given.limit,
            prefix=given.prefix,
            page=page,
        ),
    )
    words = words_of(given.query)
    ranked = page.ranked
    total = len(ranked.passages) if ranked else 0
    data = json_shapes.answer(found)
    data["hits"] = []
    for hit, facts in zip(found.hits, page.facts, strict=True):
        shape = _hit(hit, words)
        shape["language"] = facts.language if facts else ""
        shape["modified"] = _moment(facts.modified_ns) if facts else ""
        shape["tags"] = list(facts.tags) if facts else []
        data["hits"].append(shape)
    data |= {
        "offset": given.offset,
        "total": total,
        "more": total >= given.depth,
        "facets": _facets(ranked.facets if ranked else {}),
    }
    return Result(data, "")


def _listings(session: Session) -> Listings:
    with _LOCK:
        kept: Listings = session.memory.setdefault(_LISTINGS, Listings())
    return kept


def _hit(hit: Hit, words: frozenset[str]) -> Json:
    shape = json_shapes.hit(hit, explain=True)
    text = hit.text[:_PREVIEW]
    spans = marked(text, words)
    # The heading stands above it already.
    head = text.find("\n") + 1 if text.startswith("#") else 0
    begin, end = window(
        text[head:], [(s - head, e - head) for s, e in spans if s >= head], _EXCERPT
    )
    excerpt = text[head + begin : head + end]
    shape["cite"] = format_citation(hit.collection, hit.uri, hit.span, hit.sha256)
    shape["flags"] = flags(hit.text)
    shape["text"], shape["marks"] = text, spans
    shape["excerpt"], shape["excerpt_marks"] = excerpt, marked(excerpt, words)
    return shape


def _facets(found: Facets) -> Json:
    return {
        name: [{"value": value, "count": number} for value, number in values]
        for name, values in found.items()
    }


def _moment(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds // 10**9, UTC).isoformat() if nanoseconds else ""


# --- what there is ------------------------------------------------------------------------------


class NoInput(Input):
    pass


def _overview(session: Session, _given: NoInput, _: Call) -> Result:
    listed = session.library.listed()
    latest = sorted(listed, key=lambda each: (-each.modified_ns, each.uri))[:_RECENT]
    data = {
        "version": __version__,
        "collections": list(session.library.collections),
        "documents": len(listed),
        "facets": _facets(count(map(_narrowing, listed))),
        "recent": [_listed(each) for each in latest],
    }
    return Result(data, "")


def _narrowing(each: Listed) -> Narrowing:
    return Narrowing(each.lane, each.uri, each.language, each.modified_ns, each.tags)


def _listed(each: Listed) -> Json:
    return {
        "collection": each.collection,
        "uri": each.uri,
        "title": each.title,
        "lane": each.lane,
        "language": each.language,
        "modified": _moment(each.modified_ns),
    }


# --- a document ---------------------------------------------------------------------------------


class DocumentInput(Input):
    target: Annotated[
        str, Field(min_length=1, description="URI, URI#Heading, URI:10-20, symbol, or a cite")
    ]
    collection: str = ""
    query: Annotated[str, Field(description="Its words are marked", max_length=10_000)] = ""


def _document(session: Session, given: DocumentInput, call: Call) -> Result:
    library = session.library
    library.first_index(on_progress=call.on_progress())
    part = library.read(given.target, collection=given.collection)
    if part.state == "gone":
        whole, outline, entries, totals = part, None, [], {}
    else:
        whole = library.read(part.uri, collection=part.collection)
        outline = json_shapes.outline(library.outline(part.uri, collection=part.collection))
        found = json_shapes.related(
            library.related(
                part.uri, kinds=usual_kinds(session), limit=50, collection=part.collection
            )
        )
        entries, totals = found["entries"], found["totals"]
    text = whole.text[:_LONGEST]
    words = words_of(given.query) if given.query.strip() else frozenset[str]()
    # A document asked for as a whole has no part that is meant.
    meant = (part.span.start, part.span.end) != (whole.span.start, whole.span.end)
    data = json_shapes.reading(whole)
    data |= {
        "text": text,
        "truncated": len(whole.text) > len(text),
        "state": part.state,
        "cite": format_citation(part.collection, part.uri, part.span, part.sha256),
        "part": [part.span.start, part.span.end] if meant and part.state != "gone" else None,
        "flags": flags(text),
        "marks": [[start, end] for start, end in marked(text, words)] if words else [],
        "outline": outline,
        "related": entries,
        "totals": totals,
    }
    return Result(data, "")


# --- the graph ----------------------------------------------------------------------------------


class GraphInput(Input):
    collection: str = ""
    around: Annotated[str, Field(description="A URI: the documents nearest to it")] = ""
    community: Annotated[int, Field(ge=-1, description="Only its documents; -1 is any")] = -1
    most: Annotated[int, Field(ge=1, le=1000)] = 300


def _graph(session: Session, given: GraphInput, call: Call) -> Result:
    library = session.library
    library.first_index(on_progress=call.on_progress())
    found = library.graph(
        most=given.most,
        around=given.around,
        community=given.community if given.community >= 0 else None,
        collection=given.collection or library.collections[0],
    )
    data = {
        "collection": found.collection,
        "generation": found.generation,
        "documents": found.documents,
        "nodes": [
            {"uri": n.uri, "title": n.title, "community": n.community, "links": n.links}
            for n in found.nodes
        ],
        "edges": [list(each) for each in found.edges],
        "communities": [
            {"number": c.number, "size": c.size, "title": c.title, "uri": c.uri}
            for c in found.communities[:100]
        ],
    }
    return Result(data, "")


# --- generations --------------------------------------------------------------------------------


class CollectionInput(Input):
    collection: str = ""


def _generations(session: Session, given: CollectionInput, _: Call) -> Result:
    library = session.library
    name = given.collection or library.collections[0]
    kept = library.snapshots(collection=name) if library.folder(name).indexed else ()
    return Result(
        {"collection": name, **json_shapes.snapshots(kept, library.folder(name).held)}, ""
    )


class DiffInput(Input):
    older: Annotated[int, Field(ge=1, le=2**53)]
    newer: Annotated[int, Field(ge=1, le=2**53)]
    collection: str = ""


def _diff(session: Session, given: DiffInput, _: Call) -> Result:
    library = session.library
    name = given.collection or library.collections[0]
    found = library.diff(given.older, given.newer, collection=name)
    return Result({"collection": name, **json_shapes.diff(found)}, "")


class RollBackInput(Input):
    generation: Annotated[int, Field(ge=1, le=2**53)]
    confirm: bool = False
    collection: str = ""


def _roll_back(session: Session, given: RollBackInput, call: Call) -> Result:
    library = session.library
    name = given.collection or library.collections[0]
    if not given.confirm and not call.confirm(
        f"Answer from generation {given.generation} of {name} until it is indexed again?"
    ):
        raise InvalidArgument("Nothing was changed.", hint="Confirm it to go ahead.")
    now = library.roll_back(given.generation, collection=name, wait_seconds=_PATIENCE)
    return Result({"collection": name, **json_shapes.snapshot(now, library.folder(name).held)}, "")


# --- how good it is -----------------------------------------------------------------------------


class EvaluateInput(Input):
    mode: Mode = "hybrid"
    count: Annotated[int, Field(ge=1, le=200, description="Questions made from the folder")] = 60
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0
    k: Annotated[int, Field(ge=1, le=50)] = 10


def _evaluate(session: Session, given: EvaluateInput, call: Call) -> Result:
    from lookfar.evaluate import evaluate, known_items
    from lookfar.evaluate.results import results_as_json

    library, tell = session.library, call.on_progress()
    library.first_index(on_progress=tell)
    judged = known_items(library, count=given.count, seed=given.seed, on_progress=tell)
    found = evaluate(
        library,
        judged,
        k=given.k,
        mode=given.mode,
        label=given.mode,
        on_progress=tell,
        # It raises where nobody waits any more.
        on_question=lambda asked, many: tell(Progress(asked, many, 0, 0)),
    )
    return Result(results_as_json(found), "")


# --- the table ----------------------------------------------------------------------------------


def _row(name: str, about: str, given: type[Input], handler: Any, **more: Any) -> Tool:
    return Tool(name, about, given, handler, **more)


ROWS: Sequence[Tool] = (
    _row(
        "search",
        "Everything that a question finds, a page at a time, with counts to narrow it by.",
        SearchInput, _search,
    ),
    _row("overview", "What is indexed, by kind, and what changed last.", NoInput, _overview),
    _row(
        "document",
        "A document as it is on disk now, with its outline and what is related to it.",
        DocumentInput, _document,
    ),
    _row("graph", "Linked documents and their communities.", GraphInput, _graph),
    _row(
        "generations", "The states of an index that are kept.", CollectionInput, _generations,
    ),
    _row("diff", "What changed from one generation to another.", DiffInput, _diff),
    _row(
        "rollback",
        "Answer from an earlier generation until the folder is indexed again. Asks first.",
        RollBackInput, _roll_back, read_only=False, destructive=True,
    ),
    _row(
        "evaluate",
        "Ask questions that were made from the folder itself, and score the answers.",
        EvaluateInput, _evaluate,
    ),
)  # fmt: skip
