"""The guard around everything that is served over HTTP, including routes that are added later.

It refuses requests that name another host (421) or come from a page of another site (403), requests
without a valid token where tokens are required (401), too many (429, 503), too large (413) or too
slow (408) ones, and responses that take too long (504). Request bodies are read here completely.
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
from lookfar.serve.http import statuses
from lookfar.serve.http.tokens import Tokens
from lookfar.serve.http.visits import KEY, Visit, Watch
from lookfar.serve.tools.tool import REACHABLE

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")

_log = logging.getLogger("lookfar.http")
_ID: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}", re.A)
_BURST_SECONDS: Final = 2.0
"""A client may exceed its rate by what accumulates in this time."""
_WRONG_TOKENS_PER_SECOND: Final = 2.0
_MAX_CLIENTS: Final = 10_000
_BODIES: Final = 4
"""Bodies of the largest size that may be in memory at the same time."""
_STREAMS: Final = 4
"""Streams allowed per concurrent request: they are long but cost little."""
_DRAIN_SECONDS: Final = 2.0
_DRAIN_BYTES: Final = 1 << 20
"""How much of a refused request is still read, so that its client can read the response."""
_DRAIN_BYTES_LARGE: Final = 64 << 20
_SECURITY_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    # A browser that opens data as a page must not run anything in it.
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
_ALLOWED_HEADERS: Final = b"authorization, content-type, accept, x-request-id, mcp-session-id,"
_MCP_HEADERS: Final = b" mcp-protocol-version, mcp-method, mcp-name, last-event-id, traceparent"


@dataclass(frozen=True, slots=True)
class Rules:
    names: tuple[str, ...] = LOOPBACK
    """Accepted host names, without port; an IPv6 address in brackets."""
    origins: tuple[str, ...] = ()
    """Other sites whose pages may send requests."""
    max_body_bytes: int = 32 << 20
    body_seconds: float = 20.0
    request_seconds: float = 120.0
    requests_per_second: float = 0.0
    max_concurrent: int = 128
    streams: frozenset[str] = frozenset()
    """Paths with responses that last as long as the client listens."""
    open: frozenset[str] = frozenset()
    """Paths that need no token for GET: static files without user data."""


class _ClientLeft(Exception):
    """The client disconnected, so there is no one to respond to."""


class Guard:
    """An ASGI application that wraps another one."""

    def __init__(self, app: ASGIApp, rules: Rules, tokens: Tokens, watch: Watch) -> None:
        self.app = app
        self._rules = rules
        self._tokens = tokens
        self._watch = watch
        self._names = frozenset(name.lower() for name in rules.names)
        self._rate = Buckets(rules.requests_per_second)
        self._wrong_tokens = Buckets(_WRONG_TOKENS_PER_SECOND)
        self._running = {False: 0, True: 0}
        self._body_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._handle(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        visit = Visit(_request_id(scope), scope["method"])
        scope[KEY] = visit
        extra = [(b"x-request-id", visit.id.encode("ascii")), *self._cors_headers(scope)]

        async def respond(message: Message) -> None:
            if message["type"] == "http.response.start":
                visit.status = message["status"]
                headers = list(message.get("headers", ()))
                names = {name.lower() for name, _ in headers}
                headers += [header for header in _SECURITY_HEADERS if header[0] not in names]
                message = {**message, "headers": [*headers, *extra]}
            await send(message)

        with self._watch.request(visit, scope):
            body = _Body(receive, scope)
            try:
                await self._admit(visit, scope, body, respond)
            except _ClientLeft:
                return
            except Exception as error:
                failure = (
                    error if isinstance(error, LookfarError) else statuses.wrap_unexpected(error)
                )
                if failure is not error:
                    _log.exception("internal error", extra={"request_id": visit.id})
                if visit.status:
                    return  # The response has begun, so it can only be cut off.
                visit.code = failure.code
                response = statuses.error_response(failure)
                if not await body.drain(large=isinstance(failure, statuses.BodyTooLarge)):
                    response.headers["connection"] = "close"
                await response(scope, receive, respond)

    async def _admit(self, visit: Visit, scope: Scope, body: _Body, send: Send) -> None:
        self._check_names(scope)
        if self._is_preflight(scope):
            await _answer_preflight(send)
            return
        if scope["path"] not in self._rules.open or scope["method"] not in ("GET", "HEAD"):
            self._authorize(visit, scope)
        client = visit.token.name if visit.token else _client_address(scope)
        self._limit(self._rate, client, "Too many requests.")
        stream = scope["path"] in self._rules.streams
        with self._reserve_slot(stream), self._reserve_memory() as memory:
            await body.read(self._rules, memory)
            if stream:
                await self._stream(visit, scope, body, send)
                return
            try:
                async with asyncio.timeout(self._rules.request_seconds) as limit:
                    await self.app(scope, body.replay, send)
            except TimeoutError:
                if not limit.expired():
                    raise
                raise statuses.TimedOut(
                    f"There was no response within {self._rules.request_seconds:g} seconds.",
                    hint="Send it again: a first search indexes, and resumes where it stopped.",
                ) from None

    async def _stream(self, visit: Visit, scope: Scope, body: _Body, send: Send) -> None:
        """Send a long response, but end it when its token is no longer valid."""

        async def respond(message: Message) -> None:
            if message.get("more_body") and not self._is_still_authorized(visit):
                # Cancel instead of raising: streams would log an error, and some would go on.
                listening.cancel()
            if not listening.cancel_called:
                await send(message)

        with anyio.CancelScope() as listening:
            await self.app(scope, body.replay, respond)
        if listening.cancel_called:
            visit.code = statuses.Unauthorized.code
            await send({"type": "http.response.body", "body": b""})

    # -- authorization -----------------------------------------------------------------------

    def _check_names(self, scope: Scope) -> None:
        """Refuse pages of other sites, even if their name resolves to this machine."""
        hosts = _values(scope, b"host")
        # The address of the connection itself is accepted, whatever the request says: a page
        # opened under it is ours. A name that resolves to it is not.
        local = (scope.get("server") or ("",))[0]
        names = self._names | {_format_address(local)}
        if len(hosts) != 1 or _parse_host(hosts[0]) not in names:
            raise statuses.Misdirected(
                "This server does not accept that host name.",
                hint="Use the address it listens at, or add the name to serve.hosts.",
            )
        for origin in _values(scope, b"origin"):
            scheme, _, name = origin.partition("://")
            ours = scheme in ("http", "https") and _parse_host(name) in names
            if not ours and origin not in self._rules.origins:
                raise statuses.ForeignOrigin(
                    "Pages of other sites may not use this server.",
                    hint="Add the site to serve.origins if it is yours.",
                )

    def _authorize(self, visit: Visit, scope: Scope) -> None:
        self._tokens.current()
        if not self._tokens.needed:
            return
        given = _values(scope, b"authorization")
        kind, _, presented = (given[0] if len(given) == 1 else "").partition(" ")
        token = self._tokens.owner(presented.strip()) if kind.lower() == "bearer" else None
        if token is None:
            if given:
                self._limit(self._wrong_tokens, _client_address(scope), "Too many wrong tokens.")
            raise statuses.Unauthorized(
                "The token is wrong." if given else "This server requires a token.",
                hint="Send Authorization: Bearer TOKEN; lookfar tokens add NAME creates one.",
            )
        visit.token, visit.may_write = token, token.may_write
        # Set for this task and those it starts, including an MCP session that begins here.
        REACHABLE.set(token.collections)

    def _is_still_authorized(self, visit: Visit) -> bool:
        current = self._tokens.current()
        return not self._tokens.needed or visit.token in current

    def _is_preflight(self, scope: Scope) -> bool:
        """Return whether this is a CORS preflight request of an allowed site."""
        return (
            scope["method"] == "OPTIONS"
            and bool(_values(scope, b"access-control-request-method"))
            and bool(self._cors_headers(scope))
        )

    def _cors_headers(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Return the headers that let a page of an allowed site read the response."""
        for origin in _values(scope, b"origin"):
            if origin in self._rules.origins:
                return [
                    (b"access-control-allow-origin", origin.encode("latin-1")),
                    (b"access-control-expose-headers", b"x-request-id, mcp-session-id"),
                    (b"vary", b"origin"),
                ]
        return []

    # -- limits ------------------------------------------------------------------------------

    def _limit(self, buckets: Buckets, client: str, message: str) -> None:
        wait = buckets.take(client)
        if wait:
            raise statuses.RateLimited(
                message,
                hint=f"Wait {wait:.1f} seconds (serve.requests_per_second).",
                details={"retry_after": round(wait, 3)},
            )

    @contextmanager
    def _reserve_slot(self, stream: bool) -> Iterator[None]:
        most = self._rules.max_concurrent * (_STREAMS if stream else 1)
        if self._running[stream] >= most:
            raise statuses.ServerBusy(
                "The server is handling its maximum number of requests.",
                hint="Try again in a moment (serve.max_concurrent).",
            )
        self._running[stream] += 1
        try:
            yield
        finally:
            self._running[stream] -= 1

    @contextmanager
    def _reserve_memory(self) -> Iterator[_BodyMemory]:
        memory = _BodyMemory(self)
        try:
            yield memory
        finally:
            self._body_bytes -= memory.bytes


