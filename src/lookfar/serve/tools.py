"""The default tools, each defined once: MCP, HTTP and the documentation show this table.

Takes: checked arguments and a session. Gives: results. Refuses: what the library
refuses; a cursor that belongs to another call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from lookfar.errors import InvalidArgument, how_many
from lookfar.hidden_characters import flags
from lookfar.model import Answer, Filters, Hit, Incomplete, Lane, Mode, Reading, RelatedKind
from lookfar.retrieve.address import address_of, citation_of
from lookfar.retrieve.pack import cut, pack
from lookfar.retrieve.related import KINDS
from lookfar.serve import jsonshape
from lookfar.serve.breadcrumbs import Breadcrumbs, also_at
from lookfar.serve.cursor import Cursor
from lookfar.serve.edits import EDIT
from lookfar.serve.moments import moment
from lookfar.serve.printable import safe_name
from lookfar.serve.remember import REMEMBER
from lookfar.serve.tool import (
    MOST_TOKENS,
    Call,
    Input,
    Json,
    Passage,
    Result,
    Session,
    Tool,
    bounded,
)

_DEEPEST = 100
"""Hits that one question can be asked for, all pages together."""

LEAST_TOKENS = 100
_MOST_NAMED = 100
_DIGITS = 16
"""Of a hash, as many as tell it from any other."""

Budget = Annotated[int, Field(ge=LEAST_TOKENS, le=MOST_TOKENS)]


# --- search -------------------------------------------------------------------------------------


class SearchInput(Input):
    query: Annotated[str, Field(min_length=1, description="Question, words, name or path")]
    kinds: list[Lane] = []
    prefix: Annotated[str, Field(description="Only paths that start so")] = ""
    glob: str = ""
    uris: list[str] = []
    heading: Annotated[str, Field(description="Only below such headings")] = ""
    language: str = ""
    tags: list[str] = []
    after: Annotated[str, Field(description="Modified since, ISO date")] = ""
    before: str = ""
    author: Annotated[str, Field(description="Of commits")] = ""
    touches: Annotated[str, Field(description="Commits that change such paths")] = ""
    branch: str = ""
    mode: Mode = "hybrid"
    hypothesis: Annotated[str, Field(description="What the answer might say")] = ""
    top_k: Annotated[int, Field(ge=1, le=50)] = 10
    budget: Annotated[Budget, Field(description="Tokens")] = 6000
    cursor: Annotated[str, Field(description="From the last page")] = ""
    explain: bool = False
    as_of: Annotated[int, Field(ge=0, description="A generation; 0 is now")] = 0


def _search(session: Session, given: SearchInput, call: Call) -> Result:
    library = session.library
    cursor = Cursor.read(given.cursor, _about(session, given), "search")
    wanted = min(cursor.offset + given.top_k, _DEEPEST)
    if cursor.offset >= _DEEPEST:
        raise InvalidArgument(
            f"One question gives at most {_DEEPEST} hits.", hint="Ask more precisely, or filter."
        )

    def ask(as_of: int | None) -> Answer:
        return library.search(
            given.query,
            mode=given.mode,
            top_k=min(wanted + 1, _DEEPEST),
            filters=_filters(given),
            hypothesis=given.hypothesis,
            explain=given.explain,
            as_of=as_of,
            commits=True,
            memories=True,
            on_progress=call.on_progress(),
        )

    as_of, notes = given.as_of or None, []
    try:
        # A page follows from the state that the first page was taken from.
        answer = ask(as_of or cursor.generation or None)
    except InvalidArgument as error:
        if as_of or not cursor.generation or "kept" not in error.details:
            raise
        answer = ask(None)
        notes = [Incomplete("moved_on", "the index changed since the first page")]

    def show(budget: int) -> Result:
        hits, left = pack(answer.hits[cursor.offset : wanted], budget)
        reached = cursor.offset + len(hits)
        following = ""
        if (left or len(answer.hits) > wanted) and reached < _DEEPEST:
            following = Cursor(reached, answer.generation).write(_about(session, given), "search")
        found = Answer(
            answer.query, answer.mode, tuple(hits), answer.generations, answer.took_ms,
            (*answer.incomplete, *notes),
        )  # fmt: skip
        return _answered(found, cursor.offset, following, given.explain)

    return bounded(show, given.budget, LEAST_TOKENS)


def _about(session: Session, given: SearchInput) -> Json:
    """What a cursor is bound to: everything but the cursor and the size of a page."""
    shape = given.model_dump(exclude={"cursor", "budget", "top_k"})
    return {**shape, "collections": session.library.collections}


def _filters(given: SearchInput) -> Filters:
    return Filters(
        prefix=given.prefix,
        uris=tuple(given.uris),
        glob=given.glob,
        heading=given.heading,
        tags=tuple(given.tags),
        lanes=tuple(given.kinds),
        languages=(given.language,) if given.language else (),
        after=moment(given.after, "after"),
        before=moment(given.before, "before"),
        authors=(given.author,) if given.author else (),
        touches=given.touches,
        branch=given.branch,
    )


def _answered(found: Answer, offset: int, following: str, explain: bool) -> Result:
    several = len(found.generations) > 1
    data: Json = jsonshape.answer(found, explain=explain)
    passages = []
    headings = Breadcrumbs()
    for at, (hit, shape) in enumerate(zip(found.hits, data["hits"], strict=True)):
        shape["cite"] = citation_of(hit.collection, hit.uri, hit.span, hit.sha256)
        shape["flags"] = flags(hit.text)
        shape["also"] = [
            citation_of(each.collection, each.uri, each.span, each.sha256) for each in hit.also
        ]
        told = [headings.of(hit), also_at(hit, several)]
        passages.append(
            Passage(
                at=("hits", at, "text"),
                line=_cited(offset + at + 1, hit, several, told, shape["flags"], explain),
                address=shape["cite"],
                name=hit.uri,
            )
        )
    data["cursor"] = following
    count = len(found.hits)
    lines = [how_many(count, "hit") if count else "Nothing found."]
    lines += [f"Incomplete ({each.reason}): {safe_name(each.detail)}" for each in found.incomplete]
    if following:
        lines.append(f"More with cursor: {following}")
    return Result(data, "\n".join(lines), tuple(passages))


def _cited(
    number: int,
    hit: Hit,
    several: bool,
    told: Sequence[str],
    flagged: Sequence[str],
    explain: bool,
) -> str:
    headings, also = told
    collection = f"{hit.collection}: " if several else ""
    lines = f"{hit.span.start_line}-{hit.span.end_line}"
    parts = [
        f"[{number}] {collection}{hit.uri}:{lines}",
        headings,
        f"{hit.score:.3f}",
        *(["cut"] if hit.truncated else []),
        *([hit.lane] if hit.lane in ("commits", "memory") else []),
        *([f"{hit.state} on disk"] if hit.state != "same" else []),
        *([also] if also else []),
        *([f"stale: {', '.join(hit.stale[:3])} changed since"] if hit.stale else []),
        *(f"contains {flag} characters" for flag in flagged),
    ]
    if explain:
        parts.append(", ".join(f"{c.stage} {c.value:+.3f}" for c in hit.explanation))
    return safe_name(" | ".join(parts))


# --- read ---------------------------------------------------------------------------------------


class ReadInput(Input):
    target: Annotated[
        str, Field(min_length=1, description="URI, URI#Heading, URI:10-20, symbol, or a cite")
    ]
    collection: str = ""
    budget: Annotated[Budget, Field(description="Tokens")] = 8000
    cursor: str = ""


def _read(session: Session, given: ReadInput, call: Call) -> Result:
    session.library.first_index(on_progress=call.on_progress())
    found = session.library.read(given.target, collection=given.collection)
    about = {"target": given.target, "sha256": found.sha256}
    cursor = Cursor.read(given.cursor, about, "read")
    text = found.text[cursor.offset :]

    def show(budget: int) -> Result:
        shown = cut(text, budget)
        data = jsonshape.reading(found)
        data["cite"] = citation_of(found.collection, found.uri, found.span, found.sha256)
        data["text"], data["flags"] = shown, flags(shown)
        rest = len(text) - len(shown)
        data["truncated"] = bool(cursor.offset or rest)
        data["cursor"] = Cursor(cursor.offset + len(shown)).write(about, "read") if rest else ""
        passage = Passage(("text",), _where(found, data, session.write), data["cite"], found.uri)
        more = f"{rest:,} characters follow with cursor: {data['cursor']}" if rest else ""
        return Result(data, more, (passage,) if shown or not more else ())

    return bounded(show, given.budget, LEAST_TOKENS)


def _where(found: Reading, data: Json, write: bool) -> str:
    lines = f"{found.span.start_line}-{found.span.end_line}"
    parts = [
        f"{found.uri}:{lines}" if found.state != "gone" else found.uri,
        *([" > ".join(found.heading_path)] if found.heading_path else []),
        _READ_STATES[found.state],
        # What an edit of it expects; some clients show a model nothing but this line.
        *([f"sha256 {found.sha256[:_DIGITS]}"] if write and found.state != "gone" else []),
        *(f"contains {flag} characters" for flag in data["flags"]),
    ]
    return safe_name(" | ".join(parts))


_READ_STATES = {
    "same": "same as indexed",
    "moved": "moved since it was cited",
    "changed": "changed since it was indexed or cited",
    "gone": "gone from the disk",
}


# --- related ------------------------------------------------------------------------------------

Relation = Literal[
    "links", "backlinks", "similar", "community", "definitions", "mentions", "commits", "memories"
]


class RelatedInput(Input):
    target: Annotated[str, Field(min_length=1, description="URI or URI#Heading")]
    kinds: list[Relation] = []
    limit: Annotated[int, Field(ge=1, le=50)] = 10
    collection: str = ""


def usual_kinds(session: Session) -> tuple[RelatedKind, ...]:
    """What is given where no kind is asked for: commits and memories only where there are any."""
    known = session.library.histories(look=False).values()
    kinds: tuple[RelatedKind, ...] = KINDS
    if any(each.indexed for each in known):
        kinds = (*kinds, "commits")
    return (*kinds, "memories") if session.library.memories() else kinds


def _related(session: Session, given: RelatedInput, call: Call) -> Result:
    session.library.first_index(on_progress=call.on_progress())

    def show(limit: int) -> Result:
        found = session.library.related(
            given.target,
            kinds=tuple(given.kinds) or usual_kinds(session),
            limit=limit,
            collection=given.collection,
        )
        data: Json = jsonshape.related(found)
        lines = []
        for each in data["entries"]:
            home = each.get("collection", found.collection)
            each["address"] = address_of(home, each["uri"]) if each["uri"] else ""
            where = each["uri"] or f"{each['target']} (does not exist)"
            lines.append(safe_name(f"{each['kind']}: {where} {each['title']}".rstrip()))
        return Result(data, "\n".join(lines) or "Nothing is related to it.")

    return bounded(show, given.limit)


# --- status -------------------------------------------------------------------------------------


class StatusInput(Input):
    pass


def _status(session: Session, _given: StatusInput, _: Call) -> Result:
    states = session.library.statuses()
    lines = []
    for state in states:
        if not state.indexed:
            lines.append(f"{state.collection}: not indexed yet; the first search does it")
            continue
        watched = state.watcher is not None and state.watcher.healthy
        parts = [
            how_many(state.counts.documents, "document"),
            how_many(state.counts.chunks, "chunk"),
            f"generation {state.generation}",
            "followed" if watched else "not followed",
            *([f"{state.stale_count:,} stale"] if state.stale_count else []),
            *([f"{len(state.failures):,} failed"] if state.failures else []),
            *([f"held at {state.held}"] if state.held is not None else []),
        ]
        lines.append(f"{state.collection}: {', '.join(parts)}")
    shapes = [jsonshape.status(each) for each in states]

    def show(most: int) -> Result:
        named = [
            {**each, "failures": each["failures"][:most], "stale": each["stale"][:most]}
            for each in shapes
        ]
        return Result({"collections": named}, safe_lines(lines))

    return bounded(show, _MOST_NAMED)


def safe_lines(lines: Sequence[str]) -> str:
    return "\n".join(map(safe_name, lines))


# --- the table ----------------------------------------------------------------------------------

SEARCH = Tool(
    "search",
    "Search documentation, code and notes by meaning and words. Gives passages with exact,"
    " checked citations.",
    SearchInput,
    _search,
)
READ = Tool(
    "read",
    "Read a document, a section, lines or a citation as it is on disk now, and whether it changed.",
    ReadInput,
    _read,
)
RELATED = Tool(
    "related", "What a document links to, what links to it, what is like it, and commits.",
    RelatedInput, _related,
)  # fmt: skip
STATUS = Tool("status", "What is indexed, how fresh it is, and what failed.", StatusInput, _status)

TOOLS: tuple[Tool, ...] = (SEARCH, READ, RELATED, STATUS, REMEMBER, EDIT)
