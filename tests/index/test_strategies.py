"""The dirty set over restarts and damage, where git stands, and what each strategy waits for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lookfar.errors import InvalidArgument
from lookfar.index.strategies import (
    DIRTY_FILE,
    DUE,
    STRATEGIES,
    Dirty,
    Work,
    checked_debounce,
    checked_strategy,
    head_of,
)
from lookfar.sources.confine import Root
from lookfar.sources.watch import MOST_NAMED, Batch


def test_files_that_no_parser_knows_are_not_dirty(tmp_path: Path) -> None:
    dirty = Dirty(tmp_path)
    assert not dirty.add(["4913", "picture.xyz"])
    assert not dirty
    assert dirty.add(["a.md", "docs/"])
    assert dirty.names() == {"a.md", "docs/"}


def test_what_is_taken_stays_dirty_until_it_is_done(tmp_path: Path) -> None:
    dirty = Dirty(tmp_path)
    dirty.add(["a.md"])
    assert dirty.take() == Work(frozenset({"a.md"}))
    dirty.add(["b.md"])
    assert dirty.names() == {"a.md", "b.md"}
    dirty.done()
    assert dirty.names() == {"b.md"}
    dirty.take()
    dirty.put_back()
    assert dirty.names() == {"b.md"}


def test_too_many_names_are_everything(tmp_path: Path) -> None:
    dirty = Dirty(tmp_path)
    dirty.add(f"{number}.md" for number in range(MOST_NAMED + 1))
    assert dirty.everything
    assert dirty.take() == Work(None)
    assert dirty
    dirty.put_back()
    assert dirty.everything


def test_it_survives_a_restart(tmp_path: Path) -> None:
    dirty = Dirty(tmp_path / "collection")
    dirty.add_batch(Batch(frozenset({"ä.md", "docs/"})))
    dirty.take()
    dirty.head = "abc"
    dirty.save()
    again = Dirty(tmp_path / "collection")
    assert again.load()
    assert (again.names(), again.head, again.everything) == ({"ä.md", "docs/"}, "abc", False)


def test_nothing_left_is_nothing_dirty(tmp_path: Path) -> None:
    dirty = Dirty(tmp_path)
    assert not dirty.load()
    assert not dirty


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"format": 9}', b"\xff", b'{"format": 1, "everything": 1}'],
)
def test_a_damaged_file_means_everything(tmp_path: Path, content: bytes) -> None:
    (tmp_path / DIRTY_FILE).write_bytes(content)
    dirty = Dirty(tmp_path)
    assert dirty.load()
    assert dirty.everything


def test_each_strategy_has_its_occasions() -> None:
    assert set(DUE) == set(STRATEGIES)
    assert "change" in DUE["realtime"]
    assert DUE["lazy"] == {"search", "request"}
    assert DUE["git"] == {"commit", "request"}


def test_arguments_are_checked() -> None:
    assert checked_strategy("lazy") == "lazy"
    with pytest.raises(InvalidArgument, match="eager"):
        checked_strategy("eager")
    assert (checked_debounce(250), checked_debounce(30_000)) == (250, 30_000)
    for wrong in (249, 30_001, -1):
        with pytest.raises(InvalidArgument, match=str(wrong)):
            checked_debounce(wrong)


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, timeout=30
    )


def test_the_head_moves_with_commits_and_checkouts_only(tmp_path: Path) -> None:
    root = Root.open(tmp_path)
    nowhere = head_of(root)
    git(tmp_path, "init", "-b", "main")
    (tmp_path / "a.md").write_text("one")
    heads = [nowhere, head_of(root)]
    git(tmp_path, "add", ".")
    assert head_of(root) == heads[-1]
    git(tmp_path, "commit", "-m", "one")
    heads.append(head_of(root))
    git(tmp_path, "pack-refs", "--all")
    heads.append(head_of(root))
    git(tmp_path, "checkout", "-b", "other")
    heads.append(head_of(root))
    (tmp_path / "a.md").write_text("two")
    assert head_of(root) == heads[-1]
    git(tmp_path, "commit", "-am", "two")
    heads.append(head_of(root))
    assert len(set(heads)) == len(heads)
