"""What the daemon does for its clients: MCP sessions, and single questions of the command line.

Takes: a request and the two ends of a connection. Gives: a session over the folders that the
request names, shared with every other session that names them. Refuses: nothing before it is
asked: a session whose folder is missing begins all the same, and each call says why.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import mcp_types as types
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage

from lookfar import config
from lookfar.common.turns import TURNS
from lookfar.errors import InvalidArgument, LookfarError
from lookfar.model import Filters
from lookfar.serve.daemon.plain import from_plain, to_plain
from lookfar.serve.daemon.pool import Pool
from lookfar.serve.daemon.process import Services
from lookfar.serve.daemon.project import ProjectNotDetected, project_root
from lookfar.serve.mcp.changes import Changes
from lookfar.serve.mcp.server import Results, init_options, internal_error, make_server
from lookfar.serve.tools.tool import Session, Tool, offered
from lookfar.serve.toolsets import tools_of
from lookfar.store.ground.files import make_folder

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.server.lowlevel import Server

    from lookfar.index.progress import Progress
    from lookfar.library import Library
    from lookfar.serve.daemon.endpoint import ClientRequest

_log = logging.getLogger(__name__)

QUESTIONS = ("search", "grep", "read", "outline", "related", "statuses", "delete")
"""What the command line may ask."""
_LIGHT = ("about", "statuses")
"""Questions that compute next to nothing, and so never wait for a turn."""

_SESSION_THREADS: Final = 16
"""Calls of one session that are worked on at once: it cannot take those of others."""

T = TypeVar("T")


def services() -> Services:
    """For ``python -m lookfar.serve.daemon.process``."""
    pool = Pool()
    chosen = config.load(None).serve
    return Services(
        handlers={"mcp": partial(_mcp, pool), "call": partial(_questions, pool)},
        on_close=pool.close,
        busy=lambda: pool.busy,
        idle_seconds=60.0 * chosen.idle_minutes,
    )


# --- what a session is made of ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Offer:
    """What a server shows, from the settings and what a command line said over them."""

    tools: tuple[Tool, ...]
    results: Results
    dots: bool
    enhanced: bool
    write: bool

    @classmethod
    def from_settings(cls, chosen: config.ServeSettings) -> Offer:
        return cls(
            offered(tools_of(chosen.toolset), chosen.write),
            chosen.results,  # type: ignore[arg-type]
            not chosen.underscores,
            chosen.enhanced_descriptions,
            chosen.write,
        )

    @property
    def named(self) -> dict[str, Tool]:
        """The tools by the names that callers know them by."""
        return {
            tool.name if self.dots else tool.name.replace(".", "_"): tool for tool in self.tools
        }

    def server(self, session: Session, changes: Changes, **more: Any) -> Server[Any]:
        """The server of a session."""
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
    """The folders that a request means: those it names, or the project it was said in."""
    if request.paths:
        return [str(Path(request.cwd, path)) for path in request.paths]
    found = project_root(request.cwd)
    if found is None and load_request_settings(request, None).serve.toolset == ("document-db",):
        # Databases belong to no project. A folder of its own, so that nothing else is reached.
        found = config.data_dir(request.env) / "no-project"
        make_folder(found)
    if found is None:
        raise ProjectNotDetected(
            f"No project was found from {request.cwd!r} upwards.",
            hint="Name a folder in the client's configuration: lookfar mcp PATH.",
        )
    return [str(found)]


def load_request_settings(request: ClientRequest, root: str | None) -> config.Settings:
    """The settings that hold for a request in one folder."""
    return config.load(Path(root) if root else None, read_overrides(request), request.env)


def read_overrides(request: ClientRequest) -> dict[str, Any]:
    """The settings that a command line gave, with its index folder among them."""
    given = request.options.get("settings", {})
    if not isinstance(given, dict):
        raise InvalidArgument("The settings are no object.", hint="Send dotted keys with values.")
    explicit = dict(given)
    if request.options.get("index_dir"):
        explicit["index.dir"] = str(Path(request.cwd, str(request.options["index_dir"])))
    return explicit


# --- MCP ----------------------------------------------------------------------------------------


async def _mcp(
    pool: Pool, request: ClientRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    async with _framed(reader, writer) as (read, write):
        await serve_mcp(pool, request, read, write)


async def serve_mcp(pool: Pool, request: ClientRequest, read: Any, write: Any) -> None:
    """One MCP session over a pair of message streams."""
    changes = Changes()
    changes.begin()
    try:
        roots, offer = await _aside(partial(_meant, request), abandon=True)
        opened = pool.session(
            roots,
            settings=read_overrides(request),
            environ=request.env,
            write=offer.write,
            changes=changes,
        )
        session = await _aside(opened.__enter__)
    except LookfarError as error:
        _log.warning("a session without a library: %s", error.message)
        least = await _aside(partial(_offer_at_least, request), abandon=True)
        await _converse(request, Session(error), least, changes, read, write)
        return
    try:
        await _converse(request, session, offer, changes, read, write)
    finally:
        with anyio.CancelScope(shield=True):
            await _aside(lambda: opened.__exit__(None, None, None))


async def _aside(work: Callable[[], T], *, abandon: bool = False) -> T:
    """Work that may wait or find a disk that hangs, in a thread that takes none from anybody.

    With ``abandon`` a session that ends leaves it to itself.
    """
    return await anyio.to_thread.run_sync(
        work, abandon_on_cancel=abandon, limiter=anyio.CapacityLimiter(1)
    )


def _meant(request: ClientRequest) -> tuple[list[str], Offer]:
    """The folders of a session and what it shows."""
    roots = resolve_roots(request)
    return roots, Offer.from_settings(load_request_settings(request, roots[0]).serve)


def _offer_at_least(request: ClientRequest) -> Offer:
    """The tools to show when there is no library: what was asked for, if that can be read."""
    try:
        return Offer.from_settings(load_request_settings(request, None).serve)
    except LookfarError:
        return Offer.from_settings(config.load(None, environ={}).serve)


async def _converse(
    request: ClientRequest, session: Session, offer: Offer, changes: Changes, read: Any, write: Any
) -> None:
    def named(client: str) -> None:
        request.client = client

    server = offer.server(session, changes, on_client=named, threads=_SESSION_THREADS)
    await serve_dual_era_loop(
        server,
        read,
        write,
        lifespan_state={},
        session_id=None,
        init_options=init_options(server),
    )


@asynccontextmanager
async def _framed(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> AsyncIterator[tuple[Any, Any]]:
    """Lines of JSON as the SDK's streams of messages."""
    to_app: MemoryObjectSendStream[SessionMessage | Exception]
    from_app: MemoryObjectReceiveStream[SessionMessage]
    to_app, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_app = anyio.create_memory_object_stream[SessionMessage](0)

    async def carry_in() -> None:
        async with to_app:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
                while line := await reader.readline():
                    if line.strip():
                        await to_app.send(_parsed(line))

    async def carry_out() -> None:
        async with from_app:
            with suppress(ConnectionError):
                async for each in from_app:
                    text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    writer.write(text.encode() + b"\n")
                    await writer.drain()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(carry_in)
        tasks.start_soon(carry_out)
        try:
            yield read, write
        finally:
            await write.aclose()
            tasks.cancel_scope.cancel()


