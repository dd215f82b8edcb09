"""One epoch: catalogue, keywords and vectors that share a model, a chunking and a format.

Takes: a folder. Gives: snapshots to read from and, to the holder of the writer
lock, a session to write with. Refuses: to mix; an epoch's fingerprint never
changes, another model or chunking is another epoch.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from lookfar.model import Counts, Failure, Filters, Fingerprint, Section
from lookfar.ports import Known, Place, Version
from lookfar.store import catalog, files, generations
from lookfar.store.database import Readers, connect, typed_errors
from lookfar.store.keywords import KeywordIndex
from lookfar.store.migrations import create_indexes, migrate
from lookfar.store.vectors import VectorFile
from lookfar.store.verify import Problem, verify

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CATALOGUE = "catalogue.db"
_KEYWORDS = "keywords"
_VECTORS = "vectors.f16"
_BUFFERED_ROWS = 4096
_FEW_DOCUMENTS = 0.05
_MOST_LISTED = 5_000


class Epoch:
    """The artefacts of one epoch, opened."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalogue = folder / _CATALOGUE
        self._readers = Readers(self.catalogue)
        with self._readers.borrow() as connection:
            self.meta = dict(connection.execute("SELECT key, value FROM meta"))
        self.keywords = KeywordIndex(folder / _KEYWORDS)
        self.vectors = VectorFile(folder / _VECTORS, int(self.meta["dimensions"]))
        self._stamp = self.keywords.committed()
        self._reloading = Lock()
        self._scopes: dict[tuple[int, Filters], frozenset[int]] = {}

    @classmethod
    def create(cls, folder: Path, fingerprint: str, dimensions: int) -> Epoch:
        """An empty epoch, which nobody sees before the collection points at it."""
        files.make_folder(folder)
        with typed_errors(folder / _CATALOGUE):
            connection = connect(folder / _CATALOGUE, write=True)
            migrate(connection)
            connection.executemany(
                "INSERT INTO meta VALUES (?, ?)",
                [("fingerprint", fingerprint), ("dimensions", str(dimensions))],
            )
            connection.close()
        KeywordIndex(folder / _KEYWORDS, create=True)
        VectorFile(folder / _VECTORS, dimensions).create()
        return cls(folder)

    @property
    def fingerprint(self) -> str:
        return self.meta["fingerprint"]

    @contextmanager
    def snapshot(self, generation: int | None = None) -> Iterator[EpochSnapshot]:
        with self._readers.borrow() as connection:
            wanted = generations.resolve(connection, generation)
            self._catch_up(connection)
            yield EpochSnapshot(self, connection, wanted)

    def _catch_up(self, connection: sqlite3.Connection) -> None:
        """Let the keyword searcher see at least what this snapshot's catalogue names."""
        row = connection.execute("SELECT value FROM meta WHERE key = 'keywords_stamp'").fetchone()
        if row and int(row[0]) > self._stamp:
            with self._reloading:
                self.keywords.reload()
                self._stamp = self.keywords.committed()

    def scope(
        self, connection: sqlite3.Connection, generation: int, filters: Filters
    ) -> frozenset[int]:
        """The documents that filters admit, remembered for the next page of the same query."""
        asked = (generation, filters)
        if asked not in self._scopes:
            if len(self._scopes) > 64:
                self._scopes.clear()
            self._scopes[asked] = _admitted(connection, generation, filters)
        return self._scopes[asked]

    def generations(self) -> list[generations.Generation]:
        with self._readers.borrow() as connection:
            return generations.listed(connection)

    def verify(self) -> list[Problem]:
        with self._readers.borrow() as connection:
            self._catch_up(connection)
            return verify(self, connection)

    def close(self) -> None:
        self._readers.close()


