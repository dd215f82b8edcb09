"""``lookfar serve``: an HTTP server in the foreground until it is interrupted.

It closes connections beyond its limit, and those that do not send a complete request in time or do
not read their response.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final

import anyio
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from lookfar import __version__, config
from lookfar.common.garbage import collect_seldom
from lookfar.errors import InvalidArgument, InvalidConfig, LookfarError
from lookfar.serve.daemon.pool import Pool
from lookfar.serve.daemon.readers import Opening, Readers
from lookfar.serve.daemon.services import (
    Offer,
    load_request_settings,
    log_foreign,
    read_overrides,
    resolve_roots,
)
from lookfar.serve.http.app import make_app
from lookfar.serve.http.log_lines import logging_to
from lookfar.serve.http.metrics import Metrics
from lookfar.serve.http.oauth.addresses import is_loopback
from lookfar.serve.http.probes import Stopping
from lookfar.serve.http.statuses import error_response
from lookfar.serve.http.tokens import Tokens
from lookfar.serve.http.visits import Watch
from lookfar.serve.mcp.changes import Changes

if TYPE_CHECKING:
    from types import FrameType

    from lookfar.config import ServeSettings
    from lookfar.serve.daemon.endpoint import ClientRequest
    from lookfar.serve.http.oauth.sign_in import SignIn
    from lookfar.serve.http.traces import Traces

_log = logging.getLogger("lookfar.server")
_DRAIN_STEP_SECONDS: Final = 0.1
"""How often a draining server checks whether it was interrupted again."""
_KEEP_ALIVE_SECONDS: Final = 60
"""How long a connection without requests stays open."""
_HEAD_SECONDS: Final = 10.0
"""How long the head of a request may take to arrive."""
_UNREAD_SECONDS: Final = 60.0
"""How long a client may take without reading anything of its response."""
_MAX_CONNECTIONS: Final = 1000
_BACKLOG: Final = 512
"""Connections that the system queues until they are accepted."""


class TokenNeeded(LookfarError):
    """Other machines can reach the server, and there is no token to protect it."""

    code = "TOKEN_NEEDED"
    exit_code = 2


class _Server(uvicorn.Server):
    """A server that stops in steps: it accepts no requests, ends streams and finishes answers."""

    def __init__(
        self,
        config: uvicorn.Config,
        changes: Changes,
        stop: Stopping,
        drain_seconds: float,
        on_started: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._on_started = on_started
        self._changes = changes
        self._stop = stop
        self._drain_seconds = drain_seconds
        self._drains = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at the first signal, and at once at the second one."""
        if sig == signal.SIGINT:
            self._drains = False  # After Ctrl-C there is no load balancer to wait for.
            super().handle_exit(sig, frame)
        # Uvicorn would repeat SIGTERM at the end, which kills the process before it closes its
        # index and writes the end of its log.
        elif self.should_exit:
            self._drains, self.force_exit = False, True
        else:
            self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            # Not earlier: before uvicorn handles signals, a signal would kill the process.
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stop.draining = True
        _log.info("stopping")
        await self._drain()
        self._changes.close()  # Event streams would keep the server running forever.
        await super().shutdown(sockets)

    async def _drain(self) -> None:
        until = time.monotonic() + self._drain_seconds
        while self._drains and time.monotonic() < until:
            await anyio.sleep(_DRAIN_STEP_SECONDS)


class _Connection(H11Protocol):
    """A connection with time limits for its client.

    Uvicorn has no limit for the head of a request, and closing a connection waits until the client
    has read everything. Its protocol class is not documented API: see ``test_private_names.py``.
    """

    head_seconds: ClassVar[float] = _HEAD_SECONDS
    unread_seconds: ClassVar[float] = _UNREAD_SECONDS
    limit: ClassVar[int] = _MAX_CONNECTIONS
    _head_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # With a limit of 0, writing pauses as soon as anything is unread.
        transport.set_write_buffer_limits(0)
        if len(self.connections) > self.limit:
            transport.abort()
        else:
            self._start_head_timer()

    def data_received(self, data: bytes) -> None:
        if not self._responding:
            self._start_head_timer()
        super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        if self._responding:
            self._stop_head_timer()

    def on_response_complete(self) -> None:
        # Uvicorn's own limit applies until the next request begins.
        self._stop_head_timer()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_read_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_read_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_head_timer()
        self._stop_read_timer()

    def send_400_response(self, msg: str) -> None:
        """Refuse data that is not HTTP, with an error in the usual shape."""
        response = error_response(InvalidArgument(msg, hint="Use HTTP/1.1."))
        head = "".join(f"{k}: {v}\r\n" for k, v in response.headers.items())
        start = f"HTTP/1.1 {response.status_code} Bad Request\r\n{head}connection: close\r\n\r\n"
        self.transport.write(start.encode("latin-1") + bytes(response.body))
        self.transport.close()

    @property
    def _responding(self) -> bool:
        cycle: Any = self.cycle  # None before the first request.
        return cycle is not None and not cycle.response_complete

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_seconds, self._abort_late_head)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _abort_late_head(self) -> None:
        self._head_timer = None
        self.transport.abort()

    def _start_read_timer(self) -> None:
        unread = self.transport.get_write_buffer_size()
        self._stop_read_timer()
        self._read_timer = self.loop.call_later(self.unread_seconds, self._check_reading, unread)

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _check_reading(self, before: int) -> None:
        """Abort the connection if the client read nothing; a slow client may continue."""
        if self.transport.get_write_buffer_size() < before:
            self._start_read_timer()
        else:
            self.transport.abort()


