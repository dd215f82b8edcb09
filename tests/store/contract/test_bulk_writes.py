"""Many rows reach a server by COPY: whatever their text, and nothing of an interrupted build."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from lookfar.errors import StoreUnavailable
from lookfar.store.postgres import server
from lookfar.store.postgres.server import Inserts, Server
from lookfar.store.postgres.store import PostgresStore
from store.contract.pgserver import PgServer, ready, short_folder
from store.shelf import Shelf

_numbers = count(1)
ODD = {
    "tab\tand\\N.md": '# "Quoted" \\. \\N {a,b} NULL\n\ttab \\t \\x00 \\\\ %s %% $1 ${x}\n',
    "emoji-\U0001f600.md": "# \U0001f600 \u8a2d\u5b9a\n\n\u0000before and after\u0000 \u202e\n",
    "empty.md": "",
    "large.md": "# Large\n\n" + "many different words\n" * 40_000,
    "long-word.md": "# Long\n\n" + "x" * 3000 + " " + "\u00e4" * 800 + "\n",
}


@pytest.fixture
def shelf(pg: PgServer, tmp_path: Path) -> Shelf:
    name = f"bulk-{next(_numbers)}"
    return Shelf(PostgresStore(Server(pg.url()), name, tmp_path, tmp_path / "copies"))


def pages(number: int, amount: int = 300) -> dict[str, str | None]:
    return {f"{n}.md": f"# Page {n}\n\nround{number}x common word{n}\n" for n in range(amount)}


@pytest.mark.parametrize("copied", [True, False])
def test_every_text_arrives_as_it_was(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, copied: bool
) -> None:
    """NUL becomes U+FFFD in a path or title, because PostgreSQL refuses it; texts are bytes.

    Seen to fail without the replacement.
    """
    monkeypatch.setattr(server, "_MANY_COPIED", 1 if copied else 10**9)
    written = {**ODD, **pages(1, 20), "nul.md": "# Ti\0tle\n\nnul\0word\n"}
    shelf.write(written)
    assert shelf.everything() == written
    assert shelf.store.verify() == []
    with shelf.store.snapshot() as snapshot:
        document = snapshot.document("nul.md")
        assert document is not None
        assert "\0" not in document["title"]
    assert set(shelf.found("different")) == {"large.md"}
    assert len(shelf.found("common")) == 20


def test_both_ways_to_insert_leave_the_same_rows(
    pg: PgServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = []
    for most in (1, 10**9):
        monkeypatch.setattr(server, "_MANY_COPIED", most)
        name = f"bulk-{next(_numbers)}"
        Shelf(PostgresStore(Server(pg.url()), name, tmp_path, tmp_path / "copies")).write(
            {**ODD, **pages(1)}
        )
        found = []
        for table in ("documents", "chunks", "entries", "titles", "embeddings"):
            found += pg.execute(
                f"SELECT md5(string_agg(row_text, '|' ORDER BY row_text)), count(*) FROM (SELECT"
                f" (to_jsonb(t) - 'collection')::text AS row_text FROM lookfar.{table} t JOIN"
                f" lookfar.collections c USING (collection) WHERE c.name = '{name}') AS listed"
            )
        rows.append(found)
    assert rows[0] == rows[1]
    assert all(number for _, number in rows[0])


def test_a_role_without_temporary_tables_writes_all_the_same(
    pg: PgServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail before the privilege was asked for."""
    monkeypatch.setattr(server, "_MANY_COPIED", 1)
    pg.execute("REVOKE TEMPORARY ON DATABASE lookfar FROM PUBLIC, lookfar")
    try:
        shelf = Shelf(
            PostgresStore(Server(pg.url()), "no-temporary", tmp_path, tmp_path / "copies")
        )
        shelf.write(pages(1))
        assert shelf.everything() == pages(1)
        assert shelf.store.verify() == []
    finally:
        pg.execute("GRANT TEMPORARY ON DATABASE lookfar TO PUBLIC, lookfar")


def test_a_build_killed_while_it_copies_leaves_the_old_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server dies at three points of a rebuild, in the middle of a batch of tables."""
    monkeypatch.setattr(server, "_MANY_COPIED", 1)
    with short_folder() as folder:
        own = PgServer(folder / "own")
        own.create()
        try:
            ready(own)
            shelf = Shelf(PostgresStore(Server(own.url()), "copied", tmp_path, tmp_path / "copies"))
            shelf.write(pages(1, 30))
            insert = Inserts.insert
            for stop in (1, 4, 9):
                left = [stop]

                def die(self: Inserts, table: str, *rest: object, **named: object) -> None:
                    left[0] -= 1  # noqa: B023
                    if not left[0]:  # noqa: B023
                        own.kill()
                    insert(self, table, *rest, **named)  # type: ignore[arg-type]

                monkeypatch.setattr(Inserts, "insert", die)
                with pytest.raises(StoreUnavailable):
                    shelf.write(pages(2, 30), rebuild=True)
                monkeypatch.setattr(Inserts, "insert", insert)
                own.start()
                assert shelf.everything() == pages(1, 30)
                assert len(shelf.found("common", 100)) == 30
                assert shelf.store.verify() == []
            shelf.write(pages(2, 30), rebuild=True)
            assert shelf.everything() == pages(2, 30)
            assert shelf.store.verify() == []
        finally:
            own.stop()
