"""Permanent erasure: every version, every file, and finishing after a crash."""

from __future__ import annotations

import shutil
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from lookfar.errors import IndexBusy, NotIndexed
from lookfar.store.ground import files
from lookfar.store.ground.files import WriterLock
from lookfar.store.sqlite.store import CollectionStore
from points import Died, die_at
from store.shelf import Shelf, rows_of

SECRET = "zyxwvutsrq"


def erase(shelf: Shelf, *uris: str) -> int:
    return shelf.store.erase(uris, {}, retain=3)


def traces(shelf: Shelf, word: str = SECRET) -> list[str]:
    paths = [path for path in shelf.store.folder.rglob("*") if path.is_file()]
    return [path.name for path in paths if word.encode() in path.read_bytes()]


@pytest.fixture
def filled(shelf: Shelf) -> Shelf:
    """Two versions of one document in two generations, and other documents."""
    shelf.write({"a.md": f"# {SECRET} first\n\nfirst text\n", "b.md": "# B\n\ncrimson text\n"})
    shelf.write({"a.md": f"# {SECRET} second\n\nsecond text\n", "c.md": "# C\n\ncrimson tea\n"})
    shelf.write({"d.md": "# D\n\ncrimson sea\n"})
    assert traces(shelf)
    return shelf


def test_erasing_removes_every_version_from_every_generation(filled: Shelf) -> None:
    """Seen to fail where only the live version was removed."""
    filled.store.pin(1)
    assert erase(filled, "a.md") == 1
    assert traces(filled) == []
    assert filled.store.verify() == []
    assert sorted(filled.found("crimson")) == ["b.md", "c.md", "d.md"]
    assert filled.found("first second") == []
    for generation in filled.store.generations():
        with filled.store.snapshot(generation.number) as snapshot:
            assert "a.md" not in snapshot.uris()
    filled.write({"e.md": "# E\n\ncrimson again\n"})
    assert len(filled.found("crimson")) == 4
    assert filled.store.verify() == []


def test_row_numbers_of_erased_vectors_are_not_reused(filled: Shelf) -> None:
    (before,) = rows_of(filled, "SELECT max(row) FROM embeddings")
    erase(filled, "d.md")
    filled.write({"e.md": "# E\n\nsomething new\n"})
    (after,) = rows_of(filled, "SELECT max(row) FROM embeddings")
    assert after > before
    assert filled.store.verify() == []


def test_traces_are_removed_after_a_crash(filled: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step alone hides it from every answer; the next writer finishes."""

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("lookfar.store.sqlite.store.remove_traces", die)
        with pytest.raises(KeyboardInterrupt):
            erase(filled, "a.md")
    assert "a.md" not in filled.everything()
    assert filled.found("second") == []
    assert filled.store.verify() == []
    assert traces(filled)
    # Another process may write in between.
    filled.write({"e.md": "# E\n\ncrimson again\n"})
    assert filled.store.verify() == []
    filled.store.finish_erasing()
    assert traces(filled) == []
    assert filled.store.verify() == []
    assert len(filled.found("crimson")) == 4
    filled.store.finish_erasing()


def test_erasing_removes_unfinished_and_damaged_epochs_too(filled: Shelf) -> None:
    for name in ("epoch-9", "damaged-epoch-1"):
        folder = filled.store.folder / name
        folder.mkdir()
        (folder / "catalogue.db").write_text(SECRET)
    erase(filled, "a.md")
    assert traces(filled) == []


def test_erasing_waits_for_other_writers_and_creates_nothing(filled: Shelf, tmp_path: Path) -> None:
    lock = WriterLock(filled.store.folder / "writer.lock")
    lock.acquire()
    with lock, pytest.raises(IndexBusy):
        erase(filled, "a.md")
    assert "a.md" in filled.everything()
    nowhere = Shelf(tmp_path / "nowhere")
    with pytest.raises(NotIndexed):
        erase(nowhere, "a.md")
    assert not (tmp_path / "nowhere").exists()


def test_a_crash_at_any_point_leaves_a_sound_only_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when the journal was replaced while the catalogue still recorded the old one:
    after a death before the commit, ``verify`` reported a damaged journal."""
    sound = Shelf(CollectionStore(tmp_path / "sound", only_copy=True))
    sound.write({"a.md": f"# {SECRET}\n\nfirst text\n", "b.md": "# B\n\ncrimson text\n"})
    sound.store.close()
    for number in count(1):
        folder = tmp_path / f"copy{number}"
        shutil.copytree(tmp_path / "sound", folder)
        dying = Shelf(CollectionStore(folder, only_copy=True))
        with monkeypatch.context() as patched, suppress(Died):
            patched.setattr(files, "on_fault_point", die_at(number))
            erase(dying, "a.md")
            break
        dying.store.close()
        shelf = Shelf(CollectionStore(folder, only_copy=True))
        assert shelf.store.verify() == [], number
        assert "b.md" in shelf.everything()
        shelf.store.finish_erasing()
        if "a.md" in shelf.everything():
            erase(shelf, "a.md")
        assert shelf.store.verify() == [], number
        assert traces(shelf) == []
        assert sorted(shelf.everything()) == ["b.md"]
        shelf.store.close()
    dying.store.close()
    assert number > 20
