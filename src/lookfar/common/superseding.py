"""Which memories are superseded by another, from what each of them says that it replaces.

Memories that supersede each other in a loop hide none of themselves: nothing says which one is
right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def find_superseded(supersedes: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return the superseded names, each with the name that supersedes it.

    ``supersedes`` has every existing name with the names that it replaces, with or without suffix.
    """
    targets = _link_names(supersedes)
    loops = _find_components(targets)
    return {
        older: newer
        for newer in sorted(targets)
        for older in sorted(targets[newer])
        if loops[older] != loops[newer]
    }


def find_loops(supersedes: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Return the names that supersede themselves through others, each with all of its loop."""
    loops: dict[str, list[str]] = {}
    for name, first in sorted(_find_components(_link_names(supersedes)).items()):
        loops.setdefault(first, []).append(name)
    return {name: tuple(loop) for loop in loops.values() if len(loop) > 1 for name in loop}


def describe_loop(loop: Sequence[str]) -> list[str]:
    """Return the warning for a memory in a loop; nothing without one."""
    if not loop:
        return []
    return [f"{', '.join(loop)} supersede each other in a loop, so that none of them is hidden"]


def _link_names(supersedes: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """Return each name with the other existing names that it replaces."""
    by_stem = {_stem(name): name for name in supersedes}
    links = {
        name: {by_stem[stem] for stem in map(_stem, targets) if stem in by_stem}
        for name, targets in supersedes.items()
    }
    return {name: targets - {name} for name, targets in links.items()}


def _find_components(targets: Mapping[str, set[str]]) -> dict[str, str]:
    """Return for each name one name of its strongly connected component (Kosaraju's algorithm)."""
    finished: list[str] = []
    visited: set[str] = set()
    for name in targets:
        _visit(name, targets, visited, finished)
    sources: dict[str, set[str]] = {name: set() for name in targets}
    for name, others in targets.items():
        for other in others:
            sources[other].add(name)
    component: dict[str, str] = {}
    visited = set()
    for name in reversed(finished):
        members: list[str] = []
        _visit(name, sources, visited, members)
        component |= dict.fromkeys(members, name)
    return component


def _visit(name: str, links: Mapping[str, set[str]], visited: set[str], order: list[str]) -> None:
    """Add the names that are reached from one and were not visited, each after those behind it."""
    if name in visited:
        return
    visited.add(name)
    path = [(name, iter(sorted(links[name])))]
    while path:
        current, rest = path[-1]
        following = next((other for other in rest if other not in visited), None)
        if following is None:
            order.append(current)
            path.pop()
        else:
            visited.add(following)
            path.append((following, iter(sorted(links[following]))))


def _stem(name: str) -> str:
    return name.strip().casefold().removesuffix(".md")
