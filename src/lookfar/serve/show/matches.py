"""Format matching lines for people, grouped by document like other line search tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lookfar.errors import how_many
from lookfar.model import FileMatches, MatchedLine, Matches
from lookfar.serve.show.locations import are_several, name_with_collection
from lookfar.serve.show.printable import safe_name, safe_text
from lookfar.serve.show.render import STATES, notes, printed, styled

if TYPE_CHECKING:
    from rich.text import Text

_TAB = 4


def format_matches(matches: Matches) -> str:
    """Return the matching lines below their documents, and notes on what may be missing."""
    several = are_several(matches.generations)
    lines: list[Text] = []
    for file in matches.files:
        lines += _file(file, several)
        lines.append(styled())
    return printed([*lines, *_footer(matches)])


def format_paths(matches: Matches) -> str:
    """Return only the names of the documents."""
    several = are_several(matches.generations)
    return printed(styled((name_with_collection(file, several), "cyan")) for file in matches.files)


def format_counts(matches: Matches) -> str:
    """Return the documents with the number of their matching lines."""
    several = are_several(matches.generations)
    return printed(
        styled((name_with_collection(file, several), "cyan"), (f":{file.count}", ""))
        for file in matches.files
    )


def _file(file: FileMatches, several: bool) -> Iterator[Text]:
    yield styled((name_with_collection(file, several), "bold cyan"))
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
    """Format a line from parts, because tabs and control characters change their length."""
    text = styled((f"   {line.number:>5}  ", "bold" if line.state == "same" else "bold red"))
    at, end = line.column, line.column + len(line.text)
    if line.column:
        text.append("...", "dim")
    for start, stop in line.spans:
        start, stop = max(start, at), min(stop, end)
        if start < stop:
            text.append(_safe(line, at, start))
            text.append(_safe(line, start, stop), "bold yellow")
            at = stop
    text.append(_safe(line, at, end))
    if line.truncated:
        text.append("...", "dim")
    if line.place:
        text.append(f"  #{safe_name(line.place)}", "dim")
    if line.state != "same":
        text.append(f"  {STATES[line.state]}", "bold red")
    return text


def _safe(line: MatchedLine, start: int, end: int) -> str:
    part = line.text[start - line.column : end - line.column]
    return safe_text(part).replace("\t", " " * _TAB)


def _footer(matches: Matches) -> Iterator[Text]:
    if not matches.matched_files:
        yield styled(("No line matches.", "bold"))
        yield styled()
    generations = matches.generations
    state = ", ".join(f"{name} {number}" for name, number in generations.items())
    state = state if len(generations) > 1 else ", ".join(map(str, generations.values()))
    where = how_many(matches.matched_files, "document")
    shown_files = len(matches.files)
    part = f" ({shown_files:,} shown)" if shown_files < matches.matched_files else ""
    summary = f"{how_many(matches.matches, 'line')} in {where}{part} in {matches.took_ms:.0f} ms"
    yield styled((f"{summary}, {matches.mode}, generation {state}", "dim"))
    yield from notes(matches.incomplete)
