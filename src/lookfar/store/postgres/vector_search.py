"""Compare vectors on the server, with pgvector.

Up to some tens of thousands of vectors, and wherever filters leave few, all are compared exactly.
Beyond that an HNSW index of the collection proposes candidates, whose similarities are still exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lookfar.model import VectorPass
from lookfar.store.catalogue import rows as catalog
from lookfar.store.postgres.server import Halfvec, ServerConnection
from lookfar.store.shared.scopes import ScopeResolver

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lookfar.model import Filters
    from lookfar.ports import Place

_CANDIDATES: Final = 1000
"""How many candidates the index proposes, the most it can. A search that needs more, because few
pass its filters, compares all vectors."""


class ServerVectors:
    """The vectors that one snapshot sees on the server."""

    def __init__(
        self,
        connection: ServerConnection,
        generation: int,
        scopes: ScopeResolver,
        collection: int,
        dimensions: int,
    ) -> None:
        self._connection = connection
        self._generation = generation
        self._scopes = scopes
        self._collection = collection
        self.dimensions = dimensions

    def search(
        self, query: NDArray[np.float32], limit: int, filters: Filters
    ) -> list[tuple[Place, float]]:
        scope = self._scopes.resolve(filters)
        listed = self._scopes.list_documents(scope)
        among = None if listed is None else self._scopes.vector_rows(listed)
        fetch, exact = limit, False
        while True:
            rows, exact = nearest(
                self._connection, self._collection, query, fetch, among, exact=exact
            )
            alive = catalog.places_by_vector(
                self._connection, [row for row, _ in rows], self._generation
            )
            admitted = [
                (place, score)
                for row, score in rows
                for place in alive.get(row, ())
                if scope is None or scope.admits(place)
            ]
            if len(admitted) >= limit:
                return admitted[:limit]
            if len(rows) == fetch:
                fetch *= 4
            elif exact:
                return admitted
            else:  # The index may propose fewer than there are.
                exact = True

    def scores(self, query: NDArray[np.float32], places: Sequence[Place]) -> list[float]:
        half = query.astype(np.float16).astype(np.float32)
        scores: list[float] = (self.of_places(places) @ half).astype(float).tolist()
        return scores

    def of_places(self, places: Sequence[Place]) -> NDArray[np.float32]:
        rows = {place.vector for place in places if place.vector is not None}
        stored = stored_vectors(self._connection, sorted(rows))
        vectors = np.zeros((len(places), self.dimensions), dtype=np.float32)
        for at, place in enumerate(places):
            if place.vector in stored:
                vectors[at] = stored[place.vector]
        return vectors

    def mean(self, rows: Sequence[int]) -> NDArray[np.float32] | None:
        if not rows:
            return None
        stored = stored_vectors(self._connection, rows)
        between: NDArray[np.float32] = np.mean([stored[row] for row in rows], axis=0)
        length = float(np.linalg.norm(between))
        return (between / np.float32(length)).astype(np.float32) if length else None

    def describe(self) -> VectorPass:
        rows = catalog.vector_rows(self._connection)
        if index_name(self._collection) not in _indexes(self._connection):
            return VectorPass(rows, "exact", rows)
        return VectorPass(rows, "coarse", _CANDIDATES)


def nearest(
    connection: ServerConnection,
    collection: int,
    query: NDArray[np.float32],
    limit: int,
    among: Sequence[int] | None = None,
    *,
    exact: bool = False,
) -> tuple[list[tuple[int, float]], bool]:
    """Return the nearest rows with their similarities, best first and ties by row, and whether all
    vectors were compared.

    The candidates of the index may include rows of uncommitted writers.
    """
    asked = Halfvec(query.astype("<f2").tobytes())
    similar, where, values = "-(vector <#> %s)", "", []
    if among is not None:
        where, values = " AND row = ANY(%s::bigint[])", [list(among)]
    elif not exact and limit <= _CANDIDATES and index_name(collection) in _indexes(connection):
        connection.ask(
            "SELECT set_config('hnsw.ef_search', %s, true)",
            (str(_CANDIDATES),),
        )
        # The number is part of the statement, so that the planner can choose the partial index.
        hits = connection.ask(
            f"SELECT row, {similar} FROM embeddings WHERE collection = {collection}"
            f" ORDER BY vector::halfvec({len(query)}) <#> %s LIMIT %s",
            (asked, asked, limit),
        )
        return sorted(((int(row), float(score)) for row, score in hits), key=_by_score), False
    hits = connection.ask(
        f"SELECT row, {similar} AS score FROM embeddings WHERE vector IS NOT NULL{where}"
        " ORDER BY score DESC, row LIMIT %s",
        (asked, *values, limit),
    )
    return [(int(row), float(score)) for row, score in hits], True


def _by_score(hit: tuple[int, float]) -> tuple[float, int]:
    return -hit[1], hit[0]


def stored_vectors(
    connection: ServerConnection, rows: Sequence[int]
) -> dict[int | None, NDArray[np.float32]]:
    """Return the stored vectors by row."""
    if not rows:
        return {}
    rows_sent = connection.ask(
        "SELECT row, halfvec_send(vector) FROM embeddings WHERE row = ANY(%s::bigint[])"
        " AND vector IS NOT NULL",
        (list(rows),),
    )
    return {row: unpack_vector(sent).astype(np.float32) for row, sent in rows_sent}


def unpack_vector(sent: bytes) -> NDArray[np.float16]:
    """Decode a vector in pgvector's binary format."""
    return np.frombuffer(sent, ">f2", offset=4).astype(np.float16)


def index_name(collection: int) -> str:
    return f"embeddings_nearest_{collection}"


def _indexes(connection: ServerConnection) -> set[str]:
    """Return the names of the vector indexes that are ready to use."""
    rows: Any = connection.ask(
        "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        " WHERE i.indrelid = 'lookfar.embeddings'::regclass AND i.indisvalid"
    )
    return {name for (name,) in rows}
