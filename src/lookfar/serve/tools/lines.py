"""The tool ``search`` with a literal text or regular expression: matching lines, like grep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lookfar.errors import how_many
from lookfar.model import FileMatches, Matches
from lookfar.retrieve.answer.pack import tokens
from lookfar.serve.show import json_shapes
from lookfar.serve.show.printable import safe_name
from lookfar.serve.tools.cursor import missing_lines, next_page
from lookfar.serve.tools.inputs import LEAST_TOKENS
from lookfar.serve.tools.tool import Call, Json, Result, Session, bounded

if TYPE_CHECKING:
    from lookfar.model import Filters
    from lookfar.serve.tools.cursor import Cursor
    from lookfar.serve.tools.search import SearchInput

LINE_TOKENS = 1_000
"""Default budget for one pattern."""
_LINE_TOKENS_EACH = 500
_FILES = 50
_LINES = 20
"""At most, of one document."""
_LONGEST_LINE = 200
_FEW = 3
"""Every document shows this many lines before the first ones show more."""


def show_lines(
    session: Session,
    given: SearchInput,
    filters: Filters,
    call: Call,
    cursor: Cursor,
    about: Json,
) -> Result:
    """Show the lines that match each pattern of a call."""
    skip = cursor.offsets if given.cursor else (0,) * len(given.questions)
    results = [
        session.library.grep(
            pattern,
            regex=given.mode == "regex",
            case="smart",
            filters=filters,
            context=given.context,
            max_matches_per_file=0 if given.detail == "paths" else _LINES,
            limit=given.top_k or _FILES,
            offset=start,
            as_of=given.as_of or cursor.generation or None,
            memories=True,
            sources=True,
            on_progress=call.on_progress(),
        )
        for pattern, start in zip(given.questions, skip, strict=True)
    ]

    def show(budget: int) -> Result:
        parts = [_lay_out(matches, budget // len(results)) for matches in results]
        reached = tuple(start + len(part) for start, part in zip(skip, parts, strict=True))
        more = any(
            end < matches.matched_files for end, matches in zip(reached, results, strict=True)
        )
        following = ""
        if more:
            following = next_page(session, given, about, reached, results[0].generations)
        return _result(results, parts, following, given)

    budget = given.budget
    if not budget:
        budget = LINE_TOKENS if len(results) == 1 else _LINE_TOKENS_EACH * len(results)
    return bounded(show, budget, LEAST_TOKENS)


def _lay_out(matches: Matches, budget: int) -> list[tuple[FileMatches, int]]:
    """Choose documents and the number of lines of each: a few of all, then more of the first."""
    chosen: list[tuple[FileMatches, int]] = []
    spent = 0
    for file in matches.files:
        lines = min(len(file.lines), _FEW)
        cost = tokens("\n".join(_render(file, lines)))
        if chosen and spent + cost > budget:
            break
        chosen.append((file, lines))
        spent += cost
    for at, (file, lines) in enumerate(chosen):
        while lines < len(file.lines):
            cost = tokens("\n".join(_render_line(file, lines)))
            if spent + cost > budget:
                return chosen
            lines, spent = lines + 1, spent + cost
            chosen[at] = (file, lines)
    return chosen


def _render(file: FileMatches, lines: int) -> Iterator[str]:
    name = file.uri if file.lane in ("docs", "code") else f"{file.collection}: {file.uri}"
    yield safe_name(name) + (f" ({file.count})" if lines < file.count else "")
    for at in range(lines):
        yield from _render_line(file, at)


def _render_line(file: FileMatches, at: int) -> Iterator[str]:
    line = file.lines[at]
    first = line.number - len(line.before)
    for number, text in enumerate(line.before, start=first):
        yield f"  {number}| {_cut(text)}"
    state = "" if line.state == "same" else f" ({line.state} on disk)"
    place = f" (#{safe_name(line.place)})" if line.place else ""
    yield f"  {line.number}: {_cut(line.text)}{place}{state}"
    for number, text in enumerate(line.after, start=line.number + 1):
        yield f"  {number}| {_cut(text)}"


def _cut(text: str) -> str:
    text = safe_name(text.rstrip().expandtabs(4))
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}…"


def _result(
    results: Sequence[Matches],
    parts: Sequence[Sequence[tuple[FileMatches, int]]],
    following: str,
    given: SearchInput,
) -> Result:
    single = not given.queries
    shapes: list[Json] = []
    excerpts: dict[tuple[str | int, ...], Any] = {}
    for number, (matches, part) in enumerate(zip(results, parts, strict=True)):
        files = [replace(file, lines=file.lines[:count]) for file, count in part]
        shape = json_shapes.matches(replace(matches, files=tuple(files)))
        where: tuple[str | int, ...] = () if single else ("answers", number)
        for at, file in enumerate(shape["files"]):
            for line_at, line in enumerate(file["lines"]):
                for name in ("text", "before", "after"):
                    excerpts[(*where, "files", at, "lines", line_at, name)] = line[name]
        shapes.append(shape)
    data: Json = shapes[0] if single else {"answers": shapes}
    data["cursor"] = following
    bodies: list[str] = []
    for number, (matches, part) in enumerate(zip(results, parts, strict=True), start=1):
        lines = [line for file, count in part for line in _render(file, count)]
        head = how_many(matches.matches, "line") + " in " + how_many(matches.matched_files, "file")
        head = head if matches.matches else "No line matches"
        label = "" if single else f"[{number}] {safe_name(matches.pattern[:70])}: "
        bodies.append("\n".join([f"{label}{head}", *lines]))
    notes = missing_lines(note for matches in results for note in matches.incomplete)
    if following:
        notes.append(f"More: cursor {following}")
    return Result(data, "\n".join(notes), body="\n\n".join(bodies), excerpts=excerpts)
