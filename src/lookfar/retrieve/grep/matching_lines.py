"""Search all collections for lines that match a pattern, and cite them.

A first pass counts all matches, a second one reads the documents on the requested page again and
compares each line with the file on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NamedTuple

from lookfar.common.lines import Lines
from lookfar.errors import InvalidArgument
from lookfar.model import FileMatches, Filters, Incomplete, MatchedLine, Section, Span, State
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
    page = counted[limits.offset : limits.offset + limits.files]
    files, stale = _read_page(page, sources, resolved, matcher, limits)
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


def _read_page(
    page: Sequence[_Counted],
    sources: Sequence[Source],
    resolved: Sequence[Filters],
    matcher: Matcher,
    limits: Limits,
) -> tuple[list[FileMatches], list[str]]:
    """Return the documents of one page with their lines, and the stale ones."""
    files: list[FileMatches] = []
    stale: list[str] = []
    for counted in page:
        source, facts = sources[counted.source], counted.facts
        lines: list[MatchedLine] = []
        if limits.lines:
            lines = _DocumentLines(
                source, facts, resolved[counted.source], matcher, limits
            ).find_lines()
        if any(line.state != "same" for line in lines):
            stale.append(facts.uri)
        files.append(
            FileMatches(
                collection=source.collection,
                uri=facts.uri,
                title=facts.title,
                lane=facts.lane,
                language=facts.language,
                count=counted.lines,
                lines=tuple(lines),
            )
        )
    return files, stale


class _DocumentLines:
    """The matching lines of one document."""

    def __init__(
        self, source: Source, facts: Facts, filters: Filters, matcher: Matcher, limits: Limits
    ) -> None:
        self._source, self._facts, self._filters = source, facts, filters
        self._matcher, self._limits = matcher, limits
        ((_, self._raw),) = source.snapshot.texts([facts.document])
        self._text = self._raw.decode()
        self._ascii = self._raw.isascii()
        self._lines = Lines(self._text)
        self._places = stored_places(source.snapshot, facts.uri)

    def find_lines(self) -> list[MatchedLine]:
        snapshot = self._source.snapshot
        parts = snapshot.admitted_parts(self._facts.document, self._filters)
        wanted: list[tuple[LineSpan, int]] = []
        for line in _keep_within(self._matcher.lines(self._raw), self._raw, parts):
            if len(wanted) == self._limits.lines:
                break
            wanted.append((line, self._lines.line_of(self._to_characters(line.start))))
        disk = self._source.read(self._facts.uri)
        sections = snapshot.sections(self._facts.uri)
        numbers = [number for _, number in wanted]
        return [
            self._make_line(line, number, sections, disk, self._context(numbers, at))
            for at, (line, number) in enumerate(wanted)
        ]

    def _to_characters(self, byte: int) -> int:
        return byte if self._ascii else len(self._raw[:byte].decode())

    def _context(self, numbers: Sequence[int], at: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the lines before and after a match; none is shown twice."""
        number, limits = numbers[at], self._limits
        after_last = numbers[at - 1] + limits.after if at else 0
        first = max(number - limits.before, after_last + 1, 1)
        follower = numbers[at + 1] if at + 1 < len(numbers) else len(self._lines) + 1
        last = min(number + limits.after, follower - 1, len(self._lines))
        return (
            tuple(self._context_line(other) for other in range(first, number)),
            tuple(self._context_line(other) for other in range(number + 1, last + 1)),
        )

    def _line_span(self, number: int) -> tuple[int, int]:
        """Return the offsets of a line, with its line break."""
        start = self._lines.start_of(number)
        end = len(self._text)
        return start, self._lines.start_of(number + 1) if number < len(self._lines) else end

    def _context_line(self, number: int) -> str:
        start, end = self._line_span(number)
        return self._text[start:end].rstrip("\n")[: self._limits.line_chars]

    def _make_line(
        self,
        line: LineSpan,
        number: int,
        sections: Sequence[Section],
        disk: str | None,
        context: tuple[tuple[str, ...], tuple[str, ...]],
    ) -> MatchedLine:
        start, end = self._line_span(number)
        whole = self._text[start:end]
        spans, more = self._find_spans(self._raw[line.start : line.end])
        column, text = _cut_line(whole.rstrip("\n"), spans, self._limits.line_chars)
        span, state = _compare(whole, Span(start, end, number, number), self._text, disk)
        return MatchedLine(
            number=span.start_line,
            text=text,
            column=column,
            spans=spans,
            heading_path=find_path(sections, start),
            span=span,
            sha256=sha256(whole.encode()).hexdigest(),
            state=state,
            before=context[0],
            after=context[1],
            place=next(iter(list_places(self._places, start, end)), ""),
            truncated=more or len(text) < len(whole.rstrip("\n")),
        )

    def _find_spans(self, line: bytes) -> tuple[tuple[tuple[int, int], ...], bool]:
        """Return the matches of a line in characters, and whether there are more."""
        spans: list[tuple[int, int]] = []
        for start, end in self._matcher.spans(line):
            if len(spans) == _MOST_SPANS:
                return tuple(spans), True
            if not self._ascii:
                first = len(line[:start].decode())
                start, end = first, first + len(line[start:end].decode())
            spans.append((start, end))
        return tuple(spans), False


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
