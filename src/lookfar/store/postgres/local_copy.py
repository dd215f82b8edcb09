"""This machine's copy of a collection on a server: an embedded store that follows its rows.

The copy has the same numbers, and these only grow. So following means to read the rows with higher
numbers, and what the server noted of each commit that did more. The server has everything: a copy
that is damaged, or too old to follow, is fetched again as a whole.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from psycopg import Connection

from lookfar.errors import LookfarError
from lookfar.model import Damage
from lookfar.ports import OnStep
from lookfar.store.catalogue import generations
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.erasing import TRACES, UNSETTLED, blank_name
from lookfar.store.catalogue.migrations import FORMAT, check, create_indexes
from lookfar.store.catalogue.seals import seal, seal_versions
from lookfar.store.ground import files
from lookfar.store.ground.database import commit
from lookfar.store.keywords.fields import NAMES
from lookfar.store.keywords.signatures import Signed, sign
from lookfar.store.postgres import quality, schema
from lookfar.store.postgres.mirror import (
    ERASURES,
    LOCAL,
    WHOLE,
    Mirror,
    read_followed,
    record_followed,
)
from lookfar.store.postgres.quality import ServerQualityWriter
from lookfar.store.postgres.server import (
    Server,
    Serving,
    copy_out,
    find_serving,
    select_in_transaction,
)
from lookfar.store.sqlite.builds import Recipe
from lookfar.store.sqlite.epoch import Epoch
from lookfar.store.sqlite.erase import remove_traces
from lookfar.store.sqlite.store import CollectionStore
from lookfar.store.sqlite.write_session import EpochWriter
from lookfar.store.vectors.vector_file import checksum

PATIENCE: Final = 600.0
"""Seconds to wait for another process of this machine that fetches the copy."""
_DOCUMENTS: Final = 5_000
"""Documents whose rows are read at once."""
_SIGNED: Final = 20_000

Changes = tuple[list[int], list[int]]
"""Documents and vectors that were changed or removed."""


class LocalCopy(CollectionStore):
    def __init__(self, folder: Path, coarse_above: int, mirror: Mirror) -> None:
        super().__init__(folder, coarse_above, mirror=mirror)

    def is_current(self, serving: Serving, *, replica: bool = False) -> bool:
        """Return whether this copy has the server's state, or a newer one than a ``replica``."""
        state = self._read_state()
        if state is None:
            return False
        return state == serving[:3] or (replica and state[:2] > serving[:2])

    @property
    def number(self) -> int | None:
        """The number on the server of the collection that this copy has."""
        state = self._read_state()
        return state[0] if state else None

    def _read_state(self) -> tuple[int, int, str] | None:
        """Return the state of the server that this copy has; None without a sound copy, or with one
        that another version of Lookfar made."""
        with suppress(LookfarError):
            if self.exists and self._read(check) == FORMAT:
                return self._read(read_followed)
        return None

    def follow(self, server: Server, name: str, raw: Connection[Any] | None = None) -> None:
        """Bring the copy to the state of the server, read over ``raw`` or the pool.

        Without a collection there, the copy is removed.
        """
        files.make_folder(self.folder)
        with self._files.lock(PATIENCE), _reading(server, raw) as connection:
            serving = find_serving(connection, name)
            if serving is None:
                if self._files.has_index:
                    self.close()
                    self._files.remove_contents(())
                return
            if self.is_current(serving, replica=raw is None and server.reads_replica):
                return
            select_in_transaction(connection, serving.collection)
            changes = self._read_changes(connection, serving)
            if changes is None:
                self._fetch(connection, serving)
                return
            epoch = self._serving()
            with closing(_Follower(epoch, connection, serving, fresh=False)) as follower:
                follower.apply(*changes)
            remove_traces(epoch, self._files.lock_quality)

    def follow_quality(self, server: Server, serving: Serving) -> None:
        """Add some of the vectors of the second model that the server has since got."""
        epoch = self._serving()
        if quality.read_followed(epoch.folder) < serving.quality:
            with _reading(server, None) as connection:
                quality.follow(connection, serving.collection, epoch, self._files.lock_quality)

    @contextmanager
    def server_quality_writer(
        self, raw: Connection[Any], model: str, dimensions: int
    ) -> Iterator[ServerQualityWriter]:
        """Open a writer that sends what it stores, for the holder of the server's lock on it."""
        epoch, number = self._serving(), self.number or 0
        with raw.transaction():
            while quality.follow(raw, number, epoch, self._files.lock_quality):
                pass
        with self.quality_writer(model, dimensions) as writer:
            yield ServerQualityWriter(writer, raw, number, epoch)

    def fetch(self, server: Server, name: str, on_step: OnStep | None = None) -> list[Damage]:
        """Fetch everything again and verify it; it replaces this copy if it is sound."""
        files.make_folder(self.folder)
        with self._files.lock(PATIENCE), _reading(server, None) as connection:
            serving = find_serving(connection, name)
            if serving is None:
                return []
            select_in_transaction(connection, serving.collection)
            return self._fetch(connection, serving, on_step)

    def _fetch(
        self, connection: Connection[Any], serving: Serving, on_step: OnStep | None = None
    ) -> list[Damage]:
        """Copy everything into a new epoch, which takes over; with ``on_step``, if it is sound."""
        recipe = Recipe(serving.fingerprint, serving.dimensions, serving.model, 0)
        epoch = self._builds.create(self._files.next_epoch(""), recipe)
        damage: list[Damage] = []
        with self._builds.discard_unfinished(epoch):
            with closing(_Follower(epoch, connection, serving, fresh=True)) as follower:
                follower.apply([], [])
            if on_step is not None:
                damage = epoch.verify(on_step)
            if not damage:
                with suppress(LookfarError):
                    self._carry_quality(self._files.serving_name(), epoch)
                while quality.follow(
                    connection, serving.collection, epoch, self._files.lock_quality
                ):
                    pass
                self._files.publish(epoch.folder, serving.about)
        return damage

    def _read_changes(self, connection: Connection[Any], serving: Serving) -> Changes | None:
        """Return what the commits since this copy's state changed; None if it cannot follow."""
        state = self._read_state()
        if state is None or state[0] != serving.collection:
            return None
        _, revision, mark = state
        rows = connection.execute(
            "SELECT number, base, documents, vectors FROM revisions WHERE number > %s"
            " ORDER BY number",
            (revision,),
        ).fetchall()
        # A restored backup has other commits, or none.
        if not rows or rows[0][:2] != (revision + 1, mark):
            return None
        documents = sorted({number for row in rows for number in row[2]})
        vectors = sorted({number for row in rows for number in row[3]})
        return documents, vectors

    def drop_set_aside(self) -> None:
        """Remove the damaged epochs of this copy: the server keeps them."""
        for folder in self._files.set_aside_epochs():
            files.remove(folder)


