"""The life cycle of servers: cancelled builds, killed clients and daemons, many at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import BlockingPortal
from click.testing import CliRunner, Result
from mcp.shared.exceptions import MCPError

from lookfar.errors import LookfarError
from lookfar.serve.cli.main import cli
from lookfar.serve.daemon.pool import Pool
from serve.mcp.served import (
    ERAS,
    LEGACY,
    MODERN,
    Agent,
    Home,
    connected,
    http,
    in_memory,
    said,
    stdio,
    write_documents,
)
from serve.processes import Client, alive, end_all, marked_processes
from waiting import DEADLINE, wait_for

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Unix sockets")

COMMAND = "from lookfar.serve.entry import main; main()"
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "killed", "version": "1"},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home whose daemon may be killed."""
    runtime = tempfile.mkdtemp(prefix="lf")
    yield Home(tmp_path_factory.mktemp("life"), Path(runtime))
    end_all(marked_processes(f"XDG_RUNTIME_DIR={runtime}"))
    shutil.rmtree(runtime, ignore_errors=True)


@pytest.fixture(autouse=True)
def here(place: Home, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that run in this process find the same daemon as those that do not."""
    for name, value in place.env.items():
        monkeypatch.setenv(name, value)


def command(*arguments: object) -> Result:
    """A command line in this process: starting one takes longer than most tests."""
    return CliRunner().invoke(cli, [str(each) for each in arguments])


MakePool = Callable[..., Pool]


@pytest.fixture
def made() -> Iterator[MakePool]:
    """Makes pools that release and close nothing unless configured to."""
    pools = []

    def make(**times: float) -> Pool:
        pools.append(Pool(**{"rest_seconds": 3600.0, "close_seconds": 3600.0, **times}))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents that take a second or two to index, with workers."""
    root = tmp_path_factory.mktemp("large")
    for at in range(260):
        parts = (f"# Part {part}\n\n" + f"word{at * part} matters. " * 170 for part in range(6))
        (root / f"{at}.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return root


@pytest.fixture
def big(large: Path, tmp_path: Path) -> Path:
    """The same for one test: another folder has another index."""
    return Path(shutil.copytree(large, tmp_path / "big"))


def status() -> dict[str, Any]:
    shape: dict[str, Any] = json.loads(command("daemon", "status", "--json").stdout)
    return shape


def children(pid: int) -> list[int]:
    """Processes that another one started; on Linux, where that can be seen."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[1]) == pid:
            found.append(int(entry.name))
    return found


linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")


def begun(place: Home, root: Path) -> Client:
    """A raw client that has asked for a search, which is building the index now."""
    client = Client("mcp", str(root), program=COMMAND, env=place.env)
    client.request(1, "initialize", **INITIALIZE)
    assert client.receive()
    client.send({"method": "notifications/initialized"})
    arguments = {"query": "word"}
    client.request(
        2, "tools/call", name="search", arguments=arguments, _meta={"progressToken": "p"}
    )
    told = client.receive()
    assert told is not None
    assert told["method"] == "notifications/progress"
    return client


# --- builds -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("all_progress")
@pytest.mark.parametrize("era", ERAS)
def test_a_build_reports_progress(
    portal: BlockingPortal, home: Home, large: Path, tmp_path: Path, era: str
) -> None:
    """The protocol demands that progress grows; two folders must not begin twice."""
    small = write_documents(tmp_path / "small")
    told: list[tuple[float, float | None, str | None]] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    settings = {"index.dir": str(tmp_path / "index")}
    with in_memory(portal, home, large, small, mode=era, settings=settings) as agent:
        agent.run(
            lambda: agent.client.call_tool("search", {"query": "word"}, progress_callback=tell)
        )
    assert len(told) >= 3
    fractions = [each[0] for each in told]
    assert fractions == sorted(set(fractions))
    assert any(0 < fraction < 1 for fraction in fractions)
    assert fractions[-1] == 1.0
    assert {each[1] for each in told} == {1.0}
    assert all("files" in (each[2] or "") for each in told)


@linux
@pytest.mark.usefixtures("all_progress")
@pytest.mark.parametrize("era", ERAS)
def test_a_build_given_up_leaves_the_old_generation_serving(
    portal: BlockingPortal, home: Home, large: Path, tmp_path: Path, era: str, made: MakePool
) -> None:
    # The folder is not watched, so the search itself has to build.
    settings = {"index.dir": str(tmp_path / "index"), "watch.enabled": False}
    other = {**settings, "chunk.max_tokens": 300}
    before = set(children(os.getpid()))
    worked: set[int] = set()

    async def given_up(agent: Agent) -> bool:
        with anyio.CancelScope() as scope:

            async def tell(progress: float, *_: Any, **__: Any) -> None:
                if progress > 0:
                    worked.update(children(os.getpid()))
                    scope.cancel()

            await agent.client.call_tool("search", {"query": "word"}, progress_callback=tell)
        return scope.cancelled_caught

    with in_memory(portal, home, large, mode=era, settings=settings) as old:
        found = old.call("search", query="word7").structured_content
        assert found is not None
        # Other settings mean another index, built beside the one that serves.
        pool = made()
        with in_memory(portal, home, large, mode=era, settings=other, pool=pool) as new:
            assert new.run(lambda: given_up(new))
            assert worked - before
            wait_for(lambda: not pool.busy, "the call is over")
            wait_for(lambda: set(children(os.getpid())) <= before, "the workers have ended")
            told = new.call("status").structured_content
            assert told is not None
            assert told["collections"][0]["current"] is False  # It ended unfinished.
            again = old.call("search", query="word7").structured_content
            assert again is not None
            assert again["generation"] == found["generation"]
            assert [hit["cite"] for hit in again["hits"]] == [hit["cite"] for hit in found["hits"]]
            # Nothing is locked, so the new generation can be read.
            assert new.call("search", query="word7").structured_content


@linux
def test_a_client_killed_while_it_waits_takes_its_build_with_it(place: Home, big: Path) -> None:
    client = begun(place, big)
    pid = status()["pid"]
    try:
        wait_for(lambda: children(pid), "workers build")
        client.process.kill()
        client.wait()
        wait_for(lambda: not children(pid), "the workers have ended")
        wait_for(lambda: not status()["sessions"], "the session is forgotten")
        assert status()["pid"] == pid
    finally:
        client.close()


def test_a_client_that_leaves_during_a_build_is_not_waited_for(place: Home, big: Path) -> None:
    """The relay always ends when its client has, and the daemon serves on."""
    client = begun(place, big)
    pid = status()["pid"]
    try:
        client.end_input()
        assert client.wait() == 0
        assert alive(pid)
        assert status()["pid"] == pid
        found = command("search", "word7", big, "--json")
        assert found.exit_code == 0, found.stderr
    finally:
        client.close()


@pytest.mark.parametrize("era", ERAS)
def test_a_daemon_killed_while_it_works(
    portal: BlockingPortal, place: Home, big: Path, era: str
) -> None:
    """Pending requests get an error, and the session continues with a new daemon."""
    with connected(portal, stdio(place, big), big, era) as agent:
        agent.run(agent.client.list_tools)
        pid = status()["pid"]
        working = threading.Event()

        async def tell(*_: Any, **__: Any) -> None:
            working.set()

        with ThreadPoolExecutor() as threads:
            waiting = threads.submit(
                agent.run,
                lambda: agent.client.call_tool("search", {"query": "w"}, progress_callback=tell),
            )
            assert working.wait(DEADLINE)
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(MCPError) as raised:
                waiting.result(DEADLINE)
        assert -32099 <= raised.value.error.code <= -32000
        assert raised.value.error.data["code"] == "DAEMON_LOST"
        assert agent.call("search", query="word7").structured_content
        assert status()["pid"] != pid


# --- sessions -----------------------------------------------------------------------------------


def test_ten_relays_at_once(portal: BlockingPortal, place: Home, docs: Path) -> None:
    """One daemon and one writer, however many ask at the same moment."""
    command("daemon", "stop")

    def session(at: int) -> tuple[int, list[str]]:
        era = ERAS[at % 2]
        with connected(portal, stdio(place, docs), docs, era, name=f"agent{at}") as agent:
            found = []
            for _ in range(5):
                shape = agent.call("search", query="signing key", top_k=1).structured_content
                assert shape is not None
                found.append(shape["hits"][0]["uri"])
            generation = shape["generation"]
            everyone.wait(DEADLINE)
            if at == 0:
                told.update(status())
            everyone.wait(DEADLINE)
            return generation, found

    everyone = threading.Barrier(10)
    told: dict[str, Any] = {}
    with ThreadPoolExecutor(10) as threads:
        results = list(threads.map(session, range(10)))
    assert results == [(1, ["keys.md"] * 5)] * 10
    names = {each["client"] for each in told["sessions"] if each["kind"] == "mcp"}
    assert names == {f"agent{at}" for at in range(10)}
    log = command("daemon", "logs", "--lines", "10000").stdout
    assert log.count(f"as process {told['pid']}") == 1
    if sys.platform == "linux":
        # The daemon may have started a process that has not ended yet, such as git.
        mark = f"XDG_RUNTIME_DIR={place.runtime}"
        wait_for(lambda: marked_processes(mark) == [told["pid"]], "only the daemon is left")


MALFORMED = [
    (rb'"id": 7, "method": "tools/call", "params": {"name": "\ud800"}', 7, -32700),
    (rb'"id": 7, "method": "tools/call", "params": {"\udfff": 1}', 7, -32700),
    (rb'"id": "a", "method": "\ud800"', "a", -32700),
    (rb'"id": "\ud800", "method": "ping"', None, -32700),
    (b'"id": 7, "method": "ping", "params": []', 7, -32600),
    (b'"id": 7', 7, -32600),
    (b'"x": 1', "no answer", 0),
    (rb'"method": "notifications/x", "params": {"a": "\ud800"}', "no answer", 0),
    (rb'"id": 7, "result": {"a": "\ud800"}', "no answer", 0),
    (b'"id": 7,', None, -32700),
]
ENVELOPE = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}


@pytest.mark.parametrize("alone", [["--no-daemon"], []], ids=["alone", "daemon"])
@pytest.mark.parametrize("era", ERAS)
def test_malformed_messages_are_answered(
    place: Home, docs: Path, alone: list[str], era: str
) -> None:
    """Seen to fail when the SDK dropped them: their client waited for ever."""
    client = Client("mcp", str(docs), *alone, program=COMMAND, env=place.env)
    assert client.process.stdin
    try:
        given = INITIALIZE if era == LEGACY else ENVELOPE
        opening = "initialize" if era == LEGACY else "tools/list"
        for begun in (False, True):
            for line, number, code in MALFORMED:
                client.process.stdin.write(b'{"jsonrpc": "2.0", ' + line + b"}\n")
                client.process.stdin.flush()
                if number == "no answer":
                    continue
                answer = client.receive()
                assert answer is not None
                assert (answer["id"], answer["error"]["code"]) == (number, code), line
                assert answer["error"]["data"]["hint"]
            if begun:
                continue
            assert "result" in client.ask(1, opening, **given)
        assert "result" in client.ask(2, "tools/list", **({} if era == LEGACY else ENVELOPE))
        client.process.stdin.write(b'{"jsonrpc": "2.0", "id": 9, "method": "caf\xe9"}\n')
        client.process.stdin.flush()
        answer = client.receive()
        assert answer is not None
        assert answer["id"] == 9
        assert "error" in answer
        # Input may end while an answer is on its way, so it ends after the last one.
        client.end_input()
        assert client.wait() == 0
    finally:
        client.close()


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("alone", [["--no-daemon"], []], ids=["alone", "daemon"])
def test_a_session_without_its_folder_says_why(
    portal: BlockingPortal, place: Home, tmp_path: Path, era: str, alone: list[str]
) -> None:
    """A client that cannot start a server shows its user nothing of use."""
    missing = tmp_path / "missing"
    with connected(portal, stdio(place, missing, *alone), missing, era) as agent:
        names = [each.name for each in agent.run(agent.client.list_tools).tools]
        assert names == ["search", "read", "related", "status"]
        for tool, arguments in (
            ("search", {"query": "x"}),
            ("read", {"target": "x"}),
            ("related", {"target": "x"}),
            ("status", {}),
        ):
            refusal = agent.refused(tool, **arguments)
            assert refusal["code"] == "ROOT_NOT_FOUND"
            assert "missing" in refusal["message"]
        error = agent.error(lambda: agent.client.read_resource("lookfar://x/a.md"))
        assert error.data["code"] == "ROOT_NOT_FOUND"
        assert agent.error(agent.client.list_resources).data["code"] == "ROOT_NOT_FOUND"


def test_the_project_around_a_folder_is_served(
    portal: BlockingPortal, place: Home, docs: Path
) -> None:
    (docs / "pyproject.toml").touch()
    with connected(portal, stdio(place, cwd=docs / "corpus"), docs) as agent:
        shape = agent.call("status").structured_content
        assert shape is not None
        assert shape["collections"][0]["root"] == str(docs)


def test_where_there_is_no_project_each_call_says_so(portal: BlockingPortal, place: Home) -> None:
    """A home directory is never indexed by accident."""
    with connected(portal, stdio(place, cwd=place.folder), place.folder) as agent:
        assert agent.run(agent.client.list_tools).tools
        refusal = agent.refused("search", query="x")
        assert refusal["code"] == "PROJECT_NOT_DETECTED"
        assert "lookfar mcp PATH" in refusal["hint"]


def test_an_invalid_setting_is_reported_in_each_call(
    portal: BlockingPortal, place: Home, docs: Path
) -> None:
    (docs / "lookfar.toml").write_text("[chunk]\nmax_token = 5\n", encoding="utf-8")
    with connected(portal, stdio(place, docs), docs) as agent:
        assert agent.run(agent.client.list_tools).tools
        assert agent.refused("search", query="x")["code"] == "INVALID_CONFIG"


def test_the_handshake_needs_no_model(portal: BlockingPortal, place: Home, docs: Path) -> None:
    """Loading one takes time that a client does not give a server that is starting."""
    missing = ("--set", "embed.provider=static", "--set", f"embed.model={docs / 'no-model'}")
    with connected(portal, stdio(place, docs, *missing), docs) as agent:
        assert agent.client.server_info is not None
        assert agent.client.server_info.name == "lookfar"
        assert agent.run(agent.client.list_tools).tools
        assert agent.refused("search", query="x")["code"] == "MODEL_UNAVAILABLE"


@pytest.mark.parametrize("toolset", ["anvil", "ragdocs"])
def test_a_toolset_is_served_over_stdio_until_its_input_ends(
    place: Home, docs: Path, toolset: str
) -> None:
    """Nothing but the protocol on stdout, and the process leaves with its client."""
    given = stdio(place, docs, "--toolset", toolset)
    with subprocess.Popen(
        [given.command, *given.args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=given.env
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
        process.stdin.write(json.dumps(begin).encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        assert answer["result"]["serverInfo"]["name"] == "lookfar"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.0)
        process.stdin.close()
        assert process.wait(DEADLINE) == 0
        assert process.stdout.read() == b""


# --- the command line and the daemon ------------------------------------------------------------


def test_the_daemon_commands_work(portal: BlockingPortal, place: Home, docs: Path) -> None:
    command("daemon", "stop")
    assert status() == {"running": False}
    assert "The daemon is not running." in command("daemon", "status").stdout
    assert "The daemon is not running." in command("daemon", "stop").stdout
    with connected(portal, stdio(place, docs), docs) as agent:
        agent.call("search", query="signing key")
        told = status()
        assert told["running"] is True
        [session] = told["sessions"]
        assert (session["kind"], session["client"]) == ("mcp", "tester")
        assert session["paths"] == [str(docs)]
        shown = command("daemon", "status").stdout
        assert f"Process {told['pid']}" in shown
        assert f"tester: {docs}" in shown
        assert "Stopped the daemon." in command("daemon", "stop").stdout
        wait_for(lambda: not alive(told["pid"]), "the daemon ends")
        assert not agent.call("search", query="signing key").is_error
        assert status()["pid"] != told["pid"]
    log = command("daemon", "logs")
    assert f"serving lookfar {told['version']} as process {told['pid']}" in log.stdout
    assert len(command("daemon", "logs", "--lines", "2").stdout.splitlines()) == 2
    assert command("daemon", "logs", "--lines", "0").exit_code == 2


COMMANDS = [
    ["search", "signing key", "--top-k", "3"],
    ["search", "lantern", "--prefix", "corpus/", "--mode", "keyword", "--explain"],
    ["search", "key", "--tag", "ops", "--heading", "install"],
    ["read", "guide.md#Install > Linux"],
    ["read", "guide.md:3-5"],
    ["outline", "guide.md"],
    ["related", "guide.md"],
    ["related", "keys.md", "--kind", "backlinks", "--limit", "1"],
    ["status"],
    ["read", "nowhere.md"],
    ["read", "guide.md#Nowhere"],
    ["outline", "nowhere.md"],
    ["related", "nowhere.md"],
    ["search", "key", "--top-k", "1001"],
    ["search", "key", "--glob", "["],
    ["search", "key", "--as-of", "99"],
]


def test_the_command_line_says_the_same_with_a_daemon(
    portal: BlockingPortal, place: Home, docs: Path, tmp_path: Path
) -> None:
    """The same shapes, the same errors, the same exit codes; only sooner."""
    command("daemon", "stop")
    missing = tmp_path / "missing"
    asked = [[*words, str(docs)] for words in COMMANDS]
    asked += [["search", "key", str(missing)], ["status", str(missing)]]

    def answer(words: list[str]) -> tuple[int, Any]:
        done = command(*words, "--json")
        shape = json.loads(done.stdout)
        for changing in ("took_ms", "watcher", "disk_bytes", "receipts"):
            shape.pop(changing, None)
        return done.exit_code, shape

    command("index", docs)
    without = [answer(words) for words in asked]
    assert status()["running"] is False
    with connected(portal, stdio(place, docs), docs) as agent:
        agent.call("search", query="signing key")
        before = status()["served"]
        within = [answer(words) for words in asked]
        assert status()["served"] == before + len(asked)
    for words, alone, with_daemon in zip(asked, without, within, strict=True):
        assert with_daemon == alone, words
    assert {code for code, _ in without} >= {0, 2, 3}


def test_the_command_line_builds_a_first_index_in_the_daemon(
    portal: BlockingPortal, place: Home, docs: Path, big: Path
) -> None:
    with connected(portal, stdio(place, docs), docs) as agent:
        agent.run(agent.client.list_tools)
        done = command("search", "word7", big, "--json")
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)["generation"] == 1
        assert "indexing it first" in done.stderr


# --- over HTTP ----------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_a_server_over_http_ends_with_a_client_listening(
    portal: BlockingPortal, place: Home, docs: Path, era: str
) -> None:
    """A client that keeps a stream open must not keep Ctrl-C from working."""
    with http(place, docs) as (address, process):
        done = anyio.Event()
        ready = threading.Event()

        async def listen(agent: Agent) -> None:
            if agent.modern:
                async with agent.client.listen(resources_list_changed=True):
                    ready.set()
                    await done.wait()
            else:
                await agent.client.call_tool("search", {"query": "x"})
                ready.set()
                await done.wait()

        with connected(portal, address, docs, era) as agent:
            listening = portal.start_task_soon(listen, agent)
            try:
                assert ready.wait(DEADLINE)
                process.send_signal(signal.SIGINT)
                process.wait(DEADLINE)
            finally:
                portal.call(done.set)
                listening.exception(DEADLINE)


# --- the pool -----------------------------------------------------------------------------------


def test_two_sessions_share_a_folder(home: Home, docs: Path, made: MakePool) -> None:
    pool = made()
    with pool.session([str(docs)], settings=home.settings, environ={}) as one:
        one.library.search("signing key")
        with pool.session([str(docs)], settings=home.settings, environ={}) as two:
            assert two.library.folder() is one.library.folder()
        other = {**home.settings, "chunk.max_tokens": 300}
        with pool.session([str(docs)], settings=other, environ={}) as three:
            assert three.library.folder() is not one.library.folder()
        with pool.session([str(docs), f"{docs}/"], settings=home.settings, environ={}) as four:
            assert four.library.collections == one.library.collections


def test_an_idle_folder_releases_its_model_and_loads_it_again(
    home: Home, docs: Path, made: MakePool
) -> None:
    """A daemon that idles with ten projects open must not hold ten models."""
    pool = made(rest_seconds=0.0)
    unfollowed = {**home.settings, "watch.enabled": False}
    with pool.session([str(docs)], settings=unfollowed, environ={}) as session:
        with session.call():
            session.library.search("signing key")
            pool.tend()
            assert "embedder" in vars(session.library.folder())  # Not during a call.
        pool.tend()
        assert "embedder" not in vars(session.library.folder())
        with session.call():
            assert session.library.search("signing key").hits[0].uri == "keys.md"
            assert "embedder" in vars(session.library.folder())


def test_a_folder_is_closed_some_time_after_its_last_session(
    home: Home, docs: Path, made: MakePool
) -> None:
    pool = made(close_seconds=0.0)
    with pool.session([str(docs)], settings=home.settings, environ={}) as session:
        with session.call():
            session.library.search("signing key")
        folder = session.library.folder()
        watching = folder.watching()
        assert watching is not None
        assert watching.running
        pool.tend()
        assert folder.watching() is not None  # A session has it open.
    # The first pass of its file watcher may still be running, and keeps it open until it ends.
    wait_for(lambda: folder.watching() is None, "it is closed")
    with pool.session([str(docs)], settings=home.settings, environ={}) as session:
        assert session.library.folder() is not folder
        assert session.library.search("signing key").hits


def test_a_folder_stays_open_between_sessions_for_a_while(
    home: Home, docs: Path, made: MakePool
) -> None:
    pool = made()
    with pool.session([str(docs)], settings=home.settings, environ={}) as session:
        folder = session.library.folder()
    pool.tend()
    with pool.session([str(docs)], settings=home.settings, environ={}) as session:
        assert session.library.folder() is folder


def test_a_session_that_cannot_open_leaves_nothing_behind(
    home: Home, docs: Path, made: MakePool
) -> None:
    pool = made(close_seconds=0.0)
    missing = str(docs / "missing")
    with (
        pytest.raises(LookfarError),
        pool.session([str(docs), missing], settings=home.settings, environ={}),
    ):
        pass
    pool.tend()
    assert pool._shared == {}


def test_the_pool_is_busy_while_a_call_is_under_way(home: Home, docs: Path, made: MakePool) -> None:
    pool = made()
    with pool.session([str(docs)], settings=home.settings, environ={}) as session:
        assert not pool.busy
        with session.call():
            assert pool.busy
        assert not pool.busy


def test_the_pool_tends_by_itself(home: Home, docs: Path, made: MakePool) -> None:
    pool = made(rest_seconds=0.1)
    unfollowed = {**home.settings, "watch.enabled": False}
    with pool.session([str(docs)], settings=unfollowed, environ={}) as session:
        with session.call():
            session.library.search("signing key")
        folder = session.library.folder()
        wait_for(lambda: "embedder" not in vars(folder), "it rests")


def test_an_answer_of_the_daemon_survives_the_way(portal: BlockingPortal, place: Home) -> None:
    """Text of every kind comes through two processes as it was."""
    root = place.folder / "scripts"
    root.mkdir()
    text = "# Ünïcode ✓ 日本\n\nA \U0001f9ed stands \u2028 between.\n"
    (root / "ü.md").write_text(text, encoding="utf-8")
    with connected(portal, stdio(place, root), root) as agent:
        agent.call("search", query="stands between")
        assert text in said(agent.call("read", target="ü.md"))
