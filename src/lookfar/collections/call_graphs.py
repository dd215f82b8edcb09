"""The call graph of a collection: who calls a definition, and what it calls."""

from __future__ import annotations

from lookfar.collections.collection import Collection, note_held
from lookfar.collections.read_documents import locate_part
from lookfar.common.target import Target
from lookfar.errors import InvalidArgument
from lookfar.model import CallDirection, CallGraph
from lookfar.retrieve.neighbours.call_relations import check_bounds, find_place, walk_calls


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
