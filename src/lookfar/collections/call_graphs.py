"""The call graph of a collection: callers, callees, and how a definition reaches another."""

from __future__ import annotations

from typing import Final

from lookfar.collections.collection import Collection, note_held
from lookfar.collections.read_documents import locate_part
from lookfar.common.target import Target
from lookfar.errors import InvalidArgument
from lookfar.model import CallDirection, CallGraph, CallRoute, RelatedEntry
from lookfar.retrieve.calls.code_files import CodeFiles, is_test_file
from lookfar.retrieve.neighbours import call_relations
from lookfar.retrieve.neighbours.call_relations import check_bounds, find_place, walk_calls
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
        notes = collection.freshen(None) if collection.was_indexed else []
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

    return collection.healing.run(look)


def find_route(
    collection: Collection, source: str | Target, target: str, *, name: str = ""
) -> CallRoute:
    """Return how one definition reaches another by calls."""

    def look() -> CallRoute:
        notes = collection.freshen(None) if collection.was_indexed else []
        with collection.store.snapshot() as snapshot:
            parts = [locate_part(snapshot, wanted) for wanted in (source, target)]
            steps, searched_all, reverse, callers = call_relations.find_route(snapshot, *parts)
            mentions: list[RelatedEntry] = []
            if not steps:
                mentions, _ = find_related(snapshot, parts[1], ["mentions"], _MOST_MENTIONS)
            code = CodeFiles(snapshot).documents
            return CallRoute(
                collection=name or collection.name,
                generation=snapshot.generation,
                source=parts[0].name or parts[0].uri,
                target=parts[1].name or parts[1].uri,
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

    return collection.healing.run(look)