def _parsed(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


def serve_in_process(request: ClientRequest) -> int:
    """The same session on this process's own stdin and stdout."""
    from mcp.server.stdio import stdio_server

    async def run() -> None:
        pool = Pool()
        try:
            async with stdio_server() as (read, write):
                await serve_mcp(pool, request, read, write)
        finally:
            pool.close()

    anyio.run(run)
    return 0


# --- the command line ---------------------------------------------------------------------------


async def _questions(
    pool: Pool, request: ClientRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer each line with a line, after lines that say how far a build has come."""
    loop = asyncio.get_running_loop()

    def tell(now: Progress) -> None:
        if writer.is_closing() or reader.at_eof():
            raise InvalidArgument("Whoever asked has left.", hint="Ask again.")
        if not now.total_files:
            return  # It waits for others, and nothing can be told yet.
        shape = {"progress": [now.files, now.total_files, now.bytes, now.total_bytes]}
        loop.call_soon_threadsafe(writer.write, json.dumps(shape).encode() + b"\n")

    while line := await reader.readline():
        shape = await _aside(partial(_answered, pool, request, line, tell), abandon=True)
        writer.write(json.dumps(shape).encode() + b"\n")
        await writer.drain()


def _answered(
    pool: Pool, request: ClientRequest, line: bytes, tell: Callable[[Progress], None]
) -> dict[str, Any]:
    try:
        paths = [str(Path(request.cwd, path)) for path in request.paths]
        opened = pool.session(paths, settings=read_overrides(request), environ=request.env)
        question = _question(line)
        turn = nullcontext() if question["method"] in _LIGHT else TURNS.take(id(request))
        with opened as session, session.call(), turn:
            return {"result": to_plain(_ask(session.library, question, tell))}
    except LookfarError as error:
        return {"error": {**error.as_dict(), "developer": error.developer}}
    except Exception as error:
        _log.exception("unforeseen, in a question")
        internal = internal_error(error)
        return {"error": {**internal.as_dict(), "developer": internal.developer}}


def _ask(library: Library, asked: dict[str, Any], tell: Callable[[Progress], None]) -> Any:
    name, given = asked["method"], asked["arguments"]
    if name == "about":
        return {"collections": library.collections, "indexed": library.indexed}
    if name not in QUESTIONS:
        raise InvalidArgument(
            f"There is no question {name!r}.", hint=f"Ask for: {', '.join(QUESTIONS)}."
        )
    asks = getattr(library, name)
    try:
        if name in ("search", "grep"):
            given["filters"] = from_plain(Filters, given["filters"])
            given["on_progress"] = tell
        signature(asks).bind(**given)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _no_question(f"{name} has other arguments", str(error)) from error
    return asks(**given)


def _question(line: bytes) -> dict[str, Any]:
    """A line as a question: a method, and arguments by their names."""
    try:
        asked = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _no_question("it is not JSON", str(error)) from error
    if not isinstance(asked, dict) or not isinstance(asked.get("method"), str):
        raise _no_question("it names no method")
    given = asked.get("arguments", {})
    if not isinstance(given, dict):
        raise _no_question("its arguments have no names")
    return {"method": asked["method"], "arguments": dict(given)}


def _no_question(why: str, developer: str = "") -> InvalidArgument:
    return InvalidArgument(
        f"This is no question: {why}.",
        hint="Ask with the lookfar command of the same version.",
        developer=developer,
    )