def _admitted(
    connection: sqlite3.Connection, generation: int, filters: Filters
) -> frozenset[int]:
    where, values = [catalog.ALIVE], {"g": generation, "prefix": filters.prefix}
    if filters.prefix:
        where.append("substr(d.uri, 1, length(:prefix)) = :prefix")
    for number, tag in enumerate(filters.tags):
        values[f"tag{number}"] = tag
        where.append(
            f"EXISTS (SELECT 1 FROM tags t WHERE t.document = d.id AND t.tag = :tag{number})"
        )
    if filters.lanes:
        values.update({f"lane{number}": lane for number, lane in enumerate(filters.lanes)})
        named = ",".join(f":lane{number}" for number in range(len(filters.lanes)))
        where.append(f"d.lane IN ({named})")
    rows = connection.execute(
        f"SELECT d.id, d.uri FROM documents d WHERE {' AND '.join(where)}", values
    )
    if not filters.uris:
        return frozenset(identifier for identifier, _ in rows)
    wanted = frozenset(filters.uris)
    return frozenset(identifier for identifier, uri in rows if uri in wanted)


class EpochSnapshot:
    """One generation of one epoch, read inside one SQLite snapshot."""

    def __init__(self, epoch: Epoch, connection: sqlite3.Connection, generation: int) -> None:
        self._epoch = epoch
        self._connection = connection
        self.generation = generation

    @property
    def _rows(self) -> int:
        row = self._connection.execute("SELECT max(row) FROM embeddings").fetchone()
        return 0 if row[0] is None else int(row[0]) + 1

    def keyword_search(
        self, terms: Sequence[str], weights: Mapping[str, float], limit: int, filters: Filters
    ) -> list[tuple[Place, float]]:
        admitted = self._admitted(filters)
        listed = sorted(admitted) if admitted is not None and self._few(admitted) else None
        fetch = limit
        while True:
            hits = self._epoch.keywords.search(terms, weights, fetch, listed)
            alive = catalog.places_by_key(
                self._connection, [key for key, _ in hits], self.generation
            )
            kept = [
                (alive[key], score)
                for key, score in hits
                if key in alive and _passes(alive[key], admitted, filters.heading)
            ]
            if len(kept) >= limit or len(hits) < fetch:
                return kept[:limit]
            fetch *= 4

    def best_of_each(
        self,
        terms: Sequence[str],
        weights: Mapping[str, float],
        documents: Sequence[int],
        heading: str = "",
    ) -> list[tuple[Place, float]]:
        """One chunk of each named live document: the best by words, else the first."""
        best = dict(self._epoch.keywords.best_of_each(terms, weights, documents))
        places = list(
            catalog.places_by_key(self._connection, list(best), self.generation).values()
        )
        bare = set(documents).difference(place.document for place in places)
        places += catalog.first_places(self._connection, sorted(bare), self.generation)
        return [
            (place, best.get(place.key, 0.0)) for place in places if _passes(place, None, heading)
        ]

    def page_search(
        self, terms: Sequence[str], weights: Mapping[str, float], limit: int, filters: Filters
    ) -> list[tuple[int, float]]:
        """Live documents by their whole text, best first."""
        admitted = self._admitted(filters)
        listed = sorted(admitted) if admitted is not None and self._few(admitted) else None
        fetch = limit
        while True:
            hits = self._epoch.keywords.search_pages(terms, weights, fetch, listed)
            alive = admitted if admitted is not None else catalog.live_among(
                self._connection, [document for document, _ in hits], self.generation
            )
            kept = [hit for hit in hits if hit[0] in alive]
            if len(kept) >= limit or len(hits) < fetch:
                return kept[:limit]
            fetch *= 4

    def page_scores(
        self, terms: Sequence[str], weights: Mapping[str, float], documents: Sequence[int]
    ) -> dict[int, float]:
        """The whole-text score of each named document that has one."""
        return dict(self._epoch.keywords.search_pages(terms, weights, len(documents), documents))

    def vector_search(
        self, query: NDArray[np.float32], limit: int, filters: Filters
    ) -> list[tuple[Place, float]]:
        count = self._rows
        admitted = self._admitted(filters)
        among: NDArray[np.intp] | None = None
        if admitted is not None and self._few(admitted):
            among = self._vector_rows(admitted)
        fetch = limit
        while True:
            vectors = self._epoch.vectors
            rows, scores = (
                vectors.nearest(query, count, fetch)
                if among is None
                else vectors.nearest_among(query, among, count, fetch)
            )
            alive = catalog.places_by_vector(self._connection, rows.tolist(), self.generation)
            kept = [
                (place, float(score))
                for row, score in zip(rows.tolist(), scores, strict=True)
                for place in alive.get(row, ())
                if _passes(place, admitted, filters.heading)
            ]
            if len(kept) >= limit or len(rows) < fetch:
                return kept[:limit]
            fetch *= 4

    def vector_scores(self, query: NDArray[np.float32], places: Sequence[Place]) -> list[float]:
        """Similarity of each place; 0 for one without a vector."""
        rows = [place.vector for place in places if place.vector is not None]
        found = iter(self._epoch.vectors.scores(query, rows, self._rows).tolist())
        return [0.0 if place.vector is None else next(found) for place in places]

    def _admitted(self, filters: Filters) -> frozenset[int] | None:
        documents_only = Filters(filters.prefix, filters.uris, "", "", filters.tags, filters.lanes)
        if not documents_only:
            return None
        return self._epoch.scope(self._connection, self.generation, documents_only)

    def _few(self, documents: frozenset[int]) -> bool:
        """Whether naming the documents is cheaper than skipping what is not among them."""
        if len(documents) > _MOST_LISTED:
            return False
        (total,) = self._connection.execute("SELECT max(id) FROM documents").fetchone()
        return len(documents) <= max(20, (total or 0) * _FEW_DOCUMENTS)

    def _vector_rows(self, documents: frozenset[int]) -> NDArray[np.intp]:
        rows: set[int] = set()
        for some in catalog.batches(sorted(documents)):
            found = self._connection.execute(
                "SELECT vector FROM chunks WHERE vector IS NOT NULL AND document IN"
                f" ({catalog.marks(some)})",
                some,
            )
            rows.update(row for (row,) in found)
        return np.array(sorted(rows), dtype=np.intp)

    def uris(self, prefix: str = "") -> list[str]:
        return catalog.uris(self._connection, self.generation, prefix)

    def document(self, uri: str) -> dict[str, Any] | None:
        return catalog.live_document(self._connection, uri, self.generation)

    def sections(self, uri: str) -> list[Section]:
        found = self.document(uri)
        return catalog.sections(self._connection, found["id"]) if found else []

    def text(self, uri: str) -> str | None:
        found = self.document(uri)
        return catalog.text(self._connection, found["text_sha"]) if found else None

    def neighbours(self, document: int, first: int, last: int) -> list[Place]:
        return catalog.neighbours(self._connection, document, first, last)

    def counts(self) -> Counts:
        return catalog.counts(self._connection, self.generation)

    def failures(self) -> list[Failure]:
        return catalog.failures(self._connection)

    def known(self) -> dict[str, Known]:
        return catalog.known(self._connection)

    def missing(self, contents: Iterable[bytes]) -> set[bytes]:
        return catalog.unembedded(self._connection, contents)


