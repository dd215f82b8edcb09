"""Read the places of chunks, and keep those of recent questions for the next ones.

Within one generation a place never changes. Questions of one conversation ask for many of the same
chunks, and one question for some of them several times.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from sqlite3 import Connection
from typing import Final

from lookfar.common.recent import RecentTable
from lookfar.ports import Place
from lookfar.store.catalogue import rows as catalog

_MOST: Final = 32_768
"""Entries of each cache; one takes about half a kilobyte."""


class RecentPlaces:
    """The places of one generation by chunk and by vector row. May be shared by threads."""

    def __init__(self) -> None:
        self._by_key: RecentTable[int, Place | None] = RecentTable(_MOST)
        self._by_vector: RecentTable[int, Sequence[Place]] = RecentTable(_MOST)
        self._alive: RecentTable[int, bool] = RecentTable(_MOST)

    def by_key(
        self, connection: Connection, generation: int, keys: Sequence[int]
    ) -> dict[int, Place]:
        """Return the live chunks among these keys, in their order."""

        def read(missing: Sequence[int]) -> Mapping[int, Place | None]:
            return catalog.places_by_key(connection, missing, generation)

        places = self._by_key.look_up(keys, read, None)
        return {key: place for key in keys if (place := places[key]) is not None}

    def by_vector(
        self, connection: Connection, generation: int, rows: Sequence[int]
    ) -> Mapping[int, Sequence[Place]]:
        """Return a table with the live chunks of each vector row; equal texts share a row."""

        def read(missing: Sequence[int]) -> Mapping[int, Sequence[Place]]:
            read_now = catalog.places_by_vector(connection, missing, generation)
            self._by_key.add({place.key: place for some in read_now.values() for place in some})
            return read_now

        return self._by_vector.look_up(rows, read, ())

    def filter_live(
        self, connection: Connection, generation: int, documents: Sequence[int]
    ) -> Collection[int]:
        """Return the live ones among these documents."""

        def read(missing: Sequence[int]) -> Mapping[int, bool]:
            return dict.fromkeys(catalog.filter_live(connection, missing, generation), True)

        alive = self._alive.look_up(documents, read, False)
        return {document for document in documents if alive[document]}
