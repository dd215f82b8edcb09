"""Rollback, pinning and pruning of generations, shared by all stores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from lookfar.errors import InvalidArgument
from lookfar.store.catalogue import generations
from lookfar.store.ground.sql import Connection


class Changing(ABC):
    """Base class of stores with generations that can be rolled back, pinned and pruned."""

    @abstractmethod
    def _changing(self, wait_seconds: float) -> AbstractContextManager[Connection]:
        """Open a transaction on the serving index, for the holder of the writer lock."""

    def roll_back(self, number: int, *, wait_seconds: float = 0.0) -> None:
        """Serve a kept generation to all readers until the next write session."""
        with self._changing(wait_seconds) as connection:
            generations.roll_back(connection, number)

    def pin(self, number: int, *, pinned: bool = True, wait_seconds: float = 0.0) -> None:
        """Exempt a generation from retention."""
        with self._changing(wait_seconds) as connection:
            generations.pin(connection, number, pinned)

    def unpin(self, number: int, *, wait_seconds: float = 0.0) -> None:
        """Subject a generation to retention again."""
        self.pin(number, pinned=False, wait_seconds=wait_seconds)

    def prune(self, keep: int, *, wait_seconds: float = 0.0) -> tuple[int, int]:
        """Apply retention now; return how many generations and document versions were removed."""
        if keep < 1:
            raise InvalidArgument(
                f"Cannot keep {keep} generations.", hint="Keep 1 or more; 1 is the serving one."
            )
        with self._changing(wait_seconds) as connection:
            return generations.prune(connection, keep)
