"""A short answer: the definitions and sections that answer a question, and the lines that decide.

The map is text within a token budget, grouped by document: the best two or three places with their
lines, then the names of further ones. No line is shown twice: a place whose best line an earlier
question showed is only named, with that line.

    guide/deploy.md  Releases
      4-22 Roll back
        18| To revert a faulty deployment, tag the last good commit again:
        19| `git tag -f live v1.41`.
    src/live.py  Release.revert:31, Release.tag:90

A path begins its line and everything else is indented, so that no document can write a line that
looks like one of ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain
from textwrap import wrap
from typing import NamedTuple

from lookfar.common.lines import find_header
from lookfar.model import ROOT_HEADING, Answer, Hit, Unit
from lookfar.retrieve.answer.focus import find_documentation
from lookfar.retrieve.answer.pack import tokens
from lookfar.serve.show.locations import are_several, name_with_collection
from lookfar.serve.show.printable import safe_name

MAP_TOKENS = 620
"""Budget of the map of one question."""
UNITS = 36
"""Definitions and sections that a map shows or names, unless the budget is larger."""
_PLACES = 3
"""Places of one question that are shown with their lines."""
_MOST_PLACES = 30
_TOKENS_A_PLACE = 75
"""A larger budget shows one more place per this many tokens more."""
_FOR_PLACES = 0.55
_FOR_MANY_PLACES = 0.75
"""The share of the budget that places may take if there is more to name; the second is that of a
larger budget."""
_MOST_NAMED = 30
"""Further definitions and sections that are named, unless the budget is larger."""
_TOKENS_A_NAME = 25
"""A larger budget names one more per this many tokens."""
_WINDOWS: tuple[tuple[int, ...], ...] = ((3, 2, 2), (8,), (12,), (24, 16, 12))
"""Lines of the places, best first, as long as the budget allows."""
_WIDEST: tuple[tuple[int, ...], ...] = ((40, 40, 20), (400,) * 50)
"""The same for a larger budget."""
_LARGER = 1_200
"""A budget above this many tokens is a larger one."""
_AROUND = 6
"""Windows of code from this size have the lines around those that answer best."""
_SHORT_DEFINITION = 18
"""A definition of no more lines of code is shown completely: it would be read next anyway."""
_LONGEST_SENTENCE = 150
_LONGEST_LINE = 240
_LONGEST_PROSE = 480
"""Characters of one line of prose that are shown, in lines of this many:"""
_WRAPPED = 110
_LONGEST_NAME = 70
_LONGEST_UNIT = 50
_OUTSIDE = "top level"
"""Names what a file has outside of all definitions."""
_COMMIT_HEAD = ("Author: ", "Committer: ", "Date: ")
"""Lines of a commit that repeat its name."""
_ADDRESS = re.compile(r"(https?://[^/\s)>\]]+/)[^\s)>\]]{16,}")
_SPACE = re.compile(r"\s+")
_RULE = re.compile(r"\s*([=*~^\"'`#+.:_-])\1{2,}\s*")
"""A line that only underlines a heading or separates two sections."""
_NOT_WORD = re.compile(r"[\W_]+")


class ShownHit(NamedTuple):
    """A hit and the part of it that the map shows."""

    hit: Hit
    excerpt: str


class Drawn(NamedTuple):
    """The map of one question as text, and what it shows."""

    text: str
    shown: Sequence[ShownHit]
    """The places shown with their lines, best first."""
    named: Sequence[Unit]
    """What is only named."""
    reached: int
    """How many of its units are dealt with."""


@dataclass(slots=True)
class _Place:
    """A hit in the map, and how much of it is shown."""

    hit: Hit
    unit: Unit
    seen: Set[_Line]
    """Lines that are not shown again."""
    lines: int = 1
    """1: one sentence; more: a window of that many lines."""
    drawn: dict[int, str] = field(default_factory=dict)
    """Its text by the number of lines: laying out a map asks for the same text several times."""

    @property
    def is_definition(self) -> bool:
        return self.unit.kind not in ("section", "file")


@dataclass(slots=True)
class _Document:
    """A document in the map, with its places and the names of further ones."""

    name: str
    places: list[_Place] = field(default_factory=list)
    named: list[Unit] = field(default_factory=list)
    drawn: tuple[tuple[int, ...], str] = ((), "")
    """Its text, and what it depends on: laying out a map asks for it again and again."""

    @property
    def text(self) -> str:
        state = (len(self.named), *(place.lines for place in self.places))
        if self.drawn[0] != state:
            self.drawn = state, self._draw()
        return self.drawn[1]

    def _draw(self) -> str:
        names = ", ".join(_list_names(self.named))
        if not self.places:
            return f"{self.name}  {names}" if names else self.name
        also = [f"  also {names}"] if names else []
        return "\n".join([self.name, *map(_place_text, self.places), *also])


_Line = tuple[str, str, int]
"""The collection, document and number of a line."""
Describe = Callable[[Hit | Unit], str]


def draw_answer(answer: Answer, *, limit: int, paths: bool = False) -> str:
    """Draw the map of one answer, or only its paths, for a terminal or a file."""
    several = are_several(answer.generations)
    hits = {(hit.collection, hit.uri): hit for hit in answer.hits}

    def describe(item: Hit | Unit) -> str:
        hit = hits.get((item.collection, item.uri))
        if hit is None:
            return safe_name(name_with_collection(item, several))
        return name_document(hit, several=several)

    if paths:
        drawn = draw_paths(answer.units[: limit or None], _LARGER, describe)
    else:
        drawn = draw_question(answer.hits, answer.units, MAP_TOKENS, limit, set(), describe)
    return drawn.text or "Nothing found."


def _unit_of(hit: Hit) -> Unit:
    return Unit(hit.collection, hit.uri, hit.path, "section", hit.lane, hit.span, hit.score)


def draw_paths(units: Sequence[Unit], budget: int, describe: Describe) -> Drawn:
    """Name documents with the lines of their places, as many as fit."""
    grouped: dict[str, list[Unit]] = {}
    spent = 0
    chosen: list[Unit] = []
    for unit in units:
        name = describe(unit)
        spent += tokens(_lines(unit)) + (0 if name in grouped else tokens(name))
        if chosen and spent > budget:
            break
        grouped.setdefault(name, []).append(unit)
        chosen.append(unit)
    lines = []
    for name, places in grouped.items():
        path, gap, title = name.partition("  ")
        spans = ",".join(dict.fromkeys(map(_lines, places)))
        lines.append(f"{path}:{spans}{gap}{title}")
    return Drawn("\n".join(lines), [], chosen, len(chosen))


def draw_question(
    hits: Sequence[Hit],
    units: Sequence[Unit],
    budget: int,
    limit: int,
    seen: set[_Line],
    describe: Describe,
) -> Drawn:
    """Draw the best places, then name further ones; what is left widens the best places.

    ``units`` are what answers, best first, and ``hits`` the first of these. With a ``limit`` only
    so many hits are shown, and nothing else is named. Lines in ``seen`` are not shown again: a hit
    whose best line is among them is only named, with that line. Lines shown are added to it.
    ``describe`` names the document of a hit or unit.
    """
    # What packages have to say is not among the units.
    units = [*units, *map(_unit_of, hits[len(units) :])]
    hits = hits[: limit or count_places(budget)]
    for_places = int(budget * (_FOR_MANY_PLACES if budget > _LARGER else _FOR_PLACES))
    documents: dict[tuple[str, str], _Document] = {}

    def find_document(item: Hit | Unit) -> _Document:
        key = item.collection, item.uri
        if key not in documents:
            documents[key] = _Document(describe(item))
        return documents[key]

    def measure() -> int:
        return tokens("\n".join(document.text for document in documents.values()))

    places: list[_Place] = []
    placed: set[int] = set()
    named: list[Unit] = []
    reached = 0
    for at, hit in enumerate(hits):
        line = hit.focus[0].start_line if hit.focus else hit.span.start_line
        if (hit.collection, hit.uri, line) in seen:
            units[at] = replace(units[at], line=line)
            if limit:
                find_document(hit).named.append(units[at])
                named.append(units[at])
                reached = at + 1
            continue
        place = _Place(hit, units[at], seen)
        document = find_document(hit)
        document.places.append(place)
        if places and measure() > for_places * (1.25 if limit else 1.0):
            document.places.pop()
            if not document.places:
                del documents[hit.collection, hit.uri]
            break
        places.append(place)
        placed.add(at)
        reached = at + 1
    if limit:
        _widen(places, budget, measure)
        return _finish(documents, places, named, reached, seen)
    _widen(places, for_places, measure)
    most = max(_MOST_NAMED, budget // _TOKENS_A_NAME)
    for at, unit in enumerate(units):
        if at in placed:
            continue
        if len(named) >= most:
            break
        document = find_document(unit)
        document.named.append(unit)
        if measure() > budget and named:
            document.named.pop()
            if not document.named and not document.places:
                del documents[unit.collection, unit.uri]
            break
        named.append(unit)
        reached = max(reached, at + 1)
    _widen(places, budget, measure)
    return _finish(documents, places, named, reached, seen)


def _finish(
    documents: Mapping[tuple[str, str], _Document],
    places: Sequence[_Place],
    named: Sequence[Unit],
    reached: int,
    seen: set[_Line],
) -> Drawn:
    text = "\n".join(document.text for document in documents.values())
    shown = [ShownHit(place.hit, _excerpt(place)) for place in places]
    for place in places:
        hit = place.hit
        seen.update((hit.collection, hit.uri, line) for line in _list_shown(place))
    return Drawn(text, shown, named, reached)


def _list_shown(place: _Place) -> list[int]:
    """Return the numbers of the lines that a place shows."""
    if place.lines > 1:
        return [number for number, _ in _window(place)]
    best = place.hit.focus[0] if place.hit.focus else place.hit.span
    return [*range(best.start_line, best.end_line + 1)]


def count_places(budget: int) -> int:
    """Return how many places of a question are shown with their lines."""
    if budget < MAP_TOKENS // 2:
        return _PLACES - 1
    return min(max(_PLACES, _PLACES + (budget - MAP_TOKENS) // _TOKENS_A_PLACE), _MOST_PLACES)


def _widen(places: Sequence[_Place], budget: int, measure: Callable[[], int]) -> None:
    """Show more lines of the places, in steps, as long as everything costs at most the budget."""
    steps = (*_WINDOWS, *(_WIDEST if budget > _LARGER else ()))
    for windows in steps:
        for at, place in enumerate(places):
            lines, before = windows[min(at, len(windows) - 1)], place.lines
            if lines > before:
                place.lines = lines
                if measure() > budget:
                    place.lines = before


def _place_text(place: _Place) -> str:
    """Format a place with its heading and its sentence or lines."""
    if place.lines not in place.drawn:
        place.drawn[place.lines] = _draw_place(place)
    return place.drawn[place.lines]


def _draw_place(place: _Place) -> str:
    hit = place.hit
    head = " ".join(filter(None, (f"  {_lines(hit)}", _heading(place))))
    if place.lines == 1:
        sentence = _cut(_first_focus(hit), _LONGEST_SENTENCE)
        number = hit.focus[0].start_line if hit.focus else hit.span.start_line
        return f"{head} | {number}: {sentence}" if sentence else head
    return "\n".join([head, *chain.from_iterable(map(_number, _window(place)))])


def _number(line: tuple[int, list[str]]) -> list[str]:
    """Format a line with its number; what is wrapped continues below."""
    number, (first, *others) = line
    margin = " " * (len(str(number)) + 6)
    return [f"    {number}| {first}", *(f"{margin}{other}" for other in others)]


def _lines(item: Hit | Unit) -> str:
    """Return the lines of a hit; those of an extracted text come after its page or range."""
    first, last = item.span.start_line, item.span.end_line
    lines = str(first) if first == last else f"{first}-{last}"
    place = item.place if isinstance(item, Hit) else ""
    return f"#{safe_name(place)} {lines}" if place else lines


def _excerpt(place: _Place) -> str:
    """Return the text of a place that is shown."""
    if place.lines == 1:
        return _first_focus(place.hit)
    return "\n".join(" ".join(lines) for _, lines in _window(place))


def _heading(place: _Place) -> str:
    """Return the last names or headings above a hit, without the title of its document."""
    hit = place.hit
    if place.is_definition:
        return _cut(place.unit.name, _LONGEST_NAME)
    path = hit.focus_path or hit.path
    headings = [part for part in path if part not in (hit.title, ROOT_HEADING)]
    return _cut(" > ".join(headings[-2:]), _LONGEST_NAME)


def _list_names(units: Sequence[Unit]) -> Iterator[str]:
    """Name units with their lines, with what is around them where it differs from the one before.

    A definition comes with the name around it, a section with the heading above it.
    """
    before = ""
    for unit in units:
        if unit.lane == "commits":
            continue  # Its document says everything.
        heading = unit.kind in ("section", "file")
        *around, name = [part for part in unit.path if part != ROOT_HEADING] or [_OUTSIDE]
        parent = around[-1] if around else ""
        joint = " > " if heading else "."
        if parent:
            name = joint.lstrip() + name if parent == before else f"{parent}{joint}{name}"
        before = parent
        yield f"{_cut(name, _LONGEST_UNIT)}:{unit.line or unit.span.start_line}"


def _first_focus(hit: Hit) -> str:
    """Return the sentence that answers best, or the whole text if there is none."""
    if not hit.focus:
        return hit.text
    focus = hit.focus[0]
    return hit.text[focus.start - hit.span.start : focus.end - hit.span.start]


def _window(place: _Place) -> list[tuple[int, list[str]]]:
    """Return the lines that a place shows, with their numbers; long prose in several lines."""
    hit = place.hit
    lines = hit.text.rstrip("\n").split("\n")
    first = hit.span.start_line
    focused = [
        (focus.start_line - first, focus.end_line - first)
        for focus in hit.focus
        if focus.end_line - first < len(lines)
    ]
    if place.is_definition:
        chosen = _choose_lines(
            lines, place.unit.line - first, [low for low, _ in focused], place.lines
        )
    else:
        chosen = [*range(len(lines))]
        if len(lines) > place.lines:
            start = _window_start(lines, focused, place.lines)
            chosen = [*range(start, start + place.lines)]
        header = find_header(lines, chosen[0])
        if header is not None and header < chosen[0]:
            chosen = [header, *chosen]
    return [
        (first + at, _show_line(lines[at], hit, first + at))
        for at in chosen
        if not _is_redundant(lines[at], hit)
        and (hit.collection, hit.uri, first + at) not in place.seen
    ]


def _choose_lines(lines: Sequence[str], named: int, best: Sequence[int], size: int) -> list[int]:
    """Return which lines of a definition are shown: the one that names it, then the best ones."""
    text = "\n".join(lines)
    docs = {
        at
        for start, end in find_documentation(text)
        for at in range(text.count("\n", 0, start) + 1, text.count("\n", 0, end) + 1)
    }
    code = [at for at, line in enumerate(lines) if at not in docs and line.strip()]
    if len(code) <= max(size, _SHORT_DEFINITION if size >= _AROUND else 0):
        return code
    chosen = {named}
    around = [at + beside for beside in (1, -1, 2) for at in best] if size >= _AROUND else []
    rest = range(named + 1, len(lines)) if not best or size > 2 * _AROUND else ()
    for at in chain(best, around, rest):
        if len(chosen) < size and 0 <= at < len(lines) and lines[at].strip():
            chosen.add(at)
    return sorted(chosen)


def _is_redundant(line: str, hit: Hit) -> bool:
    """Return whether a line only repeats the document's name or the heading."""
    if hit.lane == "commits" and line.startswith(_COMMIT_HEAD):
        return True
    if hit.lane != "code" and _RULE.fullmatch(line):
        return True
    return line.strip("# ") in ("", hit.title, *hit.path[-1:])


