"""``lookfar serve --workers N``: several processes answer, and nothing else differs."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import amount
from processor_time import scale_by_load
from serve.http.asking import Answer, Served, command, serving
from serve.processes import alive
from waiting import DEADLINE, wait_for

pytestmark = pytest.mark.skipif(os.name != "posix", reason="it sends signals")

WORKERS = 2
MCP_HEADERS = {"Accept": "application/json, text/event-stream"}
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def describe(served: Served) -> dict[str, Any]:
    workers: dict[str, Any] = served.ask("GET", "/status").json["workers"]
    return workers


def wait_for_readers(served: Served, besides: tuple[int, ...] = ()) -> list[int]:
    """The processes of all readers, once they run; without those that are to be gone."""

    def ready() -> list[int]:
        pids: list[int] = describe(served)["processes"]
        complete = len(pids) == WORKERS and not set(pids) & set(besides)
        return pids if complete else []

    pids: list[int] = wait_for(ready, "all readers run")
    return pids


def index(served: Served) -> None:
    """Have the index built, which the server does alone."""
    assert served.tool("search", query="harbour").status == 200


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with readers, which have answered."""
    folder = tmp_path_factory.mktemp("workers")
    options = ("--toolset", "all", "--write", "--workers", WORKERS)
    with serving(folder, *options, access_log=False) as served:
        index(served)
        wait_for_readers(served)
        yield served


def without_times(shape: Any) -> Any:
    if isinstance(shape, dict):
        return {key: without_times(value) for key, value in shape.items() if "took" not in key}
    return [without_times(part) for part in shape] if isinstance(shape, list) else shape


CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("search", {"query": "signing key"}),
    ("search", {"queries": ["harbour boats", "upgrade the service"], "detail": "passages"}),
    ("search", {"query": "boats", "mode": "literal"}),
    ("search", {"query": "boats", "kinds": ["commits"]}),
    ("search", {"query": "zebra", "prefix": "nowhere/"}),
    ("search", {"query": "what changed last week", "top_k": 3}),
    ("search", {"kinds": ["docs"], "prefix": "deep/"}),
    ("search", {"query": ""}),
    ("search", {"query": "boats", "cursor": "search-1-1-0123456789ab"}),
    ("read", {"targets": ["guide.md#Upgrade"]}),
    ("read", {"targets": ["missing.md"]}),
    ("related", {"target": "keys.md"}),
    ("query_documents", {"query": "harbour", "top_n": 3}),
    ("search_docs", {"query": "harbour"}),
    ("find_similar_documents", {"text": "anything", "db_name": "absent"}),
)


