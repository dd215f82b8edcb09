"""A keeper over a real folder and a real index: fresh at the next question, whatever happens."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leaks import leaving_nothing_open
from lookfar.errors import InvalidArgument
from lookfar.freshness import disk
from lookfar.freshness.changed_names import DIRTY_FILE, Changes, Work
from lookfar.freshness.keeper import Keeper, Pass, Strategy
from lookfar.freshness.watch import FolderWatcher
from lookfar.library import Library
from lookfar.sources.confine import Root
from lookfar.sources.folder.policy import Policy
from waiting import DEADLINE, wait_for

HASH = {"embed.provider": "hash", "index.workers": 1}
with_fences = pytest.mark.skipif(sys.platform != "linux", reason="needs inotify")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    for name in ("one", "two", "three"):
        (folder / f"{name}.md").write_text(f"# {name}\n\nabout {name}\n")
    return folder


@pytest.fixture
def library(root: Path, tmp_path: Path) -> Iterator[Library]:
    with Library.open(root, index_dir=tmp_path / "index", settings=HASH) as opened:
        yield opened


def found(library: Library, word: str) -> set[str]:
    return {hit.uri for hit in library.search(word, mode="keyword").hits if word in hit.text}


def passes(library: Library) -> int:
    state = library.watching()
    assert state is not None
    return state.passes


def write(path: Path, word: str) -> None:
    path.write_text(f"# Changed\n\n{word} facts\n")


# --- realtime -----------------------------------------------------------------------------------


def test_a_search_right_after_a_save_finds_it(library: Library, root: Path) -> None:
    library.watch()
    assert library.drain(DEADLINE)
    for number, word in enumerate(("zebra", "quagga", "okapi", "giraffe")):
        write(root / f"new{number}.md", word)
        assert found(library, word) == {f"new{number}.md"}
    assert library.search("zebra").incomplete == ()


def test_a_change_is_indexed_without_any_question(library: Library, root: Path) -> None:
    library.watch()
    assert library.drain(DEADLINE)
    before = passes(library)
    write(root / "one.md", "zebra")
    (root / "two.md").unlink()
    # One pass or two: a busy machine may stop this thread between the two changes.
    wait_for(lambda: library.status(check=False).counts.documents == 2)
    wait_for(lambda: library.status().stale == ())
    wait_for(lambda: passes(library) > before)


@with_fences
def test_nobody_walks_while_a_healthy_keeper_has_nothing_to_do(
    library: Library, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.watch()
    assert library.drain(DEADLINE)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("the folder was walked")

    monkeypatch.setattr(disk.Disk, "compare", never)
    monkeypatch.setattr(disk, "MOST_CHECKED", 0)
    write(root / "one.md", "zebra")
    assert found(library, "zebra") == {"one.md"}
    assert library.search("zebra").incomplete == ()


def test_without_fences_a_large_folder_is_not_called_stale(
    library: Library, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail where every answer said that many files changed, and nothing had."""
    monkeypatch.setattr(FolderWatcher, "fence", lambda *_: False)
    monkeypatch.setattr(disk, "MOST_CHECKED", 0)
    monkeypatch.setattr(disk, "BUDGET_SECONDS", -1.0)
    library.watch()
    assert library.drain(DEADLINE)
    (note,) = library.search("one").incomplete
    assert note == disk.UNPROVED
    library.folder().following.keeper._changes.add(everything=True)  # type: ignore[union-attr]
    (note,) = library.search("one").incomplete
    assert note == disk.FOLLOWING
    library.unwatch()
    (note,) = library.search("one").incomplete
    assert note.reason == "unchecked"
    assert "not compared with the disk in time" in note.detail


@with_fences
def test_a_folder_renamed_and_moved_out(library: Library, root: Path, tmp_path: Path) -> None:
    (root / "docs").mkdir()
    write(root / "docs" / "a.md", "zebra")
    library.watch()
    assert library.drain(DEADLINE)
    (root / "docs").rename(root / "texts")
    assert found(library, "zebra") == {"texts/a.md"}
    (root / "texts").rename(tmp_path / "outside")
    assert found(library, "zebra") == set()
    (tmp_path / "outside").rename(root / "back")
    assert found(library, "zebra") == {"back/a.md"}


def test_an_ignore_file_edited(library: Library, root: Path) -> None:
    library.watch()
    assert found(library, "two") == {"two.md"}
    (root / ".gitignore").write_text("two.md\n")
    assert library.drain(DEADLINE)
    assert "two.md" not in found(library, "two")
    (root / ".gitignore").unlink()
    assert library.drain(DEADLINE)
    assert found(library, "two") == {"two.md"}


