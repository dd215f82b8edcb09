"""A server with the only copy of documents: intact rows are salvaged, and nothing is removed."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from lookfar.errors import IndexCorrupt
from lookfar.ports import StoredDocument
from lookfar.store.postgres.server import Server
from lookfar.store.postgres.store import PostgresStore
from store.contract.pgserver import PgServer
from store.shelf import Shelf

TEXTS = {f"{name}.md": f"# {name}\n\nthe words of {name}\n" for name in "abc"}


def digest(document: StoredDocument) -> bytes:
    return sha256(document.text.encode()).digest()


def test_an_only_copy_on_a_server_is_salvaged_and_not_removed(pg: PgServer, tmp_path: Path) -> None:
    """Seen to fail when ``set_aside`` did not refuse: it removed every row."""
    store = PostgresStore(
        Server(pg.url()), "documents/only", tmp_path / "index", tmp_path / "copies"
    )
    shelf = Shelf(store)
    shelf.write(TEXTS)
    with pytest.raises(IndexCorrupt):
        store.set_aside("damaged")
    pg.execute(
        "UPDATE lookfar.texts t SET body = 'rubbish' FROM lookfar.documents d JOIN"
        " lookfar.collections c USING (collection) WHERE d.text_sha = t.sha AND d.uri = 'b.md'"
        " AND c.name = 'documents/only' AND t.collection = d.collection"
    )
    assert [damage.artefact for damage in store.verify()] == ["texts"]
    store = PostgresStore(Server(pg.url()), "documents/only", tmp_path / "index", tmp_path / "new")
    with pytest.raises(IndexCorrupt):
        list(store.written())
    with store.salvage(
        shelf.fingerprint, shelf.embedder.dimensions, digest, about={}, retain=3, why="damaged"
    ) as (session, rescue):
        for document in rescue.documents():
            session.put(shelf.version(document.uri, document.text, session))
        session.activate({})
    assert (rescue.saved, rescue.missing, rescue.lost) == (2, 1, {"b.md"})
    with store.snapshot() as snapshot:
        assert snapshot.uris() == ["a.md", "c.md"]
    assert len(store.kept_aside) == 1
    shelf.write({"d.md": "# d\n\nmore\n"})
    assert len(store.kept_aside) == 1
    store.delete()
    assert store.kept_aside == []


def test_missing_rows_on_a_server_are_noticed(pg: PgServer, tmp_path: Path) -> None:
    """Seen to fail without ``refuse_miscount``: the others were exported without an error."""
    store = PostgresStore(
        Server(pg.url()), "documents/counted", tmp_path / "index", tmp_path / "copies"
    )
    Shelf(store).write(TEXTS)
    pg.execute(
        "DELETE FROM lookfar.documents d USING lookfar.collections c WHERE d.uri = 'b.md'"
        " AND c.collection = d.collection AND c.name = 'documents/counted'"
    )
    store = PostgresStore(
        Server(pg.url()), "documents/counted", tmp_path / "index", tmp_path / "new"
    )
    with pytest.raises(IndexCorrupt):
        list(store.written())
    store.delete()
