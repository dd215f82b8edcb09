"""Find words, a name or an expression in a text that was read, and quote only those parts.

A part is a definition or a section: its path and lines, its signature or heading, and the lines in
it that match, with those around. The parts that fit best come first into the budget, and all that
fit are quoted in the order of the text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import inf, log
from typing import Final, NamedTuple

from lookfar.model import ROOT_HEADING, Outline, Reading, Section
from lookfar.retrieve.answer.pack import tokens
from lookfar.retrieve.grep.matcher import make_matcher
from lookfar.retrieve.locate.symbols import match_names
from lookfar.store.keywords.analyser import terms_of

_AROUND: Final = 2
"""Lines quoted before and after a matching line, if there is room."""
_BRIDGED: Final = 3
"""A gap of at most this many lines is quoted, too: a mark would save almost nothing."""
_SHORT: Final = 300
"""A text with at most this many tokens is quoted whole, even if nothing matches."""
_LONGEST_LINE: Final = 600
_WEAKEST: Final = 0.5
"""A line with less than this share of the best line's weight does not count as a match."""
_MOST_SIGNATURE: Final = 8


@dataclass(frozen=True, slots=True)
class Found:
    """The parts of a text that match."""

    text: str
    """Each part begins with its path and lines; its lines are indented and numbered."""
    matches: int
    """Matching lines in the whole text."""
    left: tuple[int, ...]
    """The numbers of the matching lines that are not quoted."""


class _Match(NamedTuple):
    """A matching line: how well it matches, and the column at which it does."""

    weight: float
    column: int


@dataclass(slots=True)
class _Part:
    """A definition or section, None for lines outside of any, and its matching lines."""

    section: Section | None
    lines: list[int]
    weight: float = 0.0


class _Text:
    """The lines of a text by number, and the sections that they are in."""

    def __init__(self, reading: Reading, outline: Outline | None) -> None:
        self.first = reading.span.start_line
        self.lines = reading.text.removesuffix("\n").split("\n")
        self.sections = outline.sections if outline else ()
        self._by_ordinal = {section.ordinal: section for section in self.sections}
        self._starts = [section.span.start_line for section in self.sections]
        self._signatures = {
            symbol.section: symbol.signature for symbol in (outline.symbols if outline else ())
        }

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + len(self.lines))

    def line(self, number: int) -> str:
        return self.lines[number - self.first]

    def innermost(self, number: int) -> Section | None:
        """Return the innermost definition or section that a line is in."""
        at = bisect_right(self._starts, number) - 1
        section = self.sections[at] if at >= 0 else None
        while section is not None and section.span.end_line < number:
            section = self._by_ordinal.get(section.parent)
        return section

    def signature(self, section: Section) -> list[int]:
        """Return the lines of a heading, or of the signature of a definition."""
        last = min(section.span.end_line, section.span.start_line + 100)
        numbers = [n for n in range(section.span.start_line, last + 1) if n in self.numbers]
        signature = self._signatures.get(section.ordinal, "")
        if not signature:
            return numbers[:1]
        head = signature.split(None, 1)[0]
        for at, number in enumerate(numbers):
            if self.line(number).lstrip().startswith(head):
                first = at
                while first and self.line(numbers[first - 1]).lstrip().startswith("@"):
                    first -= 1
                joined = ""
                for end in range(at, min(at + _MOST_SIGNATURE, len(numbers))):
                    joined = " ".join(f"{joined} {self.line(numbers[end])}".split())
                    if len(joined) >= len(signature):
                        return numbers[first : end + 1]
                return numbers[first : at + 1]
        return numbers[:1]


def find_in_text(reading: Reading, outline: Outline | None, wanted: str, budget: int) -> Found:
    """Return the parts of a reading that match, as many as the budget has room for.

    ``outline`` has the sections of the document as it was read; None if they are not known.
    """
    text = _Text(reading, outline)
    matches = dict(_match_pattern(text, reading.text, wanted))
    if not matches and not _is_expression(wanted):
        matches = dict(_match_words(text, wanted))
    named: set[int] = set()
    for section in match_names(text.sections, wanted):
        for number in text.signature(section)[:1]:
            named.add(section.ordinal)
            matches.setdefault(number, _Match(1.0, 0))
    quote = _Quote(text, matches)
    if tokens(reading.text) <= min(_SHORT, budget):
        return Found("\n".join(quote.lines(text.numbers)), len(matches), ())
    parts = sorted(_group(text, matches, named), key=lambda part: -part.weight)
    around = _AROUND
    while around and sum(tokens(quote.part(part, around)) for part in parts) > budget:
        around -= 1  # Rather more matches than more lines around them.
    chosen: list[tuple[int, str]] = []
    left: list[int] = []
    for part in parts:
        quoted = quote.part(part, around)
        if tokens(quoted) > budget and not chosen:
            best = sorted(part.lines, key=lambda number: -matches[number].weight)
            kept = _fit(quote, part, best, budget)
            left += [number for number in part.lines if number not in kept]
            quoted = quote.part(replace(part, lines=kept), 0)
        elif tokens(quoted) > budget:
            left += part.lines
            continue
        budget -= tokens(quoted)
        chosen.append((part.lines[0], quoted))
    return Found("\n".join(quoted for _, quoted in sorted(chosen)), len(matches), (*sorted(left),))


