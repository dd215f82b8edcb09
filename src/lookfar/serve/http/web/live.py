"""``GET /api/events``: the state of the index as server-sent events.

It sends the state of each collection once; with ``?follow=1`` again whenever it changes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from lookfar.common.skip_reasons import (
    describe_group,
    is_chosen,
    name_example,
    sort_reasons,
)
from lookfar.errors import LookfarError
from lookfar.freshness.disk import MOST_CHECKED
from lookfar.model import Counts, Status, Watching
from lookfar.serve.http.stream import event
from lookfar.serve.http.web.source_jobs import get_jobs
from lookfar.serve.show import json_shapes
from lookfar.serve.tools.tool import Json, Session

if TYPE_CHECKING:
    from lookfar.collections.folder import Folder

PATH: Final = "/api/events"
_POLL_SECONDS: Final = 0.5
_COUNT_SECONDS: Final = 10.0
_QUIET_SECONDS: Final = 15.0


async def follow(request: Request, session: Session, stopping: Callable[[], bool]) -> Response:
    """Return the event stream of one listener."""
    once = request.query_params.get("follow") != "1"
    states = _States(session)
    _ = session.library  # Raises for a token without access while a status can still be sent.

    async def produce() -> AsyncIterator[bytes]:
        sent: Json | None = None
        last = time.monotonic()
        while not stopping():
            state = await anyio.to_thread.run_sync(states.read)
            if state != sent:
                sent, last = state, time.monotonic()
                yield event("state", state)
            elif time.monotonic() - last > _QUIET_SECONDS:
                last = time.monotonic()
                yield b": still here\n\n"
            if once:
                return
            await asyncio.sleep(_POLL_SECONDS)

    return StreamingResponse(
        produce(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )


class _States:
    """Reads the states for one listener; counts again only when a count may have changed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._counts: dict[str, tuple[object, float, Json]] = {}

    def read(self) -> Json:
        library = self._session.library
        folders = {name: library.folder(name) for name in library.collections}
        may_change = library.outside.may_change
        return {
            "collections": [self._state(name, folder) for name, folder in folders.items()],
            # A token for some folders does not give access to the sources of the user.
            "source_job": get_jobs(self._session).describe() if may_change else None,
        }

    def _state(self, name: str, folder: Folder) -> Json:
        watching, failure = folder.watching(), folder.failure
        try:
            status = self._count(name, folder, watching)
        except LookfarError as error:  # The index is damaged or from a newer version.
            status, failure = json_shapes.status(_unreadable_status(name, folder)), error
        return {
            **status,
            "watcher": json_shapes.plain(watching),
            "building_since": folder.building_since,
            "progress": json_shapes.plain(folder.progress),
            "failure": failure.message if failure is not None else "",
            "skipped_groups": _describe_skipped(status),
        }

    def _count(self, name: str, folder: Folder, watching: Watching | None) -> Json:
        version = (folder.held, bool(folder.building_since), watching and watching.passes)
        known = self._counts.get(name)
        if known is None or known[0] != version or time.monotonic() - known[1] > _COUNT_SECONDS:
            shape = json_shapes.status(_read_status(name, folder))
            known = self._counts[name] = (version, time.monotonic(), shape)
        return known[2]


def _read_status(name: str, folder: Folder) -> Status:
    """Return the status of a folder; of a small one, with the files that are skipped now."""
    status = folder.status(collection=name, check=False)
    if folder.sealed or status.counts.documents > MOST_CHECKED:
        return status
    folder.walk()
    skipped = folder.summarise_skipped()
    return replace(status, skipped=skipped.counts, skipped_examples=skipped.examples)


def _describe_skipped(status: Json) -> list[Json]:
    """Return the skipped files of a status in words, by reason."""
    counts, examples = status["skipped"], status["skipped_examples"]
    return [
        {
            "reason": reason,
            "label": describe_group(reason),
            "count": counts[reason],
            "examples": [name_example(reason, uri) for uri in examples.get(reason, ())],
            "chosen": is_chosen(reason),
        }
        for reason in sort_reasons(counts)
    ]


def _unreadable_status(name: str, folder: Folder) -> Status:
    """Return the status of an index that cannot be read: only its location."""
    return Status(
        collection=name, root=folder.root.path, index_dir=str(folder.index_dir), indexed=False,
        generation=0, generations=(), created_at="", held=None, counts=Counts(), model="",
        dimensions=0, current=False, disk_bytes=0, damage="", failures=(), stale=(), stale_count=0,
    )  # fmt: skip
