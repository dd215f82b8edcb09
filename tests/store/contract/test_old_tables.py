"""A library with tables of version 0.2.0, whose servers searched, is migrated when it is used."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path

import pytest

from lookfar import Library
from lookfar.embed.hashed import HashedEmbedder
from lookfar.model import Filters
from lookfar.store.postgres.server import Server, server_at
from lookfar.store.postgres.store import PostgresStore
from store.contract.pgserver import PgServer
from store.shelf import Shelf, words

DUMP = Path(__file__).parents[1] / "old_indexes" / "postgres-tables-4.sql.xz"
VAULT = "vault-c717acaac37fed4d"


@pytest.fixture
def url(pg: PgServer, tmp_path: Path) -> Iterator[str]:
    """A database as an earlier version left it, with an index of vectors."""
    pg.execute("DROP DATABASE IF EXISTS older WITH (FORCE)", "CREATE DATABASE older OWNER lookfar",
               database="postgres")  # fmt: skip
    pg.execute("CREATE EXTENSION vector", database="older")
    script = pg.folder / "older.sql"
    script.write_bytes(lzma.decompress(DUMP.read_bytes()))
    pg.run("psql", "-q", "-f", script, "-d", pg.url(database="older"))
    pg.execute(
        "CREATE INDEX embeddings_nearest_1 ON lookfar.embeddings USING hnsw"
        " ((vector::halfvec(64)) halfvec_ip_ops) WHERE collection = 1",
        database="older",
    )
    url = pg.url(database="older")
    yield url
    server_at(url).close()
    pg.execute("DROP DATABASE older WITH (FORCE)", database="postgres")


def test_nothing_of_an_older_library_is_lost(pg: PgServer, url: str, tmp_path: Path) -> None:
    def open_front(copies: str) -> Shelf:
        return Shelf(PostgresStore(Server(url), VAULT, tmp_path, tmp_path / copies))

    shelf = open_front("one")
    assert shelf.store.exists
    pg.execute("DROP EXTENSION vector", database="older")
    assert set(shelf.everything()) == {"guide.md", "notes.md", "engine.py", "empty.md"}
    assert [kept.number for kept in shelf.store.generations()] == [1, 2, 3]
    for number, word in ((1, "tea"), (2, "birch"), (3, "fjord")):
        with shelf.store.snapshot(number) as snapshot:
            assert [place.uri for place, _ in words(snapshot, word)] == ["notes.md"]
    with shelf.store.snapshot() as snapshot:
        embedder = HashedEmbedder()
        near = snapshot.vector_search(embedder.embed_query("Amber fjords"), 3, Filters())
        assert near[0][0].uri == "notes.md"
        assert near[0][1] > 0.5
        assert snapshot.property_kinds()["rank"] == {"number"}
    assert shelf.store.verify() == []
    shelf.fingerprint = shelf.store.fingerprint()
    assert shelf.write({"new.md": "# New\n\ncrimson silver\n"}) == 4
    other = open_front("two")
    assert other.found("silver") == ["new.md"]
    assert other.store.verify() == []


def test_inserted_documents_survive(url: str, tmp_path: Path) -> None:
    settings = {
        "embed.provider": "hash", "store.url": url, "index.dir": str(tmp_path / "indexes"),
        "documents.dir": str(tmp_path / "documents"),
    }  # fmt: skip
    with Library.open(tmp_path, settings=settings) as library:
        database = library.database("notes")
        database.insert("A new note about birches.", {"n": 7})
        found, _ = library.find_similar("crimson engine", database="notes")
        assert [hit.metadata.get("n") for hit in found] == [0, 1, 7]
