"""Search all collections for lines that match a pattern, and cite them.

A first pass counts all matches, a second one reads the documents on the requested page again and
compares each line with the file on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Final, NamedTuple

from lookfar.common.lines import Lines
from lookfar.errors import InvalidArgument
from lookfar.model import FileMatches, Filters, Incomplete, MatchedLine, Span, State
from lookfar.ports import Facts
from lookfar.retrieve.grep.matcher import LineSpan, Matcher
from lookfar.retrieve.locate.places import list_places, stored_places
from lookfar.retrieve.locate.sections import find_moved, find_path, note_stale
from lookfar.retrieve.question.admission import resolve_globs
from lookfar.retrieve.ranking import Source

MOST_FILES: Final = 100_000
MOST_LINES: Final = 100_000
MOST_CONTEXT: Final = 100
_BATCH: Final = 256
_MOST_SPANS: Final = 100
"""Matches reported per line."""
_LEAD: Final = 100
"""Characters shown before the first match of a long line."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many matches to show."""

    offset: int = 0
    files: int = 50
    lines: int = 20
    """Per file; 0 shows only the count."""
    before: int = 0
    after: int = 0
    line_chars: int = 500


def make_limits(offset: int, limit: int, lines: int, context: int | tuple[int, int]) -> Limits:
    """Check the limits that a caller asked for."""
    before, after = (context, context) if isinstance(context, int) else context
    for name, value, least, most in (
        ("offset", offset, 0, 10**9),
        ("limit", limit, 1, MOST_FILES),
        ("max_matches_per_file", lines, 0, MOST_LINES),
        ("context", before, 0, MOST_CONTEXT),
        ("context", after, 0, MOST_CONTEXT),
    ):
        if type(value) is not int or not least <= value <= most:
            raise InvalidArgument(
                f"{name} is {value!r}.", hint=f"Use a whole number from {least} to {most:,}."
            )
    return Limits(offset, limit, lines, before, after)


class GrepResult(NamedTuple):
    files: list[FileMatches]
    matches: int
    matched_files: int
    notes: list[Incomplete]


class _Counted(NamedTuple):
    source: int
    facts: Facts
    lines: int


Pause = Callable[[], None]
"""Called between batches of documents; may raise to stop."""


def grep(sources: Sequence[Source], matcher: Matcher, limits: Limits, pause: Pause) -> GrepResult:
    """Count all matching lines, and return those of the requested page."""
    resolved = [resolve_globs(source.plan.filters, source.snapshot) for source in sources]
    counted: list[_Counted] = []
    for number, (source, filters) in enumerate(zip(sources, resolved, strict=True)):
        counts = _count(source, filters, matcher, pause)
        named = source.snapshot.facts(sorted(counts)) if counts else []
        here = [_Counted(number, facts, counts[facts.document]) for facts in named]
        counted += sorted(here, key=lambda file: file.facts.uri)
    files: list[FileMatches] = []
    for number, facts, count in counted[limits.offset : limits.offset + limits.files]:
        lines: list[MatchedLine] = []
        if limits.lines:
            lines = _find_lines(sources[number], facts, resolved[number], matcher, limits)
        files.append(
            FileMatches(
                collection=sources[number].collection,
                uri=facts.uri,
                title=facts.title,
                lane=facts.lane,
                language=facts.language,
                count=count,
                lines=tuple(lines),
            )
        )
    stale = [file.uri for file in files if any(line.state != "same" for line in file.lines)]
    matches = sum(file.lines for file in counted)
    return GrepResult(files, matches, len(counted), note_stale(stale))


def _count(source: Source, filters: Filters, matcher: Matcher, pause: Pause) -> dict[int, int]:
    """Return the number of matching lines by document, without those that have none."""
    snapshot, counts = source.snapshot, {}
    documents = snapshot.documents_with(matcher.need, filters)
    partly = bool(filters.heading or filters.languages or filters.phrases or filters.without)
    for first in range(0, len(documents), _BATCH):
        pause()
        for document, text in snapshot.texts(documents[first : first + _BATCH]):
            if partly:
                parts = snapshot.admitted_parts(document, filters)
                count = sum(1 for _ in _keep_within(matcher.lines(text), text, parts))
            else:
                count = matcher.count(text)
            if count:
                counts[document] = count
    return counts


