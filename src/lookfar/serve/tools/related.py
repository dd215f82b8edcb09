"""The tool ``related``: links, similar documents, definitions, commits and memories."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from lookfar.model import RelatedKind
from lookfar.retrieve.locate.address import format_address
from lookfar.retrieve.neighbours.related import KINDS
from lookfar.serve.show import json_shapes
from lookfar.serve.show.printable import safe_name
from lookfar.serve.tools.inputs import FILLED, between
from lookfar.serve.tools.output_schemas import RELATED_ENTRIES
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool, bounded

_USUAL = 10


class RelatedInput(Input):
    target: Annotated[str, FILLED]
    kinds: list[RelatedKind] = []
    limit: Annotated[int, AfterValidator(between(1, 50)), Field(default_factory=int)]
    collection: str = ""


def usual_kinds(session: Session) -> tuple[RelatedKind, ...]:
    """Return the default kinds; commits and memories only if there are any."""
    known = session.library.histories(look=False).values()
    kinds: tuple[RelatedKind, ...] = KINDS
    if any(history.indexed for history in known):
        kinds = (*kinds, "commits")
    return (*kinds, "memories") if session.library.memories() else kinds


def _related(session: Session, given: RelatedInput, call: Call) -> Result:
    session.library.first_index(on_progress=call.on_progress())

    def show(limit: int) -> Result:
        neighbours = session.library.related(
            given.target,
            kinds=tuple(given.kinds) or usual_kinds(session),
            limit=limit,
            collection=given.collection,
        )
        data: Json = json_shapes.related(neighbours)
        lines = []
        for entry in data["entries"]:
            collection = entry.get("collection", neighbours.collection)
            entry["address"] = format_address(collection, entry["uri"]) if entry["uri"] else ""
            where = entry["uri"] or f"{entry['target']} (does not exist)"
            line = f":{entry['line']}" if entry["line"] and entry["kind"] != "links" else ""
            guess = " (by name)" if entry.get("certain") is False else ""
            listed = f"{entry['kind']}: {where}{line} {entry['title']}".rstrip()
            lines.append(safe_name(listed + guess))
        lines += [note.detail for note in neighbours.incomplete if note.reason == "candidates"]
        return Result(data, "\n".join(lines) or "Nothing is related to it.")

    return bounded(show, given.limit or _USUAL)


RELATED = Tool(
    "related",
    "Related documents, commits; where a name is defined, used, called.",
    RelatedInput,
    _related,
    lean=True,
    by_reader=True,
    title="Find related",
    output_schema=RELATED_ENTRIES,
)
