"""The one guard around everything that is served over HTTP.

Takes: an ASGI application. Gives: the same application behind its checks. Refuses, on every
route there is and on every one that there is not: requests that name another host (421) or
come from another site's page (403), those without a valid token where tokens are needed
(401), too many (429, 503), too large (413), too slow (408), and answers that take too long
(504). It stands outside the application, so that a new route is guarded without doing
anything for it.

Bodies are read here, whole and with a bound, whether or not they say how long they are.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import anyio

from lookfar.errors import LookfarError
from lookfar.serve.http.statuses import (
    BodyTooLarge,
    BodyTooSlow,
    ForeignOrigin,
    Misdirected,
    RateLimited,
    ServerBusy,
    TimedOut,
    Unauthorized,
    refused,
    unforeseen,
)
from lookfar.serve.http.visits import KEY, Visit, Watch
from lookfar.serve.tools.tool import REACHABLE

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from lookfar.serve.http.tokens import Tokens

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")

_log = logging.getLogger("lookfar.http")
_ID: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}", re.A)
_BURST_SECONDS: Final = 2.0
"""A client may be ahead of its rate by what comes together in this time."""
_WRONG_TOKENS_PER_SECOND: Final = 2.0
_MOST_CLIENTS: Final = 10_000
_BODIES: Final = 4
"""Of the largest size, that may wait in memory at once."""
_STREAMS: Final = 4
"""Streams for each request that may be answered at once: they last, and cost little."""
_PATIENCE: Final = 2.0
_LEFT_OVER: Final = 1 << 20
"""Bytes of a refused request that are still read, so that its client can read the answer."""
_LEFT_OVER_LARGE: Final = 64 << 20
_SECURITY: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    # Whoever opens data as a page gets a page that can do nothing.
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
_ALLOWED_HEADERS: Final = b"authorization, content-type, accept, x-request-id, mcp-session-id,"
_MCP_HEADERS: Final = b" mcp-protocol-version, mcp-method, mcp-name, last-event-id, traceparent"


@dataclass(frozen=True, slots=True)
class Rules:
    """What the guard lets through."""

    names: tuple[str, ...] = LOOPBACK
    """Hosts that requests may name, without port; an IPv6 address in brackets."""
    origins: tuple[str, ...] = ()
    """Sites whose pages may ask, beside those of this machine."""
    max_body_bytes: int = 32 << 20
    body_seconds: float = 20.0
    request_seconds: float = 120.0
    requests_per_second: float = 0.0
    max_concurrent: int = 128
    streams: frozenset[str] = frozenset()
    """Paths whose answers may go on for as long as their clients listen."""
    open: frozenset[str] = frozenset()
    """Paths that anybody may GET without a token: files that say nothing of anybody."""


class _ClientLeft(Exception):
    """There is nobody to answer any more."""


class Guard:
    """An ASGI application around another."""

    def __init__(self, app: ASGIApp, rules: Rules, tokens: Tokens, watch: Watch) -> None:
        self.app = app
        self._rules = rules
        self._tokens = tokens
        self._watch = watch
        self._names = frozenset(name.lower() for name in rules.names)
        self._rate = Buckets(rules.requests_per_second)
        self._wrong = Buckets(_WRONG_TOKENS_PER_SECOND)
        self._busy = {False: 0, True: 0}
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._visited(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _visited(self, scope: Scope, receive: Receive, send: Send) -> None:
        visit = Visit(_request_id(scope), scope["method"])
        scope[KEY] = visit
        extra = [(b"x-request-id", visit.id.encode("ascii")), *self._cors(scope)]

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                visit.status = message["status"]
                given = list(message.get("headers", ()))
                named = {name.lower() for name, _ in given}
                given += [each for each in _SECURITY if each[0] not in named]
                message = {**message, "headers": [*given, *extra]}
            await send(message)

        with self._watch.request(visit, scope):
            body = _Body(receive, scope)
            try:
                await self._admitted(visit, scope, body, answer)
            except _ClientLeft:
                return
            except Exception as error:
                told = error if isinstance(error, LookfarError) else unforeseen(error)
                if told is not error:
                    _log.exception("unforeseen", extra={"request_id": visit.id})
                if visit.status:
                    return  # The answer has begun: it can only be cut.
                visit.code = told.code
                response = refused(told)
                if not await body.drained(isinstance(told, BodyTooLarge)):
                    response.headers["connection"] = "close"
                await response(scope, receive, answer)

    async def _admitted(self, visit: Visit, scope: Scope, body: _Body, send: Send) -> None:
        self._check_names(scope)
        if self._preflight(scope):
            await _allowed(send)
            return
        if scope["path"] not in self._rules.open or scope["method"] not in ("GET", "HEAD"):
            self._identify(visit, scope)
        who = visit.token.name if visit.token else _address(scope)
        self._limit(self._rate, who, "Too many requests.")
        stream = scope["path"] in self._rules.streams
        with self._place(stream), self._holding() as held:
            await body.read(self._rules, held)
            if stream:
                await self._stream(visit, scope, body, send)
                return
            try:
                async with asyncio.timeout(self._rules.request_seconds) as limit:
                    await self.app(scope, body.replay, send)
            except TimeoutError:
                if not limit.expired():
                    raise
                raise TimedOut(
                    f"There was no answer within {self._rules.request_seconds:g} seconds.",
                    hint="Ask again: a first search builds the index, which goes on where it was.",
                ) from None

    async def _stream(self, visit: Visit, scope: Scope, body: _Body, send: Send) -> None:
        """An answer that may last, but not longer than the token that it was asked for with."""

        async def answer(message: Message) -> None:
            if message.get("more_body") and not self._holds(visit):
                # Not an error: those who stream would log it, and some would go on.
                listening.cancel()
            if not listening.cancel_called:
                await send(message)

        with anyio.CancelScope() as listening:
            await self.app(scope, body.replay, answer)
        if listening.cancel_called:
            visit.code = Unauthorized.code
            await send({"type": "http.response.body", "body": b""})

    # -- who asks ----------------------------------------------------------------------------

    def _check_names(self, scope: Scope) -> None:
        """No page of another site may reach us, not even one whose name leads here."""
        hosts = _values(scope, b"host")
        # The address that the connection came in by, whatever the request says: a page that was
        # opened by it is ours, and a name that leads here is none.
        local = (scope.get("server") or ("",))[0]
        names = self._names | {_bracketed(local)}
        if len(hosts) != 1 or _name(hosts[0]) not in names:
            raise Misdirected(
                "This server does not answer to that name.",
                hint="Use the address it listens at, or add the name to serve.hosts.",
            )
        for origin in _values(scope, b"origin"):
            scheme, _, name = origin.partition("://")
            ours = scheme in ("http", "https") and _name(name) in names
            if not ours and origin not in self._rules.origins:
                raise ForeignOrigin(
                    "Pages of other sites may not ask this server.",
                    hint="Add the site to serve.origins if it is yours.",
                )

    def _identify(self, visit: Visit, scope: Scope) -> None:
        self._tokens.current()
        if not self._tokens.needed:
            return
        given = _values(scope, b"authorization")
        kind, _, presented = (given[0] if len(given) == 1 else "").partition(" ")
        token = self._tokens.owner(presented.strip()) if kind.lower() == "bearer" else None
        if token is None:
            if given:
                self._limit(self._wrong, _address(scope), "Too many wrong tokens.")
            raise Unauthorized(
                "The token is wrong." if given else "This server asks for a token.",
                hint="Send Authorization: Bearer TOKEN; lookfar tokens add NAME makes one.",
            )
        visit.token, visit.may_write = token, token.may_write
        # Of this request's task, and so of all that it starts: also of a session that it begins.
        REACHABLE.set(token.collections)

    def _holds(self, visit: Visit) -> bool:
        """Whether what let a request in would let it in now."""
        current = self._tokens.current()
        return not self._tokens.needed or visit.token in current

    def _preflight(self, scope: Scope) -> bool:
        """Whether a browser asks if a page of an admitted site may ask."""
        return (
            scope["method"] == "OPTIONS"
            and bool(_values(scope, b"access-control-request-method"))
            and bool(self._cors(scope))
        )

    def _cors(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """What lets a page of an admitted site read the answer."""
        for origin in _values(scope, b"origin"):
            if origin in self._rules.origins:
                return [
                    (b"access-control-allow-origin", origin.encode("latin-1")),
                    (b"access-control-expose-headers", b"x-request-id, mcp-session-id"),
                    (b"vary", b"origin"),
                ]
        return []

    # -- how much ----------------------------------------------------------------------------

    def _limit(self, buckets: Buckets, who: str, message: str) -> None:
        wait = buckets.take(who)
        if wait:
            raise RateLimited(
                message,
                hint=f"Wait {wait:.1f} seconds (serve.requests_per_second).",
                details={"retry_after": round(wait, 3)},
            )

    @contextmanager
    def _place(self, stream: bool) -> Iterator[None]:
        most = self._rules.max_concurrent * (_STREAMS if stream else 1)
        if self._busy[stream] >= most:
            raise ServerBusy(
                "The server answers as many requests as it may.",
                hint="Try again in a moment (serve.max_concurrent).",
            )
        self._busy[stream] += 1
        try:
            yield
        finally:
            self._busy[stream] -= 1

    @contextmanager
    def _holding(self) -> Iterator[_Held]:
        held = _Held(self)
        try:
            yield held
        finally:
            self._held -= held.bytes


class _Held:
    """What the bodies of one request take of the memory for all."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self.bytes = 0

    def add(self, count: int) -> None:
        self.bytes += count
        self._guard._held += count
        if self._guard._held > _BODIES * self._guard._rules.max_body_bytes:
            raise ServerBusy("Too many large requests at once.", hint="Try again in a moment.")


