"""The generations of a store: listed, compared, rolled back, pinned and pruned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from lookfar.errors import InvalidArgument
from lookfar.model import GenerationDiff
from lookfar.ports import Generation
from lookfar.store.catalogue import generations
from lookfar.store.catalogue.diff import diff
from lookfar.store.ground.sql import Connection

T = TypeVar("T")


class StoredGenerations(ABC):
    """Base class of both stores; the store says how its catalogue is read and changed."""

    @abstractmethod
    def _read(self, ask: Callable[[Connection], T]) -> T:
        """Call ``ask`` with the serving catalogue, inside one read transaction."""

    @abstractmethod
    def _changing(self, wait_seconds: float) -> AbstractContextManager[Connection]:
        """Open a transaction on the serving catalogue, for the holder of the writer lock."""

    def generations(self) -> list[Generation]:
        return self._read(generations.list_generations)

    def history(self) -> tuple[int, list[Generation]]:
        """Return the active number and every kept generation, read at one moment."""
        return self._read(lambda c: (generations.active(c), generations.list_generations(c)))

    def held(self) -> int | None:
        """Return the generation that a rollback holds the collection at, if any."""
        return self._read(generations.read_held_generation)

    def diff(self, older: int, newer: int) -> GenerationDiff:
        return self._read(lambda c: diff(c, *(generations.resolve(c, n) for n in (older, newer))))

    def roll_back(self, number: int, *, wait_seconds: float = 0.0) -> None:
        """Serve a kept generation to all readers until the next write session."""
        with self._changing(wait_seconds) as connection:
            generations.roll_back(connection, number)

    def pin(self, number: int, *, pinned: bool = True, wait_seconds: float = 0.0) -> None:
        """Exempt a generation from retention, or no longer."""
        with self._changing(wait_seconds) as connection:
            generations.pin(connection, number, pinned)

    def prune(self, keep: int, *, wait_seconds: float = 0.0) -> tuple[int, int]:
        """Apply retention now; return how many generations and document versions were removed."""
        if keep < 1:
            raise InvalidArgument(
                f"Cannot keep {keep} generations.", hint="Keep 1 or more; 1 is the serving one."
            )
        with self._changing(wait_seconds) as connection:
            return generations.prune(connection, keep)
