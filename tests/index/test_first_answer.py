"""A large folder that was never indexed answers from its first files while the rest is indexed.

Proved by mutation: a first generation that waits for all files, one that is taken for the whole
folder, and an interrupted first index that is not finished each fail here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lookfar import Library
from lookfar.collections import followed_files
from lookfar.index.build import Build
from waiting import DEADLINE, wait_for

SETTINGS: dict[str, Any] = {"embed.provider": "hash", "index.workers": 1}


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is large for a first generation of few bytes."""
    monkeypatch.setattr(followed_files, "FIRST_BYTES", 1_000)
    root = tmp_path / "large"
    (root / "deep/er").mkdir(parents=True)
    (root / "README.md").write_text("# Harbour\n\nThe lighthouse stands here.\n")
    for number in range(200):
        text = f"# Note {number}\n\nBerth {number} has a yellow buoy.\n" + "Nothing else.\n" * 8
        (root / f"deep/er/note-{number}.md").write_text(text)
    return root


class Later:
    """Holds every pass after the first until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.passes = 0


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Iterator[Later]:
    later, run = Later(), Build.run

    def held(self: Build, **how: Any) -> Any:
        later.passes += 1
        if later.passes > 1:
            assert later.opened.wait(DEADLINE)
        return run(self, **how)

    monkeypatch.setattr(Build, "run", held)
    yield later
    later.opened.set()


def reasons(answer: Any) -> list[str]:
    return [note.reason for note in answer.incomplete]


def test_the_first_files_answer_before_the_others_are_indexed(large: Path, later: Later) -> None:
    with Library.open(large, settings=SETTINGS) as library:
        library.watch()
        early = library.search("lighthouse")
        assert [hit.uri for hit in early.hits] == ["README.md"]
        assert reasons(early) == ["rebuilding"]
        assert "files of this folder are not indexed yet" in early.incomplete[0].detail
        later.opened.set()
        wait_for(lambda: not reasons(library.search("buoy")), "everything is indexed")
        assert library.status(check=False).counts.documents == 201
        found = {hit.uri for hit in library.search("Berth 137 yellow buoy", top_k=50).hits}
        assert "deep/er/note-137.md" in found


def test_a_first_index_that_was_interrupted_is_finished(large: Path, later: Later) -> None:
    with Library.open(large, settings=SETTINGS) as library:
        library.watch()
        library.search("lighthouse")
        assert library.status(check=False).counts.documents < 201
        folder = library.folder()
        folder.passes.closing = True
        later.opened.set()
    with Library.open(large, settings=SETTINGS) as library:
        answer = library.search("Berth 137 yellow buoy", top_k=50)
        assert "deep/er/note-137.md" in {hit.uri for hit in answer.hits}
        assert reasons(answer) == []


def test_without_a_watcher_a_search_waits_for_everything(large: Path) -> None:
    with Library.open(large, settings=SETTINGS) as library:
        answer = library.search("Berth 137 yellow buoy", top_k=50)
        assert "deep/er/note-137.md" in {hit.uri for hit in answer.hits}
        assert reasons(answer) == []


def test_files_that_cannot_be_indexed_do_not_stay_missing(large: Path) -> None:
    """Seen to fail: a pass that added nothing left the count of missing files as it was."""
    for path in large.glob("deep/er/*.md"):
        path.write_bytes(b"\x00\x01\x02" * 200)
    with Library.open(large, settings=SETTINGS) as library:
        library.watch()
        library.search("lighthouse")
        wait_for(lambda: not reasons(library.search("lighthouse")), "nothing is missing")
        assert library.status(check=False).counts.documents == 1
