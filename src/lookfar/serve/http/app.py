"""Lookfar over HTTP, one application: MCP at ``/mcp``, tools as REST, the page at ``/``.

Takes: an MCP server, its session and its tools as they are offered. Gives: an ASGI
application inside its :class:`~lookfar.serve.http.guard.Guard`. Refuses: nothing itself; who may
ask, how much and how long is the guard's, which stands around every route.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic_core import from_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from lookfar import __version__
from lookfar.config import ServeSettings
from lookfar.errors import InvalidArgument, LookfarError, NotFound
from lookfar.serve.http import openapi, rest
from lookfar.serve.http.guard import LOOPBACK, Guard, Rules
from lookfar.serve.http.metrics import CONTENT_TYPE
from lookfar.serve.http.statuses import NoSuchMethod, json_response, refused, unforeseen
from lookfar.serve.http.stream import stream
from lookfar.serve.http.visits import Visit, Watch, visit_of
from lookfar.serve.http.web import files, live
from lookfar.serve.http.web.routes import routes
from lookfar.serve.toolsets import toolset

if TYPE_CHECKING:
    from mcp.server.context import ServerMiddleware
    from mcp.server.lowlevel import Server
    from starlette.types import Receive, Scope, Send

    from lookfar.serve.http.tokens import Tokens
    from lookfar.serve.tools.tool import Session, Tool

_MCP: Final = "/mcp"
_STREAM: Final = "/query_documents_stream"
_QUERY: Final = "query_documents"
_CALL: Final = "tools/call"


def make_app(
    server: Server[Any],
    session: Session,
    tools: Mapping[str, Tool],
    chosen: ServeSettings,
    *,
    tokens: Tokens,
    watch: Watch,
    ending: Callable[[], bool] = lambda: False,
) -> Guard:
    """The application of one server; ``tools`` by the names they are offered by.

    ``ending`` says that the server is about to leave, so that streams end first.
    """
    called = rest.Tools(session, tools, watch)
    query = next(tool for tool in toolset("ragdocs") if tool.name == _QUERY)
    manager = StreamableHTTPSessionManager(app=server, max_request_body_size=chosen.max_body_bytes)
    server.middleware.append(_told(watch, tools))

    async def table(_: Request) -> Response:
        return json_response({"tools": [rest.row(name, tool) for name, tool in tools.items()]})

    async def health(_: Request) -> Response:
        return json_response({"status": "ok", "name": "lookfar", "version": __version__})

    async def status(_: Request) -> Response:
        return json_response(await anyio.to_thread.run_sync(rest.status, session))

    async def description(_: Request) -> Response:
        shape = openapi.document(tools, query, metrics=chosen.metrics, tokens=tokens.needed)
        return json_response(shape)

    async def documents(request: Request) -> Response:
        return await called.called(request, _QUERY, query)

    async def streamed(request: Request) -> Response:
        return await stream(request, called, query)

    async def figures(_: Request) -> Response:
        assert watch.metrics is not None
        counts = await anyio.to_thread.run_sync(_documents, session)
        return PlainTextResponse(
            watch.metrics.text(watch.under_way, counts), media_type=CONTENT_TYPE
        )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            async with manager.run():
                yield
        finally:
            called.close()

    app = Starlette(
        routes=[
            Route(_MCP, _Mcp(manager, tools)),
            Route("/tools", table),
            Route("/tools/{name}", called.endpoint, methods=["POST"]),
            Route(f"/{_QUERY}", documents, methods=["POST"]),
            Route(_STREAM, streamed, methods=["POST"]),
            Route("/health", health),
            Route("/status", status),
            Route("/openapi.json", description),
            *([Route("/metrics", figures)] if watch.metrics is not None else []),
            *routes(called, ending),
        ],
        exception_handlers={
            HTTPException: _not_there,
            LookfarError: _refused,
            Exception: _unforeseen,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return Guard(app, rules_of(chosen), tokens, watch)


def rules_of(chosen: ServeSettings) -> Rules:
    """What the guard lets through under these settings."""
    host = f"[{chosen.host}]" if ":" in chosen.host else chosen.host
    return Rules(
        names=tuple(dict.fromkeys((*LOOPBACK, host, *chosen.hosts))),
        origins=chosen.origins,
        max_body_bytes=chosen.max_body_bytes,
        body_seconds=chosen.body_seconds,
        request_seconds=chosen.request_seconds,
        requests_per_second=chosen.requests_per_second,
        max_concurrent=chosen.max_concurrent,
        streams=frozenset((_MCP, _STREAM, live.PATH)),
        open=files.paths(),
    )


class _Mcp:
    """The SDK's transport, for callers that may do what they ask for."""

    def __init__(self, manager: StreamableHTTPSessionManager, tools: Mapping[str, Tool]) -> None:
        self._manager = manager
        self._tools = tools

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        visit = visit_of(scope)
        if visit is not None and visit.token is not None:
            # Then the SDK lets nobody else use the sessions that this token begins.
            # A name may be given again, and to somebody who reaches less.
            whose = repr((visit.token.name, visit.token.sha256, visit.token.collections))
            known = AccessToken(token="", client_id=whose, scopes=[visit.token.scope])
            scope["user"] = AuthenticatedUser(known)
            if not visit.may_write and scope["method"] == "POST":
                first = await receive()
                self._admit(visit, first.get("body", b""))
                receive = _again(first, receive)
        await self._manager.handle_request(scope, receive, send)

    def _admit(self, visit: Visit, body: bytes) -> None:
        """Refuse calls that change something: with the status that clients know for it."""
        try:
            messages = from_json(body)
        except ValueError:
            raise InvalidArgument("The body is no JSON.", hint="Correct it.") from None
        for each in messages if isinstance(messages, list) else [messages]:
            if not isinstance(each, dict) or each.get("method") != _CALL:
                continue
            params = each.get("params")
            name = params.get("name") if isinstance(params, dict) else None
            if isinstance(name, str) and name in self._tools:
                rest.admit(name, self._tools[name], visit)


