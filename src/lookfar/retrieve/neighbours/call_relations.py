"""Callers, callees, impact and tests of a definition, as related entries and as a graph."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from lookfar.common.lines import Lines
from lookfar.errors import InvalidArgument
from lookfar.model import CallDirection, CallNode, RelatedEntry, RelatedKind
from lookfar.ports import Snapshot
from lookfar.retrieve.calls.code_files import CodeFiles, Place
from lookfar.retrieve.calls.walking import MOST_DEPTH, MOST_NODES, Graph

CALL_KINDS: Final[tuple[RelatedKind, ...]] = ("callers", "callees", "impact", "tests")
_IMPACT_DEPTH: Final = 3
_TEST_DEPTH: Final = 5
_MOST_LISTED: Final = 300
_LONGEST_LINE: Final = 100


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
    """Return entries of one kind of the call graph, and their number without the limit."""
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
