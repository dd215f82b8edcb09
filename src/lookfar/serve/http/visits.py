"""Record each request and tool call: a log line, metrics and trace spans, all with one request id.

No headers, query strings or bodies are recorded, and no paths but the names of our own routes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from lookfar.errors import LookfarError
from lookfar.serve.http.log_lines import milliseconds
from lookfar.serve.mcp.server import clip

if TYPE_CHECKING:
    from lookfar.serve.http.grants import Grant
    from lookfar.serve.http.metrics import Metrics
    from lookfar.serve.http.traces import Traces

KEY: Final = "lookfar.visit"
"""The key of the visit in the scope of a request."""
OTHER: Final = "other"
"""Stands for unknown routes and methods."""
LIVE: Final = "/livez"
READY: Final = "/readyz"
PROBES: Final = frozenset((LIVE, READY))
LEFT: Final = 499
"""Logged as the status if the client left before the response began."""
_KNOWN_METHODS: Final = frozenset("GET HEAD POST PUT PATCH DELETE OPTIONS".split())

_requests = logging.getLogger("lookfar.http")
_calls = logging.getLogger("lookfar.tools")
_SERVER_ERROR: Final = 500
"""The lowest status that means that the server failed, not the request."""


@dataclass(slots=True)
class Visit:
    id: str
    method: str
    began: float = field(default_factory=time.perf_counter)
    status: int = 0
    code: str = ""
    """The code of the error that ended it."""
    reason: str = ""
    """Why its token was refused."""
    grant: Grant | None = None
    """What its token allows, if tokens are required."""


def get_visit(scope: Mapping[str, Any]) -> Visit | None:
    """Return the visit of a request; ``None`` if it did not pass a guard."""
    visit = scope.get(KEY)
    return visit if isinstance(visit, Visit) else None


class Watch:
    """Records what happens on a server."""

    def __init__(
        self,
        metrics: Metrics | None = None,
        traces: Traces | None = None,
        *,
        log_requests: bool = False,
        log_arguments: bool = False,
    ) -> None:
        """Without ``log_requests``, requests and calls are logged for level debug only."""
        self.metrics = metrics
        self._traces = traces
        self._level = logging.INFO if log_requests else logging.DEBUG
        self._log_arguments = log_arguments
        self.running = 0

    @contextmanager
    def request(self, visit: Visit, scope: Mapping[str, Any]) -> Iterator[None]:
        """Record a request while it is handled."""
        self.running += 1
        try:
            with self._span(visit, scope):
                yield
        finally:
            self.running -= 1
            route = _route(scope)
            method = visit.method if visit.method in _KNOWN_METHODS else OTHER
            status = visit.status or LEFT
            if self.metrics is not None:
                seconds = time.perf_counter() - visit.began
                self.metrics.request(route, method, status, seconds)
                if visit.code:
                    self.metrics.refusal(visit.code)
            fields = {
                "request_id": visit.id,
                "method": method,
                "route": route,
                "status": status,
                "ms": milliseconds(visit.began),
                **({"client": visit.grant.client} if visit.grant else {}),
                **({"code": visit.code} if visit.code else {}),
                **({"reason": visit.reason} if visit.reason else {}),
            }
            # A failure of the server is logged at every level.
            level = logging.WARNING if status >= _SERVER_ERROR else self._level
            if route in PROBES:  # Probes come every few seconds, and may be answered with 503.
                level = logging.DEBUG
            _requests.log(level, "%s %s %d", method, route, status, extra=fields)

    def _span(self, visit: Visit, scope: Mapping[str, Any]) -> AbstractContextManager[None]:
        if self._traces is None:
            return nullcontext()
        return self._traces.request(visit, scope, lambda: _route(scope))

    @contextmanager
    def call(
        self, tool: str, arguments: Mapping[str, Any], visit: Visit | None
    ) -> Iterator[dict[str, str]]:
        """Record a tool call, over REST or MCP; the yielded fields are added to its log line."""
        began = time.perf_counter()
        extra: dict[str, str] = {}
        try:
            with self._traces.call(tool) if self._traces is not None else nullcontext():
                yield extra
        except Exception as error:
            extra["code"] = getattr(error, "code", LookfarError.code)
            raise
        finally:
            if self.metrics is not None:
                self.metrics.tool(tool, time.perf_counter() - began)
            fields = {
                "tool": tool,
                "ms": milliseconds(began),
                **({"request_id": visit.id} if visit else {}),
                **extra,
                **({"arguments": clip(dict(arguments))} if self._log_arguments else {}),
            }
            level = logging.INFO if self._log_arguments else self._level
            _calls.log(level, "%s", tool, extra=fields)


def _route(scope: Mapping[str, Any]) -> str:
    """Return the path of the route as we declare it, not what the client sent."""
    return getattr(scope.get("route"), "path", OTHER)
