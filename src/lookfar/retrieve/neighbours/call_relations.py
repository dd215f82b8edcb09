"""Callers, callees, impact and tests of a definition, as related entries and as a graph."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

from lookfar.common.lines import Lines
from lookfar.errors import InvalidArgument
from lookfar.model import CallDirection, CallNode, CallStep, RelatedEntry, RelatedKind
from lookfar.ports import Snapshot
from lookfar.retrieve.calls.code_files import CodeFiles, Place
from lookfar.retrieve.calls.route_search import Routes, RouteStep
from lookfar.retrieve.calls.walking import MOST_DEPTH, MOST_NODES, Graph

CALL_KINDS: Final[tuple[RelatedKind, ...]] = ("callers", "callees", "impact", "tests")
_IMPACT_DEPTH: Final = 3
_TEST_DEPTH: Final = 5
_MOST_LISTED: Final = 300
_LONGEST_LINE: Final = 100


class Part(NamedTuple):
    """A document, or some characters of it."""

    uri: str
    start: int = 0
    end: int | None = None
    name: str = ""
    """Full name, if it is a definition in source code."""


def find_place(snapshot: Snapshot, uri: str, start: int, name: str) -> Place | None:
    """Return the definition that begins at an offset of a document; None if there is none."""
    document = snapshot.document(uri)
    if document is None or not name:
        return None
    for section in snapshot.sections(uri):
        if section.span.start == start and ".".join(section.path) == name:
            return Place(document["id"], section.ordinal)
    return None


def find_call_relations(
    snapshot: Snapshot, place: Place | None, kind: RelatedKind, limit: int
) -> tuple[list[RelatedEntry], int]:
    """Return entries of one kind, code before tests, and their number without the limit."""
    if place is None:
        return [], 0
    graph = Graph(CodeFiles(snapshot))
    if not graph.has(place):
        return [], 0
    direction: CallDirection = "callees" if kind == "callees" else "callers"
    depth = {"impact": _IMPACT_DEPTH, "tests": _TEST_DEPTH}.get(kind, 1)
    nodes, _ = graph.walk(
        place, direction, depth, max(limit, _MOST_LISTED), only_tests=kind == "tests"
    )
    nodes.sort(key=lambda node: node.test)
    texts = _Texts(snapshot)
    entries = [_make_entry(kind, node, texts) for node in nodes[:limit]]
    return entries, len(nodes)


def walk_calls(
    snapshot: Snapshot, place: Place, direction: CallDirection, depth: int, limit: int
) -> tuple[CallNode, list[CallNode], bool]:
    """Return a definition, what is within ``depth`` calls of it, and whether that is all."""
    check_bounds(depth, limit)
    graph = Graph(CodeFiles(snapshot))
    if not graph.has(place):
        raise InvalidArgument(
            "The call graph does not cover this definition.",
            hint="Its language has no grammar, or its file could not be parsed.",
        )
    file = graph.files.file(place.document)
    symbol = file.symbols[place.section]
    own = CallNode(
        file.uri, file.path_of(place.section), symbol.kind, symbol.line, symbol.end_line, 0, -1,
        (), True, "t" in symbol.marks,
    )  # fmt: skip
    nodes, complete = graph.walk(place, direction, depth, limit, only_tests=False)
    return own, nodes, complete


def find_route(
    snapshot: Snapshot, begin: Place, end: Place
) -> tuple[list[CallStep], bool, bool, list[CallNode]]:
    """Return the way from one definition or file to another, whether all was searched, whether
    there is only a way back, and without a way what calls the target."""
    files = CodeFiles(snapshot)
    routes, texts = Routes(files), _Texts(snapshot)
    steps = routes.find(routes.list_usable(begin), routes.list_inside(end))
    if steps:
        following = [*(step.place for step in steps[1:]), steps[-1].place]
        counts = [len(routes.list_namesakes(place)) for place in following]
        made = [
            _make_step(step, files, texts, count) for step, count in zip(steps, counts, strict=True)
        ]
        return made, True, False, []
    searched_all = routes.finished
    back = routes.find(routes.list_usable(end), routes.list_inside(begin))
    nodes: list[CallNode] = []
    if end.section >= 0:
        graph = Graph(files)
        nodes, _ = graph.walk(end, "callers", _IMPACT_DEPTH, _MOST_LISTED, only_tests=False)
    proven = bool(back) and all(step.link in ("call", None) for step in back)
    callers = [node for node in nodes if node.certain and not node.test]
    return [], searched_all, proven, callers


def find_inherited(snapshot: Snapshot, owner: Place, name: str) -> Place | None:
    """Return a member that a class inherits."""
    return Routes(CodeFiles(snapshot)).find_member(owner, name)


def find_node(snapshot: Snapshot, part: Part) -> Place:
    """Return a definition, or for a whole source file its document with section -1."""
    documents = CodeFiles(snapshot).documents
    place = find_place(snapshot, part.uri, part.start, part.name)
    if place is None and not part.name and part.end is None and part.uri in documents:
        place = Place(documents[part.uri], -1)
    if place is None:
        raise InvalidArgument(
            f"{part.uri!r} is not a definition in source code.",
            hint="Name a function, method or class, such as Shelf.put or src/shelf.py#Shelf.put,"
            " or a source file.",
        )
    return place


def _make_step(step: RouteStep, files: CodeFiles, texts: _Texts, namesakes: int) -> CallStep:
    file = files.file(step.place.document)
    symbol = file.symbols[step.place.section]
    return CallStep(
        uri=file.uri,
        name=file.path_of(step.place.section),
        kind=symbol.kind,
        line=symbol.line,
        end_line=symbol.end_line,
        signature=texts.line(file.uri, symbol.line),
        link=step.link,
        calls=step.lines,
        call=texts.line(file.uri, step.lines[0]) if step.lines else "",
        namesakes=namesakes if step.link == "name" else 0,
    )


def check_bounds(depth: int, limit: int) -> None:
    """Raise ``InvalidArgument`` if a walk would be unbounded."""
    for name, value, most in (("depth", depth, MOST_DEPTH), ("limit", limit, MOST_NODES)):
        if type(value) is not int or not 1 <= value <= most:
            raise InvalidArgument(f"{name} is {value!r}.", hint=f"Choose 1 to {most:,}.")


def find_similar_names(snapshot: Snapshot, name: str, most: int) -> Sequence[str]:
    """Return names of definitions that are spelled like ``name``, closest first."""
    names = CodeFiles(snapshot).names
    last = name.rpartition(".")[2]
    folded = last.casefold()
    parts = [known for known in names if folded and folded in known.casefold()]
    near = get_close_matches(last, names, n=most, cutoff=0.7) if len(names) <= 50_000 else []
    return list(dict.fromkeys((*near, *sorted(parts, key=len))))[:most]


class _Texts:
    """Lines of documents, each text read once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._texts: dict[str, tuple[str, Lines]] = {}

    def line(self, uri: str, number: int) -> str:
        """Return one line, shortened."""
        if uri not in self._texts:
            text = self._snapshot.text(uri) or ""
            self._texts[uri] = (text, Lines(text))
        text, lines = self._texts[uri]
        if not 1 <= number <= len(lines):
            return ""
        line = " ".join(text[lines.start_of(number) :].partition("\n")[0].split())
        return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + "…"


def _make_entry(kind: RelatedKind, node: CallNode, texts: _Texts) -> RelatedEntry:
    # A caller is shown at its first call, a callee where it is defined.
    line = node.line if kind == "callees" or not node.calls else node.calls[0]
    return RelatedEntry(
        kind=kind,
        uri=node.uri,
        title=node.name,
        target="",
        resolved=True,
        relation="tests" if node.test and kind != "callees" else None,
        count=len(node.calls),
        score=1.0 if node.certain else 0.5,
        anchor="",
        heading_path=tuple(node.name.split(".")) if node.name else (),
        line=line,
        text="",
        context=texts.line(node.uri, line),
        certain=node.certain,
        depth=node.depth,
    )
