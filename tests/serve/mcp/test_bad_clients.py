"""One bad client never harms another: those that do not read, do not answer, leave or ask too much.

Each has a real socket to the part of the daemon that serves it, in this process.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import BlockingPortal

from lookfar.collections.collection import Collection
from lookfar.collections.folder import Folder
from lookfar.common.caller import called_by, check_cancelled
from lookfar.index.build import Build
from lookfar.library import Library
from lookfar.serve.daemon import services
from lookfar.serve.daemon.endpoint import ClientRequest
from lookfar.serve.daemon.pool import Pool
from lookfar.serve.daemon.project import project_root
from lookfar.serve.http.rest import HttpCall, Tools
from lookfar.serve.http.visits import Watch
from lookfar.serve.mcp import changes as changes_module
from lookfar.serve.mcp import server as mcp_module
from lookfar.serve.mcp.changes import Changes
from lookfar.serve.mcp.server import make_server
from lookfar.serve.tools.tool import Session
from lookfar.serve.toolsets import load_tools
from serve.mcp.served import Home, connected, said, write_documents
from waiting import DEADLINE, wait_for

fcntl = pytest.importorskip("fcntl", reason="asks the system how full a socket is")
termios = pytest.importorskip("termios", reason="asks the system how full a socket is")

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}


class Raw:
    """A client that reads only on request."""

    def __init__(self, opened: socket.socket) -> None:
        self.socket = opened
        self._lines = opened.makefile("rb")

    def send(self, shape: dict[str, Any]) -> None:
        self.socket.sendall(json.dumps(shape).encode() + b"\n")

    def request(self, number: int, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    def receive(self) -> dict[str, Any]:
        shape: dict[str, Any] = json.loads(self._lines.readline())
        return shape

    def ask(self, number: int, method: str, **params: Any) -> dict[str, Any]:
        self.request(number, method, **params)
        while (answer := self.receive()).get("id") != number:
            pass
        return answer

    def begin(self) -> Raw:
        self.ask(1, "initialize", **INITIALIZE)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def stop_reading(self) -> None:
        """Ask for so much that the answers fill the buffer, and wait until it is full."""
        for at in range(1_000, 1_200):
            self.request(at, "tools/list")
        sizes = [0] * 10

        def full() -> bool:
            (waiting,) = struct.unpack("i", fcntl.ioctl(self.socket, termios.FIONREAD, bytes(4)))
            sizes[:] = [*sizes[1:], waiting]
            return sizes[0] == waiting > 65_536

        wait_for(full, "the buffer is full")

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


Connect = Callable[..., Raw]


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(rest_seconds=3600.0, close_seconds=3600.0)
    yield pool
    pool.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Ended after what their work may wait for has been let go."""
    with ThreadPoolExecutor() as threads:
        yield threads


@pytest.fixture
def settings(home: Home, tmp_path: Path) -> dict[str, Any]:
    return {**home.settings, "index.dir": str(tmp_path / "index")}


@pytest.fixture
def connect(
    portal: BlockingPortal, threads: ThreadPoolExecutor, pool: Pool, settings: dict[str, Any]
) -> Iterator[Connect]:
    """A raw client of a session in this process, as the daemon serves it."""
    opened: list[tuple[Raw, Any]] = []

    def connect(*roots: Path, kind: str = "mcp", cwd: str = "") -> Raw:
        ours, theirs = socket.socketpair()
        ours.settimeout(DEADLINE)
        request = ClientRequest(kind, cwd, tuple(map(str, roots)), {"settings": settings})
        handler = services._serve_mcp_client if kind == "mcp" else services._serve_calls

        async def serve() -> None:
            reader, writer = await asyncio.open_connection(sock=theirs)
            try:
                await handler(pool, request, reader, writer)
            finally:
                writer.transport.abort()

        opened.append((Raw(ours), portal.start_task_soon(serve)))
        return opened[-1][0]

    yield connect
    for client, _ in opened:
        client.close()
    for _, served in opened:
        served.exception(DEADLINE)


