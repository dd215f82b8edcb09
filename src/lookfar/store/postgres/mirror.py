"""Write to the server what a session of the local copy is about to commit.

The session works in the embedded store, which says what it added by numbers that only grow, and
notes what else it changed. The server commits first: a crash in between leaves a copy that follows
like any other.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np
from psycopg import Connection

from lookfar.errors import IndexBusy
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.erasing import TRACES, UNSETTLED, has_traces
from lookfar.store.catalogue.migrations import FORMAT_RECORD
from lookfar.store.postgres import registry, schema
from lookfar.store.postgres.server import Inserts, select_in_transaction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lookfar.store.sqlite.epoch import Epoch

FOLLOWED: Final = "followed"
"""The key in ``meta`` of a copy with the state of the server that it has."""
ERASURES: Final = "erasures"
"""The key in ``meta`` that counts erasures, so that copies remove the traces of each."""
WHOLE: Final = ("left_out", "communities")
"""Tables that are replaced as a whole; ``meta`` has the revision of the last time."""
LOCAL: Final = (
    FOLLOWED,
    FORMAT_RECORD,
    TRACES,
    "keywords_stamp",
    *(f"coarse_{name}" for name in catalog.Recall._fields),
)
"""The keys in ``meta`` that each copy has values of its own for."""
_MOST_REVISIONS: Final = 10_000
"""How many commits a copy may be behind to follow them one by one."""
_DOCUMENTS: Final = 5_000
_NOTES: Final = (
    "CREATE TEMP TABLE IF NOT EXISTS changed (what, number, PRIMARY KEY (what, number))",
    *(
        f"CREATE TEMP TRIGGER IF NOT EXISTS changed_{table}_{event.lower()} AFTER {event} ON"
        f" main.{table} BEGIN INSERT OR IGNORE INTO changed VALUES ('{table}', OLD.{number}); END"
        for table, number in (("documents", "id"), ("embeddings", "row"))
        for event in ("UPDATE", "DELETE")
    ),
    "DELETE FROM changed",
)


def read_followed(connection: Any) -> tuple[int, int, str]:
    """Return collection, revision and mark of the server's state that a copy has."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (FOLLOWED,)).fetchone()
    collection, revision, mark = json.loads(row[0]) if row else (0, 0, "")
    return collection, revision, mark


def record_followed(connection: Any, collection: int, revision: int, mark: str) -> None:
    value = json.dumps([collection, revision, mark])
    connection.execute("DELETE FROM meta WHERE key = ?", (FOLLOWED,))
    connection.execute("INSERT INTO meta VALUES (?, ?)", (FOLLOWED, value))


