"""``POST /query_documents_stream``: the answer as server-sent events, while it is found.

Takes: the arguments of ``query_documents``. Gives: ``progress`` while a folder is indexed,
``hit`` for each chunk as soon as one way of searching has found it (by words first: that
needs no model), and at last ``result``, which is what ``/query_documents`` answers and alone
says the final order; ``error`` where it ends otherwise. Refuses: to work on for a client
that has left.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from lookfar.errors import LookfarError
from lookfar.model import Mode
from lookfar.serve.http.rest import GivenUp, HttpCall, Tools, arguments_of
from lookfar.serve.http.statuses import error_shape, unforeseen
from lookfar.serve.http.visits import visit_of
from lookfar.serve.tools.tool import Result, Session, Tool
from lookfar.serve.toolsets.ragdocs import QueryDocumentsInput, answer_documents

if TYPE_CHECKING:
    from lookfar.index.progress import Progress

_log = logging.getLogger(__name__)
_QUIET_SECONDS: Final = 15.0
"""After which a comment shows that the server is still there."""
_TELL_SECONDS: Final = 0.25
_NAME: Final = "query_documents"

Tell = Callable[[str, Any], None]


async def stream(request: Request, tools: Tools, tool: Tool) -> Response:
    """The response to one question; wrong arguments are refused before it begins."""
    arguments = await arguments_of(request)
    given = tool.parse(arguments)
    assert isinstance(given, QueryDocumentsInput)
    visit = visit_of(request.scope)
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[bytes | None] = asyncio.Queue()

    def tell(name: str, data: Any) -> None:
        """From the thread that searches."""
        call.check()
        loop.call_soon_threadsafe(events.put_nowait, event(name, data))

    call = HttpCall(on_progress=_progress(tell))

    def work() -> None:
        with tools.session.call():
            _search(tools.session, given, call, tell)

    async def run() -> None:
        try:
            await tools.run(_NAME, arguments, visit, call, work)
        except GivenUp:
            return
        except Exception as error:
            told = error if isinstance(error, LookfarError) else unforeseen(error)
            if told is not error:
                _log.exception("unforeseen", extra={"request_id": visit.id if visit else ""})
            events.put_nowait(event("error", error_shape(told)))
        finally:
            events.put_nowait(None)

    async def produce() -> AsyncIterator[bytes]:
        running = asyncio.ensure_future(run())
        try:
            while True:
                try:
                    found = await asyncio.wait_for(events.get(), _QUIET_SECONDS)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if found is None:
                    return
                yield found
        finally:
            # Also where the client has left: then this generator is closed.
            call.give_up()
            running.cancel()

    return StreamingResponse(
        produce(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )


def event(name: str, data: Any) -> bytes:
    """A server-sent event; its data is one line, in ASCII."""
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def _search(session: Session, given: QueryDocumentsInput, call: HttpCall, tell: Tell) -> None:
    seen: set[str] = set()

    def show(found: Result) -> None:
        for each in found.data["results"]:
            if each["chunk_id"] not in seen:
                seen.add(each["chunk_id"])
                tell("hit", each)

    first: Mode = "keyword"
    if session.library.settings.search.mode != first:
        show(answer_documents(session, given, call, first))
    result = answer_documents(session, given, call)
    show(result)
    tell("result", result.data)


def _progress(tell: Tell) -> Callable[[Progress], None]:
    told = 0.0

    def progress(now: Progress) -> None:
        nonlocal told
        if time.monotonic() - told >= _TELL_SECONDS:
            told = time.monotonic()
            tell("progress", {"files": now.files, "total_files": now.total_files})

    return progress
