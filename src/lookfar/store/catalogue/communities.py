"""Communities of a graph by Louvain's method: groups with more links inside than chance has.

Takes: how many nodes there are, and weighted edges between them. Gives: the community of
each node, numbered by first member. Refuses: chance; nodes are visited in order and ties go
to the lowest community, so equal graphs have equal communities, in every process.

A library for it would bring SciPy along, for a method of a page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_MOST_ROUNDS = 12
"""Rounds of moves at one level; what moves after that hardly matters."""
_WORTH_IT = 0.002
"""Share of nodes that must still move for another round to be worth its time."""

Edges = Iterable[tuple[int, int, float]]
"""Two nodes and a weight; each pair once."""


def louvain(count: int, edges: Edges) -> list[int]:
    """The community of each of ``count`` nodes; a node without edges is one by itself."""
    adjacent: list[dict[int, float]] = [{} for _ in range(count)]
    for one, other, weight in edges:
        adjacent[one][other] = adjacent[one].get(other, 0.0) + weight
        adjacent[other][one] = adjacent[other].get(one, 0.0) + weight
    membership = list(range(count))
    inside = [0.0] * count  # Twice the weight that a node of a higher level holds within.
    while True:
        found, moved = _moves(adjacent, inside)
        numbers = _numbered(found)
        membership = [numbers[each] for each in membership]
        if not moved or max(numbers, default=-1) + 1 == len(adjacent):
            return _numbered(membership)
        adjacent, inside = _merged(adjacent, inside, numbers)


def _moves(adjacent: Sequence[dict[int, float]], inside: Sequence[float]) -> tuple[list[int], bool]:
    """Move each node to the neighbouring community that it fits best, until few want to."""
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
                its = community[other]
                links[its] = links.get(its, 0.0) + weight
            own = community[node]
            share = degrees[node] / total
            sums[own] -= degrees[node]
            chosen, most = own, links.get(own, 0.0) - share * sums[own]
            for its, weight in links.items():
                gain = weight - share * sums[its]
                if gain > most + 1e-12 or (gain > most - 1e-12 and its < chosen):
                    chosen, most = its, gain
            sums[chosen] += degrees[node]
            if chosen != own:
                community[node] = chosen
                moved += 1
        moved_ever |= moved > 0
        if moved <= _WORTH_IT * len(adjacent):
            break
    return community, moved_ever


def _numbered(labels: Sequence[int]) -> list[int]:
    """The same grouping with numbers from 0, in the order of their first members."""
    numbers: dict[int, int] = {}
    return [numbers.setdefault(label, len(numbers)) for label in labels]


def _merged(
    adjacent: Sequence[dict[int, float]], inside: Sequence[float], numbers: Sequence[int]
) -> tuple[list[dict[int, float]], list[float]]:
    """The graph whose nodes are the communities of this one."""
    count = max(numbers) + 1
    above: list[dict[int, float]] = [{} for _ in range(count)]
    within = [0.0] * count
    for node, near in enumerate(adjacent):
        its = numbers[node]
        within[its] += inside[node]
        for other, weight in near.items():
            theirs = numbers[other]
            if theirs == its:
                within[its] += weight
            else:
                above[its][theirs] = above[its].get(theirs, 0.0) + weight
    return above, within