def _is_expression(wanted: str) -> bool:
    return len(wanted) > 2 and wanted.startswith("/") and wanted.endswith("/")


def _match_pattern(text: _Text, whole: str, wanted: str) -> Iterator[tuple[int, _Match]]:
    """Yield the lines that contain a text, or match an expression."""
    expression = _is_expression(wanted)
    source = wanted[1:-1] if expression else wanted
    matcher = make_matcher(source, regex=expression, case="smart", whole_words=False)
    raw = whole.encode()
    number, before = text.first, 0
    for start, end in matcher.lines(raw):
        number += raw.count(b"\n", before, start)
        before = start
        column = next((start for start, _ in matcher.spans(raw[start:end])), 0)
        yield number, _Match(1.0, len(raw[start : start + column].decode(errors="ignore")))


def _match_words(text: _Text, wanted: str) -> Iterator[tuple[int, _Match]]:
    """Yield the lines with the rarest of the words, or with most of them."""
    words = set(terms_of(wanted))
    by_line = [words.intersection(terms_of(line)) for line in text.lines]
    counts = Counter(chain.from_iterable(by_line))
    rarity = {word: log(1 + len(by_line) / count) for word, count in counts.items()}
    weights = [sum(rarity[word] for word in present) for present in by_line]
    least = _WEAKEST * max(weights, default=0.0)
    rows = zip(text.numbers, text.lines, by_line, weights, strict=True)
    for number, line, present, weight in rows:
        if weight and weight >= least:
            rarest = max(present, key=lambda word: (rarity[word], word))
            yield number, _Match(weight, max(0, line.casefold().find(rarest)))


def _group(text: _Text, matches: Mapping[int, _Match], named: set[int]) -> list[_Part]:
    """Group matching lines by their definition or section; one that was named weighs most."""
    parts: dict[int, _Part] = {}
    for number, match in sorted(matches.items()):
        section = text.innermost(number)
        ordinal = section.ordinal if section else -1
        part = parts.setdefault(ordinal, _Part(section, []))
        part.lines.append(number)
        part.weight = inf if ordinal in named else max(part.weight, match.weight)
    return list(parts.values())


def _fit(quote: _Quote, part: _Part, best: Sequence[int], budget: int) -> list[int]:
    """Return as many of the best lines of a part as fit, at least one."""
    kept = sorted(best[:1])
    for number in best[1:]:
        more = sorted([*kept, number])
        if tokens(quote.part(replace(part, lines=more), 0)) > budget:
            break
        kept = more
    return kept


class _Quote:
    """Quotes lines with their numbers."""

    def __init__(self, text: _Text, matches: Mapping[int, _Match]) -> None:
        self._text = text
        self._matches = matches

    def part(self, part: _Part, around: int) -> str:
        """Quote the signature or heading of a part, and its matching lines with those around."""
        section = part.section
        first, last = self._text.numbers[0], self._text.numbers[-1]
        numbers: set[int] = set()
        label = ROOT_HEADING
        if section is not None:
            first, last = max(first, section.span.start_line), min(last, section.span.end_line)
            numbers.update(self._text.signature(section))
            label = " > ".join(section.path) or label
        for number in part.lines:
            numbers.update(range(max(first, number - around), min(last, number + around) + 1))
        return "\n".join((f"{label}  {first}-{last}", *self.lines(sorted(numbers))))

    def lines(self, numbers: Sequence[int]) -> Iterator[str]:
        """Quote lines; a gap between them is filled if it is small, and marked otherwise."""
        before = numbers[0] - 1
        for number in numbers:
            if number - before > _BRIDGED + 1:
                yield "  …"
            else:
                yield from map(self._line, range(before + 1, number))
            yield self._line(number)
            before = number

    def _line(self, number: int) -> str:
        line = self._text.line(number).rstrip()
        if len(line) > _LONGEST_LINE:
            column = self._matches[number].column if number in self._matches else 0
            start = max(0, min(column - _LONGEST_LINE // 3, len(line) - _LONGEST_LINE))
            end = start + _LONGEST_LINE
            line = f"{'…' * bool(start)}{line[start:end]}{'…' * (end < len(line))}"
        return f"  {number}| {line}".rstrip()