@contextmanager
def _reading(server: Server, raw: Connection[Any] | None) -> Iterator[Connection[Any]]:
    """Lend a connection in a transaction that sees one state of the server."""
    if raw is None:
        with server.reading() as pooled, _reading(server, pooled) as connection:
            yield connection
    else:
        with raw.transaction():
            raw.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield raw


class _Follower(EpochWriter):
    """Writes what the server has to an epoch of a copy, for the holder of the writer lock."""

    def __init__(
        self, epoch: Epoch, server: Connection[Any], serving: Serving, *, fresh: bool
    ) -> None:
        self._server = server
        self._serving = serving
        super().__init__(epoch, 1, fresh=fresh)

    def _prepare_changes(self) -> None:
        """Do nothing: the server's rows say what was released and dropped."""

    def apply(self, changed: Sequence[int], erased: Sequence[int]) -> None:
        """Add what is new, change and remove these documents, and erase these vectors."""
        connection, last = self._connection, self._next_document - 1
        with self._errors():
            self._add_vectors()
            for first, end in self._list_ranges(last):
                self._add_documents(first, end)
            create_indexes(connection)
            self._change_documents([number for number in changed if number <= last])
            connection.executemany(
                "UPDATE embeddings SET content = ?, checksum = ? WHERE row = ?",
                [(blank_name(row), UNSETTLED, row) for row in erased],
            )
            replaced = self._replace_tables()
            seal_versions(connection, last)
            # The highest number may be of a document that is gone already.
            marks = catalog.highest_numbers(connection)
            self._next_document, self._next_key = marks.document + 1, marks.key + 1
        stamp = self._save_derived()
        with self._errors():
            self._record(stamp)
            record_followed(connection, *self._serving[:3])
            seal(connection)
            seal(connection, *replaced)
            commit(connection)
            if self.fresh:
                connection.execute("PRAGMA journal_mode=WAL")
        self._closed = True
        connection.close()
        self._epoch.keywords.close_writer()

    def _select(self, table: str, where: str, order: str) -> Iterator[tuple[Any, ...]]:
        columns = schema.TYPES[table]
        names = ", ".join(f'"{name}"' for name, _ in columns)
        query = f"SELECT {names} FROM {table} {where} ORDER BY {order}"
        return copy_out(self._server, query, [kind for _, kind in columns])

    def _insert(self, table: str, rows: Iterator[tuple[Any, ...]]) -> None:
        marks = ", ".join("?" * len(schema.TYPES[table]))
        self._connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)

    def _add_vectors(self) -> None:
        blank = bytes(self._dimensions * 2)

        def add() -> Iterator[tuple[int, bytes, int]]:
            for row, content, known, vector in self._select(
                "embeddings", f"WHERE row >= {self._next_row}", "row"
            ):
                while self._next_row <= row:
                    self._next_row += 1
                    here = self._next_row > row and vector is not None
                    self._store_vector(row, _swap(vector) if here else blank)
                yield row, content, checksum(content, blank) if vector is None else known

        self._connection.executemany("INSERT INTO embeddings VALUES (?, ?, ?)", add())

    def _list_ranges(self, last: int) -> Iterator[tuple[int, int]]:
        """Return the first and last number of so many new documents at a time."""
        query = f"SELECT id FROM documents WHERE id > {last} ORDER BY id"
        numbers = [number for (number,) in copy_out(self._server, query, ["bigint"])]
        return ((some[0], some[-1]) for some in catalog.batches(numbers, _DOCUMENTS))

    def _add_documents(self, first: int, last: int) -> None:
        """Add the rows, texts and terms of the documents from ``first`` to ``last``."""
        between = f"BETWEEN {first} AND {last}"
        documents = list(self._select("documents", f"WHERE id {between}", "id"))
        self._insert("documents", iter(documents))
        own = f"WHERE sha IN (SELECT text_sha FROM documents WHERE id {between})"
        texts = dict(self._select("texts", own, "sha"))
        self._connection.executemany(
            "INSERT INTO texts (sha, body) VALUES (?, ?)",
            [(sha, body) for sha, body in texts.items() if self._is_new_text(sha)],
        )
        signatures: dict[bytes, bytes] = {}
        for sha, body in texts.items():
            with suppress(zlib.error):  # Who reads a damaged text says so.
                signatures[sha] = sign(zlib.decompress(body))
        at = [name for name, _ in schema.TYPES["documents"]].index("text_sha")
        self._signed += (
            Signed(row[0], row[at], signatures[row[at]])
            for row in documents
            if row[at] in signatures
        )
        if len(self._signed) >= _SIGNED:
            self._epoch.signatures.append(self._signed)
            self._signed.clear()
        for table in schema.OF_DOCUMENTS:
            self._insert(table, self._select(table, f"WHERE document {between}", "1, 2"))
        known = {row[0] for row in documents}
        titles = {
            row[0]: row[1:] for row in self._select("titles", f"WHERE document {between}", "1")
        }
        entries = self._select("entries", f"WHERE document {between}", "key")
        for document, rows in groupby(entries, itemgetter(1)):
            streams = list(rows)
            if document in known:
                names = titles.get(document, ("",) * len(NAMES))
                terms = [row[2:] for row in streams]
                self._epoch.keywords.add(streams[0][0], document, names, terms)

    def _change_documents(self, numbers: Sequence[int]) -> None:
        """Update these documents, and purge those that the server no longer has."""
        columns = ("died", "size", "mtime_ns", "ctime_ns", "inode", "settled")
        kinds = dict(schema.TYPES["documents"])
        for some in catalog.batches(numbers):
            listed = ",".join(map(str, some))
            query = f"SELECT id, {', '.join(columns)} FROM documents WHERE id IN ({listed})"
            rows = list(
                copy_out(self._server, query, ["bigint", *(kinds[name] for name in columns)])
            )
            self._connection.executemany(
                f"UPDATE documents SET {', '.join(f'{name} = ?' for name in columns)} WHERE id = ?",
                [(*row[1:], row[0]) for row in rows],
            )
            gone = sorted(set(some).difference(row[0] for row in rows))
            stored = self._connection.execute(f"SELECT id FROM documents WHERE id IN ({listed})")
            known = {number for (number,) in stored}
            generations.purge(self._connection, [number for number in gone if number in known])

    def _replace_tables(self) -> list[str]:
        """Replace the small tables, and return which; those that can be large only where they
        changed."""
        connection = self._connection
        own = f"({', '.join(repr(key) for key in LOCAL)})"
        before = dict(connection.execute("SELECT key, value FROM meta"))
        connection.execute(f"DELETE FROM meta WHERE key NOT IN {own}")
        self._insert("meta", self._select("meta", f"WHERE key NOT IN {own}", "key"))
        now = dict(connection.execute("SELECT key, value FROM meta"))
        if not self.fresh and before.get(ERASURES) != now.get(ERASURES):
            catalog.record(connection, TRACES, 1)
        changed = [name for name in WHOLE if before.get(f"{name}_at") != now.get(f"{name}_at")]
        replaced = ["generations", *(WHOLE if self.fresh else changed)]
        for table in replaced:
            connection.execute(f"DELETE FROM {table}")
            self._insert(table, self._select(table, "", "1"))
        return replaced


def _swap(vector: bytes) -> bytes:
    """Return a vector with the low byte of each number first, as in files."""
    import numpy as np

    return np.frombuffer(vector, dtype=">f2").astype("<f2").tobytes()
