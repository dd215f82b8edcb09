"""The routes of the graph view: linked documents, and the calls of a definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from lookfar.model import CallGraph
from lookfar.serve.http.web.collection_input import CollectionInput
from lookfar.serve.show import json_shapes
from lookfar.serve.tools.tool import Call, Input, Json, Result, Session, Tool


class GraphInput(CollectionInput):
    around: Annotated[str, Field(description="A URI: only documents close to it")] = ""
    depth: Annotated[
        int, Field(ge=0, le=10, description="With around: at most this many links away; 0 is all")
    ] = 0
    community: Annotated[int, Field(ge=-1, description="Only this community; -1 means all")] = -1
    most: Annotated[int, Field(ge=1, le=1000)] = 300


def _graph(session: Session, given: GraphInput, _: Call) -> Result:
    library = session.library
    library.first_index()
    graph = library.graph(
        most=given.most,
        around=given.around,
        depth=given.depth or None,
        community=given.community if given.community >= 0 else None,
        collection=given.choose_collection(library),
    )
    data = {
        "collection": graph.collection,
        "generation": graph.generation,
        "documents": graph.documents,
        "nodes": json_shapes.plain(graph.nodes),
        "edges": json_shapes.plain(graph.edges),
        "communities": json_shapes.plain(graph.communities[:100]),
    }
    return Result(data, "")


class CallsInput(Input):
    target: Annotated[str, Field(min_length=1, description="A definition: URI#name, or a name")]
    collection: str = ""
    depth: Annotated[int, Field(ge=1, le=6, description="At most this many calls away")] = 2
    most: Annotated[int, Field(ge=1, le=300, description="In each direction")] = 60


def _calls(session: Session, given: CallsInput, _: Call) -> Result:
    library = session.library
    library.first_index()
    callers, callees = (
        library.call_graph(
            given.target,
            direction=direction,
            depth=given.depth,
            limit=given.most,
            collection=given.collection,
        )
        for direction in ("callers", "callees")
    )
    data = {
        "collection": callers.collection,
        "generation": callers.generation,
        "uri": callers.uri,
        "name": callers.name,
        "kind": callers.kind,
        "line": callers.line,
        "end_line": callers.end_line,
        "depth": given.depth,
        "complete": callers.complete and callees.complete,
        "callers": _nodes(callers),
        "callees": _nodes(callees),
        "incomplete": json_shapes.incomplete(callers.incomplete),
    }
    return Result(data, "")


def _nodes(graph: CallGraph) -> list[Json]:
    nodes: list[Json] = json_shapes.plain(graph.nodes)
    return nodes


ROWS: Sequence[Tool] = (
    Tool("graph", "Linked documents and their communities.", GraphInput, _graph),
    Tool("calls", "What calls a definition, and what it calls.", CallsInput, _calls),
)
