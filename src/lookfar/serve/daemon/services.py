"""The daemon's handlers: MCP sessions, and single calls of the command line.

Each session works on the folders that its request names, and shares them with every other session
that uses them. A session whose folder is missing still starts; each of its calls reports why.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import anyio
import mcp_types as types
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from lookfar import config
from lookfar.common.caller import Progress, called_by
from lookfar.common.garbage import collect_seldom
from lookfar.common.turns import TURNS
from lookfar.errors import InvalidArgument, LookfarError
from lookfar.model import Filters
from lookfar.serve.daemon.plain import from_plain, to_plain
from lookfar.serve.daemon.pool import Pool
from lookfar.serve.daemon.process import Services
from lookfar.serve.daemon.project import ProjectNotDetected, project_root
from lookfar.serve.daemon.signals import exit_on_signals
from lookfar.serve.mcp.changes import Changes
from lookfar.serve.mcp.server import Results, internal_error, make_server
from lookfar.serve.tools.tool import Session, Tool, offered
from lookfar.serve.toolsets import INDEXED_AT_START, OWN_DATA, load_tools
from lookfar.serve.toolsets.startup import progress_on_stderr

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.server.lowlevel import Server

    from lookfar.library import Library
    from lookfar.serve.daemon.endpoint import ClientRequest

_log = logging.getLogger(__name__)

METHODS = (
    "search",
    "grep",
    "read",
    "outline",
    "related",
    "call_graph",
    "call_route",
    "statuses",
    "delete",
)
"""The methods of a library that the command line may call."""
_LIGHT = ("about", "statuses")
"""Methods that compute almost nothing, so they run without waiting for other calls."""

_SESSION_THREADS: Final = 16
"""Concurrent calls of one session, so that it cannot use up the threads of others."""

_VAULT_TOOLSET: Final = "msrl"
_VAULT_VARIABLE: Final = "MSRL_VAULT_ROOT"
"""The folder that MSRL serves, if the command line names none."""

T = TypeVar("T")


def services() -> Services:
    """Return the services for ``python -m lookfar.serve.daemon.process``."""
    pool = Pool()
    settings = config.load(None).serve
    return Services(
        handlers={"mcp": partial(_serve_mcp_client, pool), "call": partial(_serve_calls, pool)},
        on_close=pool.close,
        busy=lambda: pool.busy,
        idle_seconds=60.0 * settings.idle_minutes,
    )


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools a server offers and how it presents them."""

    tools: tuple[Tool, ...]
    results: Results
    dots: bool
    enhanced: bool
    write: bool
    index_at_start: bool
    """Whether the folders of a session are indexed and watched as soon as it begins."""

    @classmethod
    def from_settings(cls, settings: config.Settings) -> Offer:
        serve = settings.serve
        by_user = settings.origin.get("serve.toolset") != "project"
        tools = offered(load_tools(serve.toolset, by_user=by_user), serve.write)
        return cls(
            tools if settings.foreign.enabled else (),
            serve.results,  # type: ignore[arg-type]
            not serve.underscores,
            serve.enhanced_descriptions,
            serve.write,
            settings.foreign.enabled and not INDEXED_AT_START.isdisjoint(serve.toolset),
        )

    @property
    def tools_by_name(self) -> dict[str, Tool]:
        return {
            tool.name if self.dots else tool.name.replace(".", "_"): tool for tool in self.tools
        }

    def make_server(self, session: Session, changes: Changes, **more: Any) -> Server[Any]:
        return make_server(
            session,
            self.tools,
            results=self.results,
            dots=self.dots,
            enhanced=self.enhanced,
            changes=changes,
            **more,
        )


def resolve_roots(request: ClientRequest) -> list[str]:
    """Return the folders a client asked for, or the project that contains its working directory.

    There are none for a client that uses databases alone, which belong to no project.
    """
    if request.paths:
        return [str(Path(request.cwd, path)) for path in request.paths]
    toolset = frozenset(load_request_settings(request).serve.toolset)
    if toolset == OWN_DATA:
        return []
    if toolset == {_VAULT_TOOLSET} and request.env.get(_VAULT_VARIABLE):
        return [str(Path(request.cwd, request.env[_VAULT_VARIABLE]))]
    root = project_root(request.cwd)
    if root is None:
        raise ProjectNotDetected(
            f"No project was found in {request.cwd!r} or its parent folders.",
            hint="Name a folder in the client's configuration: lookfar mcp PATH.",
        )
    return [str(root)]


def load_request_settings(request: ClientRequest, root: str | None = None) -> config.Settings:
    return config.load(Path(root) if root else None, read_overrides(request), request.env)


