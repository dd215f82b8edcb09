"""Tokens that reach some collections: over every door, and whatever is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asking import Served, command, serving

from lookfar.errors import InvalidConfig
from lookfar.serve.tokens import Tokens, add, read

SPOKEN = {"Accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reach")


@pytest.fixture(scope="module")
def keys(place: Path) -> dict[str, str]:
    file = place / "tokens.json"
    return {
        "all": add(file, "all", "read"),
        "docs": add(file, "docs", "read", ["docs"]),
        "none": add(file, "none", "read", ["elsewhere"]),
    }


@pytest.fixture(scope="module")
def served(place: Path, keys: dict[str, str]) -> Iterator[Served]:
    """Two folders, and a database beside them."""
    assert keys
    secret = place / "secret"
    secret.mkdir()
    (secret / "vault.md").write_text("# Vault\n\nThe harbour password is swordfish.\n")
    env = {"LOOKFAR_SERVE_TOKENS_FILE": str(place / "tokens.json")}
    (place / "home").mkdir()
    made = command(place / "home", "documents", "insert", "Swordfish in a database.")
    assert made.returncode == 0, made.stderr
    with serving(place, secret, env=env) as running:
        yield running


def said(answer: Any) -> str:
    return json.dumps(answer.json)


def test_a_search_finds_what_the_token_reaches(served: Served, keys: dict[str, str]) -> None:
    """Seen to fail when the tools were given the whole library."""
    every = served.tool("search", keys["all"], query="harbour password")
    assert "swordfish" in said(every)
    some = served.tool("search", keys["docs"], query="harbour password")
    assert some.status == 200
    assert "lantern" in said(some)
    assert "swordfish" not in said(some)
    assert "secret" not in said(some)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read", {"target": "lookfar://secret/vault.md"}),
        ("read", {"target": "vault.md"}),
        ("search", {"query": "harbour password", "uris": ["vault.md"]}),
        ("search", {"query": "what lies in a database", "kinds": ["documents"]}),
        ("status", {}),
    ],
)
def test_nothing_else_is_shown_or_named(
    served: Served, keys: dict[str, str], tool: str, arguments: dict[str, Any]
) -> None:
    seen = served.tool(tool, keys["all"], **arguments)
    assert seen.status == 200
    assert "wordfish" in said(seen) or tool == "status", "whoever may see it does"
    answer = served.tool(tool, keys["docs"], **arguments)
    assert (answer.status >= 400) is (tool == "read")
    for word in ("wordfish", "password is", "Vault", str(served.root.parent / "secret")):
        assert word not in said(answer)


def test_other_doors_are_the_same(served: Served, keys: dict[str, str]) -> None:
    shown = served.ask("GET", "/status", token=keys["docs"])
    assert "docs" in said(shown)
    assert "secret" not in said(shown)
    found = served.ask("POST", "/query_documents", {"query": "password"}, token=keys["docs"])
    assert "swordfish is" not in found.body.decode().lower()
    assert "password is" not in found.body.decode()


def test_sessions_of_mcp_reach_no_more(served: Served, keys: dict[str, str]) -> None:
    for key, seen in (("docs", False), ("all", True)):
        begun = served.ask("POST", "/mcp", INITIALIZE, SPOKEN, token=keys[key])
        assert begun.status == 200, begun.body
        session = {"Mcp-Session-Id": begun.headers["mcp-session-id"], **SPOKEN}
        served.ask("POST", "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"},
                   session, token=keys[key])  # fmt: skip
        asked = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "search", "arguments": {"query": "harbour password"}},
        }
        answer = served.ask("POST", "/mcp", asked, session, token=keys[key])
        assert answer.status == 200
        assert ("swordfish" in answer.body.decode()) is seen
        assert "lantern" in answer.body.decode()


def test_a_token_for_what_is_not_served_is_refused(served: Served, keys: dict[str, str]) -> None:
    answer = served.tool("search", keys["none"], query="harbour")
    assert (answer.status, answer.error["code"]) == (404, "NOT_FOUND")


def test_what_a_token_reaches_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "place" / "tokens.json"
    token = add(file, "one", "write", ["docs", "notes@documents"])
    owner = Tokens(file).owner(token)
    assert owner is not None
    assert owner.collections == ("docs", "notes@documents")
    old = json.loads(file.read_text())
    del old["tokens"][0]["collections"]
    file.write_text(json.dumps(old))
    assert read(file)[0].collections == (), "files of before hold"
    for wrong in ([""], [1], "docs\0"):
        old["tokens"][0]["collections"] = wrong if isinstance(wrong, list) else [wrong, ""]
        file.write_text(json.dumps(old))
        with pytest.raises(InvalidConfig):
            read(file)
    shown = command(tmp_path, "tokens", "add", "ci", "--collection", "docs", "--json")
    assert json.loads(shown.stdout)["collections"] == ["docs"]
    listed = command(tmp_path, "tokens", "list")
    assert "docs" in listed.stdout