@with_fences
@pytest.mark.parametrize("rules", [".git/info/exclude", "project/.gitignore"])
def test_an_ignore_file_outside_the_folder_edited(
    repository: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: str
) -> None:
    """Seen to fail where only events told of rules: these files have none in the folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    repo = repository("repo")
    for name in ("one", "two"):
        repo.write(f"project/docs/{name}.md", f"# Page\n\n{name} facts\n")
    docs = repo.path / "project" / "docs"
    with Library.open(docs, index_dir=tmp_path / "index", settings=HASH) as library:
        library.watch()
        assert library.drain(DEADLINE)
        assert found(library, "two") == {"two.md"}
        repo.write(rules, "two.md\n")
        assert found(library, "two") == set()
        assert library.drain(DEADLINE)
        repo.write("project/docs/two.md", "# Page\n\ntwo other facts\n")
        assert library.drain(DEADLINE)
        assert found(library, "two") == set()
        (repo.path / rules).unlink()
        assert found(library, "two") == {"two.md"}


def test_what_is_ignored_causes_no_pass(library: Library, root: Path) -> None:
    (root / ".gitignore").write_text("private/\n")
    (root / "private").mkdir()
    library.watch()
    assert library.drain(DEADLINE)
    before = passes(library)
    write(root / "private" / "a.md", "zebra")
    (root / "node_modules").mkdir()
    (root / "picture.png").write_text("nothing to parse")
    assert library.drain(DEADLINE)
    assert found(library, "zebra") == set()
    assert passes(library) == before


def test_a_burst(library: Library, root: Path) -> None:
    library.watch()
    assert library.drain(DEADLINE)
    for number in range(10_000):
        (root / f"{number}.md").write_text(f"# {number}\n\nburst{number}\n")
    wait_for(lambda: library.drain(DEADLINE))
    assert library.status().counts.documents == 10_003
    assert library.status().stale == ()


@with_fences
def test_more_than_a_few_files_are_admitted_and_named(root: Path, tmp_path: Path) -> None:
    settings = {**HASH, "index.max_auto_files": 2, "watch.debounce_ms": 30_000}
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as library:
        library.watch()
        assert library.drain(DEADLINE)
        for name in ("a", "b", "c"):
            write(root / f"{name}.md", "zebra")
        (note,) = library.search("zebra").incomplete
        assert (note.reason, note.uris) == ("stale", ("a.md", "b.md", "c.md"))
        assert library.drain(DEADLINE)
        assert library.search("zebra").incomplete == ()


@with_fences
def test_whoever_saves_and_asks_finds_it_while_others_do_the_same(
    library: Library, root: Path
) -> None:
    library.watch(debounce_ms=250)
    assert library.drain(DEADLINE)
    missed: list[str] = []

    def work(who: str) -> None:
        for number in range(25):
            word = f"{who}word{number}x"
            write(root / f"{who}.md", word)
            if found(library, word) != {f"{who}.md"}:
                missed.append(word)

    threads = [threading.Thread(target=work, args=(who,)) for who in ("ann", "bob", "eve")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missed == []


# --- the root -----------------------------------------------------------------------------------


def test_a_root_that_goes_keeps_its_index_and_is_followed_when_it_returns(
    library: Library, root: Path, tmp_path: Path
) -> None:
    library.watch()
    assert library.drain(DEADLINE)
    root.rename(tmp_path / "away")
    wait_for(lambda: not (state := library.watching()) or not state.healthy)
    state = library.watching()
    assert state is not None
    assert (state.running, state.reason) == (True, "the folder is gone")
    with library.folder().store.snapshot() as snapshot:
        assert snapshot.size() == 3
    (tmp_path / "away").rename(root)
    write(root / "four.md", "zebra")
    wait_for(lambda: (state := library.watching()) and state.healthy and not state.everything)
    wait_for(lambda: library.status(check=False).counts.documents == 4)
    assert found(library, "zebra") == {"four.md"}


def test_a_root_deleted_and_made_again(library: Library, root: Path) -> None:
    library.watch()
    assert library.drain(DEADLINE)
    shutil.rmtree(root)
    root.mkdir()
    write(root / "only.md", "zebra")
    wait_for(lambda: library.drain(DEADLINE) and library.status().counts.documents == 1)
    write(root / "only.md", "quagga")
    assert found(library, "quagga") == {"only.md"}


# --- other strategies ---------------------------------------------------------------------------


def test_lazy_indexes_when_it_is_asked(library: Library, root: Path) -> None:
    library.watch("lazy")
    assert library.drain(DEADLINE)
    assert found(library, "one") == {"one.md"}
    before = passes(library)
    write(root / "one.md", "zebra")
    wait_for(lambda: (root_state := library.watching()) and root_state.queued == 1)
    assert passes(library) == before
    assert found(library, "zebra") == {"one.md"}
    assert passes(library) == before + 1


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    subprocess.run(
        ["git", *identity, *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=DEADLINE,
    )


def test_git_indexes_at_a_commit(library: Library, root: Path) -> None:
    git(root, "init")
    git(root, "add", ".")
    git(root, "commit", "-m", "one")
    library.watch("git")
    wait_for(lambda: passes(library) == 1)
    write(root / "one.md", "zebra")
    answer = library.search("zebra", mode="keyword")
    assert [(note.reason, note.uris) for note in answer.incomplete] == [("stale", ("one.md",))]
    assert passes(library) == 1
    git(root, "commit", "-am", "two")
    wait_for(lambda: passes(library) == 2)
    answer = library.search("zebra", mode="keyword")
    assert answer.hits[0].uri == "one.md"
    assert answer.incomplete == ()


@pytest.mark.parametrize("strategy", ["realtime", "git"])
def test_another_branch_is_one_pass_and_costs_no_embedding_the_second_time(
    root: Path, tmp_path: Path, strategy: str
) -> None:
    """Sixty files change at once. Seen to fail when every hint had a pass of its own, and when

    contents were embedded again that an earlier generation had.
    """
    for number in range(60):
        write(root / f"{number}.md", f"main{number}")
    git(root, "init", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-m", "main")
    git(root, "checkout", "-b", "other")
    for number in range(60):
        write(root / f"{number}.md", f"other{number}")
    git(root, "commit", "-am", "other")
    git(root, "checkout", "main")
    done: list[Pass] = []
    with Library.open(root, index_dir=tmp_path / "index", settings=HASH) as library:
        library.index()
        library.watch(strategy, debounce_ms=1000, on_pass=done.append)
        wait_for(lambda: len(done) == 1)
        embedded = []
        for branch in ("other", "main", "other", "main"):
            done.clear()
            git(root, "checkout", branch)
            wait_for(lambda: done)
            (only,) = done
            assert (only.result.changed, only.result.added, only.result.removed) == (60, 0, 0)
            embedded.append(only.result.chunks_embedded)
            assert library.drain(DEADLINE)
            assert library.status().stale == ()
            assert found(library, f"{branch}7") == {"7.md"}
        assert embedded == [60, 0, 0, 0]


@pytest.mark.parametrize("where", ["worktree", "below"])
def test_git_indexes_at_a_commit_whose_head_is_not_in_the_folder(
    root: Path, tmp_path: Path, where: str
) -> None:
    """A worktree, whose head lies in another folder, and a root below the repository's top.

    Seen to fail when the head was looked at only after an event in the folder's own ``.git``.
    """
    top = tmp_path / "repository"
    shutil.copytree(root, top / "docs")
    git(top, "init", "-b", "main")
    git(top, "add", ".")
    git(top, "commit", "-m", "one")
    follow = tmp_path / "tree" if where == "worktree" else top / "docs"
    if where == "worktree":
        git(top, "worktree", "add", "-b", "side", str(follow))
    page = follow / ("docs/one.md" if where == "worktree" else "one.md")
    with Library.open(follow, index_dir=tmp_path / "index", settings=HASH) as library:
        library.watch("git")
        wait_for(lambda: passes(library) == 1)
        write(page, "zebra")
        wait_for(lambda: (state := library.watching()) and state.queued == 1)
        assert passes(library) == 1
        git(page.parent, "commit", "-am", "two")
        wait_for(lambda: passes(library) == 2)
        assert found(library, "zebra") == {page.relative_to(follow).as_posix()}
        git(page.parent, "checkout", "HEAD~1")
        wait_for(lambda: passes(library) == 3)
        assert found(library, "zebra") == set()


def test_what_git_collected_survives_a_restart(root: Path, tmp_path: Path) -> None:
    git(root, "init")
    git(root, "add", ".")
    git(root, "commit", "-m", "one")
    with Library.open(root, index_dir=tmp_path / "index", settings=HASH) as library:
        library.watch("git")
        wait_for(lambda: passes(library) == 1)
        write(root / "one.md", "zebra")
        wait_for(lambda: (state := library.watching()) and state.queued == 1)
    left = json.loads((library.index_dir / DIRTY_FILE).read_text())
    assert left["uris"] == ["one.md"]
    with Library.open(root, index_dir=tmp_path / "index", settings=HASH) as library:
        library.watch("git")
        wait_for(lambda: (state := library.watching()) and state.queued == 1)
        assert passes(library) == 0
        (note,) = library.search("zebra", mode="keyword").incomplete
        assert note.uris == ("one.md",)
        git(root, "commit", "-am", "two")
        wait_for(lambda: passes(library) == 1)
        assert found(library, "zebra") == {"one.md"}


def test_strategies_are_switched_while_it_runs(library: Library, root: Path) -> None:
    library.watch("lazy")
    assert library.drain(DEADLINE)
    keeper = library.folder().following.keeper
    write(root / "one.md", "zebra")
    wait_for(lambda: (state := library.watching()) and state.queued == 1)
    before = passes(library)
    library.watch("realtime")
    assert library.folder().following.keeper is keeper
    wait_for(lambda: passes(library) == before + 1)
    library.watch("lazy")
    write(root / "two.md", "quagga")
    assert found(library, "quagga") == {"two.md"}
    status = library.status()
    assert status.watcher is not None
    assert status.watcher.strategy == "lazy"


def test_closing_does_not_wait_for_the_whole_pass(root: Path, tmp_path: Path) -> None:
    """Seen to fail where nobody told the pass of the keeper that it is not wanted any more."""
    from lookfar.embed.hashed import HashedEmbedder

    for number in range(600):
        (root / f"{number}.md").write_text(f"# Page {number}\n\nabout {number}\n")
    embedded: list[int] = []
    begun, go_on = threading.Event(), threading.Event()

    class Slow(HashedEmbedder):
        def embed(self, texts: Any) -> Any:
            embedded.append(len(texts))
            begun.set()
            assert go_on.wait(DEADLINE)
            return super().embed(texts)

    library = Library.open(root, index_dir=tmp_path / "index", settings=HASH)
    library.folder().__dict__["embedder"] = Slow(16)
    library.watch()
    assert begun.wait(DEADLINE)
    closing = threading.Thread(target=library.close)
    closing.start()
    wait_for(lambda: library.folder().passes.closing)
    go_on.set()
    closing.join(DEADLINE)
    assert not closing.is_alive()
    assert sum(embedded) < 600
    assert not library.indexed


def test_watching_is_switched_on_and_off(library: Library) -> None:
    assert library.status().watcher is None
    library.watch(debounce_ms=250)
    library.watch(debounce_ms=400)
    assert library.drain(DEADLINE)
    library.unwatch()
    library.unwatch()
    assert library.status().watcher is None
    assert not library.drain(0.1)
    for wrong in ({"strategy": "eager"}, {"debounce_ms": 249}, {"debounce_ms": 30_001}):
        with pytest.raises(InvalidArgument):
            library.watch(**wrong)


def test_a_search_right_after_a_save_finds_it_beside_the_index(root: Path) -> None:
    """Of the index itself nobody needs to be told, but of what lies in the same folder."""
    with Library.open(root, index_dir=root, settings=HASH) as library:
        library.watch()
        assert library.drain(DEADLINE)
        for number, word in enumerate(("zebra", "quagga")):
            write(root / f"new{number}.md", word)
            assert found(library, word) == {f"new{number}.md"}
            assert library.drain(DEADLINE)


class Stuck:
    """A keeper that gets nothing done, while the folder of what waits is moved."""

    strategy = "realtime"

    def __init__(self) -> None:
        self.pendings = iter((frozenset({"sub/a.md", "b.md"}), frozenset({"sub/", "c.md"})))

    def pending(self) -> frozenset[str]:
        return next(self.pendings)

    def drain(self, timeout: float, occasion: str) -> bool:
        return False

    def stop(self) -> None: ...


def test_what_waits_with_its_folder_is_admitted(library: Library) -> None:
    library.index()
    library.folder().following.keeper = Stuck()  # type: ignore[assignment]
    (note,) = library.search("one").incomplete
    assert (note.reason, note.uris) == ("stale", ("sub/a.md",))


# --- without a watcher ----------------------------------------------------------------------------


def test_unwatched_the_disk_is_compared_at_every_nth_search(root: Path, tmp_path: Path) -> None:
    settings = {**HASH, "index.check_every_searches": 3, "index.max_auto_files": 1}
    with Library.open(root, index_dir=tmp_path / "index", settings=settings) as library:
        library.index()
        assert library.search("one").incomplete == ()
        write(root / "one.md", "zebra")
        for _ in range(2):
            assert [note.reason for note in library.search("one").incomplete][:1] == ["unchecked"]
        assert found(library, "zebra") == {"one.md"}
        write(root / "one.md", "quagga")
        write(root / "two.md", "quagga")
        reasons = [library.search("quagga").incomplete[0].reason for _ in range(3)]
        assert reasons == ["unchecked", "unchecked", "stale"]


# --- the keeper itself ----------------------------------------------------------------------------


class Recorder:
    """An update that can be told to fail."""

    def __init__(self) -> None:
        self.works: list[Work] = []
        self.failing = False

    def __call__(self, work: Work) -> None:
        self.works.append(work)
        if self.failing:
            raise RuntimeError("no room")


def make(
    root: Path, folder: Path, update: Callable[[Work], object], strategy: Strategy = "realtime"
) -> Keeper:
    changes = Changes(folder, quiet=0.25)
    watcher = FolderWatcher(Root.open(root), Policy(), changes)
    return Keeper(watcher, changes, update, strategy=strategy, first_pause=0.05)


def test_it_survives_whatever_the_update_raises(root: Path, tmp_path: Path) -> None:
    record, attempts = Recorder(), list[Pass]()
    keeper = make(root, tmp_path / "c", record)
    keeper._on_pass = attempts.append
    keeper.start()
    assert keeper.drain(DEADLINE)
    record.failing = True
    write(root / "one.md", "zebra")
    assert not keeper.drain(DEADLINE)
    wait_for(lambda: len(attempts) >= 4)
    state = keeper.state()
    assert (state.running, state.queued, state.last_error) == (True, 1, "RuntimeError: no room")
    record.failing = False
    wait_for(lambda: keeper.state().passes == 2)
    assert (keeper.state().queued, keeper.state().last_error) == (0, "")
    assert record.works[-1] == Work(frozenset({"one.md"}))
    keeper.stop()


def test_it_waits_longer_after_each_failure(root: Path, tmp_path: Path) -> None:
    times: list[float] = []
    planned: list[float] = []

    def fail(_: Work) -> None:
        times.append(time.monotonic())
        raise OSError("no room")

    keeper = make(root, tmp_path / "c", fail)
    keeper._on_pass = lambda _: planned.append(keeper._retry_at)
    keeper.start()
    wait_for(lambda: len(times) == 4)
    keeper.stop()
    # A busy machine is late, but no attempt is made before its time.
    assert all(at >= earliest for at, earliest in zip(times[1:], planned, strict=False))
    least = [earliest - failed for failed, earliest in zip(times, planned, strict=False)]
    assert all(pause >= 0.05 * 2**failures for failures, pause in enumerate(least)), least


def test_everything_is_compared_now_and_then(root: Path, tmp_path: Path) -> None:
    record = Recorder()
    changes = Changes(tmp_path / "c", quiet=0.25)
    watcher = FolderWatcher(Root.open(root), Policy(), changes)
    keeper = Keeper(watcher, changes, record, reconcile_seconds=0.05)
    keeper.start()
    wait_for(lambda: len(record.works) >= 3)
    keeper.stop()
    assert {work.only for work in record.works} == {None}


def test_a_listener_that_fails_does_no_harm(root: Path, tmp_path: Path) -> None:
    def fail(_: Pass) -> None:
        raise ValueError("not my day")

    record = Recorder()
    keeper = make(root, tmp_path / "c", record)
    keeper._on_pass = fail
    keeper.start()
    assert keeper.drain(DEADLINE)
    write(root / "one.md", "zebra")
    assert keeper.drain(DEADLINE)
    assert len(record.works) == 2
    keeper.stop()


def test_draining_a_stopped_keeper_does_not_wait(root: Path, tmp_path: Path) -> None:
    keeper = make(root, tmp_path / "c", Recorder())
    assert not keeper.drain(DEADLINE)
    keeper.start()
    keeper.stop()
    assert not keeper.drain(DEADLINE)


def test_starting_and_stopping_leaves_nothing_behind(root: Path, tmp_path: Path) -> None:
    keeper = make(root, tmp_path / "c", Recorder())
    keeper.start()
    keeper.stop()
    with leaving_nothing_open():
        for _ in range(20):
            keeper.start()
            keeper.start()
            assert keeper.drain(DEADLINE)
            keeper.stop()
            keeper.stop()
