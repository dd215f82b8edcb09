"""What a server remembers of a request while it lasts, and tells when it is over.

Takes: requests and calls of tools as they end. Gives: a line in the log, figures, and spans
of a trace, as far as they are wanted; all of them know the request by one id. Refuses: to
tell secrets: no header, no query string, no body, no path but the names of our own routes.
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
from lookfar.serve.mcp.server import clipped

if TYPE_CHECKING:
    from lookfar.serve.http.metrics import Metrics
    from lookfar.serve.http.tokens import Token
    from lookfar.serve.http.traces import Traces

KEY: Final = "lookfar.visit"
"""Where a request's scope has its visit."""
OTHER: Final = "other"
"""The route of requests for what is not there."""
LEFT: Final = 499
"""What the log says where the client left before an answer began."""
_KNOWN_METHODS: Final = frozenset("GET HEAD POST PUT PATCH DELETE OPTIONS".split())

_requests = logging.getLogger("lookfar.http")
_calls = logging.getLogger("lookfar.tools")


@dataclass(slots=True)
class Visit:
    """One request."""

    id: str
    method: str
    began: float = field(default_factory=time.perf_counter)
    status: int = 0
    code: str = ""
    """Of the error that it ended with."""
    token: Token | None = None
    """Whose token it showed, where tokens are needed."""
    may_write: bool = True


def visit_of(scope: Mapping[str, Any]) -> Visit | None:
    """The visit that a request belongs to; none where no guard let it in."""
    found = scope.get(KEY)
    return found if isinstance(found, Visit) else None


class Watch:
    """Tells what happens on a server."""

    def __init__(
        self,
        metrics: Metrics | None = None,
        traces: Traces | None = None,
        *,
        log_arguments: bool = False,
    ) -> None:
        self.metrics = metrics
        self._traces = traces
        self._log_arguments = log_arguments
        self.under_way = 0

    @contextmanager
    def request(self, visit: Visit, scope: Mapping[str, Any]) -> Iterator[None]:
        """Around a request."""
        self.under_way += 1
        try:
            with self._span(visit, scope):
                yield
        finally:
            self.under_way -= 1
            route = _route(scope)
            method = visit.method if visit.method in _KNOWN_METHODS else OTHER
            status = visit.status or LEFT
            if self.metrics is not None:
                seconds = time.perf_counter() - visit.began
                self.metrics.request(route, method, status, seconds)
                if visit.code:
                    self.metrics.refusal(visit.code)
            told = {
                "request_id": visit.id,
                "method": method,
                "route": route,
                "status": status,
                "ms": milliseconds(visit.began),
                **({"client": visit.token.name} if visit.token else {}),
                **({"code": visit.code} if visit.code else {}),
            }
            _requests.info("%s %s %d", method, route, status, extra=told)

    def _span(self, visit: Visit, scope: Mapping[str, Any]) -> AbstractContextManager[None]:
        if self._traces is None:
            return nullcontext()
        return self._traces.request(visit, scope, lambda: _route(scope))

    @contextmanager
    def call(
        self, tool: str, arguments: Mapping[str, Any], visit: Visit | None
    ) -> Iterator[dict[str, str]]:
        """Around a call of a tool, whichever way it came; the log says what more it is given."""
        began = time.perf_counter()
        more: dict[str, str] = {}
        try:
            with self._traces.call(tool) if self._traces is not None else nullcontext():
                yield more
        except Exception as error:
            more["code"] = getattr(error, "code", LookfarError.code)
            raise
        finally:
            if self.metrics is not None:
                self.metrics.tool(tool, time.perf_counter() - began)
            told = {
                "tool": tool,
                "ms": milliseconds(began),
                **({"request_id": visit.id} if visit else {}),
                **more,
                **({"arguments": clipped(dict(arguments))} if self._log_arguments else {}),
            }
            _calls.info("%s", tool, extra=told)


def _route(scope: Mapping[str, Any]) -> str:
    """The route as it is written in our table, never what the client wrote."""
    return getattr(scope.get("route"), "path", OTHER)
