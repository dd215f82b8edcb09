"""Tokens of an issuer: which ones are accepted, what they open, and what is said of the others.

Seen to fail when the audience was not compared, when unknown keys were not fetched again, and when
tools that make changes reached what may only be read.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from serve.http.asking import Answer, Served, command, serving
from serve.http.signing_in import Memory, challenge, resource, sign_in, try_token
from serve.http.small_issuer import Issuer, SigningKey, forge, issuing, read_location
from waiting import DEADLINE

METADATA = "/.well-known/oauth-protected-resource"
SPOKEN = {"Accept": "application/json, text/event-stream"}
STATIC = "a-static-token-of-somebody"
ODD_HEAD = urlsafe_b64encode(b'{"alg": ["RS256"], "typ": "JWT"}').decode().rstrip("=")


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing(SigningKey.make("first", "RS256")) as running:
        yield running


@pytest.fixture(scope="module")
def served(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two folders, an issuer, and a token of our own beside it."""
    place = tmp_path_factory.mktemp("signin")
    secret = place / "secret"
    secret.mkdir()
    (secret / "vault.md").write_text("# Vault\n\nThe harbour password is swordfish.\n")
    env = {"LOOKFAR_TOKENS": STATIC, "LOOKFAR_SERVE_OAUTH_ISSUER": issuer.url}
    with serving(place, secret, "--write", "--metrics", env=env) as running:
        running.tool("search", STATIC, query="harbour")  # Builds the indexes.
        yield running


def test_the_metadata_name_the_issuer(served: Served, issuer: Issuer) -> None:
    for path in (METADATA, f"{METADATA}/mcp"):
        answer = served.ask("GET", path)
        assert answer.status == 200
        assert answer.json == {
            "resource": resource(served),
            "authorization_servers": [issuer.url],
            "scopes_supported": ["lookfar:read"],
            "bearer_methods_supported": ["header"],
            "resource_name": "Lookfar",
        }
    assert served.ask("GET", f"{METADATA}/elsewhere").status == 401
    assert served.ask("GET", METADATA, headers={"Host": "evil.example"}).status == 421


@pytest.mark.parametrize("path", ["/mcp", "/tools/search", "/metrics", "/status"])
def test_a_request_without_a_token_learns_where_to_get_one(served: Served, path: str) -> None:
    answer = served.ask("POST" if path in ("/mcp", "/tools/search") else "GET", path)
    assert (answer.status, answer.error["code"]) == (401, "UNAUTHORIZED")
    assert challenge(answer) == {
        "realm": "lookfar",
        "scope": "lookfar:read",
        "resource_metadata": f"{served.address}{METADATA}/mcp",
    }


def test_a_token_of_the_issuer_is_accepted(served: Served, issuer: Issuer) -> None:
    for audience in (resource(served), [resource(served) + "/", "other"], resource(served).upper()):
        if audience == resource(served).upper():
            audience = audience.replace("/MCP", "/mcp")
        answer = try_token(served, issuer.token(audience))
        assert answer.status == 200, answer.body
        assert answer.json["hits"]
    late = issuer.token(resource(served), exp=int(time.time()) - 5)
    assert try_token(served, late).status == 200, "clocks may differ a little"
    listed = issuer.token(resource(served), None, scp=["lookfar:read"])
    assert try_token(served, listed).status == 200


def refused_tokens(issuer: Issuer, audience: str) -> dict[str, str]:
    foreign, good = SigningKey.make("first"), issuer.token(audience)
    head, payload, signature = good.split(".")
    now = int(time.time())
    return {
        "another audience": issuer.token("https://elsewhere.example/mcp"),
        "a part of the audience": issuer.token(audience.removesuffix("/mcp")),
        "the audience with a fragment": issuer.token(f"{audience}#other"),
        "the audience with a user": issuer.token(audience.replace("//", "//evil@")),
        "no audience": issuer.token(None),
        "expired": issuer.token(audience, exp=now - 3600),
        "no expiry": issuer.token(audience, exp=None),
        "not valid yet": issuer.token(audience, nbf=now + 3600),
        "unsigned": forge(good, None),
        "the public key as a shared secret": forge(good, issuer.keys[0].public_pem),
        "another issuer": issuer.token(audience, iss="https://elsewhere.example"),
        "a key of another issuer": issuer.token(audience, key=foreign),
        "an unknown key": issuer.token(audience, key=SigningKey.make("unknown")),
        "another signature": f"{head}.{payload}.{signature[:-8]}AAAAAAAA",
        "no signature": f"{head}.{payload}.",
        "an ID token": issuer.token(audience, headers={"typ": "id+jwt"}),
        "a critical header": issuer.token(audience, headers={"crit": ["x"], "x": 1}),
        "an algorithm that is no name": f"{ODD_HEAD}.{payload}.{signature}",
        "a bound token": issuer.token(audience, cnf={"jkt": "x"}),
        "no owner": issuer.token(audience, sub=None, client_id=None),
        "no JWT": "lf_nothing",
        "too long": good + "A" * 20_000,
    }


