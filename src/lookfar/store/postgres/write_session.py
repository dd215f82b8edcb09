"""The write session of a collection on a server.

Documents, keywords, vectors and the pointer to what serves become visible by one commit; a lost
connection rolls all of it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import psycopg

from lookfar.ports import Version
from lookfar.store.catalogue import generations
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.erasing import TRACES, UNSETTLED
from lookfar.store.postgres.keyword_writer import KeywordWriter
from lookfar.store.postgres.server import Halfvec, ServerConnection, select_in_transaction
from lookfar.store.postgres.vector_memory import ERASURES, VECTOR_ROWS
from lookfar.store.shared.write_session import WriteSession

_ERASED: Final = -2
"""The checksum of an erased vector."""
_VECTOR_COLUMNS: Final = (
    ("row", "bigint"),
    ("content", "bytea"),
    ("checksum", "bigint"),
    ("vector", "halfvec"),
)


class _Inserts(catalog.Inserts):
    """The same rows, with vectors in a column and without row checksums: the server checks its
    pages itself."""

    BUFFERED = 1024

    def __init__(self, connection: ServerConnection, vectors: dict[int, bytes]) -> None:
        super().__init__(connection)
        self._server = connection
        self._vectors = vectors

    def flush(self) -> None:
        self._rows["checks"].clear()
        embeddings = self._rows["embeddings"]
        if embeddings:
            rows = [(*row, Halfvec(self._vectors.pop(row[0]))) for row in embeddings]
            self._server.insert("embeddings", _VECTOR_COLUMNS, rows)
            embeddings.clear()
        super().flush()


class PostgresWriter(WriteSession):
    """A write session on one numbered collection, for the holder of its writer lock."""

    _connection: ServerConnection

    def __init__(
        self,
        connection: ServerConnection,
        collection: int,
        dimensions: int,
        retain: int,
        *,
        fresh: bool,
        resumed: bool,
        publish: Mapping[str, str] | None,
    ) -> None:
        """``publish`` has the name and description under which a fresh collection will serve."""
        super().__init__(connection, dimensions, retain, fresh=fresh, resumed=resumed)
        self._collection = collection
        self._keywords = KeywordWriter(connection)
        self._publish = publish
        self._vectors: dict[int, bytes] = {}
        """New vectors by row, until their rows are inserted."""
        self._begin()

    def _begin(self) -> None:
        self._begin_transaction()
        if self.resumed:
            generations.withdraw(self._connection)
        self._read_numbers(_Inserts(self._connection, self._vectors))
        if not self.fresh:
            generations.drop_rolled_back(self._connection)
            remove_purged_terms(self._connection)

    def _begin_transaction(self) -> None:
        self._connection.ask("BEGIN")
        select_in_transaction(self._connection.raw, self._collection)

    def _embed(self, vectors: Mapping[bytes, bytes]) -> None:
        # Worker processes cannot look up what the server has, so they may embed it again.
        lacking = self.missing(vectors)
        super()._embed({name: vector for name, vector in vectors.items() if name in lacking})

    def _store_vector(self, row: int, vector: bytes) -> None:
        self._vectors[row] = vector

    def _derive(self, version: Version) -> None:
        self._keywords.add(self._next_key, self._next_document, version.name_terms, version.entries)

    def commit_touches(self) -> int:
        active = generations.active(self._connection)
        self._record_all()
        self._connection.ask("COMMIT")
        self.close()
        return active

    def checkpoint(self) -> None:
        assert self.fresh
        self._record_all()
        self._connection.ask("COMMIT")
        self._begin_transaction()

    def _record_all(self) -> None:
        """Write everything that was put, and the highest numbers given out."""
        self._inserts.flush()
        self._keywords.flush()
        _record_commit(self._connection)
        catalog.record_marks(self._connection, self._next_document - 1, self._next_key - 1)
        catalog.record(self._connection, VECTOR_ROWS, self._next_row)

    def activate(self, manifest: Mapping[str, Any]) -> int:
        connection = self._connection
        self._record_all()
        totals = generations.compute_totals(connection)
        self._record_links(totals["links"])
        created = datetime.now(UTC).isoformat(timespec="seconds")
        generations.activate(connection, self._generation, created, {**manifest, **totals})
        retired = generations.retire(connection, self._retain, self.retain_days)
        generations.purge(connection, retired)
        remove_purged_terms(connection)
        if self._publish is not None:
            publish(connection, self._publish)
        connection.ask("COMMIT")
        self.activated = True
        self._closed = True
        return self._generation

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        # The transaction ends with its connection; a failing rollback must not hide its cause.
        with suppress(psycopg.Error):
            self._connection.ask("ROLLBACK")


def remove_purged_terms(connection: ServerConnection) -> None:
    """Remove the terms of the documents that were purged in this transaction."""
    documents = generations.graves(connection)
    if documents:
        KeywordWriter(connection).remove_documents(documents)
        generations.close_graves(connection, documents)
        _record_commit(connection)


def _record_commit(connection: ServerConnection) -> None:
    """Count this commit, so that readers drop the terms they cached from an earlier one."""
    catalog.record_keywords(connection, catalog.keywords_stamp(connection) + 1)


def publish(connection: ServerConnection, publication: Mapping[str, str]) -> None:
    """Make the session's collection the serving one when this transaction commits."""
    connection.ask(
        "UPDATE collections SET serving = false WHERE name = %s AND serving", (publication["name"],)
    )
    connection.ask(
        "UPDATE collections SET serving = true, about = %s WHERE collection = own_collection()",
        (publication["about"],),
    )


def remove_traces(connection: ServerConnection, collection: int) -> None:
    """Overwrite the vectors of erased documents; their terms were removed with their rows."""
    with connection.raw.transaction():
        select_in_transaction(connection.raw, collection)
        connection.ask(
            "UPDATE embeddings SET vector = NULL, checksum = %s WHERE checksum = %s RETURNING row",
            (_ERASED, UNSETTLED),
        )
        erasures = catalog.read_number(connection, ERASURES)
        catalog.record(connection, ERASURES, erasures + 1)
        connection.execute("DELETE FROM meta WHERE key = ?", (TRACES,))