class _BodyMemory:
    """The memory that the body of one request takes, out of a limit for all bodies."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self.bytes = 0

    def add(self, count: int) -> None:
        self.bytes += count
        self._guard._body_bytes += count
        if self._guard._body_bytes > _BODIES * self._guard._rules.max_body_bytes:
            raise statuses.ServerBusy(
                "Too many large requests at once.", hint="Try again in a moment."
            )


class _Body:
    """The body of a request: read once, with a limit, and then replayed to the application."""

    def __init__(self, receive: Receive, scope: Scope) -> None:
        self._receive = receive
        declared = _values(scope, b"content-length")
        self._declared = int(declared[0]) if declared and declared[0].isdigit() else 0
        self._ended = not self._declared and not _values(scope, b"transfer-encoding")
        self._parts: list[bytes] | None = []

    async def read(self, rules: Rules, memory: _BodyMemory) -> None:
        limit, size = rules.max_body_bytes, 0
        if self._declared > limit:
            raise _too_large(limit)
        try:
            async with asyncio.timeout(rules.body_seconds):
                while not self._ended:
                    part = await self._next()
                    size += len(part)
                    if size > limit:
                        raise _too_large(limit)
                    memory.add(len(part))
                    if self._parts is not None:
                        self._parts.append(part)
        except TimeoutError:
            raise statuses.BodyTooSlow(
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
        """Give the application the whole body, and then the disconnect."""
        if self._parts is not None:
            body, self._parts = b"".join(self._parts), None
            return {"type": "http.request", "body": body, "more_body": False}
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return message

    async def drain(self, *, large: bool) -> bool:
        """Discard the rest of the body; return ``False`` if it is too large or too slow."""
        left = _DRAIN_BYTES_LARGE if large else _DRAIN_BYTES
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                while not self._ended and left > 0:
                    left -= len(await self._next())
        except (TimeoutError, _ClientLeft):
            return False
        return self._ended


class Buckets:
    """A token bucket per client, which limits its request rate."""

    def __init__(self, per_second: float) -> None:
        self._rate = per_second
        self._size = max(per_second * _BURST_SECONDS, 1.0)
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> float:
        """Take a token; return 0, or the seconds to wait if the bucket is empty."""
        if not self._rate:
            return 0.0
        now = time.monotonic()
        level, since = self._clients.pop(client, (self._size, now))
        level = min(self._size, level + (now - since) * self._rate)
        wait = 0.0 if level >= 1 else (1 - level) / self._rate
        self._clients[client] = (level if wait else level - 1, now)
        if len(self._clients) > _MAX_CLIENTS:
            self._clients.popitem(last=False)
        return wait


def _too_large(limit: int) -> statuses.BodyTooLarge:
    return statuses.BodyTooLarge(
        f"The request is larger than {limit:,} bytes.",
        hint="Send a smaller request (serve.max_body_bytes).",
    )


async def _answer_preflight(send: Send) -> None:
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
    """Return the client's own id if it is safe to repeat, otherwise a new one."""
    given = _values(scope, b"x-request-id")
    if len(given) == 1 and _ID.fullmatch(given[0]):
        return given[0]
    return secrets.token_hex(8)


def _parse_host(host: str) -> str:
    """Return a host in lower case without its port; an IPv6 address keeps its brackets."""
    name, colon, port = host.rpartition(":")
    if host.startswith("["):
        name, _, port = host.partition("]")
        name, colon, port = name + "]", port[:1], port[1:]
    elif not colon:
        name, port = host, ""
    # Anything but a port after the colon makes the host invalid.
    return name.lower() if not colon or (port.isascii() and port.isdigit()) else ""


def _format_address(address: str | None) -> str:
    """Return the local address of a connection as a Host header would name it."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return LOOPBACK[0]
    # A dual-stack socket reports IPv4-mapped IPv6 addresses.
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    return f"[{parsed}]" if parsed.version == 6 else str(parsed)


def _client_address(scope: Any) -> str:
    """Return what the rate limit counts by: an IPv4 address, or the /64 network of IPv6."""
    address: str = (scope.get("client") or ("",))[0]
    if ":" not in address:
        return address
    return ":".join(ipaddress.ip_address(address.partition("%")[0]).exploded.split(":")[:4])
