"""The HTTP application: MCP at ``/mcp``, tools as REST, the web page at ``/``."""

from __future__ import annotations

import asyncio
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
from lookfar.serve.http.metric_states import describe_fetches, read_states
from lookfar.serve.http.metrics import CONTENT_TYPE, Family, Kind
from lookfar.serve.http.probes import Probes, Stopping
from lookfar.serve.http.scope_checks import check_scope, limit_reach
from lookfar.serve.http.statuses import (
    NoSuchMethod,
    error_response,
    json_response,
    wrap_unexpected,
)
from lookfar.serve.http.stream import stream
from lookfar.serve.http.tokens import Tokens
from lookfar.serve.http.visits import PROBES, Visit, Watch, get_visit
from lookfar.serve.http.web import live, static_files
from lookfar.serve.http.web.routes import web_routes
from lookfar.serve.tools.tool import Session, Tool
from lookfar.serve.toolsets import load_toolset

if TYPE_CHECKING:
    from mcp.server.context import ServerMiddleware
    from mcp.server.lowlevel import Server
    from starlette.types import Receive, Scope, Send

    from lookfar.serve.http.oauth.sign_in import SignIn

_MCP: Final = "/mcp"
_STREAM: Final = "/query_documents_stream"
_QUERY: Final = "query_documents"
_CALL: Final = "tools/call"
_UNDER_WAY: Final[tuple[str, Kind]] = ("Requests being answered.", "gauge")
_RAGDOCS: Final = ("ragdocs",)
"""The toolset whose system has the HTTP routes below."""