@pytest.mark.parametrize("name", refused_tokens(Issuer("x", [SigningKey.make("k")]), "a/mcp"))
def test_other_tokens_are_refused(served: Served, issuer: Issuer, name: str) -> None:
    answer = try_token(served, refused_tokens(issuer, resource(served))[name])
    assert (answer.status, answer.error["code"]) == (401, "UNAUTHORIZED"), name
    fields = challenge(answer)
    assert fields["error"] == "invalid_token"
    assert fields["error_description"] == answer.error["message"]
    assert fields["resource_metadata"] == f"{served.address}{METADATA}/mcp"
    assert fields["scope"] == "lookfar:read"


@pytest.mark.parametrize(
    "claims",
    [{"exp": "soon"}, {"exp": 10**400}, {"nbf": "soon"}, {"iat": "now"}, {"sub": 7}, {"jti": 7}],
    ids=str,
)
def test_a_malformed_claim_is_not_blamed_on_the_signature(
    served: Served, issuer: Issuer, claims: dict[str, Any]
) -> None:
    answer = try_token(served, issuer.token(resource(served), **claims))
    assert (answer.status, answer.error["message"]) == (401, "The token is malformed.")


@pytest.mark.parametrize("scope", [None, "", "openid email", "read", "lookfar:", "lookfar:read:"])
def test_a_token_without_a_scope_of_ours_is_refused(
    served: Served, issuer: Issuer, scope: str | None
) -> None:
    for path in ("/tools/search", "/mcp"):
        answer = served.ask("POST", path, {}, token=issuer.token(resource(served), scope))
        assert (answer.status, answer.error["code"]) == (403, "SCOPE_TOO_SMALL")
        fields = challenge(answer)
        assert (fields["error"], fields["scope"]) == ("insufficient_scope", "lookfar:read")
        assert fields["resource_metadata"] == f"{served.address}{METADATA}/mcp"


