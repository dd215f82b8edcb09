"""Snapshots of a collection on a server: keywords from posting lists, vectors from pgvector.

A snapshot is one transaction, whichever generation is activated meanwhile.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.remembered import Remembered
from lookfar.store.keywords.fields import NAMES
from lookfar.store.postgres.keywords import Memory, PostgresKeywords
from lookfar.store.postgres.server import Reading, Serving
from lookfar.store.postgres.vector_search import ServerVectors
from lookfar.store.shared.snapshot import StoredSnapshot

if TYPE_CHECKING:
    from lookfar.ports import Need, Streams


class PostgresEpoch:
    """What this process remembers of one numbered collection."""

    def __init__(self, serving: Serving) -> None:
        self.collection = serving.collection
        self.dimensions = serving.dimensions
        self.remembered = Remembered()
        self._lock = Lock()
        self._memory: tuple[int, Memory] = (-1, Memory())

    def memory(self, commit: int) -> Memory:
        """Return the keyword cache of a commit; a reader of an older commit gets one of its own."""
        with self._lock:
            if commit > self._memory[0]:
                self._memory = (commit, Memory())
            return self._memory[1] if commit == self._memory[0] else Memory()


class PostgresSnapshot(StoredSnapshot):
    """One generation, read inside one transaction of the server.

    The server checks its own pages, so versions are not checked here.
    """

    def __init__(self, epoch: PostgresEpoch, connection: Reading, generation: int) -> None:
        keywords = PostgresKeywords(connection, epoch.memory(catalog.keywords_stamp(connection)))
        super().__init__(connection, generation, epoch.remembered, keywords)
        self._server = connection
        self._vectors = ServerVectors(
            connection, generation, self._scopes, epoch.collection, epoch.dimensions
        )

    def _narrow(self, need: Need, admitted: list[int] | None) -> list[int]:  # noqa: ARG002
        """Return all of them: the server stores no signatures."""
        return self._every_document() if admitted is None else admitted

    def streams(self, uri: str) -> Streams | None:
        document = self.document(uri)
        if document is None:
            return None
        names = self._server.ask(
            "SELECT title, path, description, aliases, keywords FROM titles WHERE document = %s",
            (document["id"],),
        ).fetchone()
        rows = self._server.ask(
            "SELECT headings, tags, body, code FROM entries WHERE document = %s ORDER BY key",
            (document["id"],),
        )
        return names or ("",) * len(NAMES), [tuple(row) for row in rows]
