"""Worker processes: the same outcomes in the same order, whatever happens to a worker."""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import lookfar.errors
from lookfar.common.frames import receive_frame
from lookfar.config import EmbedSettings
from lookfar.embed.hashed import HashedEmbedder
from lookfar.errors import IndexCorrupt, IOFailed, LookfarError, OutOfMemory
from lookfar.index import worker
from lookfar.index.reconcile import Request
from lookfar.index.worker import Preparer, Recipe, Unchanged, WorkerPool
from lookfar.model import Failure
from lookfar.ports import Version
from lookfar.sources.confine import Root
from lookfar.sources.fingerprints import content_hash
from lookfar.sources.folder.policy import Policy
from lookfar.sources.folder.walk import walk
from lookfar.text.chunk.headings import Sizes
from lookfar.text.parse.syntax_tree import parse_tree
from waiting import DEADLINE, wait_for

SOURCE = Path(lookfar.errors.__file__).parents[1]
SIZES = Sizes(max_tokens=60, hard_max_tokens=80, min_tokens=1, overlap_tokens=0, merge_small=False)


@pytest.fixture
def recipe(root: Path) -> Recipe:
    for number in range(40):
        (root / f"{number:02}.md").write_text(f"# Page {number}\n\nwords of number {number}\n")
    (root / "broken.md").write_bytes(b"caf\xe9\n")
    (root / "zero.md").write_bytes(b"a\0b")
    return Recipe(Root.open(root), 1_000_000, SIZES, EmbedSettings("hash"), None)


def requests_of(recipe: Recipe, size: int = 4) -> list[list[Request]]:
    """Request every file; every third is already stored with the same bytes."""
    found = [
        Request(file, None if at % 3 < 2 else content_hash(recipe.root.read(file.uri, 10_000)[0]))
        for at, file in enumerate(walk(recipe.root, Policy()).files)
    ]
    found.append(Request(replace(found[0].file, uri="gone.md"), None))
    return [found[at : at + size] for at in range(0, len(found), size)]


def children() -> list[int]:
    """Worker processes of this one."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
            line = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if parent == os.getpid() and b"lookfar.index.worker" in line:
            found.append(int(name))
    return found


def test_a_version_is_the_same_in_another_process(recipe: Recipe) -> None:
    """Versions have a shorter form for pipes, in which no field may be missing."""
    preparer = Preparer(recipe, HashedEmbedder())
    outcomes = [outcome for batch in requests_of(recipe) for outcome in preparer.run(batch, set)]
    assert any(isinstance(outcome, Version) for outcome in outcomes)
    assert pickle.loads(pickle.dumps(outcomes)) == outcomes


def test_a_pool_returns_the_same_outcomes_in_the_same_order(recipe: Recipe) -> None:
    """Seen to fail when the batch that was asked for last came first, and when the child ran as

    ``__main__``: then the parent could not read its ``Unchanged``.
    """
    batches = requests_of(recipe)
    preparer = Preparer(recipe, HashedEmbedder())
    here = [preparer.run(batch, set) for batch in batches]
    pool = WorkerPool(recipe, 2)
    try:
        there = list(pool.run(batches))
    finally:
        pool.close()
    assert _plain(there) == _plain(here)
    assert children() == []


def test_a_program_is_parsed_once(recipe: Recipe, root: Path) -> None:
    for number in range(3):
        (root / f"module{number}.py").write_text(f"def run{number}():\n    return helper()\n")
    files = [file for file in walk(recipe.root, Policy()).files if file.uri.endswith(".py")]
    parse_tree.cache_clear()
    preparer = Preparer(recipe, HashedEmbedder())
    outcomes = preparer.run([Request(file, None) for file in files], set)
    assert [bool(outcome.calls) for outcome in outcomes if isinstance(outcome, Version)] == [
        True
    ] * 3
    assert parse_tree.cache_info().misses == 3


def _plain(batches: list[list[worker.Outcome]]) -> list[object]:
    """Comparable rows; whether a file had settled depends on the clock."""
    return [
        replace(each, settled=False) if isinstance(each, Version | Unchanged) else each
        for batch in batches
        for each in batch
    ]


POISON = """
import os, signal
from lookfar.index import prepare, worker
find_parser = prepare.text_parser_for
def poison(uri, **named):
    if uri == "13.md":
        os.kill(os.getpid(), int(os.environ.get("POISON", signal.SIGSEGV)))
    if uri == "21.md":
        raise ValueError("this one only")
    return find_parser(uri, **named)
prepare.text_parser_for = poison
worker.main()
"""


@pytest.fixture
def poisoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real workers, except for a parser that crashes on one file."""
    script = tmp_path / "poisoned.py"
    script.write_text(POISON)
    popen = subprocess.Popen

    def start(command: list[str], **named: object) -> subprocess.Popen[bytes]:
        assert "lookfar.index.worker" in " ".join(command)
        return popen([sys.executable, str(script)], **named)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", start)


def test_only_the_file_that_crashes_its_worker_is_reported(recipe: Recipe, poisoned: None) -> None:
    """Seen to fail when a crash failed the whole batch."""
    batches = requests_of(recipe)
    pool = WorkerPool(recipe, 2)
    try:
        outcomes = [each for batch in pool.run(batches) for each in batch]
    finally:
        pool.close()
    assert [each.uri for each in outcomes] == [r.file.uri for batch in batches for r in batch]
    failed = {outcome.uri: outcome.code for outcome in outcomes if isinstance(outcome, Failure)}
    assert failed == {"13.md": "WORKER_CRASHED", "21.md": "PARSE_FAILED", "gone.md": "GONE"}


