"""The guard around everything that is served over HTTP, including routes that are added later.

It refuses requests that name another host (421), come from a page of another site (403), lack a
valid token where one is required (401), have a token that allows nothing (403), are too many (429,
503), too large (413) or too slow (408), or take too long to answer (504). It reads request bodies
completely.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import anyio

from lookfar.errors import LookfarError
from lookfar.serve.http import statuses
from lookfar.serve.http.buckets import Buckets
from lookfar.serve.http.grants import Grant, grant_for
from lookfar.serve.http.log_lines import REQUEST_ID
from lookfar.serve.http.tokens import Tokens
from lookfar.serve.http.visits import KEY, LIVE, PROBES, Visit, Watch

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from lookfar.serve.http.oauth.sign_in import SignIn

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")

_log = logging.getLogger("lookfar.http")
_ID: Final = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}", re.A)
_WRONG_TOKENS_PER_SECOND: Final = 2.0
_BODIES: Final = 4
"""How many bodies of the largest size may be in memory at once."""
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

    def __init__(
        self,
        app: ASGIApp,
        rules: Rules,
        tokens: Tokens,
        watch: Watch,
        sign_in: SignIn | None = None,
    ) -> None:
        self.app = app
        self._rules = rules
        self._tokens = tokens
        self._sign_in = sign_in
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
        REQUEST_ID.set(visit.id)  # Applies to this task, which handles one request.
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
            await self._authorize(visit, scope)
        # Probes have no limit: they come from the load balancer, like the requests of its clients.
        if scope["path"] not in PROBES:
            client = visit.grant.client if visit.grant else _client_address(scope)
            self._limit(self._rate, client, "Too many requests", "serve.requests_per_second")
        stream = scope["path"] in self._rules.streams
        # /livez needs no slot: a busy server is alive, and must not be restarted.
        slot = nullcontext() if scope["path"] == LIVE else self._reserve_slot(stream)
        with slot, self._reserve_memory() as memory:
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

    async def _authorize(self, visit: Visit, scope: Scope) -> None:
        self._tokens.current()
        if not self._tokens.needed and self._sign_in is None:
            return
        given = _values(scope, b"authorization")
        kind, _, presented = (given[0] if len(given) == 1 else "").partition(" ")
        grant = None
        reason = "The token is wrong." if given else ""
        if kind.lower() == "bearer":
            grant, reason = await self._find_grant(presented.strip(), scope)
        elif given:
            self._count_wrong_token(scope)
        if grant is None:
            visit.reason = reason
            raise self._make_refusal(reason)
        visit.grant = grant
        # Applies to this task and those it starts, including an MCP session that begins here.
        grant.limit_reach(changes=False)

    async def _find_grant(self, presented: str, scope: Scope) -> tuple[Grant | None, str]:
        """Return what a token allows, or why it is refused."""
        token = self._tokens.owner(presented)
        if token is not None:
            return grant_for(token), ""
        if self._sign_in is None:
            self._count_wrong_token(scope)
            return None, "The token is wrong."
        from lookfar.serve.http.oauth.token_checks import Refused

        try:
            return await self._sign_in.check(presented), ""
        except Refused as refused:
            if not refused.signed:
                self._count_wrong_token(scope)
            return None, refused.reason

    def _count_wrong_token(self, scope: Scope) -> None:
        self._limit(self._wrong_tokens, _client_address(scope), "Too many wrong tokens")

    def _make_refusal(self, reason: str) -> statuses.Unauthorized:
        hint = "Send Authorization: Bearer TOKEN; lookfar tokens add NAME creates one."
        if self._sign_in is not None:
            hint = f"Sign in at {self._sign_in.issuer}, or ask for a token."
        error = statuses.Unauthorized(reason or "This server requires a token.", hint=hint)
        if self._sign_in is not None:
            error.challenge = self._sign_in.challenge(reason)
        return error

    def _is_still_authorized(self, visit: Visit) -> bool:
        current = self._tokens.current()
        if visit.grant is None:
            return not self._tokens.needed and self._sign_in is None
        return time.time() < visit.grant.expires and (
            visit.grant.token is None or visit.grant.token in current
        )

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
                    (
                        b"access-control-expose-headers",
                        b"x-request-id, mcp-session-id, www-authenticate",
                    ),
                    (b"vary", b"origin"),
                ]
        return []

    # -- limits ------------------------------------------------------------------------------

    def _limit(self, buckets: Buckets, client: str, reason: str, setting: str = "") -> None:
        """Refuse a client that has used up its tokens; ``setting`` names the limit, if any does."""
        wait = buckets.take(client)
        if wait:
            raise statuses.RateLimited(
                f"{reason}.",
                hint=f"Wait {wait:.1f} seconds{f' ({setting})' if setting else ''}.",
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
    """Return the key of a client for the rate limit: its IPv4 address, or its IPv6 /64 network."""
    address: str = (scope.get("client") or ("",))[0]
    if ":" not in address:
        return address
    return ":".join(ipaddress.ip_address(address.partition("%")[0]).exploded.split(":")[:4])
