"""Deleting an index: all of it, nothing else, and never under a writer."""

from __future__ import annotations

import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lookfar.errors import IndexBusy
from lookfar.freshness.inventory import AGREEMENT_FILE, INVENTORY_FILE
from lookfar.library import Library
from lookfar.store.ground.files import WriterLock
from lookfar.store.sqlite.store import CollectionStore

DEADLINE = 120.0


@pytest.fixture
def store(tmp_path: Path) -> CollectionStore:
    """An index of one document, with every file that a store may leave next to it."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("A.\n", encoding="utf-8")
    chosen = {"embed.provider": "hash"}
    with Library.open(tmp_path / "docs", index_dir=tmp_path / "index", settings=chosen) as library:
        library.index()
        folder = library.index_dir
    (folder / "damaged-epoch-7").mkdir()
    (folder / "damage.json").write_text("{}", encoding="utf-8")
    (folder / ".CURRENT.tmp").write_text("left by a crash", encoding="utf-8")
    (folder / "dirty.json").write_text("{}", encoding="utf-8")
    return CollectionStore(folder)


def test_delete_removes_the_whole_index(store: CollectionStore) -> None:
    """Nothing is left that takes space or could be read as an index later."""
    assert store.exists
    store.delete(("dirty.json", INVENTORY_FILE, AGREEMENT_FILE))
    assert not store.folder.exists()
    assert not store.exists
    store.delete()  # What is gone is fine.


def test_delete_keeps_foreign_files(store: CollectionStore) -> None:
    """A folder that a user chose for indexes may contain other files, which must stay."""
    mine = store.folder / "epoch-notes.md"
    mine.write_text("Mine.\n", encoding="utf-8")
    store.delete((INVENTORY_FILE, AGREEMENT_FILE))
    assert {path.name for path in store.folder.iterdir()} == {"epoch-notes.md", "dirty.json"}


def test_delete_is_refused_while_another_process_writes(store: CollectionStore) -> None:
    """The error says since when the other process has been writing."""
    lock = WriterLock(store.folder / "writer.lock")
    lock.acquire()
    with lock:
        with pytest.raises(IndexBusy) as refused:
            store.delete()
        with pytest.raises(IndexBusy):
            store.refuse_busy()
    assert store.exists
    since = datetime.fromisoformat(refused.value.details["since"])
    assert datetime.now(UTC) - since < timedelta(minutes=1)
    store.refuse_busy()


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be removed there")
def test_a_deleted_lock_file_is_not_trusted(tmp_path: Path) -> None:
    """A process that waited for a deleted lock file must not write next to a new holder."""
    opened, taken = threading.Event(), threading.Event()

    class Waiting(WriterLock):
        def _wait(self, descriptor: int, deadline: float, message: str, hint: str) -> None:
            opened.set()
            super()._wait(descriptor, deadline, message, hint)

    path = tmp_path / "writer.lock"
    first, second, third = WriterLock(path), Waiting(path), WriterLock(path)
    first.acquire()

    def wait() -> None:
        second.acquire(DEADLINE)
        taken.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert opened.wait(DEADLINE)
    path.unlink()
    third.acquire()
    first.release()
    assert not taken.wait(0.3)
    third.release()
    assert taken.wait(DEADLINE)
    waiting.join(DEADLINE)
    second.release()
