"""Drawing a part of the link graph."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from lookfar.model import LinkGraph
from lookfar.retrieve.neighbours.drawing import draw_graph


@dataclass
class Linked:
    """Two triangles with one link between them, a pair, and a page without links."""

    uris: list[str] = field(default_factory=lambda: [f"{name}.md" for name in "abcdefghi"])
    titles: list[str] = field(default_factory=lambda: list("ABCDEFGHI"))
    neighbours: list[list[int]] = field(
        default_factory=lambda: [[1, 2], [0, 2], [0, 1, 3], [2, 4, 5], [3, 5], [3, 4], [7], [6], []]
    )
    communities: list[int] = field(default_factory=lambda: [7, 7, 7, 9, 9, 9, 4, 4, -9])


def draw(most: int = 100, around: str = "", community: int | None = None) -> LinkGraph:
    return draw_graph(Linked(), most, around, community, collection="docs", generation=3)


def test_linked_documents_are_drawn_most_linked_first() -> None:
    whole = draw()
    assert [node.uri for node in whole.nodes[:2]] == ["c.md", "d.md"]
    assert {node.uri for node in whole.nodes} == {f"{name}.md" for name in "abcdefgh"}
    assert whole.documents == 8
    linked = {tuple(sorted((whole.nodes[a].uri, whole.nodes[b].uri))) for a, b in whole.edges}
    assert len(linked) == len(whole.edges) == 8
    assert ("c.md", "d.md") in linked


def test_communities_are_ranked_by_size_and_named_after_most_linked() -> None:
    whole = draw(1)
    assert [(name.number, name.size, name.uri) for name in whole.communities] == [
        (0, 3, "c.md"),
        (1, 3, "d.md"),
        (2, 2, "g.md"),
    ]
    assert len(whole.nodes) == 1
    assert whole.edges == ()
    assert whole.documents == 8


@pytest.mark.parametrize(
    ("most", "wanted"),
    [(1, ["a.md"]), (3, ["a.md", "c.md", "b.md"]), (4, ["a.md", "c.md", "b.md", "d.md"])],
)
def test_nearest_documents_come_first_around_a_document(most: int, wanted: list[str]) -> None:
    assert [node.uri for node in draw(most, around="a.md").nodes] == wanted


def test_document_without_links_is_drawn_alone() -> None:
    assert [node.uri for node in draw(around="i.md").nodes] == ["i.md"]


def test_single_community_can_be_drawn() -> None:
    alone = draw(community=1)
    assert {node.uri for node in alone.nodes} == {"d.md", "e.md", "f.md"}
    assert {node.community for node in alone.nodes} == {1}
    assert len(alone.edges) == 3
