"""The public keys of an issuer: found by discovery, fetched when needed, kept for a while.

Takes the address of the issuer, or of its keys. If a token names an unknown key, the keys are
fetched again: a few times at once and then seldom, so that keys rotate without a restart and an
attacker's tokens cause few requests. If the issuer cannot be reached, the last keys stay valid for
an hour.

Requests go only to the configured host, with HTTPS unless it is this machine. Redirects are not
followed, and answers are limited in size and time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult

from pydantic_core import from_json

from lookfar.errors import LookfarError
from lookfar.serve.http.buckets import Buckets
from lookfar.serve.http.oauth.addresses import check_address, origin, split_address
from lookfar.serve.http.statuses import IssuerUnavailable

_log = logging.getLogger("lookfar.http")

FAMILIES: Final = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}
"""The type of key by algorithm. Algorithms with a shared secret are missing on purpose."""
_KEEP_SECONDS: Final = 600.0
"""How long keys are used before they are fetched again."""
_STALE_SECONDS: Final = 3600.0
"""How long keys are used if the issuer cannot be reached."""
_FETCHES_PER_SECOND: Final = 0.1
_FETCH_BURST_SECONDS: Final = 50.0
"""Five fetches at once, and then one in ten seconds."""
_FETCH_SECONDS: Final = 10.0
_MAX_BYTES: Final = 512 * 1024
_MAX_KEYS: Final = 100
_MIN_RSA_BITS: Final = 2048


class _FetchFailed(Exception):
    """A document of the issuer cannot be used; says why."""


@dataclass(frozen=True, slots=True)
class Key:
    """A public key that signs tokens."""

    id: str | None
    family: str
    """``RSA``, ``EC`` or ``OKP``."""
    algorithm: str | None
    """The only algorithm that it is for, if the issuer says so."""
    public: Any

    def suits(self, key_id: str | None, algorithm: str) -> bool:
        return (
            self.family == FAMILIES.get(algorithm)
            and self.algorithm in (None, algorithm)
            and key_id in (None, self.id)
        )


class IssuerKeys:
    """The keys of one issuer, used by the event loop of one server."""

    def __init__(
        self, issuer: str, keys_url: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._issuer = issuer
        self._parts = check_address("oauth_issuer", issuer)
        self._configured = keys_url
        if keys_url:
            check_address("oauth_jwks_url", keys_url)
        self._found = keys_url
        """The address of the keys, once it is known."""
        self._clock = clock
        self._keys: tuple[Key, ...] = ()
        self._fetched: float | None = None
        self._allowance = Buckets(_FETCHES_PER_SECOND, _FETCH_BURST_SECONDS, clock)
        self._lock = asyncio.Lock()
        self.fetches = {"ok": 0, "failed": 0}
        """The number of fetches by their result."""

    async def find(self, key_id: str | None, algorithm: str) -> Key | None:
        """Return the key that signs with this ID and algorithm, or ``None`` if there is none."""
        # While one request waits for an issuer that is slow, others use the keys that are known.
        waits = not self._lock.locked() or self._age() > _STALE_SECONDS
        if self._age() > _KEEP_SECONDS and waits:
            await self._refresh(self._fetched)
        key = self._choose(key_id, algorithm)
        if key is None:
            await self._refresh(self._fetched)
            key = self._choose(key_id, algorithm)
        return key

    async def prefetch(self) -> None:
        """Fetch the keys, so that a wrong setting is logged when the server starts."""
        try:
            await self._refresh(None)
        except LookfarError:
            return  # It was logged, and the first token causes another attempt.

    def _age(self) -> float:
        return self._clock() - self._fetched if self._fetched is not None else float("inf")

    def _choose(self, key_id: str | None, algorithm: str) -> Key | None:
        suitable = [key for key in self._keys if key.suits(key_id, algorithm)]
        # A token that does not name its key is accepted only if there is no choice.
        return suitable[0] if suitable and (key_id is not None or len(suitable) == 1) else None

    async def _refresh(self, seen: float | None) -> None:
        """Fetch the keys, unless they were fetched after ``seen``, or too often of late."""
        async with self._lock:
            if self._fetched != seen:
                return
            if not self._allowance.take(""):
                try:
                    keys = await self._fetch()
                except _FetchFailed as error:
                    self.fetches["failed"] += 1
                    _log.warning("cannot fetch the keys of the issuer: %s", error)
                else:
                    self.fetches["ok"] += 1
                    self._keys, self._fetched = keys, self._clock()
                    return
        if self._age() > _STALE_SECONDS:
            raise IssuerUnavailable(
                "The keys of the issuer cannot be fetched, so tokens cannot be checked.",
                hint="Try again in a moment. The reason is in the server's log.",
                details={"retry_after": 10},
            )

    async def _fetch(self) -> tuple[Key, ...]:
        try:
            async with asyncio.timeout(_FETCH_SECONDS):
                if not self._found:
                    self._found = await self._discover()
                try:
                    document = await _fetch_json(self._found)
                except _FetchFailed:
                    self._found = self._configured  # The keys may have moved: look again next time.
                    raise
        except TimeoutError:
            raise _FetchFailed(f"no answer within {_FETCH_SECONDS:g} seconds") from None
        return _read_keys(document)

    async def _discover(self) -> str:
        """Return the address of the keys as the metadata of the issuer names it."""
        failures: list[str] = []
        for url in metadata_urls(self._parts):
            try:
                return self._read_metadata(url, await _fetch_json(url))
            except _FetchFailed as error:
                failures.append(str(error))
        raise _FetchFailed("; ".join(failures))

    def _read_metadata(self, url: str, metadata: Any) -> str:
        named = metadata.get("issuer") if isinstance(metadata, dict) else None
        if named != self._issuer:
            raise _FetchFailed(f"{url} is not the metadata of {self._issuer}")
        keys_url = metadata.get("jwks_uri")
        try:
            parts = split_address(keys_url if isinstance(keys_url, str) else "")
        except ValueError as error:
            raise _FetchFailed(f"{url}: jwks_uri {error}") from None
        if origin(parts) != origin(self._parts):
            raise _FetchFailed(
                f"{url} names keys on another host; if {keys_url} is right, set"
                " serve.oauth_jwks_url to it"
            )
        return str(keys_url)


def metadata_urls(issuer: SplitResult) -> Sequence[str]:
    """Return where an issuer may have its metadata: RFC 8414, then OpenID Connect."""
    start, path = origin(issuer), issuer.path.rstrip("/")
    names = ("oauth-authorization-server", "openid-configuration")
    inserted = [f"{start}/.well-known/{name}{path}" for name in names]
    return [*inserted, f"{start}{path}/.well-known/{names[1]}"] if path else inserted


async def _fetch_json(url: str) -> Any:
    import httpx2

    body = bytearray()
    headers = {"accept": "application/json", "accept-encoding": "identity"}
    # Plain HTTP is for this machine only, so it must not go through a proxy of the environment.
    outside = not url.lower().startswith("http://")
    try:
        async with (
            httpx2.AsyncClient(
                follow_redirects=False, timeout=_FETCH_SECONDS, trust_env=outside
            ) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            if response.status_code != 200:
                raise _FetchFailed(f"{url} was answered with status {response.status_code}")
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > _MAX_BYTES:
                    raise _FetchFailed(f"{url} is larger than {_MAX_BYTES:,} bytes")
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise _FetchFailed(f"{url}: {type(error).__name__}") from error
    try:
        return from_json(bytes(body))
    except ValueError:
        raise _FetchFailed(f"{url} is not JSON") from None


def _read_keys(document: Any) -> tuple[Key, ...]:
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list) or len(listed) > _MAX_KEYS:
        raise _FetchFailed("the document of the keys is not a JWK Set")
    keys = [key for shape in listed if isinstance(shape, dict) and (key := _read_key(shape))]
    if not keys:
        raise _FetchFailed("the issuer has no key that signs tokens")
    return tuple(keys)


def _read_key(shape: dict[str, Any]) -> Key | None:
    """Return a key of a JWK Set; ``None`` if it is not one that verifies signatures."""
    import jwt

    family: Any = shape.get("kty")
    usage, operations = shape.get("use"), shape.get("key_ops")
    if (
        family not in FAMILIES.values()
        or usage not in (None, "sig")
        or not (operations is None or (isinstance(operations, list) and "verify" in operations))
        or "d" in shape  # A private key, which must never be published.
    ):
        return None
    try:
        public = jwt.PyJWK(shape).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if family == "RSA" and public.key_size < _MIN_RSA_BITS:
        return None
    key_id, algorithm = shape.get("kid"), shape.get("alg")
    return Key(key_id if isinstance(key_id, str) else None, family, algorithm, public)
