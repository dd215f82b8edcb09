"""Lookfar over HTTP: MCP at ``/mcp``, the table of tools at ``/tools``, a sign of life.

Takes: an MCP server and its tools. Gives: an ASGI application.
Refuses: a request for another host's name or from another site's page (421, 403), so that
no web page can reach a server on this machine through the browser of its owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from lookfar import __version__

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from starlette.applications import Starlette

    from lookfar.serve.tool import Tool

MOST_BODY_BYTES = 32 * 1024 * 1024
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def make_app(server: Server[Any], tools: Sequence[Tool], *, host: str) -> Starlette:
    """The application of one server that listens at ``host``."""
    names = list(dict.fromkeys((*_LOOPBACK, host)))

    async def table(request: Request) -> Response:
        return _refusal(request, names) or JSONResponse({"tools": list(map(_row, tools))})

    async def health(request: Request) -> Response:
        told = {"status": "ok", "name": "lookfar", "version": __version__}
        return _refusal(request, names) or JSONResponse(told)

    return server.streamable_http_app(
        streamable_http_path="/mcp",
        host=host,
        max_request_body_size=MOST_BODY_BYTES,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=[*names, *(f"{name}:*" for name in names)],
            allowed_origins=[
                f"{scheme}://{name}{port}"
                for scheme in ("http", "https")
                for name in names
                for port in ("", ":*")
            ],
        ),
        custom_starlette_routes=[Route("/tools", table), Route("/health", health)],
    )


def _row(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "read_only": tool.read_only,
        "destructive": tool.destructive,
        "idempotent": tool.idempotent,
    }


def _refusal(request: Request, names: Sequence[str]) -> Response | None:
    """Beside ``/mcp``, which the SDK guards, everything else is guarded here."""
    if _name(request.headers.get("host", "")) not in names:
        return PlainTextResponse("This server does not answer to that name.", 421)
    origin = request.headers.get("origin")
    if origin is not None and _name(origin.partition("://")[2]) not in names:
        return PlainTextResponse("Pages of other sites may not ask this server.", 403)
    return None


def _name(host: str) -> str:
    """A host without its port; the address of an IPv6 host stands in brackets."""
    return host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
