"""Access to a server over HTTP, and the routes next to the protocol."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from anyio.from_thread import BlockingPortal

from lookfar import __version__
from lookfar.serve.tools.table import TOOLS
from serve.mcp.served import ERAS, connected
from waiting import DEADLINE

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


def ask(
    web: tuple[str, Path], method: str, path: str, headers: dict[str, str], body: Any = None
) -> tuple[int, bytes]:
    """One request with exactly these headers."""
    address = urlsplit(web[0])
    connection = http.client.HTTPConnection("127.0.0.1", address.port or 0, timeout=DEADLINE)
    try:
        sent = {"Accept": "application/json, text/event-stream", **headers}
        if body is not None:
            sent["Content-Type"] = "application/json"
        shape = None if body is None else json.dumps(body).encode()
        connection.request(method, path, shape, sent)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


PLACES = [("GET", "/tools", None), ("GET", "/health", None), ("POST", "/mcp", LIST)]


@pytest.mark.parametrize(("method", "path", "body"), PLACES, ids=[each[1] for each in PLACES])
@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8377", "127.0.0.1.evil.example", "localhost.evil.example", ""],
)
def test_another_hosts_name_is_refused(
    web: tuple[str, Path], method: str, path: str, body: Any, host: str
) -> None:
    """A page that rebinds its own name to this machine must not reach it."""
    assert ask(web, method, path, {"Host": host}, body)[0] == 421


@pytest.mark.parametrize(("method", "path", "body"), PLACES, ids=[each[1] for each in PLACES])
@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "https://localhost.evil.example", "null", "http://evil.example:8377"],
)
def test_another_sites_page_is_refused(
    web: tuple[str, Path], method: str, path: str, body: Any, origin: str
) -> None:
    assert ask(web, method, path, {"Origin": origin}, body)[0] == 403


@pytest.mark.parametrize(("method", "path", "body"), PLACES, ids=[each[1] for each in PLACES])
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_this_machine_may_ask_by_its_names(
    web: tuple[str, Path], method: str, path: str, body: Any, name: str
) -> None:
    for port in ("", ":1234"):
        headers = {"Host": f"{name}{port}", "Origin": f"http://{name}{port}"}
        assert ask(web, method, path, headers, body)[0] not in (403, 421)


def test_the_table_of_tools_is_shown(web: tuple[str, Path]) -> None:
    status, body = ask(web, "GET", "/tools", {})
    assert status == 200
    assert json.loads(body)["tools"] == [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.input_schema,
            "read_only": tool.read_only,
            "destructive": tool.destructive,
            "idempotent": tool.idempotent,
        }
        for tool in TOOLS
        if not tool.writes
    ]


def test_health_is_reported(web: tuple[str, Path]) -> None:
    status, body = ask(web, "GET", "/health", {})
    assert status == 200
    assert json.loads(body) == {"status": "ok", "name": "lookfar", "version": __version__}


def test_nothing_else_is_there(web: tuple[str, Path]) -> None:
    assert ask(web, "GET", "/nowhere", {})[0] == 404
    assert ask(web, "POST", "/tools", {}, {})[0] == 405


@pytest.mark.parametrize("era", ERAS)
def test_the_list_is_that_of_the_protocol(
    portal: BlockingPortal, web: tuple[str, Path], era: str
) -> None:
    """Two renderings of one table."""
    shown = json.loads(ask(web, "GET", "/tools", {})[1])["tools"]
    with connected(portal, web[0], web[1], era) as agent:
        listed = agent.run(agent.client.list_tools).tools
    assert [(each["name"], each["description"], each["input_schema"]) for each in shown] == [
        (each.name, each.description, each.input_schema) for each in listed
    ]


def test_a_large_body_is_taken_and_one_without_bounds_is_not(web: tuple[str, Path]) -> None:
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "search", "arguments": {"query": "x" * 5_000_000}},
    }
    status, _ = ask(web, "POST", "/mcp", {"MCP-Protocol-Version": "2025-11-25"}, call)
    assert status != 413
    call["params"]["arguments"]["query"] = "x" * 40_000_000  # type: ignore[index]
    status, _ = ask(web, "POST", "/mcp", {"MCP-Protocol-Version": "2025-11-25"}, call)
    assert status == 413
