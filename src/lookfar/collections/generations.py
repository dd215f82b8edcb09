"""List, compare, restore and prune the generations that a collection keeps."""

from __future__ import annotations

from collections.abc import Sequence

from lookfar.errors import InvalidArgument
from lookfar.model import Counts, GenerationInfo, Pruned
from lookfar.ports import Generation, Store


class Generations:
    """The kept generations of one collection."""

    def __init__(self, store: Store, *, can_roll_back: bool = True) -> None:
        self._store = store
        self._can_roll_back = can_roll_back

    def list(self) -> tuple[GenerationInfo, ...]:
        """Return every kept generation with its manifest, the oldest first."""
        active, generations = self._store.history()
        return tuple(_describe(generation, active) for generation in generations)

    def roll_back(self, number: int, *, wait_seconds: float = 0.0) -> GenerationInfo:
        """Answer from a kept generation, in every process, until the collection is indexed.

        Until then it can be rolled forward too; the newest generation is not held.
        """
        if not self._can_roll_back:
            raise InvalidArgument(
                "A database of inserted documents cannot be rolled back.",
                hint="Search an earlier generation with as_of, or delete documents by their"
                " doc_id.",
            )
        self._store.roll_back(number, wait_seconds=wait_seconds)
        return self._find(number)

    def pin(self, number: int, *, wait_seconds: float = 0.0) -> GenerationInfo:
        """Keep a generation regardless of retention."""
        self._store.pin(number, wait_seconds=wait_seconds)
        return self._find(number)

    def unpin(self, number: int, *, wait_seconds: float = 0.0) -> GenerationInfo:
        """Let retention remove a generation again, with the next pass."""
        self._store.pin(number, pinned=False, wait_seconds=wait_seconds)
        return self._find(number)

    def prune(self, keep: int, *, wait_seconds: float = 0.0) -> Pruned:
        """Keep the newest ``keep`` generations, the pinned ones and the active one."""
        removed, documents = self._store.prune(keep, wait_seconds=wait_seconds)
        numbers = tuple(generation.number for generation in self._store.generations())
        return Pruned(removed, documents, numbers)

    def _find(self, number: int) -> GenerationInfo:
        return next(generation for generation in self.list() if generation.number == number)


def describe_loss(generations: Sequence[int]) -> str:
    """Say what a rebuild drops; empty if there is only the serving generation."""
    numbers = ", ".join(map(str, generations))
    return f", which drops generations {numbers} unless one is pinned" if generations[1:] else ""


def _describe(generation: Generation, active: int) -> GenerationInfo:
    manifest = generation.manifest
    return GenerationInfo(
        number=generation.number,
        created_at=generation.created_at,
        active=generation.number == active,
        pinned=generation.pinned,
        counts=Counts(
            manifest.get("documents", 0),
            manifest.get("sections", 0),
            manifest.get("chunks", 0),
            manifest.get("links", 0),
        ),
        content=manifest.get("content", ""),
        model=manifest.get("model", ""),
        model_fingerprint=manifest.get("model_fingerprint", ""),
        added=manifest.get("added", 0),
        changed=manifest.get("changed", 0),
        removed=manifest.get("removed", 0),
        failures=manifest.get("failures", 0),
        seconds=manifest.get("seconds", 0.0),
    )
