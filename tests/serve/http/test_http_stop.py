"""Liveness, readiness, and a stop that finishes what was begun.

Seen to fail when SIGTERM was raised again at the end, and when ``/readyz`` ignored the stop.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from serve.http.asking import Answer, Served, command, serving
from waiting import DEADLINE, wait_for

GATE = """
import pathlib, sys, time
from lookfar.collections.folder import Folder
from lookfar.library import Library
from lookfar.serve.entry import main

folder = pathlib.Path(sys.argv.pop(1))

def guarded(method, name):
    def wait(*arguments, **options):
        if (folder / name).exists():
            (folder / f"{name}-entered").touch()
            while not (folder / f"{name}-open").exists():
                time.sleep(0.01)
        return method(*arguments, **options)
    return wait

Library.search = guarded(Library.search, "search")
sys.exit(main())
"""
"""Holds each search while there is a gate, so that a test decides when it goes on."""

STOP = signal.SIGTERM
ACCEPT = {"Accept": "application/json, text/event-stream"}
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")


def ask_apart(ask: Callable[[], Answer]) -> tuple[threading.Thread, list[Answer]]:
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(ask()))
    thread.start()
    return thread, answers


def begin_session(served: Served) -> dict[str, str]:
    parameters = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters}
    session = served.ask("POST", "/mcp", begin, ACCEPT).headers["mcp-session-id"]
    headers = {"Mcp-Session-Id": session, **ACCEPT}
    served.ask("POST", "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
    return headers


@pytest.mark.parametrize("way", ["rest", "mcp"])
def test_an_answer_that_was_begun_is_finished(tmp_path: Path, way: str) -> None:
    with serving(tmp_path, start=("-c", GATE, str(tmp_path))) as served:
        assert served.tool("search", query="harbour").status == 200
        headers = begin_session(served)
        (tmp_path / "search").touch()
        call = {"name": "search", "arguments": {"query": "lantern"}}
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}

        def ask() -> Answer:
            if way == "rest":
                return served.tool("search", query="lantern")
            return served.ask("POST", "/mcp", {**message, "params": call}, headers)

        asking, answers = ask_apart(ask)
        wait_for((tmp_path / "search-entered").exists, "the search begins")
        served.process.send_signal(STOP)
        served.logged(component="server", message="stopping")
        assert served.process.poll() is None
        (tmp_path / "search-open").touch()
        asking.join(DEADLINE)
        assert [answer.status for answer in answers] == [200]
        assert b"lantern hangs" in answers[0].body
        assert served.process.wait(DEADLINE) == 0


def test_an_answer_that_takes_too_long_does_not_hold_the_stop(tmp_path: Path) -> None:
    with serving(
        tmp_path, "--set", "serve.grace_seconds=0.2", start=("-c", GATE, str(tmp_path))
    ) as served:
        assert served.tool("search", query="harbour").status == 200
        (tmp_path / "search").touch()

        def ask() -> Answer:
            try:
                return served.tool("search", query="lantern")
            except OSError:
                return Answer(0, {}, b"")

        asking, answers = ask_apart(ask)
        wait_for((tmp_path / "search-entered").exists, "the search begins")
        served.process.send_signal(STOP)
        asking.join(DEADLINE)
        assert [answer.status for answer in answers] != [200]
        (tmp_path / "search-open").touch()  # A thread cannot be ended from outside.
        assert served.process.wait(DEADLINE) == 0


def test_a_draining_server_still_answers_and_is_not_ready(tmp_path: Path) -> None:
    with serving(tmp_path, "--set", "serve.drain_seconds=600") as served:
        assert served.tool("search", query="harbour").status == 200
        assert served.ask("GET", "/readyz").json == {"status": "ready"}
        served.process.send_signal(STOP)
        served.logged(component="server", message="stopping")
        refused = served.ask("GET", "/readyz")
        assert (refused.status, refused.error["code"]) == (503, "NOT_READY")
        assert refused.headers["retry-after"] == "1"
        assert served.ask("GET", "/livez").status == 200
        assert served.tool("search", query="lantern").status == 200
        served.process.send_signal(STOP)  # The second one ends the wait.
        assert served.process.wait(DEADLINE) == 0


def test_the_end_of_the_log_is_written(tmp_path: Path) -> None:
    file = tmp_path / "serve.log"
    with serving(tmp_path, "--log-file", file, access_log=False) as served:
        served.process.send_signal(STOP)
        assert served.process.wait(DEADLINE) == 0
    assert '"message":"stopping"' in file.read_text()


AT_ONCE = """
import os, signal, sys
from lookfar.serve.cli import serve
from lookfar.serve.entry import main

