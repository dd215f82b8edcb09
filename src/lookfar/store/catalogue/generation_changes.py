"""Changes of the list of generations, which are the same in every store.

Takes: from each store one transaction on its list, for the holder of the writer lock. Gives:
roll-back, pins and pruning. Refuses: to keep no generation at all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from lookfar.errors import InvalidArgument
from lookfar.store.catalogue import generations
from lookfar.store.ground.sql import Connection


class Changing(ABC):
    """A store whose generations can be moved between, kept and let go of."""

    @abstractmethod
    def _changing(self, wait_seconds: float) -> AbstractContextManager[Connection]:
        """One transaction on what serves."""

    def roll_back(self, number: int, *, wait_seconds: float = 0.0) -> None:
        """Serve a kept generation, at once and for all readers, until the next write session."""
        with self._changing(wait_seconds) as connection:
            generations.roll_back(connection, number)

    def pin(self, number: int, *, pinned: bool = True, wait_seconds: float = 0.0) -> None:
        """Keep a generation whatever retention says."""
        with self._changing(wait_seconds) as connection:
            generations.pin(connection, number, pinned)

    def unpin(self, number: int, *, wait_seconds: float = 0.0) -> None:
        """Leave a generation to retention again."""
        self.pin(number, pinned=False, wait_seconds=wait_seconds)

    def prune(self, keep: int, *, wait_seconds: float = 0.0) -> tuple[int, int]:
        """Retention now: how many generations and how many document versions went."""
        if keep < 1:
            raise InvalidArgument(
                f"{keep} generations cannot be kept.", hint="Keep 1 or more; 1 is the serving one."
            )
        with self._changing(wait_seconds) as connection:
            return generations.prune(connection, keep)
