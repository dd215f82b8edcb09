"""Folders of an index that vanish while they are listed.

A writer replaces epochs and keyword files at any moment, so whatever counts or lists them meets
folders that are gone when it looks into them. Each walk is met by a folder that goes between its
being named and its being opened, and once more by a thread that makes and removes folders.
"""

from __future__ import annotations

import ast
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import lookfar
from harness import amount, report
from lookfar.common.folders import folder_bytes, list_folder, walk_folder
from lookfar.errors import IOFailed, PermissionDenied
from lookfar.index.copy import IndexLocation
from lookfar.library import Library
from lookfar.serve.cli.doctor.disk_checks import open_to_others
from lookfar.store.ground import files
from lookfar.store.opening import stored_names
from lookfar.store.sqlite.store import CollectionStore

Ask = Callable[[Library, Path], object]

WALKS: dict[str, Ask] = {
    "status": lambda library, _: library.statuses(),
    "size": lambda _, folder: folder_bytes(folder),
    "remove": lambda _, folder: files.remove(folder),
    "delete": lambda _, folder: CollectionStore(folder).delete(),
    "verify": lambda _, folder: CollectionStore(folder).verify(),
    "copy": lambda _, folder: IndexLocation(str(folder.parent)).names(),
    "names": lambda library, folder: stored_names(folder.parent, library.settings, "documents"),
    "doctor": lambda _, folder: open_to_others(folder.parent),
}
"""What lists folders of an index, by what a user would call it."""

_BESIDES = {
    "common/folders.py",
    "sources",  # They have a walker of their own, by descriptor.
    "freshness/inotify.py",  # Lists what it watches.
    "edit/templates.py",  # Lists a descriptor that a source opened.
    "serve/http/web/static_files.py",  # The files of the package, read once.
    "serve/daemon/endpoint.py",  # The same; a vanished file counts as gone.
}


@pytest.fixture
def library(tmp_path: Path, own_home: None) -> Iterator[Library]:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n\nText.\n", encoding="utf-8")
    chosen = {"embed.provider": "hash"}
    with Library.open(tmp_path / "docs", index_dir=tmp_path / "index", settings=chosen) as opened:
        opened.index()
        yield opened


@contextmanager
def vanishing(monkeypatch: pytest.MonkeyPatch, victim: Path) -> Iterator[list[str]]:
    """Remove a folder just before anything opens it for listing, or looks at a file in it."""
    met: list[str] = []

    def gone(path: object) -> None:
        if not isinstance(path, int) and Path(os.fsdecode(path)) == victim:  # type: ignore[arg-type]
            met.append(str(path))
            shutil.rmtree(victim, ignore_errors=True)

    real = os.scandir

    def scandir(path: str | os.PathLike[str] | int = ".") -> object:
        if victim.exists():
            gone(path)
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", scandir)
        yield met


@pytest.mark.parametrize("walk", ["status", "size", "remove", "delete", "verify"])
@pytest.mark.parametrize("inside", ["epoch-77", "epoch-77/words", "kept-0123456789abcdef"])
def test_a_folder_that_vanishes_while_it_is_listed_is_gone(
    library: Library, monkeypatch: pytest.MonkeyPatch, walk: str, inside: str
) -> None:
    """Seen to fail with ``Path.rglob`` in the place of the walker: ``status`` was INTERNAL."""
    folder = library.index_dir
    victim = folder / inside
    victim.mkdir(parents=True)
    (victim / "meta.json").write_text("{}", encoding="utf-8")
    with vanishing(monkeypatch, victim):
        WALKS[walk](library, folder)


@pytest.mark.parametrize("walk", sorted(WALKS))
def test_an_index_that_vanishes_as_a_whole_is_gone(
    library: Library, monkeypatch: pytest.MonkeyPatch, walk: str
) -> None:
    """Seen to fail with ``Path.iterdir`` in the place of the walker."""
    folder = library.index_dir
    with vanishing(monkeypatch, folder):
        WALKS[walk](library, folder)


def test_walks_survive_folders_that_come_and_go(library: Library) -> None:
    """Seen to fail with ``Path.rglob`` in the place of the walker, in most runs."""
    rounds = amount(150, 4_000)
    folder = library.index_dir
    done = threading.Event()

    def churn() -> None:
        while not done.is_set():
            home = folder / "epoch-99" / "words"
            for number in range(10):
                (home / f"{number}").mkdir(parents=True, exist_ok=True)
                (home / f"{number}" / "seg.term").write_bytes(b"x" * 100)
            shutil.rmtree(folder / "epoch-99")

    thread = threading.Thread(target=churn)
    thread.start()
    failures = []
    try:
        for _ in range(rounds):
            try:
                [state] = library.statuses()
                assert state.disk_bytes > 0
                list(walk_folder(folder))
            except Exception as error:
                failures.append(error)
    finally:
        done.set()
        thread.join()
    report("folders that come and go", trials=rounds, failures=len(failures))
    assert failures == []


def test_two_processes_that_remove_one_folder_both_succeed(tmp_path: Path) -> None:
    """Seen to fail with ``shutil.rmtree``, which raises where the other was quicker."""
    for _ in range(amount(20, 500)):
        top = tmp_path / "epoch-1"
        for number in range(20):
            (top / f"{number}").mkdir(parents=True)
            (top / f"{number}" / "file").write_bytes(b"x")
        errors: list[Exception] = []
        start = threading.Barrier(2)

        def remove(
            top: Path = top, start: threading.Barrier = start, errors: list[Exception] = errors
        ) -> None:
            start.wait()
            try:
                files.remove(top)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=remove) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert not top.exists()


def test_an_unlistable_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a missing folder is skipped: an unreadable index is not an empty one."""

    def refuse(path: object) -> object:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionDenied):
        list_folder(tmp_path)
    with pytest.raises(IOFailed):
        list(walk_folder(tmp_path))


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Seen to fail when the walker followed them: a link to the folder above ended in ELOOP."""
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    (inside / "up").symlink_to(tmp_path)
    (inside / "file").write_bytes(b"12345")
    (tmp_path / "a" / "away").symlink_to(inside / "file")
    assert folder_bytes(tmp_path) == 5
    assert [entry.name for entry in walk_folder(tmp_path)] == ["a", "away", "b", "file", "up"]
    assert list_folder(inside, "f*") == [inside / "file"]


def test_nothing_else_walks_folders() -> None:
    """Seen to fail with one ``rglob`` in the store."""
    package = Path(lookfar.__file__).parent
    walkers = {"rglob", "glob", "iterdir", "walk", "scandir", "listdir"}
    found = []
    for path in sorted(package.rglob("*.py")):
        where = path.relative_to(package).as_posix()
        if where in _BESIDES or where.partition("/")[0] in _BESIDES:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
                # A collection's own walk() asks its source; that of a graph follows calls.
                other = node.func.attr == "walk" and owner in ("ast", "self", "folder", "graph")
                if node.func.attr in walkers and not other:
                    found.append(f"{where}:{node.lineno} {node.func.attr}")
    assert found == []
