"""The call graph of a collection: callers, callees, and how a definition reaches another."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple

from lookfar.collections.collection import Collection, note_held
from lookfar.collections.read_documents import locate_part
from lookfar.errors import Ambiguous, InvalidArgument, NotFound
from lookfar.model import CallDirection, CallGraph, CallRoute, RelatedEntry, Target
from lookfar.ports import Snapshot
from lookfar.retrieve.calls.code_files import CodeFiles, Place, is_test_file
from lookfar.retrieve.locate.symbols import is_symbol_name
from lookfar.retrieve.neighbours import call_relations
from lookfar.retrieve.neighbours.call_relations import Part, check_bounds, find_place, walk_calls
from lookfar.retrieve.neighbours.related import find_related

_MOST_MENTIONS: Final = 20


def find_calls(
    collection: Collection,
    target: str | Target,
    direction: CallDirection,
    *,
    depth: int,
    limit: int,
    name: str = "",
) -> CallGraph:
    """Return the callers or callees of a definition, up to ``depth`` calls away."""
    if direction not in ("callers", "callees"):
        raise InvalidArgument(f"direction is {direction!r}.", hint="Use callers or callees.")
    check_bounds(depth, limit)

    def look() -> CallGraph:
        notes = collection.freshen() if collection.was_indexed else []
        with collection.store.snapshot() as snapshot:
            part = locate_part(snapshot, target)
            place = find_place(snapshot, part.uri, part.start, part.name)
            if place is None:
                raise InvalidArgument(
                    f"{target!r} is not a definition in source code.",
                    hint="Name a function, method or class, such as Shelf.put or"
                    " src/shelf.py#Shelf.put.",
                )
            own, nodes, complete = walk_calls(snapshot, place, direction, depth, limit)
            return CallGraph(
                collection=name or collection.name,
                generation=snapshot.generation,
                direction=direction,
                uri=own.uri,
                name=own.name,
                kind=own.kind,
                line=own.line,
                end_line=own.end_line,
                nodes=tuple(nodes),
                depth=depth,
                complete=complete,
                incomplete=(*note_held(snapshot), *notes),
            )

    return collection.run_healed(look)


def find_route(
    collection: Collection, source: str | Target, target: str, *, name: str = ""
) -> CallRoute:
    """Return how one definition reaches another by calls."""

    def look() -> CallRoute:
        notes = collection.freshen() if collection.was_indexed else []
        with collection.store.snapshot() as snapshot:
            begin, end = (_locate(snapshot, wanted) for wanted in (source, target))
            steps, searched_all, reverse, callers = call_relations.find_route(
                snapshot, begin.place, end.place
            )
            code = CodeFiles(snapshot).documents
            mentions: list[RelatedEntry] = []
            if not steps:
                named = Part("", name=end.name)
                mentions, _ = find_related(snapshot, named, ["mentions"], _MOST_MENTIONS)
            return CallRoute(
                collection=name or collection.name,
                generation=snapshot.generation,
                source=begin.name,
                target=end.name,
                steps=tuple(steps),
                complete=bool(steps) and all(step.link in ("call", None) for step in steps),
                searched_all=searched_all,
                reverse=reverse,
                callers=tuple(callers),
                mentions=tuple(
                    (entry.uri, entry.line)
                    for entry in mentions
                    if entry.uri in code and not is_test_file(entry.uri)
                ),
                incomplete=(*note_held(snapshot), *notes),
            )

    return collection.run_healed(look)


class _Located(NamedTuple):
    name: str
    place: Place


def _locate(snapshot: Snapshot, wanted: str | Target) -> _Located:
    """Return a definition or source file; a method also by the name of a class that inherits it."""
    try:
        part = locate_part(snapshot, wanted)
        return _Located(part.name or part.uri, call_relations.find_node(snapshot, part))
    except NotFound:
        place = _locate_inherited(snapshot, wanted) if isinstance(wanted, str) else None
        if place is None:
            raise
        return _Located(str(wanted), place)


def find_inherited(collection: Collection, target: str) -> Target | None:
    """Return where a method is that a class inherits, such as ``Child.method``; None if nowhere."""

    def look(snapshot: Snapshot) -> Target | None:
        place = _locate_inherited(snapshot, target)
        if place is None:
            return None
        file = CodeFiles(snapshot).file(place.document)
        return Target(file.uri, file.path_of(place.section))

    return collection.ask(look) if collection.was_indexed else None


def _locate_inherited(snapshot: Snapshot, name: str) -> Place | None:
    owner, _, member = name.rpartition(".")
    if owner and is_symbol_name(name):
        with suppress(NotFound, Ambiguous, InvalidArgument):
            above = call_relations.find_node(snapshot, locate_part(snapshot, owner))
            return call_relations.find_inherited(snapshot, above, member)
    return None
