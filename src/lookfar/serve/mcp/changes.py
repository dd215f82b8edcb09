"""Telling clients that a document changed, in both eras of the protocol.

Takes: addresses of changed documents, from any thread. Gives: a notification to each
client that subscribed to one of them. Refuses: to keep a client that has gone or does not
read, and to let anybody wait for one.

In the older era a client subscribes to addresses on its connection; in the newer one it
listens on a stream of its own, which the SDK's bus serves.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, Final

import anyio
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)

from lookfar.retrieve.locate.address import strip_to_document

PATIENCE: Final = 1.0
"""Seconds that a client has to take what is told to it at once, before it is told no more."""

_log = logging.getLogger(__name__)


class Changes:
    """The subscribers of one server."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)
        self._listened: Counter[str] = Counter()
        self._connections: dict[int, tuple[Any, set[str]]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._telling: set[Future[None]] = set()
        self.closed = False
        """Whether the server is about to leave."""

    def begin(self) -> None:
        """Remember the event loop that is running here: changes come from other threads."""
        self._loop = asyncio.get_running_loop()

    async def listen(self, context: Any, params: Any) -> Any:
        """Serve a stream of the newer era until its client leaves."""
        wanted = [str(each) for each in params.notifications.resource_subscriptions or ()]
        self._listened.update(wanted)
        try:
            return await self._streams(context, params)
        finally:
            self._listened.subtract(wanted)
            self._listened = +self._listened

    def close(self) -> None:
        """End every stream of the newer era."""
        self.closed = True
        self._streams.close()

    def subscribe(self, connection: Any, address: str) -> None:
        known = self._connections.get(id(connection))
        if known is None:
            known = self._connections[id(connection)] = (connection, set())
            connection.exit_stack.callback(self._connections.pop, id(connection), None)
        known[1].add(address)

    def unsubscribe(self, connection: Any, address: str) -> None:
        if id(connection) in self._connections:
            self._connections[id(connection)][1].discard(address)

    def tell(self, changed: Iterable[str], *, listed: bool) -> None:
        """From another thread: these documents changed; with ``listed``, some came or went.

        Returns at once: whoever tells holds the index, and a client may take its time.
        """
        if self._loop is None:
            return
        telling = self._tell(frozenset(changed), listed)
        try:
            begun = asyncio.run_coroutine_threadsafe(telling, self._loop)
        except RuntimeError:
            telling.close()
            self._loop = None  # The server has ended, and with it whoever listened.
            return
        self._telling.add(begun)  # Nobody else keeps it.
        begun.add_done_callback(self._telling.discard)

    async def _tell(self, changed: frozenset[str], listed: bool) -> None:
        # Streams go by the very address that was asked for, which may name a part.
        for address in sorted(
            each for each in self._listened if strip_to_document(each) in changed
        ):
            await self._bus.publish(ResourceUpdated(address))
        if listed:
            await self._bus.publish(ResourcesListChanged())
        async with anyio.create_task_group() as tasks:
            for connection, wanted in list(self._connections.values()):
                # Who watches a part of a document is concerned by a change of the document.
                concerned = sorted(changed.intersection(map(strip_to_document, wanted)))
                tasks.start_soon(self._tell_one, connection, concerned, listed)

    async def _tell_one(self, connection: Any, changed: Iterable[str], listed: bool) -> None:
        # One client that is leaving must not keep the others from hearing it.
        try:
            with anyio.fail_after(PATIENCE):
                for address in changed:
                    await connection.send_resource_updated(address)
                if listed:
                    await connection.send_resource_list_changed()
        except TimeoutError:
            _log.warning("a subscriber does not read; it is told of no more changes")
            self._connections.pop(id(connection), None)
        except Exception:
            _log.debug("a subscriber left", exc_info=True)
