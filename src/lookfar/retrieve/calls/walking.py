"""Walk the call graph from a definition: its callers, its callees, and the tests that reach it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from lookfar.model import CallDirection, CallNode
from lookfar.retrieve.calls.code_files import (
    CONTAINERS,
    CodeFile,
    CodeFiles,
    Place,
    is_test_file,
    split_title,
)
from lookfar.retrieve.calls.resolve import Resolver

_CONSTRUCTORS: Final = ("__init__", "__new__", "constructor", "initialize", "init", "new")
MOST_DEPTH: Final = 8
MOST_NODES: Final = 2_000
_MOST_VISITED: Final = 400
"""The most definitions whose callers are searched for one question."""


class Link(NamedTuple):
    """The calls between two definitions, as seen from one of them."""

    place: Place
    """The other definition; section -1 for code outside of any definition."""
    lines: tuple[int, ...]
    certain: bool
    alone: bool
    """Whether the calls cannot refer to another definition in the repository."""


class Graph:
    """The call graph of one snapshot; edges are resolved on demand."""

    def __init__(self, files: CodeFiles) -> None:
        self.files = files
        self._resolver = Resolver(files)

    def has(self, place: Place) -> bool:
        """Whether a definition is in a source file whose calls are known."""
        known = place.document in self.files.documents.values()
        return known and place.section in self.files.file(place.document).symbols

    def callers(self, place: Place) -> list[Link]:
        """Return what calls a definition: certain callers first, then by URI and line."""
        targets = self.same_targets(place)
        found: dict[Place, _Calls] = {}
        for file in self._files_that_may_call(targets):
            names = self._names_in(file, targets)
            for call in file.facts.calls:
                if call.name not in names:
                    continue
                reached = self._resolver.resolve(file, call)
                if targets.isdisjoint(reached.places):
                    continue
                caller = Place(file.document, call.section)
                calls = found.setdefault(caller, _Calls())
                calls.add(call.line, reached.certain, len(reached.places) == 1)
        return self._sort(found)

    def callees(self, place: Place, *, nested: bool = True) -> list[Link]:
        """Return what a definition and, if ``nested``, everything inside it calls."""
        file = self.files.file(place.document)
        inside = file.list_inside(place.section) if nested else (place.section,)
        tests_too = is_test_file(file.uri)
        found: dict[Place, _Calls] = {}
        for call in (call for section in inside for call in file.calls_in.get(section, ())):
            reached = self._resolver.resolve(file, call)
            for target in reached.places:
                # Code does not call a test that only has the right name.
                if not (reached.certain or tests_too) and self._is_in_tests(target):
                    continue
                calls = found.setdefault(target, _Calls())
                calls.add(call.line, reached.certain, len(reached.places) == 1)
        return self._sort(found)

    def _is_in_tests(self, place: Place) -> bool:
        return is_test_file(self.files.uri_of(place.document))

    def walk(
        self, place: Place, direction: CallDirection, depth: int, limit: int, *, only_tests: bool
    ) -> tuple[list[CallNode], bool]:
        """Return the definitions within ``depth`` calls, nearest first, and whether these are all.

        Beyond the first call, only edges that cannot mean another definition are followed.
        """
        nodes: list[CallNode] = []
        seen = {place, *self.same_targets(place)}
        waiting = deque([(place, -1, 1)])
        visited = 0
        while waiting:
            at, position, level = waiting.popleft()
            visited += 1
            if visited > _MOST_VISITED:
                return nodes, False
            for link in self.callers(at) if direction == "callers" else self.callees(at):
                if link.place in seen or (level > 1 and not (link.certain or link.alone)):
                    continue
                node = self.describe(link, level, position)
                if len(nodes) >= limit and not (only_tests and not node.test):
                    return nodes, False
                seen.add(link.place)
                if not only_tests or node.test:
                    nodes.append(node)
                follow = link.certain or link.alone
                if level < depth and follow and link.place.section >= 0:
                    if only_tests and node.test:
                        continue
                    reached_from = -1 if only_tests else len(nodes) - 1
                    waiting.append((link.place, reached_from, level + 1))
        return nodes, True

    def describe(self, link: Link, depth: int, parent: int) -> CallNode:
        """Return a definition as a node of the graph."""
        file = self.files.file(link.place.document)
        symbol = file.symbols.get(link.place.section)
        return CallNode(
            uri=file.uri,
            name=file.path_of(link.place.section),
            kind=symbol.kind if symbol else "file",
            line=symbol.line if symbol else 1,
            end_line=symbol.end_line if symbol else 1,
            depth=depth,
            parent=parent,
            calls=link.lines,
            certain=link.certain,
            test=is_test_file(file.uri) or bool(symbol and "t" in symbol.marks),
        )

    # -- callers --

    def same_targets(self, place: Place) -> frozenset[Place]:
        """Return a class with its constructor, or a constructor with its class."""
        file = self.files.file(place.document)
        symbol = file.symbols.get(place.section)
        if symbol is None:
            return frozenset((place,))
        places = {place}
        if symbol.kind in CONTAINERS:
            for name in _CONSTRUCTORS[:4]:
                for member in file.children.get(place.section, {}).get(name, ()):
                    places.add(Place(place.document, member.section))
        elif split_title(symbol.title)[1] in _CONSTRUCTORS:
            around = file.symbols.get(symbol.parent)
            if around is not None and around.kind in CONTAINERS:
                places.add(Place(place.document, symbol.parent))
        return frozenset(places)

    def _names_of(self, targets: Iterable[Place]) -> set[str]:
        return {
            split_title(self.files.file(place.document).symbols[place.section].title)[1]
            for place in targets
            if place.section in self.files.file(place.document).symbols
        }

    def _files_that_may_call(self, targets: frozenset[Place]) -> Iterator[CodeFile]:
        """Yield the files that contain the name of a target, or of the file of a default export."""
        words = self._names_of(targets)
        for place in targets:
            file = self.files.file(place.document)
            exported = file.facts.variables.get(-1, {}).get("default")
            if exported and exported in words:
                words = words | {file.uri.rpartition("/")[2].partition(".")[0]}
        seen: set[int] = set()
        for word in sorted(words):
            for file in self.files.files_with(word):
                if file.document not in seen:
                    seen.add(file.document)
                    yield file

    def _names_in(self, file: CodeFile, targets: frozenset[Place]) -> set[str]:
        """Return the names by which a file can call the targets, including names of its imports."""
        names = self._names_of(targets)
        names.update(
            bound for bound, _, there in file.facts.imports if there in names or there == "default"
        )
        return names

    # -- shared --

    def _sort(self, found: dict[Place, _Calls]) -> list[Link]:
        links = [
            Link(place, tuple(sorted(calls.lines)), calls.certain, calls.alone)
            for place, calls in found.items()
        ]
        links.sort(
            key=lambda link: (
                not link.certain, self.files.uri_of(link.place.document), link.place.section,
            )
        )  # fmt: skip
        return links


class _Calls:
    """The calls between two definitions, while they are collected."""

    __slots__ = ("alone", "certain", "lines")

    def __init__(self) -> None:
        self.lines: set[int] = set()
        self.certain = False
        self.alone = False

    def add(self, line: int, certain: bool, alone: bool) -> None:
        self.lines.add(line)
        self.certain = self.certain or certain
        self.alone = self.alone or alone
