"""A server over HTTP in the foreground: ``lookfar serve``.

Takes: a hello that says what to serve and how. Gives: an answering server until it is
interrupted. Refuses: an address that is taken, with a typed error before anything starts.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
import uvicorn

from lookfar.errors import InvalidArgument
from lookfar.serve.changes import Changes
from lookfar.serve.http import make_app
from lookfar.serve.pool import Pool
from lookfar.serve.services import Offer, explicit_of, roots_of, settings_of

if TYPE_CHECKING:
    from lookfar.serve.endpoint import Hello


_GRACE_SECONDS = 3
"""How long calls under way may go on after Ctrl-C."""


class _Server(uvicorn.Server):
    """One that first ends the streams of those who listen: they would keep it for ever."""

    def __init__(self, config: uvicorn.Config, changes: Changes) -> None:
        super().__init__(config)
        self._changes = changes

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._changes.close()
        await super().shutdown(sockets)


def listen(hello: Hello, tell: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; ``tell`` gets the address once it answers."""
    roots = roots_of(hello)
    chosen = settings_of(hello, roots[0]).serve
    offer = Offer.of(chosen)
    bound = _bound(chosen.host, chosen.port)
    changes = Changes()
    pool = Pool()

    async def run() -> None:
        changes.begin()
        config = uvicorn.Config(
            app,
            log_level="warning",
            lifespan="on",
            ws="none",
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        server = _Server(config, changes)
        host = f"[{chosen.host}]" if ":" in chosen.host else chosen.host
        tell(f"http://{host}:{bound.getsockname()[1]}/mcp")
        await server.serve(sockets=[bound])

    try:
        with pool.session(
            roots,
            settings=explicit_of(hello),
            environ=hello.env,
            write=offer.write,
            changes=changes,
        ) as session:
            app = make_app(offer.server(session, changes), offer.tools, host=chosen.host)
            anyio.run(run)
    finally:
        bound.close()
        pool.close()


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen()  # From here on whoever is told the address can connect.
    except OSError as error:
        bound.close()
        raise InvalidArgument(
            f"Cannot listen at {host}:{port}: {error.strerror}.",
            hint="Choose another with --host and --port; port 0 is any free one.",
        ) from error
    return bound
