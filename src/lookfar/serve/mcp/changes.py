"""Notify clients that documents changed, in both versions of the protocol.

Under the older protocol a client subscribes to addresses on its connection; under the newer one it
listens on a stream, which the SDK serves. A client that has left or does not read is dropped.
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
"""Seconds a client has to read its notifications before it is dropped."""

_log = logging.getLogger(__name__)


class Changes:
    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)
        self._listened: Counter[str] = Counter()
        self._connections: dict[int, tuple[Any, set[str]]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._notifying: set[Future[None]] = set()
        self.closed = False
        """Whether the server is shutting down."""

    def bind_loop(self) -> None:
        """Remember the running event loop, because changes are reported from other threads."""
        self._loop = asyncio.get_running_loop()

    async def listen(self, context: Any, params: Any) -> Any:
        """Serve a stream of the newer protocol until its client leaves."""
        wanted = [str(address) for address in params.notifications.resource_subscriptions or ()]
        self._listened.update(wanted)
        try:
            return await self._streams(context, params)
        finally:
            self._listened.subtract(wanted)
            self._listened = +self._listened

    def close(self) -> None:
        """End every stream of the newer protocol."""
        self.closed = True
        self._streams.close()

    def subscribe(self, connection: Any, address: str) -> None:
        entry = self._connections.get(id(connection))
        if entry is None:
            entry = self._connections[id(connection)] = (connection, set())
            connection.exit_stack.callback(self._connections.pop, id(connection), None)
        entry[1].add(address)

    def unsubscribe(self, connection: Any, address: str) -> None:
        if id(connection) in self._connections:
            self._connections[id(connection)][1].discard(address)

    def notify(self, changed: Iterable[str], *, listed: bool) -> None:
        """Report changed documents from another thread; ``listed`` if some were added or removed.

        Returns at once: the caller holds the index, and clients may be slow.
        """
        if self._loop is None:
            return
        coroutine = self._notify_all(frozenset(changed), listed)
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()
            self._loop = None  # The server has stopped, so there are no subscribers.
            return
        self._notifying.add(future)  # The event loop holds only a weak reference.
        future.add_done_callback(self._notifying.discard)

    async def _notify_all(self, changed: frozenset[str], listed: bool) -> None:
        # Streams use the exact address of the subscription, which may name a section.
        addresses = [address for address in self._listened if strip_to_document(address) in changed]
        for address in sorted(addresses):
            await self._bus.publish(ResourceUpdated(address))
        if listed:
            await self._bus.publish(ResourcesListChanged())
        async with anyio.create_task_group() as tasks:
            for connection, wanted in list(self._connections.values()):
                # A subscription to a section is notified of any change in its document.
                affected = sorted(changed.intersection(map(strip_to_document, wanted)))
                tasks.start_soon(self._notify_one, connection, affected, listed)

    async def _notify_one(self, connection: Any, changed: Iterable[str], listed: bool) -> None:
        # A client that is leaving must not keep the others from being notified.
        try:
            with anyio.fail_after(PATIENCE):
                for address in changed:
                    await connection.send_resource_updated(address)
                if listed:
                    await connection.send_resource_list_changed()
        except TimeoutError:
            _log.warning("a subscriber does not read its notifications; dropping it")
            self._connections.pop(id(connection), None)
        except Exception:
            _log.debug("a subscriber left", exc_info=True)
