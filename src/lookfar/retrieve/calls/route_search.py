"""Find how one definition reaches another: the definitions on the way, and what leads from each to
the next.

Calls that scope, imports or types resolve are preferred. Where there are none, a route may use what
the index cannot prove: a method that overrides the called one, a function that is named without a
call and may be called later, or a call of which only the name is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain
from typing import Final, NamedTuple

from lookfar.model import CodeSymbol, RouteLink
from lookfar.retrieve.calls.code_files import (
    CONTAINERS,
    CodeFile,
    CodeFiles,
    Place,
    is_test_file,
    split_title,
)
from lookfar.retrieve.calls.resolve import Resolver
from lookfar.retrieve.calls.walking import Graph, Link

_COSTS: Final[dict[RouteLink, int]] = {"call": 2, "override": 3, "mention": 4, "name": 4}
_GUESS: Final = 4
"""Extra cost of a call by name if what is before the name does not resemble the class."""
_MOST_GUESSED: Final = 12
"""Such a call says nothing if more definitions have its name."""
_MOST_UNPROVEN: Final = 3
"""A route with more links that the index cannot prove would be a guess."""
_MOST_VISITED: Final = 3_000
_MOST_TEXTS: Final = 200
"""Texts of files that are kept in memory."""
_MOST_OVERRIDES: Final = 100
_NOT_CODE: Final = re.compile(
    r'"{3}[\s\S]*?"{3}|\'{3}[\s\S]*?\'{3}|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    r"|/\*[\s\S]*?\*/|(?:\#|//)[^\n]*"
)
_MENTION: Final = re.compile(r"(?<![\w.])((?:\w+\.)*)([^\W\d]\w*)\b(?!\s*\()")
_SHORTEST: Final = 3
_OWN: Final = ("self", "this", "cls")


class RouteStep(NamedTuple):
    """A definition on a route, and what leads from it to the next one."""

    place: Place
    link: RouteLink | None
    """None for the last definition."""
    lines: tuple[int, ...]
    """Lines of the calls, or of the other code that leads on."""


class _Edge(NamedTuple):
    place: Place
    link: RouteLink
    lines: tuple[int, ...]
    extra: int = 0


class Routes:
    """Searches for routes in the source files of one snapshot."""

    def __init__(self, files: CodeFiles) -> None:
        self._files = files
        self._graph = Graph(files)
        self._resolver = Resolver(files)
        self._lines: dict[str, list[str]] = {}
        self.finished = True
        """Whether the last search looked at everything that can be reached."""

    def find_member(self, owner: Place, name: str) -> Place | None:
        """Return a member of a class, also if the class inherits it."""
        return next(iter(self._resolver.find_member(owner, name)), None)

    def list_usable(self, place: Place) -> list[Place]:
        """Return a definition and those inside it; for a class also what it inherits."""
        above = [] if place.section < 0 else self._resolver.list_ancestors(place)
        known = [other for other in above if other != place and other.section >= 0]
        return [inner for owner in (place, *known) for inner in self.list_inside(owner)]

    def list_inside(self, place: Place) -> list[Place]:
        """Return a definition and those inside it; for section -1 all of its file."""
        file = self._files.file(place.document)
        sections: Iterable[int] = file.symbols
        if place.section >= 0:  # A condition may define a name twice.
            name = file.path_of(place.section)
            same = [section for section in file.symbols if file.path_of(section) == name]
            sections = chain.from_iterable(map(file.list_inside, same))
        return [Place(place.document, section) for section in sections]

    def find(self, starts: Iterable[Place], goals: Iterable[Place]) -> list[RouteStep]:
        """Return the best route from one of the starts to one of the goals; empty if none."""
        ends, begins = set(goals), [*starts]
        begins = [place for place in begins if place not in ends] or begins
        ends.difference_update(begins)
        tests_too = any(map(self._is_test, begins))
        waiting = [(0, 0, number, place) for number, place in enumerate(begins)]
        reached: dict[Place, tuple[Place, _Edge] | None] = dict.fromkeys(begins)
        costs = dict.fromkeys(begins, 0)
        number, done = len(begins), set[Place]()
        self.finished = True
        while waiting:
            cost, unproven, _, place = heappop(waiting)
            if place in done:
                continue
            if place in ends:
                return self._trace(place, reached)
            done.add(place)
            if len(done) > _MOST_VISITED:
                self.finished = False
                break
            for edge in self._edges(place):
                doubts = unproven + (edge.link in ("mention", "name"))
                further = cost + _COSTS[edge.link] + edge.extra
                if doubts > _MOST_UNPROVEN or costs.get(edge.place, further + 1) <= further:
                    continue
                if not tests_too and self._is_test(edge.place):
                    continue
                number += 1
                costs[edge.place] = further
                reached[edge.place] = (place, edge)
                heappush(waiting, (further, doubts, number, edge.place))
        return []

    def _trace(
        self, place: Place, reached: dict[Place, tuple[Place, _Edge] | None]
    ) -> list[RouteStep]:
        steps = [RouteStep(place, None, ())]
        while (before := reached[place]) is not None:
            place, edge = before
            steps.append(RouteStep(place, edge.link, edge.lines))
        return steps[::-1]

    def _is_test(self, place: Place) -> bool:
        return is_test_file(self._files.uri_of(place.document))

    def _edges(self, place: Place) -> Iterator[_Edge]:
        file = self._files.file(place.document)
        symbol = file.symbols.get(place.section)
        if symbol is None:
            return
        # Making an object runs its constructor, not its other methods.
        sources = [place]
        if symbol.kind in CONTAINERS:
            classes = [
                above for above in self._resolver.list_ancestors(place) if above.section >= 0
            ]
            made = (sorted(self._graph.same_targets(above)) for above in classes)
            sources = [place, *next((some for some in made if len(some) > 1), ())]
        for source in sources:
            alone = source == place and symbol.kind in CONTAINERS
            for link in self._graph.callees(source, nested=not alone):
                if link.certain or link.alone:
                    yield _Edge(link.place, "call", link.lines)
                elif lines := self._list_resembling(file, link):
                    yield _Edge(link.place, "name", lines)
                elif len(self.list_namesakes(link.place)) <= _MOST_GUESSED:
                    yield _Edge(link.place, "name", link.lines, _GUESS)
            if not alone:
                yield from self._mentions(file, source)
        yield from self._overrides(file, symbol, place)

    def list_namesakes(self, place: Place) -> Sequence[Place]:
        """Return the definitions with the name of this one, which is among them."""
        title = self._files.file(place.document).symbols[place.section].title
        return self._files.named(split_title(title)[1])

    def _list_resembling(self, file: CodeFile, link: Link) -> tuple[int, ...]:
        """Return the lines that call an object named like the class: ``self._ship.load()``."""
        there = self._files.file(link.place.document)
        owner, name = split_title(there.path_of(link.place.section))
        called = re.compile(rf"(\w+)(?:\(\))?\s*(?:\.|->|::)\s*{re.escape(name)}\b")
        lines = self._read_lines(file)
        return tuple(
            number
            for number in link.lines
            for word in called.findall(lines[number - 1])
            if len(word.strip("_")) >= _SHORTEST and word.strip("_").casefold() in owner.casefold()
        )

    def _read_lines(self, file: CodeFile) -> list[str]:
        if file.uri not in self._lines:
            if len(self._lines) >= _MOST_TEXTS:
                self._lines.clear()
            self._lines[file.uri] = self._files.text(file.uri).split("\n")
        return self._lines[file.uri]

    def _overrides(self, file: CodeFile, symbol: CodeSymbol, place: Place) -> Iterator[_Edge]:
        """Yield the methods of subclasses that replace a method."""
        owner = file.symbols.get(symbol.parent)
        if owner is None or owner.kind not in CONTAINERS:
            return
        above = Place(place.document, symbol.parent)
        for other in self._files.named(symbol.title)[:_MOST_OVERRIDES]:
            there = self._files.file(other.document)
            override = there.symbols.get(other.section)
            parent = Place(other.document, override.parent if override else -1)
            if parent == above or parent.section not in there.symbols:
                continue
            if above in self._resolver.list_ancestors(parent):
                yield _Edge(other, "override", ())

    def _mentions(self, file: CodeFile, place: Place) -> Iterator[_Edge]:
        """Yield the functions and values that a definition names without calling them."""
        symbol = file.symbols[place.section]
        lines = self._read_lines(file)[symbol.line - 1 : symbol.end_line]
        code = _NOT_CODE.sub(lambda match: "\n" * match[0].count("\n"), "\n".join(lines))
        found: dict[Place, list[int]] = {}
        properties: set[Place] = set()
        for match in _MENTION.finditer(code):
            receiver = match[1].removesuffix(".")
            if receiver.partition(".")[0] in _OWN:
                receiver = "@" + receiver[len(receiver.partition(".")[0]) :]
            for other in self._resolver.resolve_mention(file, place.section, receiver, match[2]):
                target = self._files.file(other.document).symbols[other.section]
                if target.kind in CONTAINERS or other == place:
                    continue
                if "p" in target.marks:
                    properties.add(other)
                line = symbol.line + code.count("\n", 0, match.start())
                found.setdefault(other, []).append(line)
        for other, numbers in found.items():
            lines_of = tuple(dict.fromkeys(numbers))
            yield _Edge(other, "call" if other in properties else "mention", lines_of)
