"""Read the places of chunks, and keep those of recent questions for the next ones.

Within one generation a place never changes. Questions of one conversation ask for many of the same
chunks, and one question for some of them several times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Final, Generic, TypeVar

from lookfar.ports import Place
from lookfar.store.catalogue import rows as catalog
from lookfar.store.ground.sql import Connection

_MOST: Final = 8192
"""Entries of each cache; one takes less than a kilobyte."""

T = TypeVar("T")


class _Recent(Generic[T]):
    """A bounded cache; it is emptied when it is full."""

    def __init__(self) -> None:
        self._entries: dict[int, T] = {}
        self._lock = Lock()

    def look_up(
        self, numbers: Sequence[int], read: Callable[[Sequence[int]], Mapping[int, T]], absent: T
    ) -> dict[int, T]:
        """Return the entry of each number in this order; ``read`` gives those not known yet."""
        with self._lock:
            known = {number: self._entries[number] for number in numbers if number in self._entries}
        missing = [number for number in numbers if number not in known]
        if missing:
            read_now = read(missing)
            known.update((number, read_now.get(number, absent)) for number in missing)
            with self._lock:
                if len(self._entries) + len(missing) > _MOST:
                    self._entries.clear()
                self._entries.update((number, known[number]) for number in missing[:_MOST])
        return {number: known[number] for number in numbers}


class RecentPlaces:
    """The places of one generation by chunk and by vector row. May be shared by threads."""

    def __init__(self) -> None:
        self._by_key: _Recent[Place | None] = _Recent()
        self._by_vector: _Recent[Sequence[Place]] = _Recent()

    def by_key(
        self, connection: Connection, generation: int, keys: Sequence[int]
    ) -> dict[int, Place]:
        """Return the live chunks among these keys, in their order."""

        def read(missing: Sequence[int]) -> Mapping[int, Place | None]:
            return catalog.places_by_key(connection, missing, generation)

        places = self._by_key.look_up(keys, read, None)
        return {key: place for key, place in places.items() if place is not None}

    def by_vector(
        self, connection: Connection, generation: int, rows: Sequence[int]
    ) -> dict[int, Sequence[Place]]:
        """Return the live chunks of each vector row; equal texts share a row."""

        def read(missing: Sequence[int]) -> Mapping[int, Sequence[Place]]:
            return catalog.places_by_vector(connection, missing, generation)

        return self._by_vector.look_up(rows, read, ())
