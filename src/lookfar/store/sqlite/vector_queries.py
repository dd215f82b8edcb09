"""The vector queries of a snapshot, for live chunks that pass the filters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import chain
from sqlite3 import Connection
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lookfar.common.cores import start
from lookfar.model import Filters, VectorPass
from lookfar.ports import Place, QualityCounts, QualityQuery
from lookfar.store.catalogue import rows as catalog
from lookfar.store.keywords.live_keywords import LiveKeywords
from lookfar.store.sqlite.keyword_queries import KeywordQueries, best_places

if TYPE_CHECKING:
    from sqlite3 import Connection

    from numpy.typing import NDArray

    from lookfar.store.sqlite.epoch import Epoch
    from lookfar.store.vectors.quality_vectors import QualityVectors

_MOST_DOCUMENTS = 0.5
"""The share of admitted documents from which it is faster to skip other rows than to mask them."""
_WORTH_A_THREAD = 20_000
"""Vectors from which comparing them takes clearly longer than passing the work to a thread."""

Nearest = tuple["NDArray[np.intp]", "NDArray[np.float64]"]
"""Rows of vectors and their similarity, the nearest first."""


_NO_ROW = 1 << 62
_MOST_SCANNED = 600_000
"""Vectors of the second model up to which all are compared; beyond, it only scores candidates."""

FindRows = Callable[[int, "NDArray[np.intp] | None", "NDArray[np.bool_] | None"], Nearest]
"""Finds the nearest rows, given how many, among which, and which of all rows are allowed."""


class _Begun(NamedTuple):
    """A search for the nearest rows that another thread does."""

    query: NDArray[np.float32]
    fetch: int
    task: Future[Nearest]

    def is_for(self, query: NDArray[np.float32], fetch: int) -> bool:
        return self.query is query and self.fetch == fetch


class VectorQueries(KeywordQueries):
    """The queries of a snapshot by vector, of both models."""

    def __init__(
        self,
        epoch: Epoch,
        connection: Connection,
        keywords: LiveKeywords,
        rows: NDArray[np.float16],
        generation: int,
        read_text: Callable[[str], str | None],
    ) -> None:
        super().__init__(connection, generation, epoch.remembered, keywords, read_text)
        self._epoch = epoch
        self._rows = rows
        self._begun: _Begun | None = None
        self._quality: tuple[QualityVectors, NDArray[np.float16]] | None = None

    @property
    def dimensions(self) -> int:
        return self._epoch.vectors.dimensions

    def begin_vector_search(self, query: NDArray[np.float32], limit: int, filters: Filters) -> None:
        """Compare many vectors on another core, while the keywords are searched here."""
        vectors, scope = self._epoch.vectors, self._scopes.resolve(filters)
        many = len(self._rows) >= _WORTH_A_THREAD or vectors.is_many(len(self._rows))
        if query.ndim > 1 or scope is not None or not many:
            return
        fetch = self._scopes.fetch_size(limit + 1, scope, None)
        task = start(vectors.nearest, query, self._rows, fetch)
        self._begun = None if task is None else _Begun(query, fetch, task)

    def vector_search(
        self, query: NDArray[np.float32], limit: int, filters: Filters
    ) -> list[tuple[Place, float]]:
        if query.ndim == 1:
            return self._nearest(query, limit, filters)
        # Each model proposes its own; a text of the other model scores 0.
        hits = [hit for row in query for hit in self._nearest(row, limit, filters)]
        return sorted((hit for hit in hits if hit[1]), key=lambda hit: -hit[1])

    def _find_nearest(
        self,
        query: NDArray[np.float32],
        fetch: int,
        among: NDArray[np.intp] | None,
        allowed: NDArray[np.bool_] | None,
    ) -> Nearest:
        """Return the nearest rows, from what was begun if that is the same search."""
        begun, self._begun = self._begun, None
        everything = among is None and allowed is None
        if begun is not None and everything and begun.is_for(query, fetch):
            # Do not wait for a helper that is still busy with something else.
            if begun.task.cancel():
                return self._epoch.vectors.nearest(query, self._rows, fetch)
            return begun.task.result()
        return self._epoch.vectors.nearest(query, self._rows, fetch, among, allowed)

    def _nearest(
        self, query: NDArray[np.float32], limit: int, filters: Filters
    ) -> list[tuple[Place, float]]:
        return self._search_rows(
            partial(self._find_nearest, query), len(self._rows), limit, filters
        )

    def _search_rows(
        self, find: FindRows, count: int, limit: int, filters: Filters
    ) -> list[tuple[Place, float]]:
        """Return the nearest live chunks that the filters admit, among the first ``count`` rows."""
        scope = self._scopes.resolve(filters)
        listed = self._scopes.list_documents(scope)
        among = None
        if listed is not None:
            among = np.array(self._scopes.vector_rows(listed), dtype=np.intp)
            among = among[among < count]
        allowed = None
        most = self._scopes.document_count() * _MOST_DOCUMENTS
        if scope is not None and among is None and len(scope.documents) < most:
            allowed = self._epoch.owners.find_rows(self._connection, scope.documents, count)
        # One more than wanted shows whether the last one ties with others.
        fetch = limit + 1
        if allowed is None:
            fetch = self._scopes.fetch_size(fetch, scope, listed)
        while True:
            rows, scores = find(fetch, among, allowed)
            alive = self._recent_places().by_vector(
                self._connection, self.generation, rows.tolist()
            )
            admitted = [
                (place, float(score))
                for row, score in zip(rows.tolist(), scores, strict=True)
                for place in alive.get(row, ())
                if scope is None or scope.admits(place)
            ]
            enough = len(admitted) >= limit and admitted[limit - 1][1] > scores[-1]
            if enough or len(rows) < fetch:
                return best_places(admitted, limit)
            fetch *= 4

    def vector_scores(self, query: NDArray[np.float32], places: Sequence[Place]) -> list[float]:
        # A passage has numbers for one model only, so the sum is that model's score.
        query = query if query.ndim == 1 else query.sum(axis=0)
        rows = [place.vector for place in places if place.vector is not None]
        scores = iter(self._epoch.vectors.scores(query, self._rows, rows).tolist())
        return [0.0 if place.vector is None else next(scores) for place in places]

    def vectors(self, places: Sequence[Place]) -> NDArray[np.float32]:
        having = [at for at, place in enumerate(places) if place.vector is not None]
        rows = [place.vector for place in places if place.vector is not None]
        vectors = np.zeros((len(places), self.dimensions), dtype=np.float32)
        vectors[having] = self._epoch.vectors.chosen(self._rows, rows)
        return vectors

    # -- the second model ----------------------------------------------------------

    def _quality_rows(self, query: QualityQuery) -> tuple[QualityVectors, NDArray[np.float16]]:
        """Return the second model's vectors as they were when this snapshot first needed them."""
        if self._quality is None or self._quality[0].model != query.model:
            vectors = self._epoch.open_quality(query.model, len(query.vector))
            self._quality = vectors, vectors.rows()
        return self._quality

    def quality_search(
        self, query: QualityQuery, limit: int, filters: Filters
    ) -> list[tuple[Place, float]]:
        vectors, stored = self._quality_rows(query)
        if not len(stored) or len(stored) > _MOST_SCANNED:
            return []
        nearest = partial(vectors.file.nearest, query.vector, stored)
        hits = self._search_rows(nearest, len(stored), limit, filters)
        sound = self._find_sound(query, [place for place, _ in hits])
        return [hit for hit, is_sound in zip(hits, sound, strict=True) if is_sound]

    def quality_scores(self, query: QualityQuery, places: Sequence[Place]) -> list[float | None]:
        vectors, stored = self._quality_rows(query)
        sound = self._find_sound(query, places)
        rows = [
            place.vector or 0 for place, is_sound in zip(places, sound, strict=True) if is_sound
        ]
        scores = iter(vectors.file.scores(query.vector, stored, rows).tolist())
        return [next(scores) if is_sound else None for is_sound in sound]

    def _find_sound(self, query: QualityQuery, places: Sequence[Place]) -> list[bool]:
        """Return which places have a vector of the second model that is intact."""
        vectors, stored = self._quality_rows(query)
        rows = [_NO_ROW if place.vector is None else place.vector for place in places]
        read = partial(catalog.read_contents, self._connection)
        sound: list[bool] = vectors.find_sound(rows, stored, read).tolist()
        return sound

    def list_vector_rows(self) -> list[catalog.VectorRow]:
        """Return each live chunk with a vector, those of the newest documents first."""
        return catalog.list_vector_rows(self._connection, self.generation)

    def read_contents(self, rows: Sequence[int]) -> dict[int, bytes]:
        """Return the content names of these vector rows."""
        return catalog.read_contents(self._connection, rows)

    def quality_counts(self, model: str, dimensions: int) -> QualityCounts:
        def list_contents() -> dict[int, bytes]:
            return {row.vector: row.content for row in self.list_vector_rows()}

        contents = self._remembered.cached(self._scopes.state, "vector contents", list_contents)
        embedded, unreadable = self._epoch.open_quality(model, dimensions).mark_done(contents)
        return QualityCounts(len(embedded), len(unreadable), len(contents))

    def vector_pass(self) -> VectorPass:
        recall = catalog.recall(self._connection)
        return self._epoch.vectors.describe_pass(len(self._rows), recall)


