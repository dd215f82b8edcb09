"""The tool ``related``: links, similar documents, definitions, commits and memories."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from lookfar.errors import InvalidArgument
from lookfar.model import RelatedKind
from lookfar.retrieve.locate.address import format_address
from lookfar.retrieve.neighbours.related import KINDS
from lookfar.serve.show import json_shapes
from lookfar.serve.show.call_routes import describe_route, list_steps
from lookfar.serve.show.printable import safe_name
from lookfar.serve.tools.inputs import FILLED, between
from lookfar.serve.tools.output_schemas import RELATED_ENTRIES
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool, bounded

_USUAL = 10


class RelatedInput(Input):
    target: Annotated[str, FILLED]
    to: str = ""
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


def _related(session: Session, given: RelatedInput, _: Call) -> Result:
    session.library.first_index()

    if given.to.strip():
        return _show_route(session, given)

    def show(limit: int) -> Result:
        neighbours = session.library.related(
            given.target,
            kinds=tuple(given.kinds) or usual_kinds(session),
            limit=limit,
            collection=given.collection,
        )
        data: Json = json_shapes.related(neighbours)
        lines = []
        tests: dict[tuple[str, str], list[int]] = {}
        for entry in data["entries"]:
            collection = entry.get("collection", neighbours.collection)
            entry["address"] = format_address(collection, entry["uri"]) if entry["uri"] else ""
            if entry["relation"] == "tests" and entry["kind"] in ("callers", "impact"):
                tests.setdefault((entry["kind"], entry["uri"]), []).append(entry["line"])
                continue
            where = entry["uri"] or f"{entry['target']} (does not exist)"
            line = f":{entry['line']}" if entry["line"] and entry["kind"] != "links" else ""
            guess = " (by name)" if entry.get("certain") is False else ""
            listed = f"{entry['kind']}: {where}{line} {entry['title']}".rstrip()
            lines.append(safe_name(listed + guess))
        for (kind, uri), numbers in tests.items():
            lines.append(safe_name(f"{kind} in tests: {uri}:{', '.join(map(str, numbers))}"))
        lines += [note.detail for note in neighbours.incomplete if note.reason == "candidates"]
        return Result(data, "\n".join(lines) or "Nothing is related to it.")

    return bounded(show, given.limit or _USUAL)


def _show_route(session: Session, given: RelatedInput) -> Result:
    if given.kinds or given.limit:
        other = "kinds" if given.kinds else "limit"
        raise InvalidArgument(
            f"to cannot be combined with {other}.",
            hint="Ask for the way to a definition and for related ones in two calls.",
            details={"field": "to", "value": given.to, "reason": f"with {other}"},
        )
    route = session.library.call_route(given.target, given.to, collection=given.collection)
    data = {**json_shapes.call_route(route), "entries": []}
    return Result(data, "\n".join(describe_route(route)), body="\n".join(list_steps(route)))


RELATED = Tool(
    "related",
    "Related documents, commits; where a name is defined, used, called; to: how target calls it.",
    RelatedInput,
    _related,
    lean=True,
    by_reader=True,
    title="Find related",
    output_schema=RELATED_ENTRIES,
)
