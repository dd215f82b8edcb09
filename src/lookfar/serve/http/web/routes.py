"""The routes of the web page: its files, its data and its events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lookfar.serve.http import rest
from lookfar.serve.http.scope_checks import changes_something
from lookfar.serve.http.statuses import ForeignOrigin
from lookfar.serve.http.web import api, live, pictures, static_files
from lookfar.serve.tools.tool import Tool

API_PREFIX = "/api/"


def web_routes(caller: rest.Tools, stopping: Callable[[], bool]) -> list[Route]:
    """Return all routes of the page; event streams end when ``stopping`` returns true."""

    async def events(request: Request) -> Response:
        return await live.follow(request, caller.session, stopping)

    async def picture(request: Request) -> Response:
        return await pictures.serve_picture(request, caller)

    data = [
        Route(API_PREFIX + row.name, _make_endpoint(caller, row), methods=["POST"])
        for row in api.ROWS
    ]
    return [
        *static_files.file_routes(),
        *data,
        Route(pictures.PATH, picture, methods=["POST"]),
        Route(live.PATH, events),
    ]


def _make_endpoint(caller: rest.Tools, row: Tool) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        if changes_something(row):
            _refuse_other_origins(request)
        return await caller.call(request, f"api/{row.name}", row)

    return endpoint


def _refuse_other_origins(request: Request) -> None:
    """Check headers that other programs do not send and that pages cannot set."""
    host = request.headers.get("host", "")
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "same-origin")
    ours = origin is None or origin in (f"http://{host}", f"https://{host}")
    if not ours or site != "same-origin":
        raise ForeignOrigin(
            "Only the page of this server may do that.",
            hint="Open the page at the server's own address.",
        )
