"""Fixtures: every store that the contract holds for, and a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

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


@pytest.fixture(params=["embedded", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    if request.param == "embedded":
        return lambda: CollectionStore(tmp_path / "index")
    server: PgServer = request.getfixturevalue("pg")
    name = f"test-{next(_numbers)}"
    return lambda: PostgresStore(Server(server.url()), name, tmp_path / "index")


@pytest.fixture
def shelf(opened: Open) -> Iterator[Shelf]:
    made = Shelf(opened())
    yield made
    made.store.close()