def make_app(
    server: Server[Any],
    session: Session,
    tools: Mapping[str, Tool],
    settings: ServeSettings,
    *,
    tokens: Tokens,
    watch: Watch,
    stopping: Callable[[], bool] = lambda: False,
    stop: Stopping | None = None,
    sign_in: SignIn | None = None,
) -> Guard:
    """Make the application of one server; ``tools`` are keyed by the names clients see.

    Event streams end when ``stopping`` returns true, so that the server can shut down. ``stop``
    says whether load balancers should still send requests. ``sign_in`` checks the tokens of an
    issuer.
    """
    caller = rest.Tools(session, tools, watch)
    manager = StreamableHTTPSessionManager(
        app=server, max_request_body_size=settings.max_body_bytes
    )
    server.middleware.append(_record_calls(watch, tools, session))
    endpoints = _Endpoints(caller, tools, settings, tokens, watch, sign_in)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        fetching = asyncio.ensure_future(sign_in.keys.prefetch()) if sign_in is not None else None
        try:
            async with manager.run():
                yield
        finally:
            if fetching is not None:
                fetching.cancel()
            caller.close()

    app = Starlette(
        routes=[
            Route(_MCP, _Mcp(manager, tools, session)),
            *endpoints.routes(),
            *Probes(session, stop or Stopping()).routes(),
            *(sign_in.routes() if sign_in is not None else []),
            *web_routes(caller, stopping),
        ],
        exception_handlers={
            HTTPException: _handle_http_exception,
            LookfarError: _handle_error,
            Exception: _handle_unexpected,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return Guard(app, make_rules(settings, sign_in), tokens, watch, sign_in)


class _Endpoints:
    """The routes outside MCP and the web page."""

    def __init__(
        self,
        caller: rest.Tools,
        tools: Mapping[str, Tool],
        settings: ServeSettings,
        tokens: Tokens,
        watch: Watch,
        sign_in: SignIn | None,
    ) -> None:
        self._caller = caller
        self._tools = tools
        self._settings = settings
        self._tokens = tokens
        self._watch = watch
        self._sign_in = sign_in
        self._query = next(tool for tool in load_toolset("ragdocs") if tool.name == _QUERY)

    def routes(self) -> list[Route]:
        return [
            Route("/tools", self.list_tools),
            Route("/tools/{name}", self._caller.endpoint, methods=["POST"]),
            Route(f"/{_QUERY}", self.query, methods=["POST"]),
            Route(_STREAM, self.stream_query, methods=["POST"]),
            Route("/health", self.health),
            Route("/status", self.status),
            Route("/openapi.json", self.openapi),
            *([Route("/metrics", self.metrics)] if self._watch.metrics is not None else []),
        ]

    async def list_tools(self, _: Request) -> Response:
        rows = [rest.describe_tool(name, tool) for name, tool in self._tools.items()]
        return json_response({"tools": rows})

    async def query(self, request: Request) -> Response:
        return await self._caller.call(request, _QUERY, self._query)

    async def stream_query(self, request: Request) -> Response:
        return await stream(request, self._caller, self._query)

    async def health(self, _: Request) -> Response:
        shape = {"status": "ok"}
        if self._settings.toolset != _RAGDOCS:  # Clients of ragdocs expect only the status.
            shape |= {"name": "lookfar", "version": __version__}
        return json_response(shape)

    async def status(self, _: Request) -> Response:
        return json_response(await anyio.to_thread.run_sync(rest.status, self._caller.session))

    async def openapi(self, _: Request) -> Response:
        document = openapi.make_document(
            self._tools,
            self._query,
            metrics=self._settings.metrics,
            tokens=self._tokens.needed or self._sign_in is not None,
        )
        return json_response(document)

    async def metrics(self, _: Request) -> Response:
        assert self._watch.metrics is not None
        states = await anyio.to_thread.run_sync(read_states, self._caller.session)
        running = self._watch.running
        states.append(Family("lookfar_requests_under_way", *_UNDER_WAY, [((), running)]))
        if self._sign_in is not None:
            states.append(describe_fetches(self._sign_in.keys.fetches))
        text = self._watch.metrics.text(states)
        return PlainTextResponse(text, media_type=CONTENT_TYPE)


def make_rules(settings: ServeSettings, sign_in: SignIn | None = None) -> Rules:
    """Return the guard's limits under these settings."""
    named = (sign_in.host,) if sign_in is not None else ()
    published = sign_in.paths if sign_in is not None else frozenset()
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return Rules(
        names=tuple(dict.fromkeys((*LOOPBACK, host, *named, *settings.hosts))),
        origins=settings.origins,
        max_body_bytes=settings.max_body_bytes,
        body_seconds=settings.body_seconds,
        request_seconds=settings.request_seconds,
        requests_per_second=settings.requests_per_second,
        max_concurrent=settings.max_concurrent,
        streams=frozenset((_MCP, _STREAM, live.PATH)),
        open=static_files.paths() | PROBES | published,
    )


class _Mcp:
    """The SDK's MCP transport, behind a check of the token's scope."""

    def __init__(
        self, manager: StreamableHTTPSessionManager, tools: Mapping[str, Tool], session: Session
    ) -> None:
        self._manager = manager
        self._tools = tools
        self._session = session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        visit = get_visit(scope)
        if visit is not None and visit.grant is not None:
            # The SDK then lets no other owner use the sessions that this one begins.
            owner = visit.grant.owner
            access = AccessToken(
                token="",
                client_id=owner.client_id,
                scopes=[],
                subject=owner.subject,
                claims={"iss": owner.issuer},
            )
            scope["user"] = AuthenticatedUser(access)
            if scope["method"] == "POST" and visit.grant.reads_more:
                first = await receive()
                self._check_scope(visit, first.get("body", b""))
                receive = _replay(first, receive)
        await self._manager.handle_request(scope, receive, send)

    def _check_scope(self, visit: Visit, body: bytes) -> None:
        """Refuse calls that make changes with an HTTP status, which clients understand."""
        try:
            messages = from_json(body)
        except ValueError:
            raise InvalidArgument("The body is not valid JSON.", hint="Correct it.") from None
        for message in messages if isinstance(messages, list) else [messages]:
            if not isinstance(message, dict) or message.get("method") != _CALL:
                continue
            params = message.get("params")
            params = params if isinstance(params, dict) else {}
            name = params.get("name")
            if isinstance(name, str) and name in self._tools:
                check_scope(name, self._tools[name], params.get("arguments"), visit, self._session)


def _replay(first: Any, receive: Receive) -> Receive:
    """Return a ``receive`` that repeats the first message and then continues."""
    pending = [first]

    async def receive_next() -> Any:
        return pending.pop() if pending else await receive()

    return receive_next


def _record_calls(
    watch: Watch, tools: Mapping[str, Tool], session: Session
) -> ServerMiddleware[Any]:
    """Return a middleware that records calls over MCP like those over REST."""

    async def record(ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        params = ctx.params if isinstance(ctx.params, dict) else {}
        name = params.get("name")
        visit = get_visit(ctx.request.scope) if ctx.request is not None else None
        if visit is not None and visit.grant is not None:
            # The owner may use another token than when the session began.
            visit.grant.limit_reach(changes=False)
        if ctx.method != _CALL or not isinstance(name, str) or name not in tools:
            return await call_next(ctx)
        check_scope(name, tools[name], params.get("arguments"), visit, session)
        limit_reach(tools[name], visit)
        with watch.call(name, params.get("arguments") or {}, visit) as fields:
            result = await call_next(ctx)
            if getattr(result, "is_error", False):
                fields["code"] = "TOOL_ERROR"
            return result

    return record


async def _handle_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, LookfarError)
    visit = get_visit(request.scope)
    if visit is not None:
        visit.code = error.code
    return error_response(error)


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    allowed = (error.headers or {}).get("Allow", "")
    if error.status_code == 405:
        failure: LookfarError = NoSuchMethod(
            f"This route does not support {request.method[:20]}.",
            hint=f"Use {allowed}.",
            details={"allowed": [method.strip() for method in allowed.split(",")]},
        )
    else:
        failure = NotFound("There is no such route.", hint="GET /openapi.json lists the routes.")
    return await _handle_error(request, failure)


async def _handle_unexpected(request: Request, error: Exception) -> Response:
    """Return the response; Starlette raises the error again afterwards, and the guard logs it."""
    return await _handle_error(request, wrap_unexpected(error))