class Mirror:
    """See :class:`lookfar.store.sqlite.epoch.Mirror`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._raw: Connection[Any] | None = None
        self._about: Mapping[str, Any] = {}
        self._keep_replaced = False
        self._base = catalog.Marks(0, 0, -1)
        self._sealed: dict[str, bytes] = {}

    @contextmanager
    def writing_to(
        self,
        raw: Connection[Any],
        about: Mapping[str, Any] | None = None,
        *,
        keep_replaced: bool = False,
    ) -> Iterator[None]:
        """Write over this connection, which holds the lock; ``about`` describes a new index."""
        self._raw, self._about, self._keep_replaced = raw, about or {}, keep_replaced
        try:
            yield
        finally:
            self._raw = None

    def begin(self, connection: sqlite3.Connection, *, fresh: bool) -> None:
        for statement in _NOTES:
            connection.execute(statement)
        nothing = catalog.Marks(0, 0, -1)
        self._base = nothing if fresh else catalog.highest_numbers(connection)
        self._sealed = {} if fresh else _read_seals(connection)

    def push(self, connection: sqlite3.Connection, epoch: Epoch, *, fresh: bool) -> None:
        raw = self._raw
        assert raw is not None, "the server's lock is held"
        with raw.transaction():
            if fresh:
                replaced = registry.list_numbers(raw, self._name)
                number, revision, base = self._create(connection, epoch), 1, ""
            else:
                number, revision, base = self._claim(connection)
            select_in_transaction(raw, number)
            inserts = Inserts(raw)
            documents, vectors = self._list_changed(connection)
            self._add_rows(connection, epoch, inserts)
            self._change_documents(connection, documents)
            self._erase_vectors(connection, vectors)
            if has_traces(connection):
                erasures = catalog.read_number(connection, ERASURES)
                catalog.record(connection, ERASURES, erasures + 1)
            self._replace_tables(connection, inserts, revision)
            if not fresh:
                raw.execute(
                    "INSERT INTO revisions (number, base, documents, vectors)"
                    " VALUES (%s, %s, %s::bigint[], %s::bigint[])",
                    (revision, base, documents, vectors),
                )
                raw.execute(
                    "DELETE FROM revisions WHERE number <= %s", (revision - _MOST_REVISIONS,)
                )
            mark = str(uuid4())
            if fresh:
                self._retire(replaced)
            raw.execute(
                "UPDATE collections SET serving = true, revision = %s, mark = %s"
                " WHERE collection = %s",
                (revision, mark, number),
            )
            record_followed(connection, number, revision, mark)

    # -- the row of the collection ----------------------------------------------------

    def _create(self, connection: sqlite3.Connection, epoch: Epoch) -> int:
        assert self._raw is not None
        (number,) = self._raw.execute(
            "INSERT INTO collections (name, fingerprint, dimensions, model, about)"
            " VALUES (%s, %s, %s, %s, %s) RETURNING collection",
            (
                self._name,
                epoch.fingerprint,
                epoch.vectors.dimensions,
                catalog.read_model(connection),
                json.dumps(self._about, sort_keys=True),
            ),
        ).fetchone() or (0,)
        return int(number)

    def _claim(self, connection: sqlite3.Connection) -> tuple[int, int, str]:
        """Return number, new revision and last mark of what serves, which this session changes."""
        assert self._raw is not None
        collection, revision, mark = read_followed(connection)
        row = self._raw.execute(
            "SELECT collection, revision, mark FROM collections WHERE name = %s AND serving"
            " FOR UPDATE",
            (self._name,),
        ).fetchone()
        if row != (collection, revision, mark):
            raise IndexBusy(
                "Another process has changed this index meanwhile.",
                hint="Try again.",
                developer=f"{row} instead of {(collection, revision, mark)}",
            )
        return collection, revision + 1, mark

    def _retire(self, replaced: Sequence[int]) -> None:
        """Remove the collections that the new one replaces, or keep a damaged one aside."""
        assert self._raw is not None
        if self._keep_replaced:
            for number in replaced:
                registry.set_aside(self._raw, self._name, number)
        else:
            registry.remove_collections(self._raw, replaced)

    # -- rows -------------------------------------------------------------------------

    def _list_changed(self, connection: sqlite3.Connection) -> tuple[list[int], list[int]]:
        """Return the documents and vectors that were changed and had been there before."""
        changed: dict[str, list[int]] = {"documents": [], "embeddings": []}
        for what, number in connection.execute("SELECT what, number FROM changed ORDER BY number"):
            changed[what].append(number)
        document, _, row = self._base
        return (
            [number for number in changed["documents"] if number <= document],
            [number for number in changed["embeddings"] if number <= row],
        )

    def _add_rows(self, connection: sqlite3.Connection, epoch: Epoch, inserts: Inserts) -> None:
        """Insert the rows of new documents and vectors, some documents at a time."""
        vectors = epoch.vectors.rows(catalog.vector_rows(connection))
        cursor = connection.execute(
            "SELECT row, content, checksum FROM embeddings WHERE row > ? ORDER BY row",
            (self._base.row,),
        )
        while rows := cursor.fetchmany(_DOCUMENTS):
            inserts.insert("embeddings", [(*row, _encode(vectors, row)) for row in rows])
        numbers = [
            number
            for (number,) in connection.execute(
                "SELECT id FROM documents WHERE id > ? ORDER BY id", (self._base.document,)
            )
        ]
        for some in catalog.batches(numbers, _DOCUMENTS):
            between = (some[0], some[-1])
            texts = connection.execute(
                "SELECT sha, body FROM texts WHERE sha IN"
                " (SELECT text_sha FROM documents WHERE id BETWEEN ? AND ?)",
                between,
            )
            inserts.insert("texts", texts, known=True)
            inserts.insert(
                "documents",
                connection.execute("SELECT * FROM documents WHERE id BETWEEN ? AND ?", between),
            )
            for table in schema.OF_DOCUMENTS:
                inserts.insert(
                    table,
                    connection.execute(
                        f"SELECT * FROM {table} WHERE document BETWEEN ? AND ?", between
                    ),
                )
            entries: list[tuple[Any, ...]] = []
            titles: list[tuple[Any, ...]] = []
            for document, first, (names, streams) in epoch.keywords.view.read_streams(*between):
                titles.append((document, *names))
                entries += ((key, document, *stream) for key, stream in enumerate(streams, first))
            inserts.insert("titles", titles)
            inserts.insert("entries", entries)

    def _change_documents(self, connection: sqlite3.Connection, numbers: Sequence[int]) -> None:
        """Update the documents that are still there, and remove the others with their rows."""
        assert self._raw is not None
        kept: list[tuple[Any, ...]] = []
        for some in catalog.batches(numbers):
            kept += connection.execute(
                "SELECT id, died, size, mtime_ns, ctime_ns, inode, settled FROM documents"
                f" WHERE id IN ({catalog.placeholders(some)})",
                some,
            )
        if kept:
            self._raw.execute(
                "UPDATE documents d SET died = g.died, size = g.size, mtime_ns = g.mtime_ns,"
                " ctime_ns = g.ctime_ns, inode = g.inode, settled = g.settled FROM"
                " unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[],"
                " %b::bigint[], %b::integer[])"
                " AS g (id, died, size, mtime_ns, ctime_ns, inode, settled) WHERE d.id = g.id",
                [list(column) for column in zip(*kept, strict=True)],
            )
        gone = sorted(set(numbers).difference(row[0] for row in kept))
        if gone:
            for table in (*schema.OF_DOCUMENTS, "entries", "titles"):
                self._raw.execute(
                    f"DELETE FROM {table} WHERE document = ANY(%s::bigint[])", (gone,)
                )
            texts = self._raw.execute(
                "DELETE FROM documents WHERE id = ANY(%s::bigint[]) RETURNING text_sha", (gone,)
            ).fetchall()
            self._raw.execute(
                "DELETE FROM texts t WHERE sha = ANY(%s::bytea[])"
                " AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.text_sha = t.sha)",
                ([sha for (sha,) in texts],),
            )

    def _erase_vectors(self, connection: sqlite3.Connection, numbers: Sequence[int]) -> None:
        assert self._raw is not None
        contents = sorted(catalog.read_contents(connection, numbers).items())
        if contents:
            self._raw.execute(
                "UPDATE embeddings e SET content = g.content, checksum = %s, vector = NULL"
                " FROM unnest(%b::bigint[], %b::bytea[]) AS g (row, content) WHERE e.row = g.row",
                [UNSETTLED, *(list(column) for column in zip(*contents, strict=True))],
            )
            self._raw.execute("DELETE FROM quality WHERE row = ANY(%s::bigint[])", (list(numbers),))

    def _replace_tables(
        self, connection: sqlite3.Connection, inserts: Inserts, revision: int
    ) -> None:
        assert self._raw is not None
        now = _read_seals(connection)
        for table in WHOLE:
            if now[table] != self._sealed.get(table):
                catalog.record(connection, f"{table}_at", revision)
                self._raw.execute(f"DELETE FROM {table}")
                inserts.insert(table, connection.execute(f"SELECT * FROM {table}"))
        for table in ("meta", "generations"):
            rows = connection.execute(f"SELECT * FROM {table}")
            self._raw.execute(f"DELETE FROM {table}")
            inserts.insert(table, (row for row in rows if row[0] not in LOCAL))


def _read_seals(connection: sqlite3.Connection) -> dict[str, bytes]:
    """Return the hashes of the tables that are replaced as a whole."""
    known = dict(connection.execute("SELECT name, hash FROM seals"))
    return {table: known[table] for table in WHOLE}


def _encode(vectors: NDArray[np.float16], row: Sequence[Any]) -> bytes | None:
    """Return a vector as the server stores it; None for one that is being erased."""
    return None if row[2] == UNSETTLED else vectors[row[0]].astype(">f2").tobytes()
