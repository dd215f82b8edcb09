"""Changes over pauses, restarts and damage, where git stands, and what each strategy waits for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lookfar.errors
from lookfar.errors import InvalidArgument
from lookfar.freshness.changed_names import (
    DIRTY_FILE,
    LONGEST_WAIT,
    MOST_NAMED,
    Changes,
    Work,
    drop_nested,
)
from lookfar.freshness.keeper import DUE, STRATEGIES, checked_debounce, checked_strategy
from lookfar.sources.confine import Root
from lookfar.sources.git.repositories import read_head
from waiting import DEADLINE

SOURCE = Path(lookfar.errors.__file__).parents[1]


def test_files_that_no_parser_knows_are_not_dirty(tmp_path: Path) -> None:
    dirty = Changes(tmp_path)
    dirty.add(["4913", "picture.xyz"])
    assert not dirty
    dirty.add(["a.md", "docs/"])
    assert dirty.names() == {"a.md", "docs/"}


def test_what_is_taken_stays_dirty_until_it_is_done(tmp_path: Path) -> None:
    dirty = Changes(tmp_path)
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
    dirty = Changes(tmp_path)
    dirty.add(f"{number}.md" for number in range(MOST_NAMED + 1))
    assert dirty.everything
    assert dirty.take() == Work(None)
    assert dirty
    dirty.put_back()
    assert dirty.everything


def test_it_survives_a_restart(tmp_path: Path) -> None:
    dirty = Changes(tmp_path / "collection")
    dirty.report("ä.md")
    dirty.report("docs/")
    dirty.take()
    dirty.head = "abc"
    dirty.save()
    again = Changes(tmp_path / "collection")
    assert again.load()
    assert again.names() == frozenset({"ä.md", "docs/"})
    assert (again.head, again.everything) == ("abc", False)


def test_nothing_left_is_nothing_dirty(tmp_path: Path) -> None:
    dirty = Changes(tmp_path)
    assert not dirty.load()
    assert not dirty


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"format": 9}', b"\xff", b'{"format": 1, "everything": 1}'],
)
def test_a_damaged_file_means_everything(tmp_path: Path, content: bytes) -> None:
    (tmp_path / DIRTY_FILE).write_bytes(content)
    dirty = Changes(tmp_path)
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


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_changes_are_due_after_a_pause(tmp_path: Path) -> None:
    clock = Clock()
    changes = Changes(tmp_path, quiet=0.3, clock=clock)
    assert changes.ready_in() is None
    assert changes.report("a.md")
    clock.now += 0.2
    assert not changes.report("b.md")
    assert changes.ready_in() == pytest.approx(0.3)
    clock.now += 0.3
    assert changes.ready_in() == 0
    assert changes.names() == {"a.md", "b.md"}
    assert changes.settle()
    assert changes.ready_in() is None
    assert changes.report("a.md")
    assert not changes.settle(), "it was known"


def test_writes_that_never_pause_do_not_delay_other_changes(tmp_path: Path) -> None:
    clock = Clock()
    changes = Changes(tmp_path, quiet=0.3, clock=clock)
    for _ in range(int(LONGEST_WAIT / 0.1) + 1):
        changes.report("log.md")
        clock.now += 0.1
    assert changes.ready_in() == 0


def test_a_folder_covers_everything_below_it() -> None:
    assert drop_nested({"a/", "a/b.md", "a/c/", "ab.md", "d.md"}) == {"a/", "ab.md", "d.md"}


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    subprocess.run(
        ["git", *identity, *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=DEADLINE,
    )


def test_the_head_moves_with_commits_and_checkouts_only(tmp_path: Path) -> None:
    root = Root.open(tmp_path)
    nowhere = read_head(root)
    git(tmp_path, "init", "-b", "main")
    (tmp_path / "a.md").write_text("one")
    heads = [nowhere, read_head(root)]
    git(tmp_path, "add", ".")
    assert read_head(root) == heads[-1]
    git(tmp_path, "commit", "-m", "one")
    heads.append(read_head(root))
    git(tmp_path, "pack-refs", "--all")
    heads.append(read_head(root))
    git(tmp_path, "checkout", "-b", "other")
    heads.append(read_head(root))
    (tmp_path / "a.md").write_text("two")
    assert read_head(root) == heads[-1]
    git(tmp_path, "commit", "-am", "two")
    heads.append(read_head(root))
    assert len(set(heads)) == len(heads)


def test_the_head_of_a_worktree_lies_elsewhere(tmp_path: Path) -> None:
    """There ``.git`` is a file. Seen to fail when only ``.git/HEAD`` was looked at."""
    main, tree = tmp_path / "main", tmp_path / "tree"
    main.mkdir()
    git(main, "init", "-b", "main")
    (main / "a.md").write_text("one")
    git(main, "add", ".")
    git(main, "commit", "-m", "one")
    git(main, "worktree", "add", "-b", "side", str(tree))
    assert (tree / ".git").is_file()
    here, there = Root.open(tree), Root.open(main)
    heads, unmoved = [read_head(here)], read_head(there)
    (tree / "a.md").write_text("two")
    git(tree, "commit", "-am", "two")
    heads.append(read_head(here))
    git(tree, "checkout", "--detach")
    heads.append(read_head(here))
    git(tree, "checkout", "side")
    assert read_head(here) == heads[1]
    git(main, "pack-refs", "--all")
    heads.append(read_head(here))
    (tree / "a.md").write_text("three")
    git(tree, "commit", "-am", "three")
    heads.append(read_head(here))
    assert len(set(heads)) == len(heads)
    git(main, "checkout", "-b", "more")
    assert read_head(here) == heads[-1], "each worktree stands where it stands"
    assert read_head(there) != unmoved


def test_a_root_inside_a_repository_has_its_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search goes up to the top folder of the repository, and not beyond one's home."""
    docs = tmp_path / "home" / "project" / "docs" / "guide"
    docs.mkdir(parents=True)
    (docs / "a.md").write_text("one")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    nowhere = read_head(Root.open(docs))
    git(tmp_path, "init")
    assert read_head(Root.open(docs)) == nowhere, "this repository lies above the home"
    project = tmp_path / "home" / "project"
    git(project, "init")
    heads = [nowhere, read_head(Root.open(docs))]
    git(project, "add", ".")
    git(project, "commit", "-m", "one")
    heads.append(read_head(Root.open(docs)))
    assert len(set(heads)) == len(heads)