def _window_start(lines: Sequence[str], focused: Sequence[tuple[int, int]], size: int) -> int:
    """Return the start of a window of ``size`` lines with the best sentence."""
    if not focused:
        return 0

    def worth(start: int) -> tuple[int, bool, int]:
        inside = [start <= low and high < start + size for low, high in focused]
        weight = sum(len(focused) - at for at, is_inside in enumerate(inside) if is_inside)
        # The lines after a sentence explain it more often than those before.
        distance = abs(focused[0][0] - start - size // 3)
        return weight, bool(lines[start].strip()), -distance

    low = focused[0][0]
    starts = range(max(0, low - size + 1), min(low, len(lines) - size) + 1)
    return max(starts, key=worth)


def _show_line(line: str, hit: Hit, number: int) -> list[str]:
    """Return a line as it is shown: code is cut if it is very long, prose is wrapped."""
    line = line.rstrip()
    if len(line) <= _LONGEST_LINE:
        return [safe_name(_shorten_addresses(line).expandtabs(4))]
    most = _LONGEST_LINE if hit.lane == "code" else _LONGEST_PROSE
    start = 0
    for focus in hit.focus:
        if focus.start_line == number:
            text_before = hit.text[: focus.start - hit.span.start]
            start = len(text_before) - (text_before.rfind("\n") + 1)
            break
    start = max(0, min(start, len(line) - most))
    end = start + most
    if hit.lane != "code" and end < len(line):
        end = line.rfind(" ", start + 1, end) + 1 or end
    cut = _shorten_addresses(line[start:end].rstrip())
    shown = f"{'…' if start else ''}{cut}{'…' if end < len(line) else ''}"
    if hit.lane == "code":
        return [safe_name(shown.expandtabs(4))]
    return [safe_name(part) for part in wrap(shown, _WRAPPED)]


def _shorten_addresses(line: str) -> str:
    """Shorten long link addresses in a line."""
    return _ADDRESS.sub(r"\1…", line) if "://" in line else line


def _cut(text: str, most: int) -> str:
    """Return a text on one line, of at most ``most`` characters."""
    text = _SPACE.sub(" ", _shorten_addresses(text)).strip()
    return safe_name(text if len(text) <= most else f"{text[: most - 1].rstrip()}…")


def name_document(hit: Hit, *, several: bool) -> str:
    """Return the path of a hit's document, with its title if the path does not contain it."""
    path = name_with_collection(hit, several)
    stem = hit.uri.rpartition("/")[2].partition(".")[0]
    known = _NOT_WORD.sub("", stem).casefold(), _NOT_WORD.sub("", hit.uri).casefold()
    title = _NOT_WORD.sub("", hit.title).casefold()
    named = f"  {_cut(hit.title, _LONGEST_NAME)}" if title and title not in known else ""
    state = "" if hit.state == "same" else f"  ({hit.state} on disk)"
    stale = f"  (stale: {', '.join(hit.stale[:3])} changed since)" if hit.stale else ""
    drift = f"  (outdated: {'; '.join(hit.drift[:3])})" if hit.drift else ""
    origin = f"  <{hit.origin}>" if "://" in hit.origin else ""
    return safe_name(f"{path}{named}{origin}{state}{stale}{drift}")
