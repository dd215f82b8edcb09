"""A server over HTTP in the foreground: ``lookfar serve``.

Takes: a request that says what to serve and how. Gives: an answering server until it is
interrupted. Refuses, with a typed error before anything starts: an address that is taken,
and one that others can reach while there is no token. Later it closes connections that
send no whole request in time or do not read their answer, and more of them than it can serve.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final

import anyio
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from lookfar import config
from lookfar.errors import InvalidArgument, LookfarError
from lookfar.serve.daemon.pool import Pool
from lookfar.serve.daemon.services import (
    Offer,
    load_request_settings,
    read_overrides,
    resolve_roots,
)
from lookfar.serve.http.app import make_app
from lookfar.serve.http.log_lines import logging_to
from lookfar.serve.http.metrics import Metrics
from lookfar.serve.http.statuses import refused
from lookfar.serve.http.tokens import Tokens
from lookfar.serve.http.visits import Watch
from lookfar.serve.mcp.changes import Changes

if TYPE_CHECKING:
    from lookfar.config import ServeSettings
    from lookfar.serve.daemon.endpoint import ClientRequest
    from lookfar.serve.http.traces import Traces


_GRACE_SECONDS: Final = 3
"""How long calls under way may go on after Ctrl-C."""
_KEPT_SECONDS: Final = 60
"""How long a connection without requests stays open."""
_HEAD_SECONDS: Final = 10.0
"""How long the head of a request may take to arrive."""
_UNREAD_SECONDS: Final = 60.0
"""How long a client may take none of what waits for it."""
_MOST_CONNECTIONS: Final = 1000
_WAITING: Final = 512
"""Connections that the system takes before we do."""


class TokenNeeded(LookfarError):
    """Others could reach the server, and nothing would tell them from its owner."""

    code = "TOKEN_NEEDED"
    exit_code = 2


class _Server(uvicorn.Server):
    """One that first ends the streams of those who listen: they would keep it for ever."""

    def __init__(self, config: uvicorn.Config, changes: Changes) -> None:
        super().__init__(config)
        self._changes = changes

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._changes.close()
        await super().shutdown(sockets)


class _Connection(H11Protocol):
    """One that does not wait for ever.

    Uvicorn by itself has no limit for the head of a request, and closing a connection waits until
    all is read that was written.
    """

    head_seconds: ClassVar[float] = _HEAD_SECONDS
    unread_seconds: ClassVar[float] = _UNREAD_SECONDS
    most: ClassVar[int] = _MOST_CONNECTIONS
    _deadline: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Then writing pauses whenever something waits, be it ever so little.
        transport.set_write_buffer_limits(0)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self._await_head()

    def data_received(self, data: bytes) -> None:
        if not self._under_way:
            self._await_head()
        super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        if self._under_way:
            self._has_head()

    def on_response_complete(self) -> None:
        # From here on uvicorn's own limit holds, until the next request begins.
        self._has_head()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_read()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._has_head()
        self._is_read()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is refused in the shape of all our errors."""
        error = InvalidArgument(msg, hint="Speak HTTP/1.1.")
        response = refused(error)
        head = "".join(f"{k}: {v}\r\n" for k, v in response.headers.items())
        start = f"HTTP/1.1 {response.status_code} Bad Request\r\n{head}connection: close\r\n\r\n"
        self.transport.write(start.encode("latin-1") + bytes(response.body))
        self.transport.close()

    @property
    def _under_way(self) -> bool:
        cycle: Any = self.cycle  # Before the first request there is none.
        return cycle is not None and not cycle.response_complete

    def _await_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.head_seconds, self._too_late)

    def _has_head(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        self.transport.abort()

    def _await_reading(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._is_read()
        self._reading = self.loop.call_later(self.unread_seconds, self._look, waiting)

    def _is_read(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _look(self, waiting: int) -> None:
        """Whoever reads slowly reads: only where nothing went is nobody there."""
        if self.transport.get_write_buffer_size() < waiting:
            self._await_reading()
        else:
            self.transport.abort()


def listen(request: ClientRequest, tell: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; ``tell`` gets the address once it answers."""
    roots = resolve_roots(request)
    chosen = load_request_settings(request, roots[0]).serve
    offer = Offer.from_settings(chosen)
    tokens = Tokens(config.tokens_file(chosen, request.env), config.read_tokens(request.env))
    if not tokens.needed and not _is_loopback(chosen.host):
        raise TokenNeeded(
            f"Others can reach {chosen.host}, and there is no token to ask them for.",
            hint="Make one first: lookfar tokens add NAME. Or serve at 127.0.0.1.",
        )
    with ExitStack() as opened:
        traces = opened.enter_context(_tracing(chosen))
        bound = opened.enter_context(_bound(chosen.host, chosen.port))
        changes = Changes()
        pool = Pool()
        opened.callback(pool.close)
        session = opened.enter_context(
            pool.session(
                roots,
                settings=read_overrides(request),
                environ=request.env,
                write=offer.write,
                changes=changes,
            )
        )
        watch = Watch(
            Metrics() if chosen.metrics else None, traces, log_arguments=chosen.log_arguments
        )
        app = make_app(
            offer.server(session, changes),
            session,
            offer.named,
            chosen,
            tokens=tokens,
            watch=watch,
            ending=lambda: changes.closed,
        )
        opened.enter_context(logging_to(chosen.log_file, chosen.log_level))
        anyio.run(_serve, app, bound, changes, lambda: tell(_address(chosen.host, bound)))


async def _serve(
    app: Any, bound: socket.socket, changes: Changes, ready: Callable[[], None]
) -> None:
    changes.begin()
    server = _Server(
        uvicorn.Config(
            app,
            http=_Connection,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            ws="none",
            timeout_keep_alive=_KEPT_SECONDS,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        ),
        changes,
    )
    ready()
    await server.serve(sockets=[bound])


@contextmanager
def _tracing(chosen: ServeSettings) -> Iterator[Traces | None]:
    if not chosen.traces:
        yield None
        return
    from lookfar.serve.http.traces import Traces

    traces = Traces()
    try:
        yield traces
    finally:
        traces.close()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _address(host: str, bound: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{bound.getsockname()[1]}/mcp"


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only of sockets that say they are TCP does asyncio send small packets at once; others
    # would wait 40 ms for the client between the head of an answer and its body.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as bound:
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((host, port))
            bound.listen(_WAITING)  # From here on whoever is told the address can connect.
        except OSError as error:
            raise InvalidArgument(
                f"Cannot listen at {host}:{port}: {error.strerror}.",
                hint="Choose another with --host and --port; port 0 is any free one.",
            ) from error
        yield bound