def test_no_head_is_waited_for(tmp_path: Path) -> None:
    """A pipe, a loop, a folder or nonsense in its place is no head."""
    nowhere = read_head(Root.open(tmp_path))
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git" / "HEAD")
    assert read_head(Root.open(tmp_path)) == nowhere
    (tmp_path / ".git" / "HEAD").unlink()
    (tmp_path / ".git" / "HEAD").mkdir()
    assert read_head(Root.open(tmp_path)) == nowhere
    (tmp_path / ".git" / "HEAD").rmdir()
    (tmp_path / ".git").rmdir()
    for wrong in (b"gitdir: .git", b"gitdir: \0", b"gitdir: /nowhere/at/all", b"\xff\xfe", b""):
        (tmp_path / ".git").write_bytes(wrong)
        assert read_head(Root.open(tmp_path)) == nowhere


SAVER = """
import sys
from pathlib import Path
from lookfar.freshness.changed_names import Changes
mine = Changes(Path(sys.argv[1]))
mine.add(f"{sys.argv[2]}-{number}.md" for number in range(int(sys.argv[3])))
for _ in range(150):
    mine.save()
"""


def test_two_processes_write_the_dirty_set_at_once(tmp_path: Path) -> None:
    """Whoever reads it finds one whole set; nothing is left beside it.

    Seen to fail when both used one temporary file: a half-written set, and errors.
    """
    left = tmp_path / f".{DIRTY_FILE}.99-99.tmp"
    left.write_bytes(b"half")
    os.utime(left, (1_600_000_000, 1_600_000_000))
    savers = [
        subprocess.Popen(
            [sys.executable, "-c", SAVER, str(tmp_path), name, str(size)],
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        for name, size in (("a", 900), ("b", 3))
    ]
    whole = {frozenset(f"a-{n}.md" for n in range(900)), frozenset(f"b-{n}.md" for n in range(3))}
    while any(saver.poll() is None for saver in savers):
        reader = Changes(tmp_path)
        if reader.load():
            assert not reader.everything
            assert reader.names() in whole
    for saver in savers:
        _, errors = saver.communicate()
        assert (saver.returncode, errors) == (0, b"")
    assert [path.name for path in tmp_path.iterdir()] == [DIRTY_FILE]


def test_what_is_put_back_is_never_out_of_sight(tmp_path: Path) -> None:
    """Seen to fail with two turns of the lock: whoever looked between them found nothing dirty,
    and took an answer for fresh."""
    dirty = Changes(tmp_path)
    dirty.add(["a.md"])
    dirty.take()
    seen: list[frozenset[str]] = []
    real = dirty._lock

    class Looked:
        def __enter__(self) -> None:
            real.acquire()

        def __exit__(self, *_: object) -> None:
            real.release()
            dirty._lock = real
            seen.append(dirty.names())
            dirty._lock = self  # type: ignore[assignment]

    dirty._lock = Looked()  # type: ignore[assignment]
    dirty.put_back()
    assert seen == [frozenset({"a.md"})]
