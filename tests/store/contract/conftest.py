"""Fixtures: every store that the contract holds for, and a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from lookfar.ports import Store
from lookfar.store.postgres.server import Server
from lookfar.store.postgres.store import PostgresStore
from lookfar.store.sqlite.store import CollectionStore
from store.contract.pgserver import Open, PgServer, ready, short_folder
from store.shelf import Shelf

_numbers = count(1)


@pytest.fixture(scope="session")
def pg() -> Iterator[PgServer]:
    """One server for all tests that leave it as it was."""
    with short_folder() as folder:
        server = PgServer(folder / "primary")
        server.create()
        try:
            yield ready(server)
        finally:
            server.stop()


@pytest.fixture(autouse=True)
def own_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands keep copies of what is on a server in the folder of a test."""
    monkeypatch.setenv("LOOKFAR_INDEX_DIR", str(tmp_path / "indexes"))


class _FrontEnd:
    """A store that reads on one machine what it writes on another."""

    def __init__(self, reader: PostgresStore, writer: PostgresStore) -> None:
        self._reader = reader
        self._writer = writer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader if name in _READING else self._writer, name)

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


_READING = {
    "about", "damage", "diff", "exists", "fingerprint", "generations", "has_quality", "held",
    "history", "snapshot", "verify", "written",
}  # fmt: skip


@pytest.fixture(params=["embedded", "postgres", "postgres-followed"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    if request.param == "embedded":
        return lambda: CollectionStore(tmp_path / "index")
    server: PgServer = request.getfixturevalue("pg")
    name = f"test-{next(_numbers)}"

    def open_on(machine: str) -> PostgresStore:
        return PostgresStore(
            Server(server.url()), name, tmp_path / "index", tmp_path / f"copies-{machine}"
        )

    if request.param == "postgres":
        return lambda: open_on("one")
    return lambda: cast("Store", _FrontEnd(open_on(f"reader-{next(_numbers)}"), open_on("one")))


@pytest.fixture
def shelf(opened: Open) -> Iterator[Shelf]:
    made = Shelf(opened())
    yield made
    made.store.close()
