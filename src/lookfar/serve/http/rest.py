"""Tools over plain HTTP: ``POST /tools/NAME`` with a JSON object.

Tools block, so they run in threads. When the client leaves or the time is up, an indexing pass
stops at its next step, and so does a call that waits for one; other tools finish quickly.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar
from urllib.parse import quote

from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response

from lookfar.collections.passes import Closing
from lookfar.common.caller import OnProgress
from lookfar.errors import ConfirmationNeeded, InvalidArgument, LookfarError, NotFound
from lookfar.serve.http.scope_checks import check_scope, limit_reach
from lookfar.serve.http.statuses import NotJson, error_response, json_response
from lookfar.serve.http.visits import LEFT, Visit, Watch, get_visit
from lookfar.serve.tools.tool import Json, Result, Session, Tool
from lookfar.serve.toolsets import explain_missing_tool

T = TypeVar("T")

NOTE: Final = "X-Lookfar-Note"
"""The header with the note of a result that is a JSON list, percent-encoded."""
_THREADS: Final = 16
_LIGHT_THREADS: Final = 4
"""Threads for light tools only, so that they do not wait behind other calls."""
_LONGEST_NAME: Final = 100


class GivenUp(Closing):
    """Raised to stop a call whose client has left; not a sign of a damaged index."""

    code: Final = "GIVEN_UP"


class HttpCall:
    """A call over HTTP as a tool sees it; its client may leave, and cannot be asked."""

    def __init__(self, client: str = "", report: OnProgress = lambda _: None) -> None:
        self.client = client
        self.report = report
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        self._cancelled.set()

    def check(self) -> None:
        """Raise ``GivenUp`` if the call was cancelled."""
        if self._cancelled.is_set():
            raise GivenUp

    def confirm(self, question: str) -> bool:
        raise ConfirmationNeeded(question, hint="Call again with confirm: true to go ahead.")


class Tools:
    """Calls the tools of a server by name."""

    def __init__(self, session: Session, tools: Mapping[str, Tool], watch: Watch) -> None:
        self.session = session
        self._tools = tools
        self._watch = watch
        self._threads = ThreadPoolExecutor(_THREADS, "lookfar-http")
        self._light = ThreadPoolExecutor(_LIGHT_THREADS, "lookfar-http-light")

    def close(self) -> None:
        """Drop queued calls; running ones finish on their own."""
        for threads in (self._threads, self._light):
            threads.shutdown(wait=False, cancel_futures=True)

    def find(self, name: str) -> Tool:
        """Return the tool that is offered under this name."""
        if name in self._tools:
            return self._tools[name]
        raise NotFound(
            f"There is no tool {name[:_LONGEST_NAME]!r}.",
            hint=explain_missing_tool(name, self._tools) or "GET /tools lists them.",
        )

    async def endpoint(self, request: Request) -> Response:
        name = request.path_params["name"]
        return await self.call(request, name, self.find(name))

    async def call(self, request: Request, name: str, tool: Tool) -> Response:
        """Call a tool with the body of a request, and return the response."""
        visit = get_visit(request.scope)
        try:
            arguments = await read_arguments(request)
        except InvalidArgument as error:
            return refuse(tool, error, visit)
        check_scope(name, tool, arguments, visit, self.session)
        limit_reach(tool, visit)
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
        leaving = asyncio.ensure_future(_wait_for_disconnect(request))
        try:
            await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                return Response(status_code=LEFT)  # Only the log sees it.
            result: Result = working.result()
        except LookfarError as error:
            return refuse(tool, error, visit)
        finally:
            call.cancel()
            working.cancel()
            leaving.cancel()
        # A list has no field for a note, so it goes into a header.
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
        """Run blocking work in a thread; if cancelled, it stops at its next step."""

        def work_recorded() -> T:
            call.check()
            with self._watch.call(name, arguments, visit):
                return work()

        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        try:
            threads = self._light if light else self._threads
            return await loop.run_in_executor(threads, context.run, work_recorded)
        except asyncio.CancelledError:
            call.cancel()
            raise


def refuse(tool: Tool, error: LookfarError, visit: Visit | None) -> Response:
    """Return the response for an error of a tool, with the code that it has over MCP, too."""
    code = str(tool.refusal(error).get("code", error.code))
    if visit is not None:
        visit.code = code
    return error_response(error, code)


async def read_arguments(request: Request) -> Json:
    """Parse the body of a request as a JSON object; an empty body is an empty object."""
    body = await request.body()
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # For other content types a browser sends requests of any page without a preflight.
    checked = bool(body) or "origin" in request.headers
    if checked and content_type != "application/json" and not content_type.endswith("+json"):
        raise NotJson("The body must be JSON.", hint="Send it with Content-Type: application/json.")
    if not body:
        return {}
    try:
        shape = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidArgument(
            f"The body is not valid JSON: {error}.", hint="Correct it and send it again."
        ) from None
    if not isinstance(shape, dict):
        raise InvalidArgument(
            "The body must be a JSON object.", hint='For example {"query": "words"}.'
        )
    return shape


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def describe_tool(name: str, tool: Tool) -> Json:
    return {
        "name": name,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "read_only": tool.read_only,
        "destructive": tool.destructive,
        "idempotent": tool.idempotent,
    }


def status(session: Session) -> Json:
    """Return what is indexed, what is queued, and what could not be read."""
    from lookfar.serve.show import json_shapes

    library = session.library
    states = [
        library.folder(name).status(collection=name, check=False) for name in library.collections
    ]
    shapes = [json_shapes.status(state) for state in states]
    failed = [
        {"collection": shape["collection"], **failure}
        for shape in shapes
        for failure in shape["failures"]
    ]
    return {
        "status": "ok",
        "document_count": sum(state.counts.documents for state in states),
        "queue_size": sum(state.watcher.queued for state in states if state.watcher is not None),
        "failed_files": failed,
        "collections": shapes,
        **({"workers": session.readers.describe()} if session.readers is not None else {}),
    }
