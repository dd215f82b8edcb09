"""The routes of the page: its files, what it asks for, and what it is told.

Takes: the tools of a server, by whose way these are called, too. Gives: routes. Refuses: a change
that a page of another origin asks for, even of this machine; the guard refuses other sites.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lookfar.serve.http import rest
from lookfar.serve.http.statuses import ForeignOrigin
from lookfar.serve.http.web import api, files, live

if TYPE_CHECKING:
    from lookfar.serve.tools.tool import Tool

BELOW = "/api/"


def routes(called: rest.Tools, ending: Callable[[], bool]) -> list[Route]:
    """All of them; ``ending`` says when a server is about to leave."""

    async def events(request: Request) -> Response:
        return await live.follow(request, called.session, ending)

    asked = [Route(BELOW + row.name, _endpoint(called, row), methods=["POST"]) for row in api.ROWS]
    return [*files.routes(), *asked, Route(live.PATH, events)]


def _endpoint(called: rest.Tools, row: Tool) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        if rest.changes(row):
            _refuse_other_origins(request)
        return await called.called(request, f"api/{row.name}", row)

    return endpoint


def _refuse_other_origins(request: Request) -> None:
    """Programs send neither of these headers, and browsers let no page write them."""
    host = request.headers.get("host", "")
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "same-origin")
    ours = origin is None or origin in (f"http://{host}", f"https://{host}")
    if not ours or site != "same-origin":
        raise ForeignOrigin(
            "Only the page of this server may ask for that.",
            hint="Open the page at the server's own address.",
        )
