"""The tool ``search``: a map of the documents that answer, whole passages, or only paths.

Several questions share one budget of tokens, and each document is shown once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from lookfar.common.hidden_characters import flags
from lookfar.errors import InvalidArgument, how_many
from lookfar.model import Answer, Filters, Hit, Incomplete, Lane, Unit
from lookfar.model.answers import REMARKS
from lookfar.retrieve.answer.pack import pack, tokens
from lookfar.retrieve.locate.address import format_citation
from lookfar.serve.show import json_shapes
from lookfar.serve.show.answer_map import (
    MAP_TOKENS,
    PLACES,
    TOKENS_A_PLACE,
    AnswerMap,
    Question,
    draw_map,
    name_document,
)
from lookfar.serve.show.breadcrumbs import Breadcrumbs, also_at
from lookfar.serve.show.locations import are_several, name_part, name_with_collection
from lookfar.serve.show.printable import safe_name
from lookfar.serve.tools.cursor import SEARCH_CURSOR, Cursor, missing_lines, next_page, recall_call
from lookfar.serve.tools.dates import moment
from lookfar.serve.tools.inputs import LEAST_TOKENS, Budget, between
from lookfar.serve.tools.lines import show_lines
from lookfar.serve.tools.listing import show_listing
from lookfar.serve.tools.output_schemas import SEARCHED
from lookfar.serve.tools.tool import Call, Input, Json, Passage, Result, Session, Tool, bounded

SearchMode = Literal["hybrid", "keyword", "vector", "literal", "regex"]
Detail = Literal["map", "paths", "passages"]

_MAP_TOKENS_EACH = 250
"""Default budget for the map of each of several questions."""
_PASSAGE_TOKENS = 6_000
_UNITS = 36
"""Definitions and sections per question that a map shows or names."""
_PASSAGES = 10
_DEEPEST = 100
"""Most hits of one question, all pages together."""
_MOST_QUESTIONS = 10


def _few(queries: list[str]) -> list[str]:
    if len(queries) > _MOST_QUESTIONS:
        raise ValueError(f"It takes at most {_MOST_QUESTIONS}")
    if not all(query.strip() for query in queries):
        raise ValueError("A question is empty")
    return queries


class SearchInput(Input):
    query: Annotated[str, Field(description="Question, name or path")] = ""
    queries: Annotated[list[str], AfterValidator(_few), Field(description="Up to ten")] = []
    mode: Annotated[SearchMode, Field(default_factory=lambda: "hybrid")]
    detail: Annotated[Detail, Field(default_factory=lambda: "map")]
    kinds: list[Lane] = []
    prefix: Annotated[str, Field(description="Of paths")] = ""
    glob: str = ""
    uris: list[str] = []
    heading: Annotated[str, Field(description="Only below")] = ""
    language: str = ""
    tags: list[str] = []
    where: Annotated[list[str], Field(description="status=x, has:x")] = []
    after: Annotated[str, Field(description="Date, last week")] = ""
    before: str = ""
    author: Annotated[str, Field(description="Of commits")] = ""
    touches: Annotated[str, Field(description="Changed path")] = ""
    branch: str = ""
    hypothesis: Annotated[str, Field(description="A guess")] = ""
    context: Annotated[
        int, AfterValidator(between(0, 10)), Field(default_factory=int, description="Lines around")
    ]
    top_k: Annotated[int, AfterValidator(between(1, 50)), Field(default_factory=int)]
    budget: Budget
    cursor: Annotated[str, Field(description="Alone continues")] = ""
    explain: Annotated[bool, Field(default_factory=bool)]
    as_of: Annotated[
        int,
        AfterValidator(between(0, 1 << 62)),
        Field(default_factory=int, description="Generation"),
    ]

    @property
    def questions(self) -> list[str]:
        return [*([self.query] if self.query.strip() else []), *self.queries]


def _search(session: Session, given: SearchInput, call: Call) -> Result:
    if given.cursor and not given.questions:
        given = _continue(session, given)
    if not given.questions and _filters(given):
        return show_listing(session, given, _filters(given), call, _about(session, given))
    if not given.questions:
        raise InvalidArgument(
            "search needs the argument 'query'.",
            hint="Add query, queries with several questions, or filters alone to list documents.",
            details={"field": "query", "value": given.query, "reason": "missing"},
        )
    cursor = Cursor.read(given.cursor, _about(session, given), SEARCH_CURSOR)
    if max(cursor.offsets) >= _DEEPEST:
        raise InvalidArgument(
            f"One question returns at most {_DEEPEST} hits.",
            hint="Ask more precisely, or add a filter.",
        )
    if given.mode in ("literal", "regex"):
        return show_lines(session, given, _filters(given), call, cursor, _about(session, given))
    if given.detail == "passages" or given.explain:
        return _show_passages(session, given, call, cursor)
    return _show_map(session, given, call, cursor)


def _continue(session: Session, given: SearchInput) -> SearchInput:
    """Return the arguments of the call that a cursor continues, with the sizes given now."""
    arguments = recall_call(session.memory, given.cursor)
    sizes = given.model_dump(include={"cursor", "budget", "top_k"}, exclude_unset=True)
    return SearchInput.model_validate({**arguments, **sizes})


def _about(session: Session, given: SearchInput) -> Json:
    """Return what identifies a call: its arguments without cursor and page size."""
    shape = given.model_dump(exclude={"cursor", "budget", "top_k"})
    return {**shape, "collections": session.library.collections}


class _Searches:
    """Search for the questions of a call in the generation of its first page."""

    def __init__(self, session: Session, given: SearchInput, call: Call, cursor: Cursor) -> None:
        self._library = session.library
        self._given = given
        self._call = call
        self._pinned = cursor.generation
        self.units = 0
        self.focus = given.detail != "passages"
        self.notes: list[Incomplete] = []

    def ask(self, question: str, top_k: int) -> Answer:
        given = self._given
        try:
            return self._search(question, top_k, given.as_of or self._pinned or None)
        except InvalidArgument as error:
            if given.as_of or not self._pinned or "kept" not in error.details:
                raise
        self._pinned = 0
        self.notes = [Incomplete("moved_on", "the index changed since the first page")]
        return self._search(question, top_k, None)

    def _search(self, question: str, top_k: int, as_of: int | None) -> Answer:
        given = self._given
        return self._library.search(
            question,
            mode=given.mode,  # type: ignore[arg-type]
            top_k=min(top_k, _DEEPEST),
            filters=_filters(given),
            hypothesis=given.hypothesis,
            explain=given.explain,
            as_of=as_of,
            commits=True,
            memories=True,
            sources=True,
            # A search for docs wants pages; comments come with code.
            tuned=replace(self._library.settings.search, comments=False),
            focus=self.focus,
            units=self.units,
            on_progress=self._call.on_progress(),
        )


def _filters(given: SearchInput) -> Filters:
    return Filters(
        prefix=given.prefix,
        uris=tuple(given.uris),
        glob=given.glob,
        heading=given.heading,
        tags=tuple(given.tags),
        lanes=tuple(given.kinds),
        languages=(given.language,) if given.language else (),
        where=tuple(given.where),
        after=moment(given.after, "after"),
        before=moment(given.before, "before"),
        authors=(given.author,) if given.author else (),
        touches=given.touches,
        branch=given.branch,
    )


def _show_map(session: Session, given: SearchInput, call: Call, cursor: Cursor) -> Result:
    questions = given.questions
    skip = cursor.offsets if given.cursor else (0,) * len(questions)
    budget = given.budget
    if not budget:
        budget = MAP_TOKENS if len(questions) == 1 else _MAP_TOKENS_EACH * len(questions)
    searches = _Searches(session, given, call, cursor)
    most = max(given.top_k, _UNITS, budget // 20)
    searches.units = max(skip) + most + 1
    placed = given.top_k + 1 if given.top_k else max(PLACES, budget // TOKENS_A_PLACE)
    answers = [searches.ask(question, max(skip) + placed) for question in questions]
    several = len(session.library.collections) > 1
    remarks = [_list_notes([answer], remarks=True) for answer in answers]
    asked = [
        Question(answer.query, answer.hits, answer.units, lines)
        for answer, lines in zip(answers, remarks, strict=True)
    ]
    answers[0] = replace(answers[0], incomplete=(*answers[0].incomplete, *searches.notes))

    def show(budget: int) -> Result:
        answer_map = draw_map(
            asked,
            budget,
            skip=skip,
            limit=given.top_k,
            paths=given.detail == "paths",
            describe=lambda item: _describe(session, item, several),
        )
        following = ""
        if answer_map.more:
            reached = tuple(map(sum, zip(skip, answer_map.reached, strict=True)))
            about, states = _about(session, given), answers[0].generations
            following = next_page(session, given, about, reached, states)
        return _mapped(answers, answer_map, following, given)

    result = bounded(show, budget, LEAST_TOKENS)
    first = next((hit.collection for answer in answers for hit in answer.hits), "")
    session.library.record_answer(first, result.data["tokens"], result.data["document_tokens"])
    return result


def _list_notes(answers: Sequence[Answer], *, remarks: bool) -> list[str]:
    """Format the remarks on answers, or the other notes."""
    notes = (note for answer in answers for note in answer.incomplete)
    return missing_lines(note for note in notes if (note.reason in REMARKS) == remarks)


def _describe(session: Session, item: Hit | Unit, several: bool) -> str:
    """Return the name of a document for a map; for a commit also its author and date."""
    if item.lane == "commits":
        commit = session.library.commit(item.collection, item.uri)
        author = commit.author.partition(" <")[0]
        return safe_name(
            f"commit {item.uri[:12]}  {commit.title}  ({author}, {commit.committed_at[:10]})"
        )
    if isinstance(item, Unit):
        return safe_name(name_with_collection(item, several))
    warnings = "".join(f"  (contains {flag} characters)" for flag in flags(item.text))
    return name_document(item, several=several) + warnings


def _mapped(
    answers: Sequence[Answer],
    answer_map: AnswerMap,
    following: str,
    given: SearchInput,
) -> Result:
    shapes: list[Json] = []
    excerpts: dict[tuple[str | int, ...], str] = {}
    single = not given.queries
    for number, (answer, places) in enumerate(zip(answers, answer_map.shown, strict=True)):
        hits = [place.hit for place in places]
        shape = json_shapes.answer(replace(answer, hits=tuple(hits), units=()))
        shape["units"] = [_name_unit(unit) for unit in answer_map.named[number]]
        where: tuple[str | int, ...] = () if single else ("answers", number)
        for at, (hit, part) in enumerate(zip(hits, shape["hits"], strict=True)):
            _complete(hit, part)
            excerpts[(*where, "hits", at, "text")] = places[at].excerpt
        shapes.append(shape)
    data: Json = shapes[0] if single else {"answers": shapes}
    data["cursor"] = following
    cited = {(it.hit.collection, it.hit.uri): it.hit for part in answer_map.shown for it in part}
    named = {(it.collection, it.uri) for part in answer_map.named for it in part}
    data["tokens"] = tokens(answer_map.text)
    data["document_tokens"] = sum(hit.document_chars for hit in cited.values()) // 4
    lines = _list_notes(answers, remarks=False)
    if len(answers) == 1 or not (
        cited or named
    ):  # Otherwise the map has them, each below its question.
        lines = [*_list_notes(answers, remarks=True), *lines]
    if not (cited or named):
        lines.insert(0, "Nothing found.")
    else:
        count = how_many(len(named.union(cited)), "document")
        receipt = f"{count}, {data['tokens']:,} tokens; whole: {data['document_tokens']:,}"
        lines.append(f"{receipt}. More: cursor {following}" if following else receipt)
    return Result(
        data, "\n".join(lines), body=answer_map.text if cited or named else "", excerpts=excerpts
    )


def _name_unit(unit: Unit) -> Json:
    """Return what a program needs to read something that is only named."""
    return {
        "collection": unit.collection, "uri": unit.uri, "name": unit.name, "kind": unit.kind,
        "line": unit.line or unit.span.start_line, "start_line": unit.span.start_line,
        "end_line": unit.span.end_line,
    }  # fmt: skip


def _complete(hit: Hit, shape: Json) -> None:
    """Add what a program needs to cite a hit."""
    shape["cite"] = format_citation(hit.collection, hit.uri, hit.span, hit.sha256)
    shape["flags"] = flags(hit.text)
    shape["also"] = [
        format_citation(alike.collection, alike.uri, alike.span, alike.sha256) for alike in hit.also
    ]


def _show_passages(session: Session, given: SearchInput, call: Call, cursor: Cursor) -> Result:
    questions = given.questions
    skip = cursor.offsets if given.cursor else (0,) * len(questions)
    top_k = given.top_k or _PASSAGES
    searches = _Searches(session, given, call, cursor)
    answers = [
        searches.ask(question, start + top_k + 1)
        for question, start in zip(questions, skip, strict=True)
    ]

    answers[0] = replace(answers[0], incomplete=(*answers[0].incomplete, *searches.notes))

    def show(budget: int) -> Result:
        parts: list[Answer] = []
        reached: list[int] = []
        more = False
        seen: set[str] = set()
        for answer, start in zip(answers, skip, strict=True):
            page = [hit for hit in answer.hits[start : start + top_k] if hit.chunk_id not in seen]
            hits, left = pack(page, budget // len(answers))
            seen.update(hit.chunk_id for hit in hits)
            more |= bool(left) or len(answer.hits) > start + top_k
            reached.append(start + len(hits) if left else min(start + top_k, len(answer.hits)))
            parts.append(replace(answer, hits=tuple(hits)))
        following = ""
        if more and max(reached) < _DEEPEST:
            about, states = _about(session, given), answers[0].generations
            following = next_page(session, given, about, tuple(reached), states)
        return _with_passages(parts, skip, following, given)

    return bounded(show, given.budget or _PASSAGE_TOKENS * min(len(questions), 3), LEAST_TOKENS)


def _with_passages(
    answers: Sequence[Answer],
    skip: Sequence[int],
    following: str,
    given: SearchInput,
) -> Result:
    several = are_several(name for answer in answers for name in answer.generations)
    single = not given.queries
    shapes: list[Json] = []
    passages: list[Passage] = []
    headings = Breadcrumbs()
    for number, (answer, start) in enumerate(zip(answers, skip, strict=True)):
        shape = json_shapes.answer(answer, explain=given.explain)
        where: tuple[str | int, ...] = () if single else ("answers", number)
        for at, (hit, part) in enumerate(zip(answer.hits, shape["hits"], strict=True)):
            _complete(hit, part)
            headings_and_copies = (headings.format(hit), also_at(hit, several))
            label = str(start + at + 1) if single else f"{number + 1}.{start + at + 1}"
            line = _describe_passage(
                label, hit, several, headings_and_copies, part["flags"], given.explain
            )
            passages.append(Passage((*where, "hits", at, "text"), line, part["cite"], hit.uri))
        shapes.append(shape)
    data: Json = shapes[0] if single else {"answers": shapes}
    data["cursor"] = following
    lines = [how_many(len(passages), "hit") if passages else "Nothing found."]
    for number, answer in enumerate(answers, start=1):
        label = "" if single else f"[{number}] "
        lines += [f"{label}{line}" for line in _list_notes([answer], remarks=True)]
    lines += _list_notes(answers, remarks=False)
    if following:
        lines.append(f"More with cursor: {following}")
    return Result(data, "\n".join(lines), tuple(passages))


def _describe_passage(
    label: str,
    hit: Hit,
    several: bool,
    headings_and_copies: tuple[str, str],
    flagged: Sequence[str],
    explain: bool,
) -> str:
    headings, also = headings_and_copies
    parts = [
        f"[{label}] {name_with_collection(hit, several)}{name_part(hit)}",
        headings,
        f"{hit.score:.3f}",
        *(["cut"] if hit.truncated else []),
        *([hit.lane] if hit.lane in ("commits", "memory") else []),
        *([f"from {hit.origin}"] if hit.origin else []),
        *([f"{hit.state} on disk"] if hit.state != "same" else []),
        *([also] if also else []),
        *([f"stale: {', '.join(hit.stale[:3])} changed since"] if hit.stale else []),
        *([f"outdated: {'; '.join(hit.drift[:3])}"] if hit.drift else []),
        *(f"contains {flag} characters" for flag in flagged),
    ]
    if explain:
        parts.append(", ".join(f"{c.stage} {c.value:+.3f}" for c in hit.explanation))
    return safe_name(" | ".join(parts))


SEARCH = Tool(
    "search",
    "Find docs, code, commits and notes. Gives a short map: places and lines that answer;"
    " often no read is needed. Ask all at once: queries. Exact text: mode literal or regex"
    " (grep); detail paths names files only.",
    SearchInput,
    _search,
    advice="Search this project's code, documents, notes and commits with `{name}` before grep when"
    " you do not know the exact words: a symptom, a question, an unfamiliar or large tree,"
    " documents, history. It finds by meaning and words together and shows the lines that answer,"
    " checked against the disk; cite them as path:lines. Put all your questions into one call"
    " (queries). For exact text: mode literal or regex.",
    always_listed=True,
    lean=True,
    by_reader=True,
    title="Search",
    output_schema=SEARCHED,
)