def _again(first: Any, receive: Receive) -> Receive:
    """Receive what was received already, and then the rest."""
    waiting = [first]

    async def receive_again() -> Any:
        return waiting.pop() if waiting else await receive()

    return receive_again


def _told(watch: Watch, tools: Mapping[str, Tool]) -> ServerMiddleware[Any]:
    """Calls over MCP are told of like those over REST."""

    async def told(ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        params = ctx.params if isinstance(ctx.params, dict) else {}
        name = params.get("name")
        if ctx.method != _CALL or not isinstance(name, str) or name not in tools:
            return await call_next(ctx)
        visit = visit_of(ctx.request.scope) if ctx.request is not None else None
        with watch.call(name, params.get("arguments") or {}, visit) as more:
            result = await call_next(ctx)
            if getattr(result, "is_error", False):
                more["code"] = "TOOL_ERROR"
            return result

    return told


def _documents(session: Session) -> list[tuple[str, int]]:
    library = session.library
    folders = {name: library.folder(name) for name in library.collections}
    return [
        (name, each.status(collection=name, check=False).counts.documents)
        for name, each in folders.items()
    ]


# --- errors -------------------------------------------------------------------------------------


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, LookfarError)
    visit = visit_of(request.scope)
    if visit is not None:
        visit.code = error.code
    return refused(error)


async def _not_there(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    allowed = (error.headers or {}).get("Allow", "")
    if error.status_code == 405:
        told: LookfarError = NoSuchMethod(
            f"This place does not know {request.method[:20]}.",
            hint=f"Use {allowed}.",
            details={"allowed": [each.strip() for each in allowed.split(",")]},
        )
    else:
        told = NotFound("There is nothing here.", hint="GET /openapi.json tells what there is.")
    return await _refused(request, told)


async def _unforeseen(request: Request, error: Exception) -> Response:
    """The guard logs it: Starlette raises it again once this is sent."""
    return await _refused(request, unforeseen(error))