class _Body:
    """The body of a request: read once, with a bound, and then given to the application."""

    def __init__(self, receive: Receive, scope: Scope) -> None:
        self._receive = receive
        declared = _values(scope, b"content-length")
        self._declared = int(declared[0]) if declared and declared[0].isdigit() else 0
        self._ended = not self._declared and not _values(scope, b"transfer-encoding")
        self._parts: list[bytes] | None = []

    async def read(self, rules: Rules, held: _Held) -> None:
        most, size = rules.max_body_bytes, 0
        if self._declared > most:
            raise _too_large(most)
        try:
            async with asyncio.timeout(rules.body_seconds):
                while not self._ended:
                    part = await self._next()
                    size += len(part)
                    if size > most:
                        raise _too_large(most)
                    held.add(len(part))
                    if self._parts is not None:
                        self._parts.append(part)
        except TimeoutError:
            raise BodyTooSlow(
                f"The request did not arrive within {rules.body_seconds:g} seconds.",
                hint="Send it faster, or send less (serve.body_seconds).",
            ) from None

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise _ClientLeft
        self._ended = not message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part

    async def replay(self) -> Message:
        """What the application receives: the body at once, then whatever else happens."""
        if self._parts is not None:
            body, self._parts = b"".join(self._parts), None
            return {"type": "http.request", "body": body, "more_body": False}
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return message

    async def drained(self, large: bool) -> bool:
        """Read the rest and forget it; false where that is too much to ask."""
        left = _LEFT_OVER_LARGE if large else _LEFT_OVER
        try:
            async with asyncio.timeout(_PATIENCE):
                while not self._ended and left > 0:
                    left -= len(await self._next())
        except (TimeoutError, _ClientLeft):
            return False
        return self._ended


