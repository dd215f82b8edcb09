"""A catalogue that SQLite cannot read, in a server: built anew beside the questions, which are
answered soon, in part, or told how far it is.

Seen to fail with a question that waited for the build.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lookfar.collections.folder import Folder
from lookfar.errors import IndexBusy
from lookfar.library import Library
from lookfar.store.sqlite.store import CollectionStore
from waiting import DEADLINE, wait_for

HASH = {"embed.provider": "hash", "index.workers": 1}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "guide.md").write_text("# Guide\n\nA zebra in the #harbour.\n")
    return folder


@pytest.fixture
def library(root: Path, tmp_path: Path) -> Iterator[Library]:
    settings = {**HASH, "memory.dir": str(tmp_path / "memory")}
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as opened:
        opened.remember("A quagga met the zebra.")
        opened.index()
        opened.search("quagga", memories=True)
        opened.watch()
        assert opened.drain(DEADLINE)
        yield opened


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Hold up background builds, as if the folder were large; queries are not held up."""
    opened = threading.Event()
    build: Callable[..., None] = Folder._index_in_background

    def held(self: Folder, **how: Any) -> None:
        opened.wait(DEADLINE)
        build(self, **how)

    monkeypatch.setattr(Folder, "_index_in_background", held)
    monkeypatch.setattr("lookfar.collections.followed_files.REBUILD_PATIENCE", 0.2)
    monkeypatch.setattr("lookfar.collections.healing.REBUILD_PATIENCE", 0.2)
    yield opened
    opened.set()


def spoil(library: Library) -> None:
    """Overwrite the catalogue completely."""
    store = library.folder().store
    store.close()
    for path in store.folder.glob("epoch-*/catalogue.db*"):
        path.write_bytes(b"no database" * 1000) if path.suffix == ".db" else path.unlink()


def asked(library: Library, **how: Any) -> tuple[set[str], list[str]]:
    answer = library.search("zebra", **how)
    return {hit.uri for hit in answer.hits}, [note.reason for note in answer.incomplete]


def test_a_small_folder_is_rebuilt_before_the_answer(library: Library) -> None:
    spoil(library)
    assert asked(library) == ({"guide.md"}, ["healed"])
    assert asked(library) == ({"guide.md"}, [])


def test_a_query_reports_the_rebuild_and_does_not_wait(
    library: Library, gate: threading.Event
) -> None:
    spoil(library)
    for _ in range(3):
        with pytest.raises(IndexBusy, match="is being rebuilt") as told:
            library.search("zebra")
        assert told.value.details["rebuilding"] is True
        with pytest.raises(IndexBusy, match="is being rebuilt"):
            library.first_index()
        with pytest.raises(IndexBusy, match="is being rebuilt"):
            library.read("guide.md")
    gate.set()
    wait_for(lambda: library.folder().indexed)
    assert asked(library) == ({"guide.md"}, [])
    assert library.verify() == []


def test_intact_collections_answer_during_a_rebuild(
    library: Library, gate: threading.Event
) -> None:
    spoil(library)
    found, notes = asked(library, memories=True)
    assert {uri.startswith("a-quagga") for uri in found} == {True}
    assert set(notes) == {"healed", "rebuilding"}
    found, notes = asked(library, memories=True)
    assert notes == ["rebuilding"]
    gate.set()
    library.folder().wait_until_ready(DEADLINE)
    found, notes = asked(library, memories=True)
    assert "guide.md" in found
    assert notes == []


