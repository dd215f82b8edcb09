"""Turns of calls: how many compute at once, in which order, and who never waits."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from calls import QuietCall
from lookfar.collections.folder import Folder
from lookfar.common.caller import called_by
from lookfar.common.turns import TURNS, Turns
from lookfar.library import Library
from lookfar.serve.tools.tool import Session
from lookfar.serve.toolsets import load_tools
from waiting import DEADLINE, wait_for


class Calls:
    """Calls in threads of their own, each of which computes until it is let go."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.begun: list[str] = []
        self._changed = threading.Condition()
        self._ends: dict[str, threading.Event] = {}
        self._threads: dict[str, threading.Thread] = {}

    def start(self, name: str, client: Hashable) -> None:
        """Return when the call has its turn or is queued for one."""
        queued, computing = self.turns.queued, self.turns.computing
        self._ends[name] = threading.Event()
        self._threads[name] = threading.Thread(target=self._call, args=(name, client))
        self._threads[name].start()
        wait_for(lambda: self.turns.queued + self.turns.computing > queued + computing)

    def _call(self, name: str, client: Hashable) -> None:
        with self.turns.take(client):
            with self._changed:
                self.begun.append(name)
                self._changed.notify_all()
            assert self._ends[name].wait(DEADLINE)

    def end(self, name: str) -> None:
        self._ends[name].set()
        self._threads[name].join(DEADLINE)

    def await_begun(self, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.begun) >= number, DEADLINE), self.begun

    def close(self) -> None:
        for end in self._ends.values():
            end.set()
        for thread in self._threads.values():
            thread.join(DEADLINE)


@contextmanager
def calls_of(turns: Turns) -> Iterator[Calls]:
    calls = Calls(turns)
    try:
        yield calls
    finally:
        calls.close()


def test_no_more_compute_at_once_than_the_bound() -> None:
    with calls_of(Turns(most=2, beside_pass=1)) as calls:
        for number in range(5):
            calls.start(str(number), number)
        assert (calls.begun, calls.turns.queued) == (["0", "1"], 3)
        calls.end("0")
        calls.await_begun(3)
        assert (calls.begun, calls.turns.queued) == (["0", "1", "2"], 2)


def test_clients_take_turns() -> None:
    """Seen to fail with one queue for all: the call of b came after all those of a."""
    with calls_of(Turns(most=1, beside_pass=1)) as calls:
        for name in ("a1", "a2", "a3", "a4", "b1", "c1"):
            calls.start(name, name[0])
        for number, name in enumerate(("a1", "a2", "b1", "c1", "a3"), start=2):
            calls.end(name)
            calls.await_begun(number)
        assert calls.begun == ["a1", "a2", "b1", "c1", "a3", "a4"]


def test_a_pass_leaves_fewer_turns_and_has_none() -> None:
    """Seen to fail with a bound that a pass did not change."""
    turns = Turns(most=3, beside_pass=1)
    with calls_of(turns) as calls, turns.take("reindex"):
        with turns.index():
            for number in range(3):
                calls.start(str(number), number)
            assert (turns.computing, turns.queued) == (1, 2)
        calls.await_begun(3)
    assert (turns.computing, turns.queued) == (0, 0)


def test_a_thread_with_a_lock_continues_at_once_and_queues_later() -> None:
    """Seen to fail when it queued with the lock: the call with the turn waited for that lock."""
    turns = Turns(most=1, beside_pass=1)
    with calls_of(turns) as calls, turns.take("a"):
        with turns.step_aside():
            calls.start("b1", "b")
            calls.await_begun(1)
        assert turns.computing == 2

        def end_when_queued() -> None:
            wait_for(lambda: turns.queued == 1)
            calls.end("b1")

        ending = threading.Thread(target=end_when_queued)
        ending.start()
        turns.settle()
        ending.join(DEADLINE)
        assert turns.computing == 1


def test_a_thread_has_one_turn() -> None:
    turns = Turns(most=1, beside_pass=1)
    with turns.take("a"), turns.take("a"):
        assert turns.computing == 1
    assert turns.computing == 0


# --- calls of the server --------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, own_home: Path) -> Iterator[Folder]:
    root = tmp_path / "docs"
    root.mkdir()
    (root / "page.md").write_text("# Page\n\nThe harbour keeps boats.\n", encoding="utf-8")
    chosen = {"embed.provider": "hash", "index.workers": 1}
    folder = Folder.open(str(root), index_dir=str(tmp_path / "index"), settings=chosen)
    folder.index()
    yield folder
    folder.close()


def test_the_status_never_waits_and_a_search_does(folder: Folder) -> None:
    """Seen to fail with a ``status`` that was not light."""
    tools = {tool.name: tool for tool in load_tools(("all",))}
    session = Session(Library([folder]))
    ended = threading.Event()
    with calls_of(TURNS) as calls, ExitStack() as searching:
        for number in range(2 * (os.cpu_count() or 1)):
            calls.start(str(number), number)

        def search() -> None:
            tools["search"].run(session, {"query": "harbour"}, QuietCall())
            ended.set()

        thread = threading.Thread(target=search)
        thread.start()
        searching.callback(thread.join, DEADLINE)
        wait_for(lambda: TURNS.queued == 1)
        for name in ("status", "get_index_status", "msrl.status"):
            assert tools[name].run(session, {}, QuietCall()).data
        assert (TURNS.computing, TURNS.queued) == (2 * (os.cpu_count() or 1), 1)
        assert not ended.is_set()
        calls.close()
        assert ended.wait(DEADLINE)


def test_a_call_that_waits_for_a_build_has_no_turn(folder: Folder) -> None:
    """Seen to fail with a wait that kept the turn."""
    waits = threading.Event()
    computing: list[int] = []

    def note() -> None:
        computing.append(TURNS.computing)
        waits.set()

    def index() -> None:
        with TURNS.take("waiting"), called_by(check=note):
            folder.index()

    thread = threading.Thread(target=index)
    with folder.passes.lock:
        thread.start()
        assert waits.wait(DEADLINE)
    thread.join(DEADLINE)
    assert set(computing) == {0}, "neither while it waits nor while it builds"
    assert TURNS.computing == 0
