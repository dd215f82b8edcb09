"""The keys of an issuer: found, kept, fetched again, and never fetched from elsewhere.

Seen to fail when every unknown key caused a fetch, and when redirects were followed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from lookfar import config
from lookfar.errors import InvalidConfig
from lookfar.serve.http.grants import Grant, Owner
from lookfar.serve.http.guard import Guard, Rules
from lookfar.serve.http.oauth.addresses import canonicalise, check_address
from lookfar.serve.http.oauth.issuer import IssuerKeys, metadata_urls
from lookfar.serve.http.oauth.sign_in import SignIn
from lookfar.serve.http.statuses import IssuerUnavailable
from lookfar.serve.http.tokens import Tokens
from lookfar.serve.http.visits import Visit, Watch
from serve.http.small_issuer import Issuer, SigningKey, issuing
from waiting import DEADLINE

KEY = SigningKey.make("a")
DISCOVERY = "/.well-known/oauth-authorization-server"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing(KEY) as running:
        yield running


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def test_keys_are_found_by_discovery_and_kept(issuer: Issuer) -> None:
    clock = Clock()
    keys = IssuerKeys(issuer.url, clock=clock)

    async def work() -> None:
        assert await keys.find("a", "ES256") is not None
        assert await keys.find(None, "ES256") is not None, "there is only one"
        assert issuer.requests == [DISCOVERY, "/keys"]
        clock.now += 599
        await keys.find("a", "ES256")
        assert issuer.requests == [DISCOVERY, "/keys"]
        clock.now += 2
        await keys.find("a", "ES256")
        assert issuer.requests == [DISCOVERY, "/keys", "/keys"]

    run(work())


def test_unknown_keys_cause_few_fetches(issuer: Issuer) -> None:
    clock = Clock()
    keys = IssuerKeys(issuer.url, clock=clock)

    async def work() -> None:
        found = await asyncio.gather(*(keys.find(f"key-{n}", "ES256") for n in range(200)))
        assert not any(found)
        assert issuer.requests.count("/keys") <= 5
        fetched = issuer.requests.count("/keys")
        issuer.keys.append(SigningKey.make("b"))
        clock.now += 10
        assert await keys.find("b", "ES256") is not None, "a new key is seen within ten seconds"
        assert issuer.requests.count("/keys") == fetched + 1

    run(work())


def test_keys_outlive_an_outage_for_an_hour(issuer: Issuer) -> None:
    clock = Clock()
    keys = IssuerKeys(issuer.url, clock=clock)

    async def work() -> None:
        assert await keys.find("a", "ES256") is not None
        issuer.documents |= {"/keys": (500, {}, {}), DISCOVERY: (500, {}, {})}
        clock.now += 3000
        assert await keys.find("a", "ES256") is not None
        clock.now += 700
        with pytest.raises(IssuerUnavailable):
            await keys.find("a", "ES256")
        issuer.documents.clear()
        clock.now += 10
        assert await keys.find("a", "ES256") is not None

    run(work())
    assert keys.fetches["failed"] == 2


def test_only_one_request_waits_for_a_slow_issuer(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    keys = IssuerKeys(issuer.url, clock=clock)
    asked, go_on, answer = threading.Event(), threading.Event(), issuer.answer

    def answer_late(*request: Any) -> Any:
        asked.set()
        go_on.wait(DEADLINE)
        return answer(*request)

    async def work() -> None:
        assert await keys.find("a", "ES256") is not None
        monkeypatch.setattr(issuer, "answer", answer_late)
        clock.now += 700
        first = asyncio.ensure_future(keys.find("a", "ES256"))
        await asyncio.to_thread(asked.wait, 60)
        try:
            found = await asyncio.gather(*(keys.find("a", "ES256") for _ in range(20)))
            assert all(found)
            assert not first.done()
        finally:
            go_on.set()
        assert await first is not None

    run(work())
    assert keys.fetches == {"ok": 2, "failed": 0}


def test_a_key_is_for_its_own_algorithm(issuer: Issuer) -> None:
    rsa = SigningKey.make("r", "RS256")
    issuer.keys.append(rsa)
    keys = IssuerKeys(issuer.url)

    async def work() -> list[bool]:
        asked = [("a", "ES256"), ("a", "RS256"), ("r", "RS256"), ("r", "PS256"), ("a", "HS256")]
        return [await keys.find(*each) is not None for each in asked]

    assert run(work()) == [True, False, True, False, False]


SECRET = {"kty": "oct", "k": "c2VjcmV0", "kid": "a"}
PRIVATE = {**KEY.published, "d": "AAAA"}
HUGE = b'{"keys": [' + b" " * 600_000 + b"]}"


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/keys", {"keys": []}),
        ("/keys", {"keys": [SECRET]}),
        ("/keys", {"keys": [PRIVATE]}),
        ("/keys", {"keys": [{**KEY.published, "use": "enc"}]}),
        ("/keys", {"keys": [{**KEY.published, "key_ops": ["sign"]}]}),
        ("/keys", {"keys": [{**KEY.published, "key_ops": 7}]}),
        ("/keys", {"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "a"}]}),
        ("/keys", {"keys": [KEY.published] * 101}),
        ("/keys", []),
        ("/keys", b"{"),
        ("/keys", b"[" * 100_000),
        ("/keys", HUGE),
        ("/keys", (302, {"Location": "/moved"}, {})),
        (DISCOVERY, {"issuer": "https://other.example", "jwks_uri": "https://other.example/keys"}),
        (DISCOVERY, (302, {"Location": "/moved"}, {})),
        (DISCOVERY, {"jwks_uri": 1}),
    ],
)
def test_documents_that_cannot_be_trusted_give_no_keys(
    issuer: Issuer, path: str, document: Any
) -> None:
    issuer.documents[path] = document
    issuer.documents["/moved"] = {"keys": [KEY.published]}
    keys = IssuerKeys(issuer.url)
    with pytest.raises(IssuerUnavailable):
        run(keys.find("a", "ES256"))
    assert "/moved" not in issuer.requests


def test_keys_on_another_host_need_a_setting(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    with issuing(KEY) as other:
        named = {**issuer.metadata, "jwks_uri": f"{other.url}/keys"}
        issuer.documents[DISCOVERY] = named
        with pytest.raises(IssuerUnavailable):
            run(IssuerKeys(issuer.url).find("a", "ES256"))
        assert not other.requests
        assert "serve.oauth_jwks_url" in caplog.text
        assert run(IssuerKeys(issuer.url, f"{other.url}/keys").find("a", "ES256")) is not None


def test_a_wrong_address_of_keys_is_not_blamed_on_a_setting(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.documents[DISCOVERY] = {**issuer.metadata, "jwks_uri": "http://keys.example/"}
    with pytest.raises(IssuerUnavailable):
        run(IssuerKeys(issuer.url).find("a", "ES256"))
    assert f"{issuer.url}{DISCOVERY}: jwks_uri must begin with https://" in caplog.text
    assert "serve." not in caplog.text


def test_plain_requests_stay_on_this_machine(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when a proxy of the environment got them."""
    with issuing(SigningKey.make("b")) as proxy:
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert run(IssuerKeys(issuer.url).find("a", "ES256")) is not None
        assert not proxy.requests