def _passes(place: Place, admitted: frozenset[int] | None, heading: str) -> bool:
    if admitted is not None and place.document not in admitted:
        return False
    return not heading or heading.casefold() in " > ".join(place.path).casefold()


class EpochWriter:
    """A write session: one transaction, invisible until ``activate``."""

    def __init__(self, epoch: Epoch, retain: int, *, fresh: bool) -> None:
        self._epoch = epoch
        self._retain = retain
        self._connection = connect(epoch.catalogue, write=True)
        self._done = False
        self.activated = False
        if fresh:
            # Nobody reads an epoch before it is published, so a crash costs nothing to undo.
            self._connection.execute("PRAGMA journal_mode=OFF")
            self._connection.execute("PRAGMA synchronous=OFF")
        self._connection.execute("BEGIN IMMEDIATE")
        self.fresh = self._fresh = fresh
        self.embedded = 0
        """Vectors added by this session."""
        self._generation = generations.active(self._connection) + 1
        self._inserts = catalog.Inserts(self._connection)
        self._next_document = 1 + self._highest("id", "documents")
        self._next_key = 1 + self._highest("key", "chunks")
        self._next_row = 1 + self._highest("row", "embeddings", none=-1)
        self._new: dict[bytes, int] = {}
        self._texts: set[bytes] = set()
        self._buffer: list[bytes] = []
        epoch.keywords.open_writer(self._next_key - 1)
        graves = self._connection.execute("SELECT document FROM graves")
        epoch.keywords.remove_documents([identifier for (identifier,) in graves])
        self._connection.execute("DELETE FROM graves")

    def _highest(self, column: str, table: str, none: int = 0) -> int:
        (found,) = self._connection.execute(f"SELECT max({column}) FROM {table}").fetchone()
        return none if found is None else int(found)

    @property
    def catalogue(self) -> Path | None:
        """Where other processes may look up existing vectors; there are none in a new epoch."""
        return None if self._fresh else self._epoch.catalogue

    def known(self) -> dict[str, Known]:
        return catalog.known(self._connection)

    def missing(self, contents: Iterable[bytes]) -> set[bytes]:
        unseen = [content for content in contents if content not in self._new]
        if self._fresh:
            return set(unseen)
        return catalog.unembedded(self._connection, unseen)

    def put(self, version: Version) -> None:
        """Store a version in place of the live one of the same URI, if there is one."""
        with typed_errors(self._epoch.catalogue):
            if not self._fresh:
                catalog.bury(self._connection, version.uri, self._generation)
            self._embed(version.embedded)
            if self._is_new_text(version.text_sha):
                self._inserts.text(version.text_sha, version.text)
            self._inserts.version(
                self._next_document, version, self._generation, self._next_key, self._row_of
            )
        self._epoch.keywords.add(self._next_key, self._next_document, version.entries)
        self._next_key += len(version.chunks)
        self._next_document += 1

    def _is_new_text(self, text_sha: bytes) -> bool:
        if text_sha in self._texts:
            return False
        self._texts.add(text_sha)
        return self._fresh or not catalog.has_text(self._connection, text_sha)

    def _embed(self, vectors: Mapping[bytes, bytes]) -> None:
        for content, vector in vectors.items():
            if content in self._new:
                continue
            self.embedded += 1
            row = self._next_row
            self._next_row += 1
            self._new[content] = row
            self._buffer.append(vector)
            self._inserts.embedding(row, content, crc32(vector))
        if len(self._buffer) >= _BUFFERED_ROWS:
            self._flush_vectors()

    def _flush_vectors(self) -> None:
        if self._buffer:
            first = self._next_row - len(self._buffer)
            self._epoch.vectors.append(first, b"".join(self._buffer))
            self._buffer.clear()

    def _row_of(self, content: bytes) -> int | None:
        if content in self._new:
            return self._new[content]
        if self._fresh:
            return None
        found = self._connection.execute(
            "SELECT row FROM embeddings WHERE content = ?", (content,)
        ).fetchone()
        return None if found is None else int(found[0])

    def touch(self, document: int, fingerprint: Fingerprint, settled: bool) -> None:
        catalog.touch(self._connection, document, fingerprint, settled)

    def remove(self, uri: str) -> None:
        catalog.bury(self._connection, uri, self._generation)

    def record_failures(self, failures: Sequence[Failure]) -> None:
        catalog.replace_failures(self._connection, failures)

    def commit_touches(self) -> int:
        """Keep what was learnt of the disk when no document changed: the generation stays."""
        with typed_errors(self._epoch.catalogue):
            self._connection.execute("COMMIT")
        self._finish()
        return self._generation - 1

    def activate(self, manifest: Mapping[str, Any]) -> int:
        """Derived indexes first, durable; then the catalogue, in one commit."""
        self._flush_vectors()
        self._epoch.vectors.sync()
        stamp = self._epoch.keywords.commit()
        with typed_errors(self._epoch.catalogue):
            self._inserts.flush()
            create_indexes(self._connection)
            generations.activate(
                self._connection,
                self._generation,
                datetime.now(UTC).isoformat(timespec="seconds"),
                manifest,
            )
            generations.purge(
                self._connection, generations.retire(self._connection, self._retain)
            )
            self._connection.execute(
                "INSERT OR REPLACE INTO meta VALUES ('keywords_stamp', ?)", (str(stamp),)
            )
            self._connection.execute("COMMIT")
            if self._fresh:
                self._connection.execute("PRAGMA journal_mode=WAL")
        self.activated = True
        self._finish()
        if self._fresh:
            files.sync(self._epoch.catalogue)
            files.sync_folder(self._epoch.folder)
        return self._generation

    def _finish(self) -> None:
        self._done = True
        self._connection.close()
        self._epoch.keywords.close_writer()

    def close(self) -> None:
        """Leave; without ``activate`` nothing has happened."""
        if not self._done:
            self._done = True
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._connection.close()
            self._epoch.keywords.abandon()
