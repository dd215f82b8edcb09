"""``POST /query_documents_stream``: the answer as server-sent events, while it is found.

It sends ``progress`` while a folder is indexed, ``hit`` for each chunk as soon as it is found
(keywords first, which need no model), and finally ``result``, which alone has the final order, or
``error``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from lookfar.common.caller import Progress, called_by
from lookfar.errors import LookfarError
from lookfar.model import Mode
from lookfar.serve.http.rest import GivenUp, HttpCall, Tools, read_arguments
from lookfar.serve.http.statuses import error_shape, wrap_unexpected
from lookfar.serve.http.visits import get_visit
from lookfar.serve.tools.tool import Result, Session, Tool
from lookfar.serve.toolsets.ragdocs import QueryDocumentsInput, query_documents

_log = logging.getLogger(__name__)
_QUIET_SECONDS: Final = 15.0
"""Without an event for this long, a comment keeps the connection alive."""
_PROGRESS_SECONDS: Final = 0.25
_NAME: Final = "query_documents"

Send = Callable[[str, Any], None]


async def stream(request: Request, tools: Tools, tool: Tool) -> Response:
    """Return the stream; invalid arguments are refused before it begins."""
    arguments = await read_arguments(request)
    given = tool.parse(arguments)
    assert isinstance(given, QueryDocumentsInput)
    visit = get_visit(request.scope)
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[bytes | None] = asyncio.Queue()

    def send(name: str, data: Any) -> None:
        """Queue an event from the thread that searches."""
        call.check()
        loop.call_soon_threadsafe(events.put_nowait, event(name, data))

    call = HttpCall(report=_throttle_progress(send))

    def work() -> None:
        with tools.session.call(), called_by(on_progress=call.report, check=call.check):
            _search(tools.session, given, send)

    async def run() -> None:
        try:
            await tools.run(_NAME, arguments, visit, call, work)
        except GivenUp:
            return
        except Exception as error:
            failure = error if isinstance(error, LookfarError) else wrap_unexpected(error)
            if failure is not error:
                _log.exception("internal error", extra={"request_id": visit.id if visit else ""})
            events.put_nowait(event("error", error_shape(failure)))
        finally:
            events.put_nowait(None)

    async def produce() -> AsyncIterator[bytes]:
        running = asyncio.ensure_future(run())
        try:
            while True:
                try:
                    message = await asyncio.wait_for(events.get(), _QUIET_SECONDS)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if message is None:
                    return
                yield message
        finally:
            # This also runs when the client has left, because that closes the generator.
            call.cancel()
            running.cancel()

    return StreamingResponse(
        produce(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )


def event(name: str, data: Any) -> bytes:
    """Encode a server-sent event; its data is one line of ASCII."""
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def _search(session: Session, given: QueryDocumentsInput, send: Send) -> None:
    seen: set[str] = set()

    def send_new_hits(result: Result) -> None:
        for hit in result.data["results"]:
            if hit["chunk_id"] not in seen:
                seen.add(hit["chunk_id"])
                send("hit", hit)

    first: Mode = "keyword"
    if session.library.settings.search.mode != first:
        send_new_hits(query_documents(session, given, first))
    result = query_documents(session, given)
    send_new_hits(result)
    send("result", result.data)


def _throttle_progress(send: Send) -> Callable[[Progress], None]:
    last = 0.0

    def progress(now: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= _PROGRESS_SECONDS:
            last = time.monotonic()
            send("progress", {"files": now.files, "total_files": now.total_files})

    return progress
