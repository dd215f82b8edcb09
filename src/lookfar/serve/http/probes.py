"""Liveness and readiness, for service managers, load balancers and Kubernetes.

``GET /livez`` is answered as long as the process handles requests, however many there are.
``GET /readyz`` is answered with 503 while the server should get no requests: while a first index is
built or copied from a server, while the index cannot be read, while it handles as many requests as
it may, and while it is stopping. Both need no token, have no rate limit, and reveal nothing else.
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass
from typing import Final

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lookfar.errors import LookfarError
from lookfar.serve.http.statuses import NotReady, json_response
from lookfar.serve.http.visits import LIVE, READY
from lookfar.serve.tools.tool import Session

_KEEP_SECONDS: Final = 0.5
"""How long a check of the index is reused."""
_PATIENCE: Final = 2.0
"""Seconds after which an answer does not wait for the check any longer."""


@dataclass(slots=True)
class Stopping:
    """Whether the server is stopping; set by the server, read by the routes."""

    draining: bool = False
    """Whether it will stop soon, and load balancers should send requests elsewhere."""


class Probes:
    """The two routes of one server."""

    def __init__(self, session: Session, stopping: Stopping) -> None:
        self._session = session
        self._stopping = stopping
        self._checking: asyncio.Task[None] | None = None
        self._checked = -math.inf
        self._obstacle = "The index is being opened."

    def routes(self) -> list[Route]:
        return [Route(LIVE, self.live), Route(READY, self.ready)]

    async def live(self, _: Request) -> Response:
        return json_response({"status": "ok"})

    async def ready(self, _: Request) -> Response:
        reason = "The server is stopping." if self._stopping.draining else await self._check()
        if reason:
            raise NotReady(reason, hint="Wait, and send requests to another server until then.")
        return json_response({"status": "ready"})

    async def _check(self) -> str:
        """Return why the index cannot be used, as checked within the last half second.

        The probe needs no token, so many requests must not cause many queries of the store.
        """
        if self._checking is None and time.monotonic() - self._checked > _KEEP_SECONDS:
            self._checking = asyncio.create_task(self._look())
        if self._checking is not None:
            await asyncio.wait({self._checking}, timeout=_PATIENCE)
        return self._obstacle

    async def _look(self) -> None:
        self._obstacle = await anyio.to_thread.run_sync(self._find_obstacle)
        self._checked, self._checking = time.monotonic(), None

    def _find_obstacle(self) -> str:
        try:
            library = self._session.library
            for folder in [library.folder(name) for name in library.collections]:
                if folder.indexed:
                    _ = folder.held  # Reads it; a new front end copies it first.
                elif folder.building_since:
                    return "The first index is being built."
        except LookfarError:
            return "The index cannot be read."
        return ""
