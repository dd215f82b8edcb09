"""Which memories are superseded by another, from what each of them says that it replaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def find_superseded(supersedes: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return the superseded names, each with the name that supersedes it.

    ``supersedes`` has every existing name with the names that it replaces, with or without suffix.
    Two that supersede each other, and one that supersedes itself, hide nothing.
    """
    by_stem = {_stem(name): name for name in supersedes}
    pairs = {
        (_stem(name), _stem(target)) for name, targets in supersedes.items() for target in targets
    }
    return {
        by_stem[older]: by_stem[newer]
        for newer, older in sorted(pairs)
        if older in by_stem and newer != older and (older, newer) not in pairs
    }


def _stem(name: str) -> str:
    return name.strip().casefold().removesuffix(".md")
