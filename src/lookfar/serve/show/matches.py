"""Matching lines for people: grouped by document, as the tools that search by line show them.

Takes: the matches of :meth:`lookfar.Library.grep`. Gives: lines with numbers, matches marked, or
paths or counts alone. Refuses: to show a stale line without saying so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lookfar.errors import how_many
from lookfar.serve.show.printable import safe_text
from lookfar.serve.show.render import STATES, notes, printed, styled

if TYPE_CHECKING:
    from rich.text import Text

    from lookfar.model import FileMatches, MatchedLine, Matches

_TAB = 4


def matches(found: Matches) -> str:
    """Every shown line below its document, and what may be missing."""
    several = len(found.generations) > 1
    lines: list[Text] = []
    for file in found.files:
        lines += _file(file, several)
        lines.append(styled())
    return printed([*lines, *_footer(found)])


def paths(found: Matches) -> str:
    """The documents alone."""
    several = len(found.generations) > 1
    return printed(styled((_name(each, several), "cyan")) for each in found.files)


def counts(found: Matches) -> str:
    """The documents with how many of their lines match."""
    several = len(found.generations) > 1
    return printed(
        styled((_name(each, several), "cyan"), (f":{each.count}", "")) for each in found.files
    )


def _name(file: FileMatches, several: bool) -> str:
    return f"{file.collection}: {file.uri}" if several else file.uri


def _file(file: FileMatches, several: bool) -> Iterator[Text]:
    yield styled((_name(file, several), "bold cyan"))
    path: tuple[str, ...] | None = None
    last = 0
    for line in file.lines:
        first = line.number - len(line.before)
        if last and first > last + 1 and (line.before or line.after):
            yield styled(("   --", "dim"))
        if line.heading_path != path:
            path = line.heading_path
            if path:
                yield styled(("   " + " > ".join(path), "green"))
        yield from _around(first, line.before)
        yield _matched(line)
        yield from _around(line.number + 1, line.after)
        last = line.number + len(line.after)
    if file.count > len(file.lines):
        yield styled((f"   and {how_many(file.count - len(file.lines), 'line')} more", "dim"))


def _around(first: int, lines: tuple[str, ...]) -> Iterator[Text]:
    for number, text in enumerate(lines, start=first):
        yield styled((f"   {number:>5}  ", "dim"), (safe_text(text).expandtabs(_TAB), "dim"))


def _matched(line: MatchedLine) -> Text:
    """One line with its matches marked: in parts, because a tab or a control character is shown
    as something of another length."""
    shown = styled((f"   {line.number:>5}  ", "bold" if line.state == "same" else "bold red"))
    at, end = line.column, line.column + len(line.text)
    if line.column:
        shown.append("...", "dim")
    for start, stop in line.spans:
        start, stop = max(start, at), min(stop, end)
        if start < stop:
            shown.append(_safe(line, at, start))
            shown.append(_safe(line, start, stop), "bold yellow")
            at = stop
    shown.append(_safe(line, at, end))
    if line.truncated:
        shown.append("...", "dim")
    if line.state != "same":
        shown.append(f"  {STATES[line.state]}", "bold red")
    return shown


def _safe(line: MatchedLine, start: int, end: int) -> str:
    part = line.text[start - line.column : end - line.column]
    return safe_text(part).replace("\t", " " * _TAB)


def _footer(found: Matches) -> Iterator[Text]:
    if not found.matched_files:
        yield styled(("No line matches.", "bold"))
        yield styled()
    generations = found.generations
    state = ", ".join(f"{name} {number}" for name, number in generations.items())
    state = state if len(generations) > 1 else ", ".join(map(str, generations.values()))
    where = how_many(found.matched_files, "document")
    shown = len(found.files)
    part = f" ({shown:,} shown)" if shown < found.matched_files else ""
    told = f"{how_many(found.matches, 'line')} in {where}{part} in {found.took_ms:.0f} ms"
    yield styled((f"{told}, {found.mode}, generation {state}", "dim"))
    yield from notes(found.incomplete)
