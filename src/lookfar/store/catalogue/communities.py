"""Communities of a graph by the Louvain method: groups with more links inside than by chance.

The result is deterministic: nodes are visited in order, and ties go to the lowest community.
A library for this would require SciPy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_MOST_ROUNDS = 12
"""Rounds of moves at one level; later moves hardly matter."""
_WORTH_IT = 0.002
"""The share of nodes that must still move to justify another round."""

Edges = Iterable[tuple[int, int, float]]
"""Two nodes and a weight; each pair occurs once."""


def louvain(count: int, edges: Edges) -> list[int]:
    """Return the community of each of ``count`` nodes, numbered by first member.

    A node without edges is a community of its own.
    """
    adjacent: list[dict[int, float]] = [{} for _ in range(count)]
    for one, other, weight in edges:
        adjacent[one][other] = adjacent[one].get(other, 0.0) + weight
        adjacent[other][one] = adjacent[other].get(one, 0.0) + weight
    membership = list(range(count))
    inside = [0.0] * count  # Twice the weight within a merged node.
    while True:
        labels, moved = _move_nodes(adjacent, inside)
        numbers = _renumber(labels)
        membership = [numbers[node] for node in membership]
        if not moved or max(numbers, default=-1) + 1 == len(adjacent):
            return _renumber(membership)
        adjacent, inside = _merge(adjacent, inside, numbers)


def _move_nodes(
    adjacent: Sequence[dict[int, float]], inside: Sequence[float]
) -> tuple[list[int], bool]:
    """Move each node to the best neighbouring community until few nodes move."""
    degrees = [sum(near.values()) + own for near, own in zip(adjacent, inside, strict=True)]
    total = sum(degrees)
    community = list(range(len(adjacent)))
    sums = list(degrees)
    moved_ever = False
    for _ in range(_MOST_ROUNDS):
        moved = 0
        for node, near in enumerate(adjacent):
            if not near:
                continue
            links: dict[int, float] = {}
            for other, weight in near.items():
                theirs = community[other]
                links[theirs] = links.get(theirs, 0.0) + weight
            own = community[node]
            share = degrees[node] / total
            sums[own] -= degrees[node]
            chosen, most = own, links.get(own, 0.0) - share * sums[own]
            for theirs, weight in links.items():
                gain = weight - share * sums[theirs]
                if gain > most + 1e-12 or (gain > most - 1e-12 and theirs < chosen):
                    chosen, most = theirs, gain
            sums[chosen] += degrees[node]
            if chosen != own:
                community[node] = chosen
                moved += 1
        moved_ever |= moved > 0
        if moved <= _WORTH_IT * len(adjacent):
            break
    return community, moved_ever


def _renumber(labels: Sequence[int]) -> list[int]:
    """Number the groups from 0, in the order of their first members."""
    numbers: dict[int, int] = {}
    return [numbers.setdefault(label, len(numbers)) for label in labels]


def _merge(
    adjacent: Sequence[dict[int, float]], inside: Sequence[float], numbers: Sequence[int]
) -> tuple[list[dict[int, float]], list[float]]:
    """Return the graph whose nodes are the communities of this one."""
    count = max(numbers) + 1
    above: list[dict[int, float]] = [{} for _ in range(count)]
    within = [0.0] * count
    for node, near in enumerate(adjacent):
        own = numbers[node]
        within[own] += inside[node]
        for other, weight in near.items():
            theirs = numbers[other]
            if theirs == own:
                within[own] += weight
            else:
                above[own][theirs] = above[own].get(theirs, 0.0) + weight
    return above, within
