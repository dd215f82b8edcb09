"""Telling clients that a document changed, in both eras of the protocol.

Takes: addresses of changed documents, from any thread. Gives: a notification to each
client that subscribed to one of them. Refuses: to keep a client that has gone.

In the older era a client subscribes to addresses on its connection; in the newer one it
listens on a stream of its own, which the SDK's bus serves.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)

from lookfar.retrieve.address import document_of

_log = logging.getLogger(__name__)


class Changes:
    """The subscribers of one server."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus)
        self._listened: Counter[str] = Counter()
        self._connections: dict[int, tuple[Any, set[str]]] = {}
        self._token: Any = None
        self.closed = False
        """Whether the server is about to leave."""

    def begin(self) -> None:
        """Remember the event loop that is running here: changes come from other threads."""
        self._token = anyio.lowlevel.current_token()

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
        """From another thread: these documents changed; with ``listed``, some came or went."""
        if self._token is None:
            return
        try:
            anyio.from_thread.run(self._tell, frozenset(changed), listed, token=self._token)
        except anyio.RunFinishedError:
            self._token = None  # The server has ended, and with it whoever listened.

    async def _tell(self, changed: frozenset[str], listed: bool) -> None:
        # Streams go by the very address that was asked for, which may name a part.
        parts = {each for each in self._listened if document_of(each) in changed}
        for address in sorted(changed | parts):
            await self._bus.publish(ResourceUpdated(address))
        if listed:
            await self._bus.publish(ResourcesListChanged())
        for connection, wanted in list(self._connections.values()):
            # One client that is leaving must not keep the others from hearing it.
            try:
                for address in sorted(changed):
                    if _meant(address, wanted):
                        await connection.send_resource_updated(address)
                if listed:
                    await connection.send_resource_list_changed()
            except Exception:
                _log.debug("a subscriber left", exc_info=True)


def _meant(address: str, wanted: set[str]) -> bool:
    """Whether a change of a document concerns someone who watches it or a part of it."""
    return any(document_of(each) == address for each in wanted)