class Gate:
    """Passes begin, and go on when they are let."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.open = threading.Event()


@pytest.fixture
def gate(threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate, run = Gate(), Build.run

    def held(self: Build, **how: Any) -> Any:
        gate.begun.set()
        while not gate.open.wait(0.05):
            check_cancelled()
        return run(self, **how)

    monkeypatch.setattr(Build, "run", held)
    yield gate
    gate.open.set()


@contextmanager
def session_of(pool: Pool, root: Path, settings: dict[str, Any]) -> Iterator[Session]:
    with pool.session([str(root)], settings=settings, environ={}) as session:
        yield session


# --- those that do not read ---------------------------------------------------------------------


def test_a_subscriber_that_does_not_read_blocks_no_one(
    connect: Connect,
    pool: Pool,
    docs: Path,
    settings: dict[str, Any],
    threads: ThreadPoolExecutor,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Seen to fail when a pass waited, with the index locked, until all had taken it."""
    settings["watch.enabled"] = False
    with session_of(pool, docs, settings) as session:
        folder = session.library.folder()
        folder.index()
        keys = f"lookfar://{docs.name}/keys.md"
        bad, good = connect(docs).begin(), connect(docs).begin()
        for client in (bad, good):
            client.ask(2, "resources/subscribe", uri=keys)
        bad.stop_reading()
        for at in range(2):
            (docs / "keys.md").write_text(f"# Keys\n\nNumber {at}.\n", encoding="utf-8")
            assert threads.submit(folder.index).result(DEADLINE).changed == 1
            assert good.receive()["params"]["uri"] == keys
        wait_for(lambda: "does not read" in caplog.text, "the subscriber is dropped")
        assert caplog.text.count("does not read") <= 2
        bad.close()


def test_a_client_that_does_not_read_its_progress_gets_its_build_done(
    connect: Connect, pool: Pool, docs: Path, settings: dict[str, Any]
) -> None:
    """Seen to fail when a pass waited for each word of progress to be taken."""
    bad = connect(docs).begin()
    bad.stop_reading()
    call = {"name": "search", "arguments": {"query": "key"}, "_meta": {"progressToken": "p"}}
    bad.request(2, "tools/call", **call)
    with session_of(pool, docs, settings) as session:
        wait_for(lambda: session.library.indexed, "the index is built")
        bad.close()