def test_a_worker_killed_for_memory_ends_the_pass(
    recipe: Recipe, poisoned: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when it was reported as WORKER_CRASHED of the file."""
    monkeypatch.setenv("POISON", "9")
    kills = itertools.count()
    pool = WorkerPool(recipe, 2, kills=lambda: next(kills))
    try:
        with pytest.raises(OutOfMemory) as refused:
            list(pool.run(requests_of(recipe)))
    finally:
        pool.close()
    assert "13.md" in refused.value.developer
    assert children() == []


def test_a_worker_killed_otherwise_blames_its_file(
    recipe: Recipe, poisoned: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when every kill was taken for one for memory."""
    monkeypatch.setenv("POISON", "9")
    pool = WorkerPool(recipe, 2, kills=lambda: 3)
    try:
        outcomes = [each for batch in pool.run(requests_of(recipe)) for each in batch]
    finally:
        pool.close()
    failed = {outcome.uri: outcome.code for outcome in outcomes if isinstance(outcome, Failure)}
    assert failed["13.md"] == "WORKER_CRASHED"


def test_workers_killed_from_outside_are_replaced(recipe: Recipe) -> None:
    """Seen to fail when a worker that is gone was not started again."""
    batches = requests_of(recipe, 1)
    pool = WorkerPool(recipe, 2)
    stop = threading.Event()

    def shoot() -> None:
        for _ in range(6):
            for pid in children()[:1]:
                os.kill(pid, signal.SIGKILL)
            if stop.wait(0.15):
                return

    shooting = threading.Thread(target=shoot)
    shooting.start()
    try:
        outcomes = [each for batch in pool.run(batches) for each in batch]
    finally:
        stop.set()
        shooting.join()
        pool.close()
    assert [outcome.uri for outcome in outcomes] == [r.file.uri for batch in batches for r in batch]
    assert sum(isinstance(each, Version | Unchanged) for each in outcomes) >= 38
    assert children() == []


def test_a_truncated_frame_is_end_of_file() -> None:
    read, write = os.pipe()
    os.write(write, (100).to_bytes(8, "little") + b"only a few")
    os.close(write)
    with os.fdopen(read, "rb") as pipe, pytest.raises(EOFError):
        receive_frame(pipe)


def test_workers_that_always_crash_end_the_pass(recipe: Recipe, tmp_path: Path) -> None:
    script = tmp_path / "dead.py"
    script.write_text("raise SystemExit(3)")
    popen = subprocess.Popen
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            subprocess,
            "Popen",
            lambda command, **named: popen([sys.executable, str(script)], **named),
        )
        patched.setattr(worker, "_MOST_RESTARTS", 2)
        pool = WorkerPool(recipe, 1)
        try:
            with pytest.raises(IOFailed) as raised:
                list(pool.run(requests_of(recipe)))
        finally:
            pool.close()
    assert "index.workers" in raised.value.hint


def test_worker_errors_stay_typed(recipe: Recipe, tmp_path: Path) -> None:
    """Seen to fail when errors could not be pickled, and when a worker died of its first one."""
    bad = tmp_path / "catalogue.db"
    bad.write_bytes(b"no database " * 100)
    pool = WorkerPool(replace(recipe, catalogue=bad), 1)
    try:
        with pytest.raises(IndexCorrupt) as raised:
            list(pool.run(requests_of(recipe)))
    finally:
        pool.close()
    assert raised.value.hint
    assert raised.value.details["path"] == str(bad)


def test_every_error_can_be_pickled() -> None:
    def kinds(of: type[LookfarError]) -> list[type[LookfarError]]:
        return [of, *(kind for below in of.__subclasses__() for kind in kinds(below))]

    for kind in kinds(LookfarError):
        error = kind("what", hint="next", developer="why", details={"path": "/x"})
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind
        assert again.as_dict() == error.as_dict()


def test_closing_midway_leaves_no_process(recipe: Recipe) -> None:
    pool = WorkerPool(recipe, 2)
    results = pool.run(requests_of(recipe, 1))
    next(results)
    assert len(children()) == 2
    pool.close()
    assert children() == []


def test_closing_does_not_wait_for_answers(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen to fail when closing waited until each worker had answered: these never do."""
    program = "import sys; sys.stdin.read()  # instead of lookfar.index.worker"
    monkeypatch.setattr(worker, "_CHILD", program)
    pool = WorkerPool(recipe, 2)
    with ThreadPoolExecutor() as threads:
        asking = threads.submit(lambda: list(pool.run(requests_of(recipe))))
        wait_for(lambda: len(children()) == 2, "both workers are asked")
        closing = threads.submit(pool.close)
        try:
            closing.result(DEADLINE)
        finally:
            while not closing.done():
                for pid in children():
                    os.kill(pid, signal.SIGKILL)
    assert children() == []
    assert asking.exception() is not None


def test_workers_exit_when_their_parent_is_killed(recipe: Recipe, root: Path) -> None:
    """Seen to fail when a worker ignored the end of its input."""
    code = f"""
        import sys, time
        sys.path.insert(0, {str(SOURCE)!r})
        from lookfar.text.chunk.headings import Sizes
        from lookfar.config import EmbedSettings
        from lookfar.index.worker import Recipe, WorkerPool
        from lookfar.sources.confine import Root
        recipe = Recipe(Root.open({str(root)!r}), 1000, Sizes(60, 80, 1, 0, False),
                        EmbedSettings("hash"), None)
        pool = WorkerPool(recipe, 2)
        print(*(child._start().pid for child in pool._children), flush=True)
        time.sleep(600)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    assert parent.stdout is not None
    assert parent.stderr is not None
    workers = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(workers) == 2
    parent.kill()
    parent.wait()
    wait_for(lambda: not any(map(_runs, workers)), "they end")
    assert parent.stderr.read() == "", "they go without a word"
    parent.stdout.close()
    parent.stderr.close()


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
