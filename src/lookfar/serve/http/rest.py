"""Tools as plain HTTP: a JSON object in, a JSON object out.

Takes: the table of tools and a session. Gives: ``POST /tools/NAME`` for each tool, which
takes its arguments and gives its data, and ``/query_documents`` beside them. Refuses: what
the tools refuse, each error with its status; a token that may only read, where a tool
changes something; a body that is no JSON object.

Tools block, so they run in threads. A client that leaves, or a time that is up, is noticed
by a pass of indexing at its next step, and by whoever waits for one; any other tool is done
in a moment.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response

from lookfar.collections.collection import Closing
from lookfar.errors import ConfirmationNeeded, InvalidArgument, NotFound
from lookfar.serve.http.statuses import NotJson, ScopeTooSmall, json_response
from lookfar.serve.http.visits import LEFT, Visit, Watch, visit_of
from lookfar.serve.tools.tool import Json, Result, Session, Tool
from lookfar.serve.toolsets import hint_for

if TYPE_CHECKING:
    from lookfar.index.progress import OnProgress, Progress

T = TypeVar("T")

NOTE: Final = "X-Lookfar-Note"
"""What has to be admitted of a result that is a list, percent-encoded."""
_THREADS: Final = 16
_LIGHT_THREADS: Final = 4
"""For light tools alone, which do not wait behind calls that queue for a turn."""
_LONGEST_NAME: Final = 100


class GivenUp(Closing):
    """Nobody waits for this any more; no damage is suspected behind it."""

    code: Final = "GIVEN_UP"


class HttpCall:
    """One call, seen from its handler: nobody can be asked, and the caller may leave."""

    def __init__(
        self, client: str = "", on_progress: Callable[[Progress], None] = lambda _: None
    ) -> None:
        self.client = client
        self._tell = on_progress
        self._over = threading.Event()

    def give_up(self) -> None:
        self._over.set()

    def check(self) -> None:
        """Raises where nobody waits any more."""
        if self._over.is_set():
            raise GivenUp

    def on_progress(self) -> OnProgress:
        def tell(now: Progress) -> None:
            self.check()
            if now.total_files:  # Else it waits for others, and nothing can be told yet.
                self._tell(now)

        return tell

    def confirm(self, question: str) -> bool:
        raise ConfirmationNeeded(question, hint="Call again with confirm: true to go ahead.")


class Tools:
    """The tools of a server, called by name."""

    def __init__(self, session: Session, tools: Mapping[str, Tool], watch: Watch) -> None:
        self.session = session
        self.named = tools
        self._watch = watch
        self._threads = ThreadPoolExecutor(_THREADS, "lookfar-http")
        self._light = ThreadPoolExecutor(_LIGHT_THREADS, "lookfar-http-light")

    def close(self) -> None:
        """What still runs ends by itself; what waits is not begun."""
        for threads in (self._threads, self._light):
            threads.shutdown(wait=False, cancel_futures=True)

    def find(self, name: str) -> Tool:
        """A tool by the name it is offered by."""
        if name in self.named:
            return self.named[name]
        raise NotFound(
            f"There is no tool {name[:_LONGEST_NAME]!r}.",
            hint=hint_for(name, self.named) or "GET /tools lists them.",
        )

    async def endpoint(self, request: Request) -> Response:
        """``POST /tools/{name}``"""
        name = request.path_params["name"]
        return await self.called(request, name, self.find(name))

    async def called(self, request: Request, name: str, tool: Tool) -> Response:
        """The answer to a request for this tool."""
        visit = visit_of(request.scope)
        admit(name, tool, visit)
        arguments = await arguments_of(request)
        call = HttpCall()
        working = asyncio.ensure_future(
            self.run(
                name,
                arguments,
                visit,
                call,
                lambda: tool.run(self.session, arguments, call),
                light=tool.light,
            )
        )
        leaving = asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                return Response(status_code=LEFT)  # Nobody reads it but the log.
            result: Result = working.result()
        finally:
            call.give_up()
            working.cancel()
            leaving.cancel()
        # A list has no place for a note, so that stands beside it.
        note = str(result.data.get("note", "")) if result.listed else ""
        return json_response(result.shape, headers={NOTE: quote(note)} if note else {})

    async def run(
        self,
        name: str,
        arguments: Mapping[str, Any],
        visit: Visit | None,
        call: HttpCall,
        work: Callable[[], T],
        *,
        light: bool = False,
    ) -> T:
        """Do blocking work in a thread; given up, it ends at its next step."""

        def within() -> T:
            call.check()
            with self._watch.call(name, arguments, visit):
                return work()

        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        try:
            threads = self._light if light else self._threads
            return await loop.run_in_executor(threads, context.run, within)
        except asyncio.CancelledError:
            call.give_up()
            raise


def admit(name: str, tool: Tool, visit: Visit | None) -> None:
    """A token that may only read changes nothing, not even an index."""
    if visit is not None and not visit.may_write and changes(tool):
        raise ScopeTooSmall(
            f"{name} changes something, and this token may only read.",
            hint="Use a token that may write: lookfar tokens add NAME --write",
        )


def changes(tool: Tool) -> bool:
    """Whether a call may leave anything else than it was."""
    return tool.writes or not tool.read_only


async def arguments_of(request: Request) -> Json:
    """The body of a request as an object; no body is an empty one."""
    body = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # What is no JSON a browser sends for any page without asking us first.
    asked = bool(body) or "origin" in request.headers
    if asked and kind != "application/json" and not kind.endswith("+json"):
        raise NotJson(
            "The body has to be JSON.", hint="Send it with Content-Type: application/json."
        )
    if not body:
        return {}
    try:
        shape = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidArgument(
            f"The body is no JSON: {error}.", hint="Correct it and send it again."
        ) from None
    if not isinstance(shape, dict):
        raise InvalidArgument(
            "The body is no JSON object.", hint='Send the arguments, like {"query": "words"}.'
        )
    return shape


async def _left(request: Request) -> None:
    """Returns when the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def row(name: str, tool: Tool) -> Json:
    """A tool as ``GET /tools`` shows it."""
    return {
        "name": name,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "read_only": tool.read_only,
        "destructive": tool.destructive,
        "idempotent": tool.idempotent,
    }


def status(session: Session) -> Json:
    """What is indexed, what waits to be, and what could not be read."""
    from lookfar.serve.show import json_shapes

    library = session.library
    states = [
        library.folder(name).status(collection=name, check=False) for name in library.collections
    ]
    shapes = [json_shapes.status(each) for each in states]
    failed = [
        {"collection": shape["collection"], **failure}
        for shape in shapes
        for failure in shape["failures"]
    ]
    return {
        "status": "ok",
        "document_count": sum(each.counts.documents for each in states),
        "queue_size": sum(each.watcher.queued for each in states if each.watcher is not None),
        "failed_files": failed,
        "collections": shapes,
    }
