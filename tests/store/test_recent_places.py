"""Places of chunks are read once, in the order asked for, and only so many are kept."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection

import pytest

from lookfar.ports import Place
from lookfar.store.catalogue import rows
from lookfar.store.sqlite import recent_places
from lookfar.store.sqlite.recent_places import RecentPlaces
from store.shelf import Shelf


def test_places_are_read_once_in_the_order_asked_for(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if known chunks are read again, if dead ones are, or if the cache has no bound."""
    shelf.write({f"{name}.md": f"# {name}\n\ntext\n" for name in "abcdef"})
    asked: list[list[int]] = []
    read = rows.places_by_key

    def note_and_read(
        connection: Connection, keys: Sequence[int], generation: int
    ) -> dict[int, Place]:
        asked.append(list(keys))
        return read(connection, keys, generation)

    monkeypatch.setattr(rows, "places_by_key", note_and_read)
    monkeypatch.setattr(recent_places, "_MOST", 4)
    places = RecentPlaces()
    with shelf.store.snapshot() as snapshot:
        connection, generation = snapshot._connection, snapshot.generation  # type: ignore[attr-defined]
        first = places.by_key(connection, generation, [3, 1, 99])
        assert list(first) == [3, 1]
        assert list(places.by_key(connection, generation, [99, 1, 2])) == [1, 2]
        assert asked == [[3, 1, 99], [2]]
        assert list(places.by_key(connection, generation, [4, 1])) == [4, 1]
        assert list(places.by_key(connection, generation, [3])) == [3]
    assert asked == [[3, 1, 99], [2], [4], [3]]
