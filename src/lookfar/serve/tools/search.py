"""The tool ``search``: a map of the documents that answer, whole passages, or only paths.

Several questions share one budget of tokens, and each document is shown once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic.json_schema import SkipJsonSchema

from lookfar.common.hidden_characters import flags
from lookfar.errors import InvalidArgument, how_many
from lookfar.model import Answer, Filters, Hit, Incomplete, Lane, Matches, Reading, Unit
from lookfar.model.answers import REMARKS
from lookfar.retrieve.answer.pack import pack, tokens
from lookfar.retrieve.locate.address import format_citation
from lookfar.retrieve.question.intent import asks_for_history
from lookfar.retrieve.question.names import find_verbatim
from lookfar.serve.show import json_shapes
from lookfar.serve.show.answer_map import (
    MAP_TOKENS,
    UNITS,
    Describe,
    count_places,
    draw_paths,
    draw_question,
    name_document,
)
from lookfar.serve.show.breadcrumbs import Breadcrumbs, also_at
from lookfar.serve.show.locations import are_several, name_part, name_with_collection
from lookfar.serve.show.printable import safe_name
from lookfar.serve.tools.cursor import SEARCH_CURSOR, Cursor, missing_lines, next_page, recall_call
from lookfar.serve.tools.dates import moment
from lookfar.serve.tools.inputs import LEAST_TOKENS, Budget, between
from lookfar.serve.tools.lines import LINE_TOKENS, draw_lines, find_lines
from lookfar.serve.tools.listing import show_listing
from lookfar.serve.tools.output_schemas import SEARCHED
from lookfar.serve.tools.probes import (
    NO_PROBE,
    READ_TOKENS,
    Globs,
    Part,
    Probe,
    Probes,
    Refused,
    draw_reading,
    draw_refusal,
    read_address,
)
from lookfar.serve.tools.tool import Call, Input, Json, Passage, Result, Session, Tool, bounded
from lookfar.sources.globs import BETWEEN

SearchMode = Literal["hybrid", "keyword", "vector", "literal", "regex"]
Detail = Literal["map", "paths", "passages"]
Asked = Answer | Matches | Reading | Refused

_TOKENS_EACH = 250
"""Default budget for each of several probes."""
_PASSAGE_TOKENS = 6_000
_PASSAGES = 10
_DEEPEST = 100
"""Most hits of one question, all pages together."""
_LONGEST_HEAD = 70
_QUOTED_FILES = 3
_MOST_QUOTED = 50
"""Files and lines with a flag or message that a question quotes, which are shown first."""
_NO_COMMITS = Incomplete("no_history", "no commits are indexed here")


class SearchInput(Input):
    query: str = ""
    queries: Annotated[
        Probes,
        Field(
            description='Up to 20, each: question, name, "text", /regex/, path#Name, path:1-9'
            " or {query, limit, kinds, glob}"
        ),
    ] = []
    mode: Annotated[SearchMode, Field(default_factory=lambda: "hybrid")]
    detail: Annotated[Detail, Field(default_factory=lambda: "map")]
    kinds: list[Lane] = []
    prefix: SkipJsonSchema[str] = ""
    glob: Annotated[Globs, Field(description="! excludes")] = ""
    exclude: Globs = ""
    uris: SkipJsonSchema[list[str]] = []
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
    explain: SkipJsonSchema[bool] = False
    as_of: Annotated[
        int,
        AfterValidator(between(0, 1 << 62)),
        Field(default_factory=int, description="Generation"),
    ]

    @property
    def probes(self) -> list[Probe]:
        first = [Probe(query=self.query)] if self.query.strip() else []
        return [*first, *self.queries]


def _search(session: Session, given: SearchInput, call: Call) -> Result:
    if given.cursor and not given.probes:
        given = _continue(session, given)
    if not given.probes and _filters(given):
        return show_listing(session, given, _filters(given), _about(session, given))
    if not given.probes:
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
    by_lines = given.mode in ("literal", "regex")
    if (given.detail == "passages" and not by_lines) or given.explain:
        return _show_passages(session, given, call, cursor)
    return _show_probes(session, given, call, cursor)


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

    @property
    def as_of(self) -> int | None:
        return self._given.as_of or self._pinned or None

    def ask(self, probe: Probe, top_k: int) -> Answer:
        given = self._given
        try:
            return self._search(probe, top_k, self.as_of)
        except InvalidArgument as error:
            if given.as_of or not self._pinned or "kept" not in error.details:
                raise
        self._pinned = 0
        self.notes = [Incomplete("moved_on", "the index changed since the first page")]
        return self._search(probe, top_k, None)

    def _search(self, probe: Probe, top_k: int, as_of: int | None) -> Answer:
        given = self._given
        return self._library.search(
            probe.query,
            mode=given.mode,  # type: ignore[arg-type]
            top_k=min(top_k, _DEEPEST),
            filters=_filters(given, probe),
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
        )


def _filters(given: SearchInput, probe: Probe = NO_PROBE) -> Filters:
    """Return the filters of a call, or of one of its probes, which may have its own."""
    excluded = [f"!{glob.removeprefix('!')}" for glob in given.exclude.split(BETWEEN) if glob]
    globs = [glob for glob in (probe.glob or given.glob).split(BETWEEN) if glob]
    return Filters(
        prefix=given.prefix,
        uris=tuple(given.uris),
        glob=BETWEEN.join([*globs, *excluded]),
        heading=given.heading,
        tags=tuple(given.tags),
        lanes=tuple(probe.kinds or given.kinds),
        languages=(given.language,) if given.language else (),
        where=tuple(given.where),
        after=moment(given.after, "after"),
        before=moment(given.before, "before"),
        authors=(given.author,) if given.author else (),
        touches=given.touches,
        branch=given.branch,
    )


def _show_probes(session: Session, given: SearchInput, call: Call, cursor: Cursor) -> Result:
    """Answer each probe in its own way, all within one budget."""
    probes = given.probes
    skip = cursor.offsets if given.cursor else (0,) * len(probes)
    searches = _Searches(session, given, call, cursor)
    searches.units = min(max(skip) + max(UNITS, given.budget // 20) + 1, _DEEPEST)
    asked = [
        _ask_or_refuse(session, given, searches, probe, start)
        for probe, start in zip(probes, skip, strict=True)
    ]
    quoted = [
        _find_quoted(session, given, searches, probe)
        if isinstance(answer, Answer) and not start
        else None
        for probe, answer, start in zip(probes, asked, skip, strict=True)
    ]
    if isinstance(asked[0], Answer):
        incomplete = (*asked[0].incomplete, *searches.notes)
        asked[0] = replace(asked[0], incomplete=incomplete)
    budget = given.budget or sum(_usual_budget(answer, len(asked)) for answer in asked)
    several = len(session.library.collections) > 1

    def describe(item: Hit | Unit) -> str:
        return _describe(session, item, several)

    def show(budget: int) -> Result:
        parts: list[Part] = []
        seen: set[tuple[str, str, int]] = set()
        left = budget
        for number, (probe, answer, start) in enumerate(zip(probes, asked, skip, strict=True)):
            share = left // (len(asked) - number)
            if isinstance(answer, Answer):
                lines = quoted[number]
                above = draw_lines(lines, share // 4) if lines else None
                share -= tokens(above.text) if above else 0
                part = _draw_answer(given, probe, answer, start, share, seen, describe)
                if lines and above:
                    part = _put_above(above, lines.pattern, part)
            elif isinstance(answer, Matches):
                part = draw_lines(answer, share)
            elif isinstance(answer, Refused):
                part = draw_refusal(answer)
            else:
                part = draw_reading(answer, share)
            left -= tokens(part.text)
            parts.append(part)
        following = ""
        if any(part.more for part in parts):
            reached = tuple(start + part.reached for start, part in zip(skip, parts, strict=True))
            states = next((a.generations for a in asked if isinstance(a, Answer | Matches)), {})
            following = next_page(session, given, _about(session, given), reached, states)
        return _combine(given, parts, following)

    result = bounded(show, budget, LEAST_TOKENS)
    first = next((a for a in asked if isinstance(a, Answer) and a.hits), None)
    if first is not None:
        counts = result.data["tokens"], result.data["document_tokens"]
        session.library.record_answer(first.hits[0].collection, *counts)
    return result


def _ask_or_refuse(
    session: Session, given: SearchInput, searches: _Searches, probe: Probe, start: int
) -> Asked:
    """Ask a probe. If it is one of several and invalid, the others are answered all the same."""
    try:
        return _ask(session, given, searches, probe, start)
    except InvalidArgument as error:
        if len(given.probes) == 1:
            raise
        return Refused(error)


def _ask(
    session: Session, given: SearchInput, searches: _Searches, probe: Probe, start: int
) -> Answer | Matches | Reading:
    """Return the answer to a probe; a text in quotes that no line has is asked as words."""
    way, text = probe.read_way()
    if given.mode in ("literal", "regex"):
        way, text = given.mode, probe.query
    elif given.mode != "hybrid" or given.hypothesis:
        way = "words"
    if way == "address" and (reading := read_address(session, text)) is not None:
        return reading
    if way in ("literal", "regex"):
        filters = _filters(given, probe)
        matches = find_lines(
            session, given, probe, text, filters,
            regex=way == "regex", offset=start, as_of=searches.as_of,
        )  # fmt: skip
        if matches.matches or given.mode == way or way == "regex":
            return matches
    limit = probe.limit or given.top_k
    placed = limit + 1 if limit else count_places(given.budget or MAP_TOKENS)
    answer = searches.ask(probe, start + placed)
    has_commits = any("@" in name for name in answer.generations)
    if has_commits or probe.kinds or given.kinds or not asks_for_history(text):
        return answer
    return replace(answer, incomplete=(*answer.incomplete, _NO_COMMITS))


def _find_quoted(
    session: Session, given: SearchInput, searches: _Searches, probe: Probe
) -> Matches | None:
    """Return the lines with the flag or message that a question quotes, unless they are many."""
    text = find_verbatim(probe.query)
    if not text or given.mode != "hybrid" or given.detail != "map":
        return None
    few = Probe(query=text, limit=_QUOTED_FILES)
    filters = _filters(given, probe)
    for literal in dict.fromkeys((text, text.lstrip("-"))):
        matches = find_lines(
            session, given, few, literal, filters,
            regex=False, offset=0, as_of=searches.as_of,
        )  # fmt: skip
        if matches.matches:
            return matches if matches.matches <= _MOST_QUOTED else None
    return None


def _put_above(lines: Part, quoted: str, part: Part) -> Part:
    """Put the lines with a text that a question quotes above the rest of its answer."""
    return part._replace(
        text=f"Lines with {safe_name(quoted)}: {lines.found}\n{lines.text}\n\n{part.text}",
        shape={**part.shape, "files": lines.shape["files"]},
        excerpts={**part.excerpts, **lines.excerpts},
    )


def _usual_budget(answer: Asked, count: int) -> int:
    if isinstance(answer, Reading):
        return READ_TOKENS if count > 1 else 4 * READ_TOKENS
    if count > 1:
        return _TOKENS_EACH
    return MAP_TOKENS if isinstance(answer, Answer) else LINE_TOKENS


def _draw_answer(
    given: SearchInput,
    probe: Probe,
    answer: Answer,
    start: int,
    budget: int,
    seen: set[tuple[str, str, int]],
    describe: Describe,
) -> Part:
    """Draw the map of the answer to one question."""
    hits, units = answer.hits[start:], answer.units[start:]
    if given.detail == "paths":
        drawn = draw_paths(units[: probe.limit or given.top_k or None], budget, describe)
    else:
        limit = probe.limit or given.top_k
        drawn = draw_question(hits, units, budget, limit, seen, describe)
    shape = json_shapes.answer(
        replace(answer, hits=tuple(shown.hit for shown in drawn.shown), units=())
    )
    for shown, part in zip(drawn.shown, shape["hits"], strict=True):
        _complete(shown.hit, part)
    shape["units"] = [_name_unit(unit) for unit in drawn.named]
    return Part(
        drawn.text or "Nothing found.",
        shape,
        {("hits", at, "text"): shown.excerpt for at, shown in enumerate(drawn.shown)},
        drawn.reached,
        start + drawn.reached < max(len(answer.units), len(answer.hits)),
        answer.incomplete,
        sizes={(s.hit.collection, s.hit.uri): s.hit.document_chars for s in drawn.shown},
    )


def _combine(given: SearchInput, parts: Sequence[Part], following: str) -> Result:
    """Put the answers of all probes together, each below its probe with its own notes."""
    single = not given.queries
    excerpts = {
        (*(() if single else ("answers", number)), *path): text
        for number, part in enumerate(parts)
        for path, text in part.excerpts.items()
    }
    data: Json = parts[0].shape if single else {"answers": [part.shape for part in parts]}
    data["cursor"] = following
    counts = Counter(note for part in parts for note in dict.fromkeys(part.notes))
    # What several probes have in common is said once, but not how each was understood.
    common = [
        note
        for note, count in counts.items()
        if single or (count > 1 and note.reason not in REMARKS)
    ]
    bodies = []
    for number, (probe, part) in enumerate(zip(given.probes, parts, strict=True), start=1):
        own = [note for note in part.notes if note not in common]
        label = [] if single else [f"[{number}] {_shorten(probe.query)}"]
        head = ": ".join([*label, *([part.found] if part.found else [])])
        bodies.append("\n".join(filter(None, (head, *missing_lines(own), part.text))))
    body = "\n\n".join(bodies)
    sizes = {document: size for part in parts for document, size in part.sizes.items()}
    data["tokens"], data["document_tokens"] = tokens(body), sum(sizes.values()) // 4
    lines = missing_lines(common)
    if sizes:
        count = how_many(len(sizes), "document")
        lines.append(f"{count}, {data['tokens']:,} tokens; whole: {data['document_tokens']:,}")
    if following:
        lines.append(f"More: cursor {following}")
    return Result(data, "\n".join(lines), body=body, excerpts=excerpts)


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return safe_name(text if len(text) <= _LONGEST_HEAD else f"{text[:_LONGEST_HEAD]}…")


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


def _name_unit(unit: Unit) -> Json:
    """Return what a program needs to read something that is only named."""
    return {
        "collection": unit.collection, "uri": unit.uri, "name": unit.name, "kind": unit.kind,
        "line": unit.line or unit.span.start_line,
    }  # fmt: skip


def _complete(hit: Hit, shape: Json) -> None:
    """Add what a program needs to cite a hit."""
    shape["cite"] = format_citation(hit.collection, hit.uri, hit.span, hit.sha256)
    shape["flags"] = flags(hit.text)
    shape["also"] = [
        format_citation(alike.collection, alike.uri, alike.span, alike.sha256) for alike in hit.also
    ]


def _show_passages(session: Session, given: SearchInput, call: Call, cursor: Cursor) -> Result:
    probes = given.probes
    skip = cursor.offsets if given.cursor else (0,) * len(probes)
    top_k = given.top_k or _PASSAGES
    searches = _Searches(session, given, call, cursor)
    answers = [
        searches.ask(probe, start + top_k + 1) for probe, start in zip(probes, skip, strict=True)
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

    return bounded(show, given.budget or _PASSAGE_TOKENS * min(len(probes), 3), LEAST_TOKENS)


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
    "Find code, docs, commits, notes: the definitions and sections that answer, with their"
    " lines. Send all probes at once in queries, grep and reads too.",
    SearchInput,
    _search,
    advice="Search this project's code, documents, notes and commits with `{name}` before grep when"
    " you do not know the exact words: a symptom, a question, an unfamiliar or large tree,"
    " documents, history. It finds by meaning and words together and shows the lines that answer,"
    " checked against the disk; cite them as path:lines. Put all your questions into one call"
    ' (queries), also patterns and reads: "text", /regex/, path#Name, path:10-40.',
    always_listed=True,
    lean=True,
    by_reader=True,
    title="Search",
    output_schema=SEARCHED,
)