def listen(request: ClientRequest, on_ready: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; ``on_ready`` gets the address once the server accepts connections."""
    roots = resolve_roots(request)
    loaded = load_request_settings(request, *roots[:1])
    settings, offer = loaded.serve, Offer.from_settings(loaded)
    tokens = Tokens(config.tokens_file(settings, request.env), config.read_tokens(request.env))
    if not (tokens.needed or settings.oauth_issuer or is_loopback(settings.host)):
        raise TokenNeeded(
            f"Other machines can reach {settings.host}, and there is no token to protect it.",
            hint="Create one first: lookfar tokens add NAME. Or serve at 127.0.0.1.",
        )
    with ExitStack() as stack:
        traces = stack.enter_context(_tracing(settings))
        bound = stack.enter_context(_open_socket(settings.host, settings.port))
        address = _format_url(settings.host, bound)
        sign_in = _open_sign_in(settings, address)
        stack.enter_context(logging_to(settings.log_file, settings.log_level))
        log_foreign(loaded)
        changes = Changes()
        pool = Pool()
        stack.callback(pool.close)
        readers = _start_readers(request, roots, settings.workers)
        if readers is not None:
            stack.callback(readers.close)
        session = stack.enter_context(
            pool.session(
                roots,
                settings=read_overrides(request),
                environ=request.env,
                write=offer.write,
                changes=changes,
                index_at_start=offer.index_at_start,
                # Watch from the start, so that changes before the first search are kept, too.
                follow_at_start=True,
                readers=readers,
            )
        )
        stop = Stopping()
        app = make_app(
            offer.make_server(session, changes),
            session,
            offer.tools_by_name,
            settings,
            tokens=tokens,
            watch=_make_watch(settings, traces),
            stopping=lambda: changes.closed,
            stop=stop,
            sign_in=sign_in,
        )
        collect_seldom()

        def announce() -> None:
            on_ready(address)
            _log.info("started", extra={"address": address, "version": __version__})

        uvicorn_config = _configure(app, settings)
        server = _Server(uvicorn_config, changes, stop, settings.drain_seconds, announce)
        anyio.run(_serve, server, bound, changes)


def _open_sign_in(settings: ServeSettings, address: str) -> SignIn | None:
    """Return the object that checks the tokens of an issuer; None if no issuer is configured."""
    if not settings.oauth_issuer:
        _refuse_missing_issuer(settings)
        return None
    from lookfar.serve.http.oauth.sign_in import SignIn

    return SignIn(settings, address)


def _refuse_missing_issuer(settings: ServeSettings) -> None:
    """Refuse settings for signing in that have no effect: the server may be open without them."""
    for key in ("oauth_resource", "oauth_audience", "oauth_jwks_url", "oauth_scopes"):
        if getattr(settings, key):
            raise InvalidConfig(
                f"serve.{key} is set, but serve.oauth_issuer is not, so users cannot sign in.",
                hint=f"Set serve.oauth_issuer, or remove serve.{key}.",
                details={"key": "serve.oauth_issuer"},
            )


def _make_watch(settings: ServeSettings, traces: Traces | None) -> Watch:
    return Watch(
        Metrics() if settings.metrics else None,
        traces,
        log_requests=settings.access_log,
        log_arguments=settings.log_arguments,
    )


def _configure(app: Any, settings: ServeSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_Connection,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        ws="none",
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        # Declared as int, but uvicorn only compares it with a time, so fractions work.
        timeout_graceful_shutdown=settings.grace_seconds,  # type: ignore[arg-type]
    )


async def _serve(server: _Server, bound: socket.socket, changes: Changes) -> None:
    changes.bind_loop()
    await server.serve(sockets=[bound])


def _start_readers(request: ClientRequest, roots: list[str], workers: int) -> Readers | None:
    """Start the processes that answer questions; none if this process answers alone."""
    if workers == 1:
        return None
    return Readers(Opening(tuple(roots), read_overrides(request), request.env), workers)


@contextmanager
def _tracing(settings: ServeSettings) -> Iterator[Traces | None]:
    if not settings.traces:
        yield None
        return
    from lookfar.serve.http.traces import Traces

    traces = Traces()
    try:
        yield traces
    finally:
        traces.close()


def _format_url(host: str, bound: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{bound.getsockname()[1]}/mcp"


@contextmanager
def _open_socket(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets with this protocol number. Without it, 40 ms pass
    # between the head of a response and its body.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as bound:
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((host, port))
            bound.listen(_BACKLOG)  # From here on clients can connect.
        except OSError as error:
            raise InvalidArgument(
                f"Cannot listen at {host}:{port}: {error.strerror}.",
                hint="Choose another address with --host and --port; port 0 picks a free port.",
            ) from error
        yield bound
