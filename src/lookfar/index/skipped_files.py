"""Summarise the files that a pass or a walk skipped: how many for each reason, with examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from lookfar.model import Skipped
from lookfar.ports import LeftOut, Store
from lookfar.sources.folder.policy import read_extension
from lookfar.sources.folder.walk import Walk

MOST_EXAMPLES: Final = 5


class SkippedFiles(NamedTuple):
    """Skipped files by reason."""

    counts: dict[str, int]
    examples: dict[str, tuple[str, ...]]


def summarise_skipped(
    seen: Walk | None, left: Collection[LeftOut], without_parser: int = 0
) -> SkippedFiles:
    """Summarise what a walk skipped by name and what was skipped for its content."""
    counts = Counter(seen.skipped_counts if seen is not None else {})
    counts.update(entry.code for entry in left if not entry.failed)
    if without_parser:
        counts["no_parser"] += without_parser
    uris: dict[str, list[str]] = {}
    for skipped in list_skipped(seen, left):
        uris.setdefault(skipped.reason, []).append(skipped.uri)
    examples = {reason: _choose_examples(names) for reason, names in sorted(uris.items())}
    return SkippedFiles(dict(sorted(counts.items())), examples)


def summarise_stored(store: Store, seen: Walk | None) -> SkippedFiles:
    """Summarise what a walk skipped, and what the last pass into this store skipped."""
    return summarise_skipped(seen, load_left_out(store))


def load_left_out(store: Store) -> tuple[LeftOut, ...]:
    """Return the files that the last pass into this store did not index."""
    if not store.exists:
        return ()
    with store.snapshot() as snapshot:
        return tuple(snapshot.left_out().values())


def list_skipped(seen: Walk | None, left: Collection[LeftOut]) -> list[Skipped]:
    """Return every skipped file that is known by name, sorted by URI, but not files that failed."""
    entries = list(seen.skipped) if seen is not None else []
    entries += (Skipped(entry.uri, entry.code, entry.message) for entry in left if not entry.failed)
    return sorted(entries, key=lambda entry: entry.uri)


def _choose_examples(uris: Sequence[str]) -> tuple[str, ...]:
    """Return a few files, of different types as far as possible."""
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, str]] = []
    for uri in uris:
        extension = read_extension(uri)
        ranked.append((seen[extension], uri))
        seen[extension] += 1
    return tuple(uri for _, uri in sorted(ranked)[:MOST_EXAMPLES])
