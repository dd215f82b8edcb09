"""Snapshots of a collection on a server: keywords from posting lists, vectors from pgvector.

A snapshot is one transaction, whichever generation is activated meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lookfar.model import Failure, Filters, VectorPass
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.remembered import Remembered
from lookfar.store.keywords.fields import NAMES
from lookfar.store.postgres import vector_search
from lookfar.store.postgres.chunk_ranges import ChunkRanges
from lookfar.store.postgres.keywords import Memory, PostgresKeywords, RecentStreams
from lookfar.store.postgres.server import Reading, Serving
from lookfar.store.postgres.vector_memory import VectorMemory, nearest_rows
from lookfar.store.shared.keyword_queries import best_places
from lookfar.store.shared.snapshot import StoredSnapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lookfar.ports import Need, Place, Streams

T = TypeVar("T")


class PostgresEpoch:
    """What this process remembers of one numbered collection."""

    def __init__(
        self, serving: Serving, fill: Callable[[VectorMemory], None], vector_bytes: int
    ) -> None:
        """``fill`` copies the serving vectors into a memory of at most ``vector_bytes``."""
        self.collection = serving.collection
        self.dimensions = serving.dimensions
        self.remembered = Remembered()
        self.streams = RecentStreams()
        self.ranges = ChunkRanges()
        self.vectors = VectorMemory(serving.dimensions, vector_bytes)
        self.fill = fill
        self._lock = Lock()
        self._memory: tuple[tuple[int, int], Memory] = ((-1, -1), Memory())

    def memory(self, commit: int, generation: int) -> Memory:
        """Return the keyword cache of a generation in a commit; a reader of an older commit gets
        one of its own."""
        state = (commit, generation)
        with self._lock:
            if self._memory[0] != state and commit >= self._memory[0][0]:
                self._memory = (state, Memory())
            return self._memory[1] if self._memory[0] == state else Memory()


class PostgresSnapshot(StoredSnapshot):
    """One generation, read inside one transaction of the server.

    The server checks its own pages, so versions are not checked here.
    """

    _connection: Reading

    def __init__(
        self, epoch: PostgresEpoch, connection: Reading, serving: Serving, generation: int
    ) -> None:
        memory = epoch.memory(catalog.keywords_stamp(connection), generation)
        keywords = PostgresKeywords(connection, generation, memory, epoch.streams, epoch.ranges)
        super().__init__(connection, generation, epoch.remembered, keywords)
        self._epoch = epoch
        self._serving = serving
        self._memory = memory
        self._vectors: NDArray[np.float16] | None = None
        self._vectors_sought = False
        self._texts: dict[str, str | None] = {}
        """The texts that were read last, which may be too many for the memory."""

    def _narrow(self, need: Need, admitted: list[int] | None) -> list[int]:  # noqa: ARG002
        """Return every admitted document: the server stores no signatures to rule any out."""
        return self._every_document() if admitted is None else admitted

    def preload_texts(self, uris: Sequence[str]) -> None:
        known = self._memory.texts
        lacking = [uri for uri in uris if uri not in known]
        if not lacking:
            return
        texts: dict[str, str | None] = dict.fromkeys(lacking)
        for some in catalog.batches(lacking):
            texts.update(catalog.live_texts(self._connection, some, self.generation))
        self._memory.keep_texts(texts)
        self._texts = texts

    def text(self, uri: str) -> str | None:
        for texts in (self._memory.texts, self._texts):
            if uri in texts:
                return texts[uri]
        self.preload_texts([uri])
        return self._texts[uri]

    def manifest(self) -> Mapping[str, Any]:
        return self._memory.cached("manifest", super().manifest)

    def failures(self) -> list[Failure]:
        return self._memory.cached("failures", super().failures)

    def streams(self, uri: str) -> Streams | None:
        document = self.document(uri)
        if document is None:
            return None
        names = self._connection.ask(
            "SELECT title, path, description, aliases, keywords FROM titles WHERE document = %s",
            (document["id"],),
        ).fetchone()
        rows = self._connection.ask(
            "SELECT headings, tags, body, code FROM entries WHERE document = %s ORDER BY key",
            (document["id"],),
        )
        return names or ("",) * len(NAMES), [tuple(row) for row in rows]

    @property
    def dimensions(self) -> int:
        return self._epoch.dimensions

    def _nearest(
        self, query: NDArray[np.float32], limit: int, filters: Filters
    ) -> list[tuple[Place, float]]:
        scope = self._scopes.resolve(filters)
        listed = self._scopes.list_documents(scope)
        among = None if listed is None else self._scopes.vector_rows(listed)
        # One more than wanted shows whether the last one ties with others.
        fetch, exact, copied = limit + 1, False, self._copied_vectors()
        while True:
            if copied is not None:
                rows, exact = nearest_rows(copied, query, fetch, among), True
            else:
                rows, exact = vector_search.nearest(
                    self._connection, self._epoch.collection, query, fetch, among, exact=exact
                )
            alive = self._recent_places().by_vector(
                self._connection, self.generation, [row for row, _ in rows]
            )
            admitted = [
                (place, score)
                for row, score in rows
                for place in alive.get(row, ())
                if scope is None or scope.admits(place)
            ]
            enough = len(admitted) >= limit and admitted[limit - 1][1] > rows[-1][1]
            if enough or (exact and len(rows) < fetch):
                return best_places(admitted, limit)
            if len(rows) == fetch:
                fetch *= 4
            else:  # The index may propose fewer than there are.
                exact = True

    def _similarities(self, query: NDArray[np.float32], places: Sequence[Place]) -> list[float]:
        half = query.astype(np.float16).astype(np.float32)
        scores: list[float] = (self.vectors(places) @ half).astype(float).tolist()
        return scores

    def _copied_vectors(self) -> NDArray[np.float16] | None:
        """Return the vectors of this snapshot, if this process has a copy of them."""
        if not self._vectors_sought:
            # Once: all comparisons of a question are made in the same place.
            self._vectors_sought = True
            epoch = self._epoch
            self._vectors = epoch.vectors.rows(self._connection, self._serving, epoch.fill)
        return self._vectors

    def _stored_vectors(self, rows: Sequence[int]) -> dict[int, NDArray[np.float32]]:
        copied = self._copied_vectors()
        if copied is None:
            return vector_search.stored_vectors(self._connection, rows)
        return {row: copied[row].astype(np.float32) for row in rows}

    def vectors(self, places: Sequence[Place]) -> NDArray[np.float32]:
        rows = {place.vector for place in places if place.vector is not None}
        stored = self._stored_vectors(sorted(rows))
        vectors = np.zeros((len(places), self.dimensions), dtype=np.float32)
        for at, place in enumerate(places):
            if place.vector is not None and place.vector in stored:
                vectors[at] = stored[place.vector]
        return vectors

    def _mean_vector(self, rows: Sequence[int]) -> NDArray[np.float32] | None:
        if not rows:
            return None
        stored = self._stored_vectors(rows)
        between: NDArray[np.float32] = np.mean([stored[row] for row in rows], axis=0)
        length = float(np.linalg.norm(between))
        return (between / np.float32(length)).astype(np.float32) if length else None

    def vector_pass(self) -> VectorPass:
        rows = catalog.vector_rows(self._connection)
        indexes = vector_search.list_indexes(self._connection)
        unindexed = vector_search.index_name(self._epoch.collection) not in indexes
        if unindexed or self._epoch.vectors.has_room(rows):
            return VectorPass(rows, "exact", rows)
        return VectorPass(rows, "coarse", vector_search.CANDIDATES)