def test_metadata_are_where_the_standards_say(issuer: Issuer) -> None:
    urls = metadata_urls(check_address("oauth_issuer", "https://a.example/realms/team"))
    assert urls == [
        "https://a.example/.well-known/oauth-authorization-server/realms/team",
        "https://a.example/.well-known/openid-configuration/realms/team",
        "https://a.example/realms/team/.well-known/openid-configuration",
    ]
    tenant = f"{issuer.url}/tenant"
    metadata = {"issuer": tenant, "jwks_uri": f"{issuer.url}/keys"}
    issuer.documents["/tenant/.well-known/openid-configuration"] = metadata
    assert run(IssuerKeys(tenant).find("a", "ES256")) is not None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://A.example:443/mcp/", "https://a.example/mcp", True),
        ("HTTPS://a.example/mcp", "https://a.example/mcp", True),
        ("https://a.example/MCP", "https://a.example/mcp", False),
        ("https://a.example:8443/mcp", "https://a.example/mcp", False),
        ("http://a.example/mcp", "https://a.example/mcp", False),
        ("https://a.example/mcp?x", "https://a.example/mcp", False),
        ("api://lookfar", "api://lookfar", True),
        ("http://[::1]:80/mcp", "http://[::1]/mcp", True),
        ("https://a.example/mcp#other", "https://a.example/mcp", False),
        ("https://a.example/mcp#", "https://a.example/mcp", False),
        ("https://evil@a.example/mcp", "https://a.example/mcp", False),
        ("https://a.example/m\tcp", "https://a.example/mcp", False),
    ],
)
def test_addresses_are_compared_in_one_form(one: str, other: str, same: bool) -> None:
    assert (canonicalise(one) == canonicalise(other)) is same


ISSUER = "https://a.example"


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"oauth_issuer": "http://issuer.example"}, "https://"),
        ({"oauth_issuer": "nothing"}, "serve.oauth_issuer"),
        ({"oauth_issuer": "https://user@issuer.example"}, "user"),
        ({"oauth_issuer": "https://issuer.example?a"}, "query"),
        ({"oauth_issuer": "https://issuer.example:x"}, "URL"),
        ({"oauth_issuer": ISSUER, "host": "0.0.0.0"}, "serve.oauth_resource"),
        ({"oauth_issuer": ISSUER, "oauth_resource": "http://b.example/mcp"}, "https://"),
        ({"oauth_issuer": ISSUER, "oauth_algorithms": ["HS256"]}, "HS256"),
        ({"oauth_issuer": ISSUER, "oauth_algorithms": ["none"]}, "none"),
        ({"oauth_issuer": ISSUER, "oauth_algorithms": []}, "is empty"),
        ({"oauth_issuer": ISSUER, "oauth_scope_prefix": '"'}, "scopes"),
        ({"oauth_issuer": ISSUER, "oauth_jwks_url": "http://b.example/k"}, "oauth_jwks_url"),
    ],
)
def test_settings_that_would_not_be_safe_are_refused(settings: dict[str, Any], named: str) -> None:
    keyed = {f"serve.{key}": value for key, value in settings.items()}
    chosen = config.load(None, keyed, environ={}).serve
    with pytest.raises(InvalidConfig) as refused:
        SignIn(chosen, "http://127.0.0.1:8377/mcp")
    assert named in refused.value.message


def test_a_stream_ends_when_its_token_does() -> None:
    async def app(*_: Any) -> None:
        raise AssertionError

    guard = Guard(app, Rules(), Tokens(), Watch(), SignIn(
        config.load(None, {"serve.oauth_issuer": ISSUER}, environ={}).serve,
        "http://127.0.0.1:8377/mcp",
    ))  # fmt: skip
    visit = Visit("an-id", "GET")
    assert not guard._is_still_authorized(visit)
    for expires, allowed in ((0.0, False), (float("inf"), True)):
        visit.grant = Grant("ana", Owner("test"), expires=expires)
        assert guard._is_still_authorized(visit) is allowed