def log_foreign(settings: config.Settings) -> None:
    """Log which configuration files of another system apply, and which settings have no effect."""
    foreign = settings.foreign
    if foreign.files:
        _log.info("configuration of %s: %s", foreign.system, ", ".join(map(str, foreign.files)))
    if settings.embed.key:
        model, service = settings.embed.model, settings.embed.base_url
        _log.warning("%s is set: texts are sent to %s (%s)", config.OPENAI_KEY, service, model)
    for note in foreign.notes:
        _log.warning("configuration of %s: %s", foreign.system, note)


def read_overrides(request: ClientRequest) -> dict[str, Any]:
    """Collect the settings given on the command line, including ``--index-dir``."""
    given = request.options.get("settings", {})
    if not isinstance(given, dict):
        raise InvalidArgument(
            "`settings` must be an object.", hint='For example {"search.top_k": 5}.'
        )
    overrides = dict(given)
    if request.options.get("index_dir"):
        overrides["index.dir"] = str(Path(request.cwd, str(request.options["index_dir"])))
    return overrides


async def _serve_mcp_client(
    pool: Pool, request: ClientRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    async with _open_message_streams(reader, writer) as (read, write):
        await serve_mcp(pool, request, read, write)


async def serve_mcp(pool: Pool, request: ClientRequest, read: Any, write: Any) -> None:
    """Serve one MCP session over a pair of message streams."""
    changes = Changes()
    changes.bind_loop()
    try:
        roots, offer = await _run_in_thread(partial(_prepare, request), abandon=True)
        context = pool.session(
            roots,
            settings=read_overrides(request),
            environ=request.env,
            write=offer.write,
            changes=changes,
            index_at_start=offer.index_at_start,
        )
        session = await _run_in_thread(context.__enter__)
    except LookfarError as error:
        _log.warning("session started without a library: %s", error.message)
        fallback = await _run_in_thread(partial(_fallback_offer, request), abandon=True)
        await _serve_session(request, Session(error), fallback, changes, read, write)
        return
    try:
        await _serve_session(request, session, offer, changes, read, write)
    finally:
        with anyio.CancelScope(shield=True):
            await _run_in_thread(lambda: context.__exit__(None, None, None))


async def _run_in_thread(work: Callable[[], T], *, abandon: bool = False) -> T:
    """Run work that may block, such as disk access, in a thread outside the shared limit.

    With ``abandon``, a session that ends does not wait for it.
    """
    return await anyio.to_thread.run_sync(
        work, abandon_on_cancel=abandon, limiter=anyio.CapacityLimiter(1)
    )


def _prepare(request: ClientRequest) -> tuple[list[str], Offer]:
    """Return the folders of a session and what it offers."""
    roots = resolve_roots(request)
    settings = load_request_settings(request, *roots[:1])
    log_foreign(settings)
    return roots, Offer.from_settings(settings)


def _fallback_offer(request: ClientRequest) -> Offer:
    """Return the tools to offer without a library: the requested ones if settings are readable."""
    try:
        return Offer.from_settings(load_request_settings(request, None))
    except LookfarError:
        return Offer.from_settings(config.load(None, environ={}))


async def _serve_session(
    request: ClientRequest, session: Session, offer: Offer, changes: Changes, read: Any, write: Any
) -> None:
    def set_client(client: str) -> None:
        request.client = client

    server = offer.make_server(session, changes, on_client=set_client, threads=_SESSION_THREADS)
    await serve_dual_era_loop(
        server,
        cast("Any", _answer_malformed(read, write)),
        write,
        lifespan_state={},
        session_id=None,
        init_options=server.create_initialization_options(),
    )


async def _answer_malformed(read: Any, write: Any) -> AsyncGenerator[SessionMessage]:
    """Pass messages on, and answer malformed requests, which the SDK would drop."""
    async with read:
        async for item in read:
            if not isinstance(item, ValidationError):
                yield item
            elif (answer := _refuse_malformed(item)) is not None:
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await write.send(SessionMessage(answer))


def _refuse_malformed(error: ValidationError) -> types.JSONRPCError | None:
    """Return the answer to a malformed message, or None if it is not a request."""
    problems = error.errors(include_url=False)
    complete = (problem["input"] for problem in problems if problem["type"] == "missing")
    code, message = types.INVALID_REQUEST, next(complete, None)
    if problems[0]["type"] == "json_invalid":
        code, line = types.PARSE_ERROR, problems[0]["input"]
        text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
        with suppress(ValueError, RecursionError):  # Unlike the SDK, it reads lone surrogates.
            message = json.loads(text) if text.strip() else {}
    fields = message if isinstance(message, dict) else {"id": None}
    if "id" not in fields or not fields.keys().isdisjoint(("result", "error")):
        return None
    hint = "Send one message per line, in UTF-8 and without lone surrogates."
    data = {"code": InvalidArgument.code, "hint": hint}
    reason = types.ErrorData(code=code, message=f"{problems[0]['msg']}. {hint}", data=data)
    try:
        answer = types.JSONRPCError(jsonrpc="2.0", id=fields["id"], error=reason)
        answer.model_dump_json()
    except ValueError:  # The id is not valid either.
        answer = types.JSONRPCError(jsonrpc="2.0", id=None, error=reason)
    return answer


@asynccontextmanager
async def _open_message_streams(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> AsyncIterator[tuple[Any, Any]]:
    """Convert a connection of JSON lines to the SDK's message streams."""
    to_app: MemoryObjectSendStream[SessionMessage | Exception]
    from_app: MemoryObjectReceiveStream[SessionMessage]
    to_app, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_app = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive_lines() -> None:
        async with to_app:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
                while line := await reader.readline():
                    if line.strip():
                        await to_app.send(_parse_message(line))

    async def send_lines() -> None:
        async with from_app:
            with suppress(ConnectionError):
                async for outgoing in from_app:
                    text = outgoing.message.model_dump_json(by_alias=True, exclude_unset=True)
                    writer.write(text.encode() + b"\n")
                    await writer.drain()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive_lines)
        tasks.start_soon(send_lines)
        try:
            yield read, write
        finally:
            await write.aclose()
            tasks.cancel_scope.cancel()


def _parse_message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


def serve_in_process(request: ClientRequest) -> int:
    """Serve an MCP session on stdin and stdout of this process, without the daemon.

    SIGINT and SIGTERM end the process, because a thread that reads stdin cannot be interrupted.
    """
    from mcp.server.stdio import stdio_server

    pool = Pool()

    async def run() -> None:
        try:
            async with stdio_server() as (read, write):
                await serve_mcp(pool, request, read, write)
        finally:
            pool.close()

    collect_seldom()
    with progress_on_stderr(), exit_on_signals(pool.close):
        anyio.run(run)
    return 0


async def _serve_calls(
    pool: Pool, request: ClientRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer each line with one line, preceded by lines of indexing progress."""
    loop = asyncio.get_running_loop()

    def check() -> None:
        if writer.is_closing() or reader.at_eof():
            raise InvalidArgument("The client has disconnected.", hint="Run the command again.")

    def report(now: Progress) -> None:
        shape = {"progress": [now.files, now.total_files, now.bytes, now.total_bytes]}
        loop.call_soon_threadsafe(writer.write, json.dumps(shape).encode() + b"\n")

    while line := await reader.readline():

        def answer(line: bytes = line) -> dict[str, Any]:
            with called_by(on_progress=report, check=check):
                return _answer_call(pool, request, line)

        shape = await _run_in_thread(answer, abandon=True)
        writer.write(json.dumps(shape).encode() + b"\n")
        await writer.drain()


def _answer_call(pool: Pool, request: ClientRequest, line: bytes) -> dict[str, Any]:
    try:
        paths = [str(Path(request.cwd, path)) for path in request.paths]
        context = pool.session(paths, settings=read_overrides(request), environ=request.env)
        call = _parse_call(line)
        turn = nullcontext() if call["method"] in _LIGHT else TURNS.take(id(request))
        with context as session, session.call(), turn:
            return {"result": to_plain(_run_call(session.library, call))}
    except LookfarError as error:
        return {"error": {**error.as_dict(), "developer": error.developer}}
    except Exception as error:
        _log.exception("internal error in a call of the command line")
        internal = internal_error(error)
        return {"error": {**internal.as_dict(), "developer": internal.developer}}


def _run_call(library: Library, call: dict[str, Any]) -> Any:
    name, arguments = call["method"], call["arguments"]
    if name == "about":
        return {"collections": library.collections, "indexed": library.indexed}
    if name not in METHODS:
        raise InvalidArgument(
            f"There is no method {name!r}.", hint=f"Methods: {', '.join(METHODS)}."
        )
    method = getattr(library, name)
    try:
        if name in ("search", "grep"):
            arguments["filters"] = from_plain(Filters, arguments["filters"])
        signature(method).bind(**arguments)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _invalid_call(f"{name} takes other arguments", str(error)) from error
    return method(**arguments)


def _parse_call(line: bytes) -> dict[str, Any]:
    """Parse a line into a method name and its named arguments."""
    try:
        call = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _invalid_call("it is not JSON", str(error)) from error
    if not isinstance(call, dict) or not isinstance(call.get("method"), str):
        raise _invalid_call("it has no method")
    arguments = call.get("arguments", {})
    if not isinstance(arguments, dict):
        raise _invalid_call("its arguments are not an object")
    return {"method": call["method"], "arguments": dict(arguments)}


def _invalid_call(why: str, developer: str = "") -> InvalidArgument:
    return InvalidArgument(
        f"The daemon cannot read the call: {why}.",
        hint="Use the lookfar command of the same version.",
        developer=developer,
    )
