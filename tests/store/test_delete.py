"""Deleting an index: all of it, nothing else, and never under a writer."""

from __future__ import annotations

import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lookfar.errors import IndexBusy
from lookfar.library import Library
from lookfar.store.ground.files import WriterLock
from lookfar.store.sqlite.store import CollectionStore

DEADLINE = 20.0


@pytest.fixture
def store(tmp_path: Path) -> CollectionStore:
    """An index of one document, with all that a store may leave beside it."""
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


def test_everything_of_an_index_goes(store: CollectionStore) -> None:
    """Nothing is left that takes space or would be read as an index later."""
    assert store.exists
    store.delete(("dirty.json",))
    assert not store.folder.exists()
    assert not store.exists
    store.delete()  # What is gone is fine.


def test_what_is_not_of_an_index_stays(store: CollectionStore) -> None:
    """A folder that somebody chose for indexes may hold files that nobody may lose."""
    mine = store.folder / "epoch-notes.md"
    mine.write_text("Mine.\n", encoding="utf-8")
    store.delete()
    assert {path.name for path in store.folder.iterdir()} == {"epoch-notes.md", "dirty.json"}


def test_a_writer_is_not_robbed(store: CollectionStore) -> None:
    """And whoever is refused learns since when the writer is at it."""
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
def test_a_lock_that_was_deleted_meanwhile_is_nobodys(tmp_path: Path) -> None:
    """Who waited on the file of a deleted index must not write beside who holds the new one."""
    path = tmp_path / "writer.lock"
    first, second, third = (WriterLock(path) for _ in range(3))
    first.acquire()
    taken = threading.Event()

    def wait() -> None:
        second.acquire(DEADLINE)
        taken.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    path.unlink()
    third.acquire()
    first.release()
    assert not taken.wait(0.3)
    third.release()
    assert taken.wait(DEADLINE)
    waiting.join(DEADLINE)
    second.release()
