"""``GET /api/events``: how the index is doing, while it does it.

Takes: a session. Gives: server-sent events with the state of each collection: one, and with
``?follow=1`` another whenever something changed, until the client leaves. Refuses: to look at the
disk for it; what is costly to count is counted when a generation came, and now and then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from lookfar.errors import LookfarError
from lookfar.model import Counts, Status
from lookfar.serve.http.stream import event
from lookfar.serve.show import json_shapes
from lookfar.serve.tools.tool import Json, Session

if TYPE_CHECKING:
    from lookfar.collections.folder import Folder
    from lookfar.model import Watching

PATH: Final = "/api/events"
_LOOK_SECONDS: Final = 0.5
_COUNT_SECONDS: Final = 10.0
_QUIET_SECONDS: Final = 15.0


async def follow(request: Request, session: Session, ending: Callable[[], bool]) -> Response:
    """The response to one listener."""
    once = request.query_params.get("follow") != "1"
    states = _States(session)
    _ = session.library  # Who reaches nothing is told so while there is a status to say it with.

    async def produce() -> AsyncIterator[bytes]:
        told: Json | None = None
        last = time.monotonic()
        while not ending():
            now = await anyio.to_thread.run_sync(states.look)
            if now != told:
                told, last = now, time.monotonic()
                yield event("state", now)
            elif time.monotonic() - last > _QUIET_SECONDS:
                last = time.monotonic()
                yield b": still here\n\n"
            if once:
                return
            await asyncio.sleep(_LOOK_SECONDS)

    return StreamingResponse(
        produce(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )


class _States:
    """What one listener is told; counting is done again only where it may give something else."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._counted: dict[str, tuple[object, float, Json]] = {}

    def look(self) -> Json:
        library = self._session.library
        folders = {name: library.folder(name) for name in library.collections}
        return {"collections": [self._state(name, each) for name, each in folders.items()]}

    def _state(self, name: str, folder: Folder) -> Json:
        watching, failure = folder.watching(), folder.failure
        try:
            counted = self._count(name, folder, watching)
        except LookfarError as error:  # Damaged, or of a newer Lookfar: that is a state, too.
            counted, failure = json_shapes.status(_unknown(name, folder)), error
        far = folder.progress
        return {
            **counted,
            "watcher": json_shapes.watcher(watching),
            "building_since": folder.building_since,
            "progress": None
            if far is None
            else {
                "files": far.files,
                "total_files": far.total_files,
                "bytes": far.bytes,
                "total_bytes": far.total_bytes,
            },
            "failure": failure.message if failure is not None else "",
        }

    def _count(self, name: str, folder: Folder, watching: Watching | None) -> Json:
        mark = (folder.held, bool(folder.building_since), watching and watching.passes)
        known = self._counted.get(name)
        if known is None or known[0] != mark or time.monotonic() - known[1] > _COUNT_SECONDS:
            shape = json_shapes.status(folder.status(collection=name, check=False))
            known = self._counted[name] = (mark, time.monotonic(), shape)
        return known[2]


def _unknown(name: str, folder: Folder) -> Status:
    """Of an index that cannot be read: where it is, and nothing else."""
    return Status(
        collection=name, root=folder.root.path, index_dir=str(folder.index_dir), indexed=False,
        generation=0, generations=(), created_at="", held=None, counts=Counts(), model="",
        dimensions=0, current=False, disk_bytes=0, damage="", failures=(), stale=(), stale_count=0,
    )  # fmt: skip
