"""Tokens that reach some collections: over every door, and whatever is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lookfar.errors import InvalidConfig
from lookfar.serve.http.tokens import Tokens, add, read, remove
from lookfar.serve.http.web.api import ROWS
from serve.http.asking import Served, command, events, serving
from waiting import wait_for

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
        "writer": add(file, "writer", "write", ["docs"]),
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
        running.tool("search", keys["all"], query="harbour")  # Builds the indexes.
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


def test_other_routes_have_the_same_limits(served: Served, keys: dict[str, str]) -> None:
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


def test_the_collections_of_a_token_are_stored(tmp_path: Path) -> None:
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


# --- what the page asks for -----------------------------------------------------------------------

ELSEWHERE = ("wordfish", "password is", "Vault", "vault", "secret")
"""Words that occur only in the folder without access."""

ASKED: list[tuple[str, dict[str, Any], bool]] = [
    ("search", {"query": "harbour password"}, True),
    ("search", {"query": "in a database", "lanes": ["documents"]}, True),
    ("search", {"query": "harbour", "prefix": "vau"}, True),
    ("overview", {}, True),
    ("document", {"target": "vault.md"}, True),
    ("document", {"target": "lookfar://secret/vault.md"}, True),
    ("document", {"target": "vault.md", "collection": "secret"}, True),
    ("document", {"target": "keys.md", "query": "harbour"}, False),
    ("highlight", {"target": "vault.md"}, False),
    ("highlight", {"target": "vault.md", "collection": "secret"}, False),
    ("calls", {"target": "vault"}, False),
    ("calls", {"target": "vault", "collection": "secret"}, False),
    ("changes", {"since": "yesterday"}, False),
    ("changes", {"since": "yesterday", "collection": "secret"}, True),
    ("earlier", {"uri": "vault.md", "collection": "secret"}, True),
    ("skipped", {}, False),
    ("skipped", {"collection": "secret"}, True),
    ("graph", {}, False),
    ("graph", {"collection": "secret"}, True),
    ("generations", {}, False),
    ("generations", {"collection": "secret"}, True),
    ("diff", {"older": 1, "newer": 1, "collection": "secret"}, True),
    ("rollback", {"generation": 1, "confirm": True, "collection": "secret"}, False),
    ("evaluate", {"count": 200}, False),
    ("sources", {}, False),
    ("source_add", {"origin": "https://host.invalid/"}, False),
    ("source_update", {"names": ["none"]}, False),
    ("source_stop", {}, False),
    ("source_pin", {"name": "none"}, False),
    ("source_remove", {"name": "none", "confirm": True}, False),
]
"""What is asked of each route, and whether it shows the other folder to who may see it."""


def test_every_route_of_the_page_is_asked() -> None:
    assert {name for name, _, _ in ASKED} == {row.name for row in ROWS}


@pytest.mark.parametrize(("name", "arguments", "shows"), ASKED)
def test_the_page_shows_what_the_token_reaches(
    served: Served, keys: dict[str, str], name: str, arguments: dict[str, Any], shows: bool
) -> None:
    """Seen to fail when the routes were given the whole library."""

    def ask(key: str) -> Any:
        return served.ask("POST", f"/api/{name}", arguments, token=keys[key])

    every = ask("all")
    assert any(word in said(every) for word in ELSEWHERE) or not shows, said(every)
    for key in ("docs", "writer"):
        some = ask(key)
        assert some.status < 500, some.body
        told = said(some)
        if some.status >= 400:  # What was asked for may be repeated, and nothing else.
            told = json.dumps({**some.error, "message": ""})
        assert not any(word in told for word in ELSEWHERE), told
        if arguments.get("collection") == "secret":
            assert some.status >= 400
    none = ask("none")
    assert none.status in (403, 404), none.body
    assert "docs" not in said(none)


def test_going_back_needs_a_token_that_may_write_there(
    served: Served, keys: dict[str, str]
) -> None:
    def back(key: str, collection: str) -> tuple[int, str]:
        body = {"generation": first, "confirm": True, "collection": collection}
        answer = served.ask("POST", "/api/rollback", body, token=keys[key])
        return answer.status, answer.json["collection"] if answer.status == 200 else ""

    def newest() -> int:
        served.tool("search", keys["all"], query="harbour password")
        body = {"collection": "docs"}
        kept = served.ask("POST", "/api/generations", body, token=keys["all"]).json["snapshots"]
        return max(each["generation"] for each in kept)

    def held(collection: str) -> Any:
        body = {"collection": collection}
        return served.ask("POST", "/api/generations", body, token=keys["all"]).json["held"]

    first = newest()
    (served.root / "later.md").write_text("# Later\n\nThe harbour froze.\n")
    wait_for(lambda: newest() > first, "a second generation")
    for key in ("all", "docs"):
        assert back(key, "docs") == (403, "")
    assert back("writer", "secret") == (400, "")
    assert (held("docs"), held("secret")) == (None, None)
    assert back("writer", "") == (200, "docs")
    assert (held("docs"), held("secret")) == (first, None)


def test_listeners_get_events_for_their_collections(served: Served, keys: dict[str, str]) -> None:
    for key, names in (("all", ["docs", "secret"]), ("docs", ["docs"])):
        answer = served.ask("GET", "/api/events", token=keys[key])
        ((_, state),) = events(answer.body)
        assert [each["collection"] for each in state["collections"]] == names
        assert ("secret" in answer.body.decode()) is (key == "all")
    none = served.ask("GET", "/api/events", token=keys["none"])
    assert (none.status, none.error["code"]) == (404, "NOT_FOUND")


def begun(served: Served, token: str) -> dict[str, str]:
    """A session of MCP."""
    answer = served.ask("POST", "/mcp", INITIALIZE, SPOKEN, token=token)
    assert answer.status == 200, answer.body
    session = {"Mcp-Session-Id": answer.headers["mcp-session-id"], **SPOKEN}
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    served.ask("POST", "/mcp", told, session, token=token)
    return session


def test_changes_in_other_collections_are_not_sent(served: Served, keys: dict[str, str]) -> None:
    """Seen to fail when any address could be subscribed to."""
    for key, collection, refused in (
        ("docs", "secret", True),
        ("docs", "docs", False),
        ("all", "secret", False),
    ):
        asked = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "resources/subscribe",
            "params": {"uri": f"lookfar://{collection}/vault.md"},
        }
        session = begun(served, keys[key])
        answer = served.ask("POST", "/mcp", asked, session, token=keys[key])
        assert ('"error"' in answer.body.decode()) is refused, answer.body


def test_nor_with_the_newer_protocol(served: Served, keys: dict[str, str]) -> None:
    named = "io.modelcontextprotocol"
    era = "2026-07-28"
    asked: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "subscriptions/listen",
        "params": {
            "_meta": {
                f"{named}/protocolVersion": era,
                f"{named}/clientInfo": {"name": "test", "version": "1"},
                f"{named}/clientCapabilities": {},
            },
            "notifications": {"resourceSubscriptions": ["lookfar://secret/vault.md"]},
        },
    }
    headers = {"MCP-Protocol-Version": era, "Mcp-Method": asked["method"], **SPOKEN}
    answer = served.ask("POST", "/mcp", asked, headers, token=keys["docs"])
    assert "Your token does not give access" in answer.body.decode()


def test_a_session_is_not_for_another_token_of_its_name(
    served: Served, keys: dict[str, str], place: Path
) -> None:
    """Seen to fail when sessions were known by the names of tokens: they reach what they did."""
    file = place / "tokens.json"
    wide = add(file, "again", "read")
    session = begun(served, wide)
    remove(file, "again")
    narrow = add(file, "again", "read", ["docs"])
    asked = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "search", "arguments": {"query": "harbour password"}},
    }
    answer = served.ask("POST", "/mcp", asked, session, token=narrow)
    assert answer.status == 404
    assert "swordfish" not in answer.body.decode()