class Buckets:
    """A rate for each client: tokens drip into its bucket, and each request takes one."""

    def __init__(self, per_second: float) -> None:
        self._rate = per_second
        self._size = max(per_second * _BURST_SECONDS, 1.0)
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> float:
        """Take one; seconds to wait where there is none, else 0."""
        if not self._rate:
            return 0.0
        now = time.monotonic()
        level, since = self._clients.pop(client, (self._size, now))
        level = min(self._size, level + (now - since) * self._rate)
        wait = 0.0 if level >= 1 else (1 - level) / self._rate
        self._clients[client] = (level if wait else level - 1, now)
        if len(self._clients) > _MOST_CLIENTS:
            self._clients.popitem(last=False)
        return wait


def _too_large(most: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"The request is larger than {most:,} bytes.",
        hint="Send less at once (serve.max_body_bytes).",
    )


async def _allowed(send: Send) -> None:
    headers = [
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", _ALLOWED_HEADERS + _MCP_HEADERS),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _values(scope: Scope, wanted: bytes) -> Sequence[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == wanted]


def _request_id(scope: Scope) -> str:
    """The client's own, where it can be repeated without harm."""
    given = _values(scope, b"x-request-id")
    if len(given) == 1 and _ID.fullmatch(given[0]):
        return given[0]
    return secrets.token_hex(8)


def _name(host: str) -> str:
    """A host without its port, in small letters; an IPv6 address stands in brackets."""
    name, colon, port = host.rpartition(":")
    if host.startswith("["):
        name, _, port = host.partition("]")
        name, colon, port = name + "]", port[:1], port[1:]
    elif not colon:
        name, port = host, ""
    # Anything but a port behind the name makes it another name.
    return name.lower() if not colon or (port.isascii() and port.isdigit()) else ""


def _bracketed(address: str | None) -> str:
    """An address of this machine as a request would name it; the one it came in by."""
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return LOOPBACK[0]
    # A socket for both families has IPv4 addresses in the dress of IPv6.
    found = getattr(found, "ipv4_mapped", None) or found
    return f"[{found}]" if found.version == 6 else str(found)


def _address(scope: Any) -> str:
    """Whom to count requests for: an address, or the network of one in IPv6."""
    address: str = (scope.get("client") or ("",))[0]
    if ":" not in address:
        return address
    return ":".join(ipaddress.ip_address(address.partition("%")[0]).exploded.split(":")[:4])