@pytest.mark.parametrize(
    ("scope", "needed"),
    [
        ("lookfar:read", "lookfar:write"),
        ("lookfar:read:docs", "lookfar:write:docs"),
        (
            "lookfar:read:docs lookfar:read:My%20notes",
            "lookfar:write:My%20notes lookfar:write:docs",
        ),
    ],
)
def test_a_call_that_makes_changes_names_the_scope_it_needs(
    served: Served, issuer: Issuer, scope: str, needed: str
) -> None:
    token = issuer.token(resource(served), scope)
    call = {"name": "remember", "arguments": {"title": "A", "text": "B"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    for answer in (
        served.tool("remember", token, title="A", text="B"),
        served.ask("POST", "/mcp", message, SPOKEN, token=token),
    ):
        assert (answer.status, answer.error["code"]) == (403, "SCOPE_TOO_SMALL")
        fields = challenge(answer)
        assert (fields["error"], fields["scope"]) == ("insufficient_scope", needed)
        assert answer.error["hint"] == f"Request the scope {needed} from the issuer."
        assert fields["resource_metadata"] == f"{served.address}{METADATA}/mcp"


def edit(served: Served, token: str, collection: str, name: str) -> Answer:
    change = {"op": "append", "target": f"lookfar://{collection}/{name}", "text": "More.\n"}
    return served.tool("edit", token, edits=[change])


@pytest.mark.parametrize(
    ("scope", "read", "written"),
    [
        ("lookfar:read", {"docs", "secret"}, set()),
        ("lookfar:read:docs", {"docs"}, set()),
        ("lookfar:read:docs lookfar:read:secret", {"docs", "secret"}, set()),
        ("lookfar:read:elsewhere", set(), set()),
        ("lookfar:write", {"docs", "secret"}, {"docs", "secret"}),
        ("lookfar:write:docs", {"docs"}, {"docs"}),
        ("lookfar:read lookfar:write:docs", {"docs", "secret"}, {"docs"}),
        ("lookfar:read:secret lookfar:write:docs", {"docs", "secret"}, {"docs"}),
    ],
)
def test_scopes_open_collections(
    served: Served, issuer: Issuer, scope: str, read: set[str], written: set[str]
) -> None:
    token = issuer.token(resource(served), scope)
    for collection, name in (("docs", "keys.md"), ("secret", "vault.md")):
        answer = served.tool("read", token, target=f"lookfar://{collection}/{name}")
        assert (answer.status == 200) is (collection in read), answer.body
        changed = edit(served, token, collection, name)
        assert (changed.status == 200) is (collection in written), changed.body


def begin_session(served: Served, token: str) -> dict[str, str]:
    begin = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }  # fmt: skip
    begun = served.ask("POST", "/mcp", begin, SPOKEN, token=token)
    session = {"Mcp-Session-Id": begun.headers["mcp-session-id"], **SPOKEN}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    served.ask("POST", "/mcp", ready, session, token=token)
    return session


def test_scopes_for_changes_hold_over_mcp(served: Served, issuer: Issuer) -> None:
    token = issuer.token(resource(served), "lookfar:read lookfar:write:docs")
    session = begin_session(served, token)
    for collection, name, allowed in (("secret", "vault.md", False), ("docs", "guide.md", True)):
        change = {"op": "append", "target": f"lookfar://{collection}/{name}", "text": "By MCP.\n"}
        call = {"name": "edit", "arguments": {"edits": [change]}}
        message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        answer = served.ask("POST", "/mcp", message, session, token=token)
        assert answer.status == (200 if allowed else 403)
        folder = served.root if collection == "docs" else served.root.parent / collection
        assert ("By MCP." in (folder / name).read_text()) is allowed, answer.body


def test_a_change_of_what_may_be_read_asks_for_its_scope(served: Served, issuer: Issuer) -> None:
    """Over REST and MCP alike. Seen to fail when it said that there was no such collection."""
    token = issuer.token(resource(served), "lookfar:read lookfar:write:docs")
    change = {"op": "append", "target": "lookfar://secret/vault.md", "text": "By nobody.\n"}
    call = {"name": "edit", "arguments": {"edits": [change]}}
    message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
    session = begin_session(served, token)
    for answer in (
        served.tool("edit", token, edits=[change]),
        served.ask("POST", "/mcp", message, session, token=token),
    ):
        assert (answer.status, answer.error["code"]) == (403, "SCOPE_TOO_SMALL")
        assert "may only read 'secret'" in answer.error["message"]
        assert "lookfar:write:secret" in answer.error["hint"]
        fields = challenge(answer)
        assert (fields["error"], fields["scope"]) == ("insufficient_scope", "lookfar:write:secret")
    hidden = issuer.token(resource(served), "lookfar:write:docs")
    for target in ("lookfar://secret/vault.md", "lookfar://nowhere/vault.md"):
        answer = served.tool("edit", hidden, edits=[{**change, "target": target}])
        assert (answer.status, answer.error["code"]) == (400, "INVALID_ARGUMENT")
    answer = served.tool("edit", token, edits=[{**change, "target": "lookfar://nowhere/a.md"}])
    assert (answer.status, answer.error["code"]) == (400, "INVALID_ARGUMENT")


def test_a_session_goes_on_with_the_next_token_of_its_owner(served: Served, issuer: Issuer) -> None:
    """It reaches what the token of each request opens, not what that of the first one did."""
    wide, narrow = (
        issuer.token(resource(served), scope) for scope in ("lookfar:read", "lookfar:read:docs")
    )
    session = begin_session(served, wide)
    call = {"name": "read", "arguments": {"target": "lookfar://secret/vault.md"}}
    message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
    for token, seen in ((wide, True), (narrow, False), (wide, True)):
        answer = served.ask("POST", "/mcp", message, session, token=token)
        assert answer.status == 200
        assert (b"swordfish" in answer.body) is seen
    for other in (
        issuer.token(resource(served), sub="bob"),
        issuer.token(resource(served), client_id="other"),
        STATIC,
    ):
        assert served.ask("POST", "/mcp", message, session, token=other).status == 404


def test_a_token_of_our_own_works_beside(served: Served) -> None:
    assert served.tool("search", STATIC, query="harbour").status == 200
    refused = served.tool("remember", STATIC, title="A", text="B")
    assert challenge(refused) == {"error": "insufficient_scope", "scope": "write"}


def test_keys_rotate_without_a_restart(tmp_path: Path) -> None:
    with issuing(SigningKey.make("old", "RS256")) as issuer:
        options = ("--set", f"serve.oauth_issuer={issuer.url}")
        with serving(tmp_path, *options) as served:
            old = issuer.token(resource(served))
            assert try_token(served, old).status == 200
            issuer.keys.insert(0, SigningKey.make("new"))
            new = issuer.token(resource(served))
            assert [try_token(served, token).status for token in (new, old)] == [200, 200]
            del issuer.keys[1]
            issuer.keys.insert(0, SigningKey.make("newest"))
            newest = issuer.token(resource(served))
            tokens = (newest, new, old)
            assert [try_token(served, token).status for token in tokens] == [200, 200, 401]
            assert_nothing_leaked(served, *tokens)


def assert_nothing_leaked(served: Served, *tokens: str) -> None:
    served.ask("GET", "/health", headers={"X-Request-Id": "the-last"})
    served.logged(request_id="the-last")
    said = "\n".join(served.lines)
    for token in tokens:
        assert not any(part in said for part in token.split(".")[1:])


def test_the_log_names_the_owner_and_the_reason(served: Served, issuer: Issuer) -> None:
    good = issuer.token(resource(served), sub="carol")
    bad = issuer.token("https://elsewhere.example/mcp", sub="carol")
    for token, name in ((good, "good-1"), (bad, "bad-1")):
        headers = {"X-Request-Id": name}
        served.ask("POST", "/tools/search", {"query": "harbour"}, headers, token=token)
    assert served.logged(request_id="good-1", status=200)["client"] == "carol"
    line = served.logged(request_id="bad-1", status=401)
    assert line["reason"] == "The token is for another audience."
    assert_nothing_leaked(served, good, bad)


def test_an_issuer_that_cannot_be_reached_is_not_the_fault_of_the_token(tmp_path: Path) -> None:
    with issuing(SigningKey.make("only")) as issuer:
        pass
    with serving(tmp_path, "--set", f"serve.oauth_issuer={issuer.url}") as served:
        answer = try_token(served, issuer.token(resource(served)))
        assert (answer.status, answer.error["code"]) == (503, "ISSUER_UNAVAILABLE")
        assert answer.headers["retry-after"] == "10"
        assert served.logged(level="warning")["message"].startswith("cannot fetch the keys")
        assert served.ask("GET", "/readyz").status in (200, 503)


def test_a_wrong_setting_is_reported_at_the_start(tmp_path: Path) -> None:
    wrong = ("--set", "serve.oauth_issuer=http://issuer.example")
    result = command(tmp_path, "serve", tmp_path, "--port", 0, *wrong)
    assert result.returncode == 2
    assert "INVALID_CONFIG" in result.stderr
    assert "serve.oauth_issuer must begin with https://" in result.stderr


@pytest.mark.parametrize("key", ["oauth_resource", "oauth_audience", "oauth_jwks_url"])
def test_a_forgotten_issuer_does_not_leave_the_server_open(tmp_path: Path, key: str) -> None:
    """Behind a proxy on the same machine, everybody could reach it."""
    wrong = ("--set", f"serve.{key}=https://docs.example.org/mcp")
    result = command(tmp_path, "serve", tmp_path, "--port", 0, *wrong)
    assert result.returncode == 2
    assert f"serve.{key} is set, but serve.oauth_issuer is not" in result.stderr


# --- the protocol's own client ------------------------------------------------------------------


def agree(url: str) -> dict[str, str]:
    """Answer as a browser whose user agrees to everything."""
    return read_location(url)[1]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_client_of_the_protocol_signs_in_and_steps_up(
    served: Served, issuer: Issuer, mode: Any
) -> None:
    """From a plain 401 to a change, by discovery alone."""
    asked = len(issuer.scopes)

    async def run() -> tuple[str, str]:
        async with httpx2.AsyncClient(
            auth=sign_in(served, Memory(), agree), timeout=DEADLINE
        ) as http:
            transport = streamable_http_client(resource(served), http_client=http)
            async with Client(transport, mode=mode) as client:
                found = await client.call_tool("search", {"query": "lantern"})
                noted = await client.call_tool("remember", {"title": mode, "text": "A step up."})
                return str(found.content), str(noted)

    found, noted = anyio.run(run)
    assert "lantern hangs" in found
    assert "is_error=False" in noted or "isError" not in noted
    first, second = issuer.scopes[asked:]
    assert first == "lookfar:read"
    assert set(second.split()) == {"lookfar:read", "lookfar:write"}