def test_every_answer_and_error_is_that_of_one_process(busy: Served, tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(busy.root)
    with serving(tmp_path, "--toolset", "all", "--write", access_log=False) as alone:
        index(alone)
        before = describe(busy)["answered"]
        for name, arguments in CALLS:
            expected = alone.tool(name, **arguments)
            answer = busy.tool(name, **arguments)
            assert answer.status == expected.status, (name, arguments, answer.body)
            assert without_times(answer.json) == without_times(expected.json)
        assert "workers" not in alone.ask("GET", "/status").json
    # The others are errors, a list that no reader was asked for, and commits that none has.
    assert describe(busy)["answered"] - before >= 8


def test_a_text_can_be_found_as_soon_as_it_is_inserted(busy: Served) -> None:
    assert busy.tool("create_database", db_name="lights").status == 200
    before = describe(busy)["answered"]
    for number in range(amount(10, 200)):
        text = f"The lighthouse number {number} was painted in the year {1700 + number}."
        inserted = busy.tool("insert_document", text=text, db_name="lights").json
        rows = busy.tool("find_similar_documents", text=text, top_k=1, db_name="lights").json
        assert rows[0]["doc_id"] == inserted["doc_id"], (number, rows)
    assert describe(busy)["answered"] > before


def test_a_saved_file_can_be_found_at_once(busy: Served) -> None:
    """Also right after an edit over HTTP and after a deletion."""
    page = busy.root / "fresh.md"
    for number in range(amount(5, 50)):
        page.write_text(f"# Fresh\n\nThe zeppelin{number} landed.\n", encoding="utf-8")
        shape = busy.tool("search", query=f"zeppelin{number}").json
        assert [hit["uri"] for hit in shape["hits"]][:1] == ["fresh.md"], shape
        assert not shape["incomplete"]
    edited = busy.tool(
        "edit", edits=[{"op": "append", "target": "fresh.md", "text": "A dirigible too."}]
    )
    assert edited.status == 200, edited.body
    assert busy.tool("search", query="dirigible").json["hits"][0]["uri"] == "fresh.md"
    page.unlink()
    assert not busy.tool("search", query="dirigible", mode="literal").json["files"]


def test_a_cursor_alone_continues_what_another_process_began(busy: Served) -> None:
    shape = busy.tool("search", query="harbour boats", top_k=2).json
    seen = {hit["uri"] for hit in shape["hits"]}
    for _ in range(3):
        shape = busy.tool("search", cursor=shape["cursor"], top_k=2).json
        uris = {hit["uri"] for hit in shape["hits"]}
        assert uris
        assert not uris & seen
        seen |= uris


def ask_mcp(served: Served, session: str, number: int, method: str, **params: Any) -> Answer:
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    headers = MCP_HEADERS | ({"Mcp-Session-Id": session} if session else {})
    return served.ask("POST", "/mcp", message, headers)


def read_result(answer: Answer) -> Any:
    """The result in an answer over MCP, which is an event."""
    assert answer.status == 200, answer.body
    data = next(line for line in answer.body.decode().splitlines() if line.startswith("data: {"))
    return json.loads(data.removeprefix("data: "))["result"]


def test_a_session_uses_any_connection_and_hears_of_changes(busy: Served) -> None:
    opened = ask_mcp(busy, "", 1, "initialize", **INITIALIZE)
    session = opened.headers["mcp-session-id"]
    headers = MCP_HEADERS | {"Mcp-Session-Id": session}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert busy.ask("POST", "/mcp", ready, headers).status == 202
    address = f"lookfar://{busy.root.name}/keys.md"
    read_result(ask_mcp(busy, session, 2, "resources/subscribe", uri=address))
    with busy.connect() as stream:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        stream.sendall(f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n".encode())
        assert b"200 OK" in stream.recv(4096)
        before = describe(busy)["answered"]
        for number in range(3, 6):
            called = ask_mcp(busy, session, number, "tools/call", name="search",
                             arguments={"query": "signing key"})  # fmt: skip
            assert "keys.md" in json.dumps(read_result(called))
        assert describe(busy)["answered"] == before + 3
        page = busy.root / "keys.md"
        page.write_text(page.read_text(encoding="utf-8") + "\nRotated.\n", encoding="utf-8")
        received = b""
        deadline = time.monotonic() + DEADLINE
        while address.encode() not in received:
            assert time.monotonic() < deadline, received
            received += stream.recv(4096)


def test_a_killed_reader_is_replaced_and_nobody_notices(busy: Served) -> None:
    pids = wait_for_readers(busy)
    problems: list[bytes] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            answer = busy.tool("search", query="harbour boats")
            if answer.status != 200 or not answer.json["hits"]:
                problems.append(answer.body)

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for client in clients:
        client.start()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    try:
        fresh = wait_for_readers(busy, tuple(pids))
    finally:
        over.set()
        for client in clients:
            client.join(DEADLINE)
    assert not problems
    assert not set(fresh) & set(pids)
    assert describe(busy)["replaced"] >= WORKERS


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_readers_end_with_the_server(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path, "--workers", WORKERS, access_log=False) as served:
        index(served)
        pids = wait_for_readers(served)
        began = time.monotonic()
        served.process.send_signal(number)
        served.process.wait(DEADLINE)
        wait_for(lambda: not any(map(alive, pids)), "the readers are gone")
        # The server grants running calls three seconds; the rest is a busy machine.
        assert time.monotonic() - began < scale_by_load(15)


def test_a_token_reaches_no_more_through_a_reader(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    keys = {}
    for name, collection in (("all", ""), ("docs", "docs"), ("other", "elsewhere")):
        scope = ("--collection", collection) if collection else ("--write",)
        keys[name] = command(home, "tokens", "add", name, *scope).stdout.split()[-1]
    options = ("--toolset", "all", "--write", "--workers", WORKERS)
    with serving(tmp_path, *options, access_log=False) as served:
        assert served.tool("search", query="harbour", token=keys["all"]).status == 200

        def ready() -> bool:
            answer = served.ask("GET", "/status", token=keys["all"])
            return bool(answer.json["workers"]["running"] == WORKERS)

        wait_for(ready, "all readers run")
        assert served.tool("search", query="harbour", token=keys["docs"]).json["hits"]
        assert served.tool("search", query="harbour", token=keys["other"]).error["code"] == (
            "NOT_FOUND"
        )
        assert served.tool("search", query="harbour", token="wrong" * 8).status == 401
        similar = {"text": "anything", "db_name": "vectors"}
        inserted = served.tool("insert_document", text="A secret.", token=keys["all"])
        assert inserted.status == 200, inserted.body
        assert served.tool("find_similar_documents", token=keys["all"], **similar).json
        refused = served.tool("find_similar_documents", token=keys["docs"], **similar).error
        assert "--collection" in refused["hint"], refused


def test_a_number_of_workers_out_of_range_is_refused(tmp_path: Path) -> None:
    result = command(tmp_path, "serve", tmp_path, "--port", 0, "--workers", 0)
    assert result.returncode == 2
    assert "serve.workers" in result.stderr