def test_many_changes_are_compared_with_many_subscriptions_once(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when each change was compared with each subscription, on the event loop."""
    told: list[str] = []
    looked = 0

    class Connection:
        exit_stack = AsyncExitStack()

        async def send_resource_updated(self, address: str) -> None:
            told.append(address)

    def document_of(address: str) -> str:
        nonlocal looked
        looked += 1
        return address.partition("#")[0]

    monkeypatch.setattr(changes_module, "strip_to_document", document_of)
    changes, connection = Changes(), Connection()
    portal.call(changes.bind_loop)
    for at in range(1_000):
        changes.subscribe(connection, f"lookfar://x/{at}.md#Part")
    changes.notify([f"lookfar://x/{at}.md" for at in range(500, 1_500)], listed=False)
    wait_for(lambda: len(told) == 500, "the changes are sent")
    assert told == sorted(f"lookfar://x/{at}.md" for at in range(500, 1_000))
    assert looked <= 2_000


# --- those that leave while they wait -----------------------------------------------------------


class Left(Exception):
    """The client has disconnected."""


def call_and_leave(ask: Callable[..., object], **arguments: Any) -> None:
    """Call a function for a client that leaves while it waits."""

    def check() -> None:
        raise Left

    with called_by(check=check):
        ask(**arguments)


def opened_twice(root: Path, settings: dict[str, Any]) -> tuple[Folder, Folder]:
    chosen = {**settings, "watch.enabled": False}
    one, other = (Folder.open(root, settings=chosen, environ={}) for _ in range(2))
    return one, other


def test_waiting_for_a_build_is_given_up(
    docs: Path, settings: dict[str, Any], threads: ThreadPoolExecutor, gate: Gate
) -> None:
    """Seen to fail when the lock on building was simply waited for."""
    folder, _ = opened_twice(docs, settings)
    building = threads.submit(folder.index)
    assert gate.begun.wait(DEADLINE)
    for wait in (folder.index, folder.first_index):
        with pytest.raises(Left):
            threads.submit(call_and_leave, wait).result(DEADLINE)
    assert not building.done()
    gate.open.set()
    assert building.result(DEADLINE).generation == 1
    folder.close()


def test_waiting_for_another_process_is_given_up(
    docs: Path, settings: dict[str, Any], threads: ThreadPoolExecutor
) -> None:
    """Seen to fail when the lock of the writer was waited for in one piece. A call that stays
    gets its pass when the other one is done."""
    one, other = opened_twice(docs, settings)
    with one.store.writer("other", 64, about={}, retain=3):
        given_up = threads.submit(call_and_leave, other.index, wait_seconds=600.0)
        with pytest.raises(Left):
            given_up.result(DEADLINE)
        staying = threads.submit(other.index, wait_seconds=DEADLINE)
        wait_for(lambda: other.building_since, "it waits")
        time.sleep(0.3)
        assert not staying.done()
    assert staying.result(DEADLINE).generation >= 1
    one.close()
    other.close()


def test_a_question_does_not_wait_for_a_long_pass(
    docs: Path,
    settings: dict[str, Any],
    threads: ThreadPoolExecutor,
    gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was there before answers and says so; seen to fail when the pass was waited for."""
    monkeypatch.setattr("lookfar.collections.followed_files.REBUILD_PATIENCE", 0.2)
    gate.open.set()
    folder, _ = opened_twice(docs, settings)
    folder.index()
    gate.open.clear()
    gate.begun.clear()
    library = Library([folder])
    building = threads.submit(folder.index, rebuild=True)
    assert gate.begun.wait(DEADLINE)
    # Something differs from the index: only then it matters that a pass is running.
    (docs / "late.md").write_text("# Late\n\nWritten during the pass.\n", encoding="utf-8")
    answer = threads.submit(library.search, "signing key").result(DEADLINE)
    assert answer.hits[0].uri == "keys.md"
    assert [each.reason for each in answer.incomplete] == ["rebuilding"]
    assert threads.submit(library.related, "keys.md").result(DEADLINE).uri == "keys.md"
    gate.open.set()
    building.result(DEADLINE)
    library.close()


def test_http_clients_that_leave_take_no_thread_with_them(
    pool: Pool, docs: Path, settings: dict[str, Any], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever types in the page leaves a question behind with each letter. Seen to fail when the
    whole index was checked for damage because a call was given up."""
    suspected: list[Exception] = []
    monkeypatch.setattr(Collection, "find_damage", lambda _, error: suspected.append(error))
    named = {tool.name: tool for tool in load_tools(("default",))}

    async def typing(session: Session, tools: Tools) -> None:
        def ask(name: str, arguments: dict[str, Any]) -> asyncio.Future[Any]:
            call = HttpCall()
            work = lambda: named[name].run(session, arguments, call)  # noqa: E731
            return asyncio.ensure_future(tools.run(name, arguments, None, call, work))

        letters = [ask("search", {"query": "k" * at}) for at in range(1, 21)]
        assert await asyncio.to_thread(gate.begun.wait, DEADLINE)
        await asyncio.sleep(0.3)
        for each in letters[1:]:
            each.cancel()
        await asyncio.wait_for(ask("status", {}), DEADLINE)
        gate.open.set()
        assert (await asyncio.wait_for(letters[0], DEADLINE)).data["generation"] == 1

    with session_of(pool, docs, settings) as session:
        tools = Tools(session, named, Watch())
        asyncio.run(typing(session, tools))
        tools.close()
        wait_for(lambda: not pool.busy, "no call waits any more")
    assert suspected == []


def test_a_call_stops_when_the_command_exits(
    connect: Connect, pool: Pool, docs: Path, settings: dict[str, Any]
) -> None:
    """Seen to fail when only what could not be written to it told that it had left: whoever waits
    for another process has nothing to write."""
    writing, _ = opened_twice(docs, settings)
    with writing.store.writer("other", 64, about={}, retain=3):
        one = connect(docs, kind="call")
        one.send({"method": "search", "arguments": {"query": "key", "filters": {}}})
        wait_for(lambda: pool.busy, "it waits")
        time.sleep(0.3)
        assert pool.busy
        one.close()
        wait_for(lambda: not pool.busy, "it waits no more")
    writing.close()


# --- those that ask too much --------------------------------------------------------------------


def test_a_session_cannot_take_the_threads_of_another(
    connect: Connect, docs: Path, tmp_path: Path, gate: Gate
) -> None:
    """Seen to fail with one allowance of threads for all sessions."""
    other = write_documents(tmp_path / "other")
    bad, good = connect(docs).begin(), connect(other).begin()
    for at in range(2, 102):
        bad.request(at, "tools/call", name="search", arguments={"query": "key"})
    assert gate.begun.wait(DEADLINE)
    time.sleep(0.3)
    answer = good.ask(2, "tools/call", name="status", arguments={})
    assert not answer["result"].get("isError")
    gate.open.set()


def test_a_session_on_a_disk_that_hangs_stops_no_other(
    connect: Connect, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when the folder of a session was looked for on the event loop."""
    hangs, done = threading.Event(), threading.Event()
    ended: list[bool] = []

    def hang(cwd: str) -> Any:
        hangs.set()
        ended.append(done.wait(DEADLINE))
        return project_root(cwd)

    monkeypatch.setattr(services, "project_root", hang)
    try:
        connect(cwd=str(tmp_path))
        assert hangs.wait(DEADLINE)
        answer = connect(docs).begin().ask(2, "tools/call", name="status", arguments={})
        assert ended == []
        assert not answer["result"].get("isError")
    finally:
        done.set()


# --- those that do not answer -------------------------------------------------------------------


def test_an_unanswered_confirmation_times_out(
    portal: BlockingPortal,
    pool: Pool,
    docs: Path,
    settings: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seen to fail without an end to the waiting."""
    monkeypatch.setattr(mcp_module, "_ASK_SECONDS", 0.2)

    async def ignore(_context: Any, _params: Any) -> Any:
        await anyio.sleep_forever()

    with session_of(pool, docs, settings) as session:
        server = make_server(session, load_tools(("search-mcp",)))
        with connected(portal, server, docs, elicitation_callback=ignore) as agent:
            refused = agent.raw("create_index", {})
            assert refused.is_error
            assert "confirm: true" in said(refused)
            assert not session.library.indexed


# --- builds that outlive those who began them ---------------------------------------------------


def test_a_folder_that_is_being_indexed_is_kept_open(
    docs: Path, settings: dict[str, Any], gate: Gate
) -> None:
    """Seen to fail when only calls counted: then the folder was closed and the daemon left."""
    pool = Pool(rest_seconds=0.0, close_seconds=0.0)
    try:
        with session_of(pool, docs, settings) as session:
            folder = session.library.folder()
            with session.call():
                folder.start_index()
        assert gate.begun.wait(DEADLINE)
        for _ in range(3):
            pool.tend()
        assert pool.busy
        assert pool._shared
        gate.open.set()
        wait_for(lambda: not pool.busy, "it is built")
        assert folder.indexed
        assert folder.failure is None
        wait_for(lambda: not pool._shared, "then it is closed")
    finally:
        pool.close()
