"""Matching lines of a literal text or regular expression, like grep, for the tool ``search``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from lookfar.errors import how_many
from lookfar.model import ROOT_HEADING, FileMatches, Matches
from lookfar.retrieve.answer.pack import tokens
from lookfar.serve.show import json_shapes
from lookfar.serve.show.printable import safe_name
from lookfar.serve.tools.probes import Part
from lookfar.serve.tools.tool import Session

if TYPE_CHECKING:
    from lookfar.model import Filters
    from lookfar.serve.tools.probes import Probe
    from lookfar.serve.tools.search import SearchInput

LINE_TOKENS = 1_000
"""Default budget for one pattern."""
_FILES = 50
_LINES = 20
"""The most lines of one document."""
_LONGEST_LINE = 200
_LONGEST_NAME = 70
_FEW = 3
"""How many lines each document shows before the first documents show more."""


def find_lines(
    session: Session,
    given: SearchInput,
    probe: Probe,
    pattern: str,
    filters: Filters,
    *,
    regex: bool,
    offset: int,
    as_of: int | None,
) -> Matches:
    """Return the lines that match one pattern."""
    return session.library.grep(
        pattern,
        regex=regex,
        case="smart",
        filters=filters,
        context=given.context,
        max_matches_per_file=0 if given.detail == "paths" else _LINES,
        limit=probe.limit or given.top_k or _FILES,
        offset=offset,
        as_of=as_of,
        memories=True,
        sources=True,
    )


def draw_lines(matches: Matches, budget: int) -> Part:
    """Show matching lines below the names of their documents, and of definitions or sections."""
    chosen = _lay_out(matches, budget)
    files = [replace(file, lines=file.lines[:count]) for file, count in chosen]
    shape = json_shapes.matches(replace(matches, files=tuple(files)))
    excerpts: dict[tuple[str | int, ...], object] = {
        ("files", at, "lines", line_at, name): line[name]
        for at, file in enumerate(shape["files"])
        for line_at, line in enumerate(file["lines"])
        for name in ("text", "before", "after")
    }
    count = how_many(matches.matches, "line") + " in " + how_many(matches.matched_files, "file")
    return Part(
        "\n".join(line for file, count in chosen for line in _render(file, count)),
        shape,
        excerpts,
        len(chosen),
        matches.offset + len(chosen) < matches.matched_files,
        matches.incomplete,
        found=count if matches.matches else "No line matches",
    )


def _lay_out(matches: Matches, budget: int) -> list[tuple[FileMatches, int]]:
    """Choose documents and how many lines of each: a few of all, then more of the first."""
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
    """Format a line, below the name of its definition or section if the line before has another."""
    line = file.lines[at]
    around = _name_around(file, at)
    if around and (at == 0 or around != _name_around(file, at - 1)):
        yield f" {around}"
    first = line.number - len(line.before)
    for number, text in enumerate(line.before, start=first):
        yield f"  {number}| {_cut(text)}"
    state = "" if line.state == "same" else f" ({line.state} on disk)"
    place = f" (#{safe_name(line.place)})" if line.place else ""
    yield f"  {line.number}: {_cut(line.text)}{place}{state}"
    for number, text in enumerate(line.after, start=line.number + 1):
        yield f"  {number}| {_cut(text)}"


def _name_around(file: FileMatches, at: int) -> str:
    """Return the name of the definition around a line, or the headings above it.

    If the line contains this name, return only the names further out.
    """
    line = file.lines[at]
    names = [name for name in line.heading_path if name not in (file.title, ROOT_HEADING)]
    if names and names[-1] in line.text:
        names.pop()
    joint = "." if file.lane == "code" else " > "
    return safe_name(joint.join(names[-2:])[:_LONGEST_NAME])


def _cut(text: str) -> str:
    text = safe_name(text.rstrip().expandtabs(4))
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}…"