def _keep_within(
    lines: Iterator[LineSpan], text: bytes, parts: Sequence[tuple[int, int]] | None
) -> Iterator[LineSpan]:
    """Yield the lines that overlap with one of the parts, which are character offsets."""
    if parts is None:
        yield from lines
        return
    characters, before = 0, 0
    for line in lines:
        characters += len(text[before : line.start].decode())
        before = line.start
        end = characters + len(text[line.start : line.end].decode())
        if any(start <= end and characters < stop for start, stop in parts):
            yield line


def _find_lines(
    source: Source, facts: Facts, filters: Filters, matcher: Matcher, limits: Limits
) -> list[MatchedLine]:
    """Return the first matching lines of one document, compared with the file on disk."""
    snapshot = source.snapshot
    ((_, raw),) = snapshot.texts([facts.document])
    text, is_ascii = raw.decode(), raw.isascii()
    lines = Lines(text)
    places, sections = stored_places(snapshot, facts.uri), snapshot.sections(facts.uri)
    parts = snapshot.admitted_parts(facts.document, filters)
    wanted = list(islice(_keep_within(matcher.lines(raw), raw, parts), limits.lines))
    before = (line.start if is_ascii else len(raw[: line.start].decode()) for line in wanted)
    numbers = [lines.line_of(start) for start in before]
    disk = source.read(facts.uri)

    def read_line(number: int) -> tuple[int, str]:
        """Return the offset of a line, and its text with the line break."""
        start = lines.start_of(number)
        end = lines.start_of(number + 1) if number < len(lines) else len(text)
        return start, text[start:end]

    def read_context(first: int, last: int) -> tuple[str, ...]:
        numbers = range(first, last + 1)
        return tuple(read_line(n)[1].rstrip("\n")[: limits.line_chars] for n in numbers)

    found: list[MatchedLine] = []
    for at, (line, number) in enumerate(zip(wanted, numbers, strict=True)):
        # No line of context is shown twice.
        after_last = numbers[at - 1] + limits.after if at else 0
        follower = numbers[at + 1] if at + 1 < len(numbers) else len(lines) + 1
        start, whole = read_line(number)
        matched = raw[line.start : line.end]
        spans = list(islice(matcher.spans(matched), _MOST_SPANS + 1))
        if not is_ascii:  # They are counted in bytes.
            spans = [(len(matched[:a].decode()), len(matched[:b].decode())) for a, b in spans]
        shown = tuple(spans[:_MOST_SPANS])
        column, cut = _cut_line(whole.rstrip("\n"), shown, limits.line_chars)
        end = start + len(whole)
        span, state = _compare(whole, Span(start, end, number, number), text, disk)
        found.append(
            MatchedLine(
                number=span.start_line,
                text=cut,
                column=column,
                spans=shown,
                heading_path=find_path(sections, start),
                span=span,
                sha256=sha256(whole.encode()).hexdigest(),
                state=state,
                before=read_context(max(number - limits.before, after_last + 1, 1), number - 1),
                after=read_context(
                    number + 1, min(number + limits.after, follower - 1, len(lines))
                ),
                place=next(iter(list_places(places, start, end)), ""),
                truncated=len(spans) > _MOST_SPANS or len(cut) < len(whole.rstrip("\n")),
            )
        )
    return found


def _cut_line(line: str, spans: Sequence[tuple[int, int]], most: int) -> tuple[int, str]:
    """Return a line, cut around its first match if it is long, and the offset of the cut."""
    if len(line) <= most:
        return 0, line
    first = spans[0][0] if spans else 0
    start = max(0, min(first - min(_LEAD, most // 4), len(line) - most))
    return start, line[start : start + most]


def _compare(line: str, span: Span, stored: str, disk: str | None) -> tuple[Span, State]:
    """Return the current position of a line on disk, and its state."""
    if disk is None:
        return span, "gone"
    if disk == stored or disk[span.start : span.end] == line:
        return span, "same"
    moved = find_moved(line, span.start, disk, stored)
    if moved < 0 or (moved and disk[moved - 1] != "\n"):
        return span, "changed"
    number = disk.count("\n", 0, moved) + 1
    return Span(moved, moved + len(line), number, number), "moved"
