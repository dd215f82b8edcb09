"""A write session on a server: one transaction, invisible until it is activated.

Takes: a connection that holds the collection's writer lock. Gives: one new generation, or
nothing. Refuses: to be half done; documents, keywords, vectors and the pointer to what serves
become visible by one commit, and a lost connection takes all of it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import psycopg

from lookfar.store.catalogue import generations, graph
from lookfar.store.catalogue import rows as catalog
from lookfar.store.postgres.keywords import KeywordWriter
from lookfar.store.postgres.server import Halfvec, ServerConnection, name_locally
from lookfar.store.sqlite.write_session import EpochWriter

if TYPE_CHECKING:
    import sqlite3

    from lookfar.ports import Version
    from lookfar.store.sqlite.epoch import Epoch

_VECTOR_COLUMNS: Final = (
    ("row", "bigint"),
    ("content", "bytea"),
    ("checksum", "bigint"),
    ("vector", "halfvec"),
)


@dataclass(frozen=True, slots=True)
class _Dimensions:
    dimensions: int


@dataclass(frozen=True, slots=True)
class _Target:
    """What a session asks of the epoch that it writes to."""

    catalogue: Path
    vectors: _Dimensions
    keywords: KeywordWriter


class _Inserts(catalog.Inserts):
    """The same rows; vectors lie in a column, and the server checks its pages itself."""

    def __init__(self, connection: ServerConnection, vectors: dict[int, bytes]) -> None:
        super().__init__(connection)
        self._server = connection
        self._vectors = vectors

    def flush(self) -> None:
        self._rows["checks"].clear()
        made = self._rows["embeddings"]
        if made:
            rows = [(*row, Halfvec(self._vectors.pop(row[0]))) for row in made]
            self._server.insert("embeddings", _VECTOR_COLUMNS, rows)
            made.clear()
        super().flush()


class PostgresWriter(EpochWriter):
    """A write session like that of the embedded store."""

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
        """``publish`` says under which name, and as what, a fresh collection is to serve."""
        self._server = connection
        self._collection = collection
        # It takes the same statements; see lookfar.store.ground.sql.
        self._connection = cast("sqlite3.Connection", connection)
        self._words = KeywordWriter(connection)
        target = _Target(Path(connection.place), _Dimensions(dimensions), self._words)
        self._epoch = cast("Epoch", target)
        self._retain = retain
        self._siblings = None
        self._publish = publish
        self.fresh = fresh
        self.resumed = resumed
        self._blank = fresh and not resumed
        self.activated = False
        self.embedded = 0
        self._done = False
        self._new = {}
        self._texts = set()
        self._put = set()
        self._buffer = []
        self._vectors: dict[int, bytes] = {}
        self._begin()

    def _begin(self) -> None:
        connection = self._server
        self._begin_transaction()
        if self.resumed:
            generations.withdraw(connection)
        after = generations.active(connection)
        self._links_changed = self.fresh or graph.links_changed(connection, after)
        self._changes = 0
        self._generation = generations.highest(connection) + 1
        self._inserts = _Inserts(connection, self._vectors)
        marks = catalog.highest_numbers(connection)
        self._next_document, self._next_key, self._next_row = (mark + 1 for mark in marks)
        if not self.fresh:
            generations.drop_rolled_back(connection)
            bury_words(connection)

    @property
    def changes(self) -> int:
        """Documents that were put or removed."""
        return self._changes

    @property
    def catalogue(self) -> Path | None:
        """Worker processes know no server: what they embed again is not stored twice."""
        return None

    def _embed(self, vectors: Mapping[bytes, bytes]) -> None:
        lacking = self.missing(vectors)
        super()._embed({name: vector for name, vector in vectors.items() if name in lacking})

    def _add(self, content: bytes, vector: bytes) -> None:
        super()._add(content, vector)
        self._vectors[self._new[content]] = vector

    def _flush_vectors(self) -> None:
        self._buffer.clear()

    def _sign(self, version: Version) -> None:
        """Search by line reads every text that filters admit: a server has no signatures."""

    def commit_touches(self) -> int:
        active = generations.active(self._server)
        self._record_all()
        self._server.ask("COMMIT")
        self.close()
        return active

    def checkpoint(self) -> None:
        assert self.fresh
        self._record_all()
        self._server.ask("COMMIT")
        self._begin_transaction()

    def _begin_transaction(self) -> None:
        self._server.ask("BEGIN")
        name_locally(self._server.raw, self._collection)

    def _record_all(self) -> None:
        """Everything that was put, and the numbers that were given out."""
        self._inserts.flush()
        self._words.flush()
        _record_commit(self._server)
        catalog.record_marks(self._server, self._next_document - 1, self._next_key - 1)

    def activate(self, manifest: Mapping[str, Any]) -> int:
        """All of it in one commit."""
        connection = self._server
        self._record_all()
        totals = generations.compute_totals(connection)
        self._record_links(totals["links"])
        created = datetime.now(UTC).isoformat(timespec="seconds")
        generations.activate(connection, self._generation, created, {**manifest, **totals})
        generations.purge(connection, generations.retire(connection, self._retain))
        bury_words(connection)
        if self._publish is not None:
            publish(connection, self._publish)
        connection.ask("COMMIT")
        self.activated = True
        self._done = True
        return self._generation

    def close(self) -> None:
        """Leave; without ``activate`` nothing has happened."""
        if self._done:
            return
        self._done = True
        # The transaction ends with its connection; a failing roll-back must not hide its cause.
        with suppress(psycopg.Error):
            self._server.ask("ROLLBACK")


def bury_words(connection: ServerConnection) -> None:
    """Words leave with the documents that were purged in this transaction."""
    gone = generations.graves(connection)
    if gone:
        KeywordWriter(connection).remove_documents(gone)
        generations.close_graves(connection, gone)
        _record_commit(connection)


def _record_commit(connection: ServerConnection) -> None:
    """By its number readers notice that what they remember of words is of another commit."""
    catalog.record_keywords(connection, catalog.keywords_stamp(connection) + 1)


def publish(connection: ServerConnection, told: Mapping[str, str]) -> None:
    """From this transaction's commit on, the session's collection is what serves."""
    connection.ask(
        "UPDATE collections SET serving = false WHERE name = %s AND serving", (told["name"],)
    )
    connection.ask(
        "UPDATE collections SET serving = true, about = %s WHERE collection = own_collection()",
        (told["about"],),
    )


def erase_vectors(connection: ServerConnection, unsettled: int, blank: int) -> Sequence[int]:
    """Overwrite the vectors of what was erased."""
    rows = connection.ask(
        "UPDATE embeddings SET vector = NULL, checksum = %s WHERE checksum = %s RETURNING row",
        (blank, unsettled),
    )
    return [row for (row,) in rows]