class Owners:
    """The documents of each vector row, read once and then extended.

    A row may belong to several documents. Purged documents stay listed, because no filter admits
    them.
    """

    def __init__(self) -> None:
        self._documents: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._rows: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._last = -1
        self._reading = Lock()

    def find_rows(
        self, connection: Connection, documents: Collection[int], count: int
    ) -> NDArray[np.bool_]:
        """Return for each of the first ``count`` rows whether one of ``documents`` uses it."""
        with self._reading:
            self._extend(connection)
            owners, rows = self._documents, self._rows
        wanted = np.zeros(int(owners.max(initial=-1)) + 1, dtype=np.bool_)
        numbers = np.fromiter(documents, dtype=np.int64, count=len(documents))
        wanted[numbers[numbers < len(wanted)]] = True
        allowed = np.zeros(count, dtype=np.bool_)
        used = rows[wanted[owners]]
        allowed[used[used < count]] = True
        return allowed

    def _extend(self, connection: Connection) -> None:
        # Chunk numbers only grow, and the chunk of a number never changes.
        chunks = connection.execute(
            "SELECT key, document, vector FROM chunks WHERE key > ? AND vector IS NOT NULL"
            " ORDER BY key",
            (self._last,),
        )
        read = np.fromiter(chain.from_iterable(chunks), dtype=np.int64).reshape(-1, 3)
        if len(read):
            self._last = int(read[-1, 0])
            self._documents = np.concatenate([self._documents, read[:, 1]])
            self._rows = np.concatenate([self._rows, read[:, 2]])
