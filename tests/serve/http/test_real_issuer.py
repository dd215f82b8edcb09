"""A certified OpenID Connect provider as the issuer, and the whole sign-in with it.

It comes from npm and is skipped where that cannot be reached. ``test_http_sign_in.py`` has the same
checks, and more, with a small issuer of our own.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import jwt
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    OAuthClientInformationFull,
)

from loopback_ports import choose_port
from serve.conformance.suite import Unavailable, find_node, installed
from serve.http.asking import Served, serving
from serve.http.signing_in import Memory, challenge, resource, sign_in, try_token
from serve.http.small_issuer import CALLBACK, SigningKey, forge
from waiting import DEADLINE, wait_for

HERE = Path(__file__).parent / "real_issuer"
SCOPES = "lookfar:read lookfar:write lookfar:read:docs"
ELSEWHERE = "https://elsewhere.example/mcp"


class RealIssuer:
    """The provider in a process of its own; it can be restarted at the same address."""

    def __init__(self, cache: Path) -> None:
        self._node = find_node()
        self._modules = installed(self._node, HERE / "package.json", cache)
        self.port = choose_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.resources: dict[str, str] = {ELSEWHERE: SCOPES}
        self._process: subprocess.Popen[str] | None = None

    def start(self, key: SigningKey, *, behind: int = 0) -> None:
        self.stop()
        given = {
            "port": self.port,
            "modules": str(self._modules.parent),
            "keys": [private_jwk(key)],
            "resources": self.resources,
            "callback": CALLBACK,
            "behind": behind,
        }
        self._process = subprocess.Popen(
            [str(self._node.program), str(HERE / "issuer.mjs"), json.dumps(given)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate(timeout=DEADLINE)
            self._process = None

    def token(self, audience: str, scope: str) -> str:
        """A token for a program that signs in by itself."""
        answer = httpx2.post(
            f"{self.url}/token",
            data={"grant_type": "client_credentials", "resource": audience, "scope": scope},
            auth=("robot", "robot-secret"),
            timeout=DEADLINE,
        )
        assert answer.status_code == 200, answer.text
        token: str = answer.json()["access_token"]
        return token


def private_jwk(key: SigningKey) -> dict[str, Any]:
    made: Any = jwt.get_algorithm_by_name(key.algorithm)
    shape: dict[str, Any] = made.to_jwk(key.private, as_dict=True)
    shape.pop("key_ops", None)
    return {**shape, "kid": key.id, "use": "sig", "alg": key.algorithm}


@pytest.fixture(scope="module")
def issuer(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealIssuer]:
    """The provider, which stays in pytest's cache between runs."""
    cache = getattr(pytestconfig, "cache", None)
    kept = cache.mkdir("real-issuer") if cache else tmp_path_factory.mktemp("real-issuer")
    try:
        running = RealIssuer(kept)
    except Unavailable as reason:
        pytest.skip(f"the provider cannot run: {reason}")
    try:
        yield running
    finally:
        running.stop()


KEY = SigningKey.make("first", "RS256")


@pytest.fixture(scope="module")
def served(issuer: RealIssuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    env = {"LOOKFAR_SERVE_OAUTH_ISSUER": issuer.url}
    place = tmp_path_factory.mktemp("real")
    with serving(place, "--write", env=env) as running:
        issuer.resources[resource(running)] = SCOPES
        issuer.start(KEY)
        yield running


def test_its_tokens_are_accepted_and_refused(served: Served, issuer: RealIssuer) -> None:
    good = issuer.token(resource(served), "lookfar:read")
    assert jwt.get_unverified_header(good)["typ"] == "at+jwt"
    assert try_token(served, good).status == 200
    for token, reason in (
        (issuer.token(ELSEWHERE, "lookfar:read"), "The token is for another audience."),
        (forge(good, None), "The token is not signed with an accepted algorithm."),
        (forge(good, KEY.public_pem), "The token is not signed with an accepted algorithm."),
    ):
        answer = try_token(served, token)
        assert (answer.status, challenge(answer)["error"]) == (401, "invalid_token")
        assert answer.error["message"] == reason
    narrow = issuer.token(resource(served), "lookfar:read:docs")
    assert try_token(served, narrow).status == 200
    refused = served.tool("remember", narrow, title="A", text="B")
    assert refused.status == 403
    assert challenge(refused)["scope"] == "lookfar:write:docs"
    none = try_token(served, issuer.token(resource(served), ""))
    assert (none.status, challenge(none)["error"]) == (403, "insufficient_scope")


def test_an_expired_token_and_rotated_keys(served: Served, issuer: RealIssuer) -> None:
    issuer.start(KEY, behind=7200)
    expired = try_token(served, issuer.token(resource(served), "lookfar:read"))
    assert (expired.status, expired.error["message"]) == (401, "The token has expired.")
    issuer.start(KEY)
    old = issuer.token(resource(served), "lookfar:read")
    assert try_token(served, old).status == 200
    issuer.start(SigningKey.make("second", "ES256"))
    new = issuer.token(resource(served), "lookfar:read")
    assert [try_token(served, token).status for token in (new, old)] == [200, 401]
    issuer.start(KEY)
    wait_for(lambda: try_token(served, old).status == 200, "the first key is back")


def browse(url: str) -> dict[str, str]:
    """Follow the redirects of the provider as a browser does, up to the client's own address."""
    with httpx2.Client(timeout=DEADLINE) as browser:
        for _ in range(20):
            answer = browser.get(url)
            url = str(httpx2.URL(url).join(answer.headers["location"]))
            if url.startswith(CALLBACK):
                fields = dict(httpx2.URL(url).params)
                assert "code" in fields, fields
                return fields
    raise AssertionError("the provider does not come back")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("known", [True, False], ids=["known", "registers"])
def test_a_client_of_the_protocol_signs_in(
    served: Served, issuer: RealIssuer, mode: Any, known: bool
) -> None:
    """A client that the provider knows also steps up.

    One that registers itself cannot with this provider: it names the scopes of its first request,
    and the provider holds it to them.
    """
    storage = Memory()
    if known:
        about = {
            "client_id": "agent",
            "redirect_uris": [CALLBACK],
            "token_endpoint_auth_method": "none",
            "issuer": issuer.url,
        }
        storage.client = OAuthClientInformationFull.model_validate(about)

    async def run() -> tuple[str, Any]:
        async with httpx2.AsyncClient(
            auth=sign_in(served, storage, browse), timeout=DEADLINE
        ) as http:
            transport = streamable_http_client(resource(served), http_client=http)
            async with Client(transport, mode=mode) as client:
                found = await client.call_tool("search", {"query": "lantern"})
                note = {"title": mode, "text": "A step up."}
                noted = await client.call_tool("remember", note) if known else None
                return str(found.content), noted

    found, noted = anyio.run(run)
    assert "lantern hangs" in found
    assert noted is None or not noted.is_error
    assert storage.tokens is not None
    claims = jwt.decode(storage.tokens.access_token, options={"verify_signature": False})
    assert (claims["iss"], claims["aud"], claims["sub"]) == (issuer.url, resource(served), "ana")
    assert ("lookfar:write" in claims["scope"]) is known