announce = serve._announce

def announce_and_stop(address):
    announce(address)
    os.kill(os.getpid(), signal.SIGTERM)

serve._announce = announce_and_stop
sys.exit(main())
"""


def test_a_signal_right_after_the_announcement_is_handled(tmp_path: Path) -> None:
    """Seen to fail when the address was announced before signals were handled."""
    file = tmp_path / "serve.log"
    options = ("--log-file", file)
    with serving(tmp_path, *options, start=("-c", AT_ONCE), access_log=False) as served:
        assert served.process.wait(DEADLINE) == 0
    assert '"message":"stopping"' in file.read_text()


def test_probes_need_no_token_and_tell_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    assert command(home, "tokens", "add", "ci").returncode == 0
    with serving(tmp_path) as served:
        assert served.ask("GET", "/health").status == 401
        wait_for(lambda: served.ask("GET", "/readyz").status == 200, "the first index")
        assert served.ask("GET", "/livez").json == {"status": "ok"}
        assert served.ask("GET", "/livez", headers={"Host": "evil.example"}).status == 421
        assert served.ask("POST", "/livez", {}).status == 401
        assert not [line for line in served.log if line.get("route") in ("/livez", "/readyz")]


def test_a_busy_server_is_alive_and_gets_no_more_requests(tmp_path: Path) -> None:
    """Seen to fail when a liveness probe needed one of ``serve.max_concurrent``."""
    with serving(
        tmp_path, "--set", "serve.max_concurrent=1", start=("-c", GATE, str(tmp_path))
    ) as served:
        assert served.tool("search", query="harbour").status == 200
        (tmp_path / "search").touch()
        asking, answers = ask_apart(lambda: served.tool("search", query="lantern"))
        wait_for((tmp_path / "search-entered").exists, "the search begins")
        assert served.ask("GET", "/health").error["code"] == "SERVER_BUSY"
        assert served.ask("GET", "/livez").status == 200
        assert served.ask("GET", "/readyz").status == 503
        (tmp_path / "search-open").touch()
        asking.join(DEADLINE)
        assert [answer.status for answer in answers] == [200]
        # The place of a request is free a moment after its answer was read.
        wait_for(lambda: served.ask("GET", "/readyz").status == 200, "there is room again")


def test_probes_have_no_rate_limit(tmp_path: Path) -> None:
    with serving(tmp_path, "--set", "serve.requests_per_second=0.01") as served:
        assert [served.ask("GET", "/").status for _ in range(2)] == [200, 429]
        wait_for(lambda: served.ask("GET", "/readyz").status == 200, "the first index")
        for path in ("/livez", "/readyz"):
            assert [served.ask("GET", path).status for _ in range(3)] == [200, 200, 200]


def test_a_server_is_ready_when_its_first_index_is_built(tmp_path: Path) -> None:
    script = GATE.replace(
        'Library.search = guarded(Library.search, "search")',
        'Folder._index = guarded(Folder._index, "build")',
    )
    (tmp_path / "build").touch()
    with serving(tmp_path, start=("-c", script, str(tmp_path))) as served:
        wait_for((tmp_path / "build-entered").exists, "the build begins")
        refused = served.ask("GET", "/readyz")
        assert (refused.status, refused.error["code"]) == (503, "NOT_READY")
        assert "first index" in refused.error["message"]
        (tmp_path / "build-open").touch()
        wait_for(lambda: served.ask("GET", "/readyz").status == 200, "the first index")