def test_a_query_before_the_rebuild_starts_does_not_rebuild(
    library: Library, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail (it waited for a build of its own) when it only looked whether one had begun."""
    begin, seen = Folder.start_index, threading.Event()

    def late(self: Folder, **how: Any) -> None:
        other.start()
        seen.wait(0.5)
        begin(self, **how)

    told: list[str] = []

    def ask() -> None:
        try:
            library.outline("guide.md")
        except IndexBusy as error:
            told.append(error.message)
        seen.set()

    other = threading.Thread(target=ask)
    monkeypatch.setattr(Folder, "start_index", late)
    spoil(library)
    with pytest.raises(IndexBusy, match="is being rebuilt"):
        library.outline("guide.md")
    other.join(DEADLINE)
    assert [message[:45] for message in told] == ["The index was damaged and is being rebuilt."]


def test_concurrent_queries_rebuild_once(
    library: Library, gate: threading.Event, root: Path
) -> None:
    spoil(library)
    told: list[str] = []

    def ask() -> None:
        try:
            library.outline("guide.md")
        except Exception as error:
            told.append(type(error).__name__)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert not any(thread.is_alive() for thread in threads)
    assert told == ["IndexBusy"] * 4
    (root / "new.md").write_text("# New\n\nAnother zebra.\n")
    gate.set()
    library.folder().wait_until_ready(DEADLINE)
    assert asked(library)[0] == {"guide.md", "new.md"}
    assert library.snapshots()[0].number == 1


QUESTIONS: dict[str, Callable[[Library], object]] = {
    "search": lambda library: [hit.uri for hit in library.search("zebra").hits],
    "lines": lambda library: [file.uri for file in library.grep("zebra").files],
    "read": lambda library: library.read("guide.md").state,
    "outline": lambda library: library.outline("guide.md").title,
    "related": lambda library: library.related("guide.md").title,
    "page": lambda library: library.page("guide.md").uri,
    "listed": lambda library: library.listed(),
    "tags": lambda library: library.tags(),
    "status": lambda library: library.status().collection,
}


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("moment", ["held", "fingerprint", "snapshot"])
def test_a_query_waits_for_an_index_that_is_set_aside_before_it_reads(
    library: Library, monkeypatch: pytest.MonkeyPatch, name: str, moment: str
) -> None:
    """Another thread or process finds the damage after the query looked for the index.

    Seen to fail with NOT_INDEXED, and with an empty list of titles.
    """
    ask = QUESTIONS[name]
    expected = ask(library)
    assert expected
    read, waiting = getattr(CollectionStore, moment), [library.folder().store]

    def read_too_late(self: CollectionStore, *arguments: Any) -> Any:
        if self in waiting:
            waiting.remove(self)
            self.set_aside("found by another thread", wait_seconds=DEADLINE)
        return read(self, *arguments)

    monkeypatch.setattr(CollectionStore, moment, read_too_late)
    assert ask(library) == expected
    if not waiting and name != "status":  # Not every question reads everything.
        assert library.folder().indexed


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_query_rebuilds_what_another_process_set_aside(
    root: Path, tmp_path: Path, name: str
) -> None:
    """That process may have crashed before it built the new index."""
    with Library.open(root, index_dir=tmp_path / "index", settings=HASH) as library:
        library.index()
        expected = QUESTIONS[name](library)
        CollectionStore(library.folder().store.folder).set_aside("found by another process")
        assert QUESTIONS[name](library) == expected
        assert library.folder().indexed is (name != "status")


def test_a_read_only_query_reports_the_rebuild(root: Path, tmp_path: Path) -> None:
    with Library.open(root, index_dir=tmp_path / "index", settings=HASH) as library:
        library.index()
    settings = {**HASH, "store.read_only": True}
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as reader:
        assert asked(reader)[0] == {"guide.md"}
        CollectionStore(reader.folder().store.folder).set_aside("found by another process")
        for question in ("search", "read", "listed"):
            with pytest.raises(IndexBusy, match="is being rebuilt"):
                QUESTIONS[question](reader)


def test_verify_waits_for_the_repair(library: Library) -> None:
    spoil(library)
    found = next(report for report in library.verified(repair=True) if report.collection == "docs")
    assert found.found
    assert found.repaired


def test_without_a_server_a_query_rebuilds(root: Path, tmp_path: Path) -> None:
    with Library.open(root, index_dir=tmp_path / "index", settings=HASH) as library:
        library.index()
        spoil(library)
        assert asked(library) == ({"guide.md"}, ["healed"])
