"""Choose the part of the link graph to draw."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import islice

from lookfar.model import Community, GraphNode, LinkGraph
from lookfar.ports import LinkedDocuments


def draw_graph(
    graph: LinkedDocuments,
    most: int,
    around: str,
    community: int | None,
    *,
    collection: str,
    generation: int,
    depth: int | None = None,
) -> LinkGraph:
    """Return the most linked documents, those around a document, or those of a community.

    Those around a document are at most ``depth`` links away, if that is given.
    """
    linked = [at for at, near in enumerate(graph.neighbours) if near]
    ranks, communities = _rank_communities(graph, linked)
    if around:
        chosen = list(islice(_walk_outwards(graph, around, depth), most))
    else:
        wanted = (
            linked
            if community is None
            else [at for at in linked if ranks[graph.communities[at]] == community]
        )
        chosen = sorted(wanted, key=lambda at: (-len(graph.neighbours[at]), graph.uris[at]))[:most]
    place = {at: number for number, at in enumerate(chosen)}
    edges = (
        (place[at], place[other])
        for at in chosen
        for other in graph.neighbours[at]
        if at < other and other in place
    )
    return LinkGraph(
        collection=collection,
        generation=generation,
        nodes=tuple(
            GraphNode(
                graph.uris[at],
                graph.titles[at],
                # Only the document that was asked about can be without links.
                ranks.get(graph.communities[at], 0),
                len(graph.neighbours[at]),
            )
            for at in chosen
        ),
        edges=tuple(edges),
        communities=communities,
        documents=len(linked),
    )


def _rank_communities(
    graph: LinkedDocuments, linked: Sequence[int]
) -> tuple[dict[int, int], tuple[Community, ...]]:
    """Return the rank of each community by size, and their descriptions."""
    sizes = Counter(graph.communities[at] for at in linked)
    best: dict[int, int] = {}
    for at in linked:
        number = graph.communities[at]
        known = best.get(number)
        if known is None or len(graph.neighbours[at]) > len(graph.neighbours[known]):
            best[number] = at
    order = sorted(sizes, key=lambda number: (-sizes[number], graph.uris[best[number]]))
    ranks = {number: rank for rank, number in enumerate(order)}
    named = tuple(
        Community(rank, sizes[number], graph.titles[best[number]], graph.uris[best[number]])
        for number, rank in ranks.items()
    )
    return ranks, named


def _walk_outwards(graph: LinkedDocuments, uri: str, depth: int | None) -> Iterator[int]:
    """Yield documents by their distance from the document ``uri``, the most linked first."""
    start = graph.uris.index(uri)
    distance, waiting = {start: 0}, deque([start])
    while waiting:
        at = waiting.popleft()
        yield at
        if depth is not None and distance[at] >= depth:
            continue
        new = [other for other in graph.neighbours[at] if other not in distance]
        new.sort(key=lambda other: (-len(graph.neighbours[other]), graph.uris[other]))
        distance.update(dict.fromkeys(new, distance[at] + 1))
        waiting.extend(new)
