"""Opening SQLite: damaged, newer, read-only and contended catalogues."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lookfar.errors import (
    IndexBusy,
    IndexCorrupt,
    IndexReadOnly,
    IndexTooNew,
    IOFailed,
    LookfarError,
)
from lookfar.store.ground import database
from lookfar.store.sqlite.store import CollectionStore
from store.shelf import Elsewhere, Shelf, change_row, epoch_folder, python
from waiting import DEADLINE


def test_a_file_that_is_not_a_database_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.db"
    path.write_bytes(b"not a database, " * 100)
    with pytest.raises(IndexCorrupt) as raised:
        database.connect(path, write=False)
    assert "--rebuild" in raised.value.hint
    assert raised.value.details["path"] == str(path)


def test_a_missing_catalogue_is_damage_and_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(IndexCorrupt):
        database.connect(tmp_path / "catalogue.db", write=False)
    assert list(tmp_path.iterdir()) == []


def test_an_index_of_a_newer_lookfar_is_refused_and_left_alone(shelf: Shelf) -> None:
    """Seen to fail when only ``migrate`` looked at the version: then it was rebuilt silently."""
    shelf.write({"a.md": "old text\n"})
    change_row(shelf, "PRAGMA user_version=999")
    change_row(shelf, "UPDATE meta SET value = '999' WHERE key = 'format'")
    for fingerprint in ("one", "another"):
        again = Shelf(shelf.store.folder, fingerprint=fingerprint)
        with pytest.raises(IndexTooNew, match="newer") as raised:
            again.write({"a.md": "new text\n"})
        assert "Upgrade" in raised.value.hint
    with pytest.raises(IndexTooNew, match="newer"):
        CollectionStore(shelf.store.folder).fingerprint()


def test_a_connection_returned_after_close_is_closed(shelf: Shelf) -> None:
    """Protects against a descriptor that a slow reader leaves behind; seen to fail when only
    those were closed that lay idle."""
    shelf.write({"a.md": "text\n"})
    readers = database.Readers(epoch_folder(shelf) / "catalogue.db")
    with readers.borrow() as connection:
        readers.close()
        assert connection.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_BUSY, IndexBusy),
        (sqlite3.SQLITE_BUSY_RECOVERY, IndexBusy),
        (sqlite3.SQLITE_IOERR_WRITE, IOFailed),
        (sqlite3.SQLITE_CORRUPT, IndexCorrupt),
        (sqlite3.SQLITE_NOTADB, IndexCorrupt),
    ],
)
def test_sqlite_errors_are_typed(tmp_path: Path, code: int, kind: type[LookfarError]) -> None:
    """Seen to fail when messages were searched for words: an I/O error was called damage."""
    error = sqlite3.OperationalError("whatever the message says")
    error.sqlite_errorcode = code
    with pytest.raises(LookfarError) as raised, database.typed_errors(tmp_path):
        raise error
    assert type(raised.value) is kind
    assert raised.value.hint


def test_programming_errors_are_not_reported_as_damage(tmp_path: Path) -> None:
    connection = sqlite3.connect(":memory:")
    connection.close()
    with pytest.raises(sqlite3.ProgrammingError), database.typed_errors(tmp_path):
        connection.execute("SELECT 1")


def test_a_read_only_catalogue_can_be_read(shelf: Shelf, small_disk: Path) -> None:
    there = Shelf(small_disk / "index")
    there.write({"a.md": "some text\n"})
    there.store.close()
    path = epoch_folder(there) / "catalogue.db"
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with closing(database.connect(path, write=False)) as connection:
        assert connection.execute("SELECT uri FROM documents").fetchall() == [("a.md",)]
    with pytest.raises(IndexReadOnly) as raised:
        database.connect(path, write=True)
    assert raised.value.hint


def test_the_log_of_a_killed_writer_is_read_on_a_read_only_disk(
    small_disk: Path, elsewhere: Elsewhere
) -> None:
    """Seen to fail when readers opened catalogues as immutable: the newest commit was missing."""
    there = Shelf(small_disk / "index")
    there.write({"a.md": "first\n"})
    there.store.close()
    killed = elsewhere(
        """
        import os, sys
        from pathlib import Path
        from shelf import Shelf
        Shelf(Path(sys.argv[1])).write({"b.md": "second\\n"})
        os._exit(9)
        """,
        small_disk / "index",
    )
    assert killed.returncode == 9, killed.stderr
    assert (epoch_folder(there) / "catalogue.db-wal").stat().st_size
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    again = Shelf(small_disk / "index")
    assert again.everything() == {"a.md": "first\n", "b.md": "second\n"}
    assert again.found("second") == ["b.md"]
    again.store.close()


def test_many_processes_open_an_index_at_once(shelf: Shelf) -> None:
    """Forty cold starts. Not seen to fail without the retries in ``connect``: what they are for

    happened twice in 480 starts elsewhere, too seldom for a quick test to wait for.
    """
    shelf.write({f"{n}.md": f"text number {n}\n" for n in range(5)})
    shelf.store.close()
    code = """
        import sys
        from pathlib import Path
        from shelf import Shelf
        sys.stdin.readline()
        for _ in range(5):
            shelf = Shelf(Path(sys.argv[1]))
            assert len(shelf.found("text")) == 5
            shelf.store.close()
    """
    processes = [
        subprocess.Popen(
            python(code, shelf.store.folder),
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    errors = [process.communicate(timeout=DEADLINE)[1] for process in processes]
    assert errors == [""] * 8


class Apples(sqlite3.Connection):
    """A connection that begins as Apple's SQLite does with a write-ahead log."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.execute("PRAGMA synchronous=NORMAL")


def test_a_commit_is_synced_whatever_the_sqlite_default(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects against a generation that is lost with the power after it was reported. Seen to
    fail with nothing said of either."""
    shelf.write({"a.md": "text\n"})
    path = epoch_folder(shelf) / "catalogue.db"

    def said(connection: sqlite3.Connection) -> list[int]:
        names = ("synchronous", "fullfsync")
        with closing(connection):
            return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    full = 2
    assert said(database._open(path, "mode=rw", Apples)) == [full, 0]
    monkeypatch.setattr(sys, "platform", "darwin")
    assert said(database.connect(path, write=True)) == [full, 1]
