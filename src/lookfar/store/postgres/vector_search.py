"""Compare vectors on the server, with pgvector, and index those of a large collection.

Up to some tens of thousands of vectors, and wherever filters leave few, all are compared exactly.
Beyond that an HNSW index of the collection proposes candidates, whose similarities are still exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import psycopg

from lookfar.store.catalogue import rows as catalog
from lookfar.store.postgres import schema
from lookfar.store.postgres.server import Halfvec, ServerConnection

if TYPE_CHECKING:
    from numpy.typing import NDArray

CANDIDATES: Final = 1000
"""How many candidates the index proposes, the most it can. A search that needs more, because few
pass its filters, compares all vectors."""

EXACT_BELOW: Final = 30_000
"""Collections with fewer vectors have no index; all vectors are compared."""
_LINKS: Final = 32
_CARE: Final = 200
"""Build parameters (m, ef_construction). The vectors of a static model are close together: with
pgvector's defaults the index finds two thirds of the ten nearest among 61,000."""
_MOST_DIMENSIONS: Final = 4000
"""The longest vectors that pgvector can index."""
_MAKE_SECONDS: Final = 60
"""How long creating an index waits for readers."""
_DROP_SECONDS: Final = 5
"""How long dropping one waits: an index that stays has no rows, and costs nothing."""
_WORTH_ANALYSING: Final = 100
"""Changed documents from which the planner's statistics are updated."""


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
    elif not exact and limit <= CANDIDATES and index_name(collection) in list_indexes(connection):
        connection.ask(
            "SELECT set_config('hnsw.ef_search', %s, true)",
            (str(CANDIDATES),),
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
) -> dict[int, NDArray[np.float32]]:
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


def list_indexes(connection: ServerConnection) -> set[str]:
    rows: Any = connection.ask(
        "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        " WHERE i.indrelid = 'lookfar.embeddings'::regclass AND i.indisvalid"
    )
    return {name for (name,) in rows}


def tune(
    connection: ServerConnection, number: int, dimensions: int, changes: int, vector_bytes: int
) -> None:
    """Update the planner's statistics, and index vectors that are too many for front ends."""
    if changes >= _WORTH_ANALYSING:
        for table in schema.TABLES:
            connection.ask(f"ANALYZE {table}")
    rows = catalog.vector_rows(connection)
    many = rows >= EXACT_BELOW and rows * dimensions * 2 > vector_bytes
    if many and 1 < dimensions <= _MOST_DIMENSIONS:
        _create_vector_index(connection, number, dimensions)


def drop_vector_index(connection: ServerConnection, number: int) -> None:
    if _index_is_valid(connection, number) is not None:
        with _lock_timeout(connection, _DROP_SECONDS):
            connection.ask(f"DROP INDEX CONCURRENTLY IF EXISTS {index_name(number)}")


def _create_vector_index(connection: ServerConnection, number: int, dimensions: int) -> None:
    """Index the collection's own vectors, without blocking readers or writers."""
    valid = _index_is_valid(connection, number)
    if valid is None or valid is True:
        return
    with _lock_timeout(connection, _MAKE_SECONDS):
        # An interrupted build leaves an index that is not used.
        connection.ask(f"DROP INDEX CONCURRENTLY IF EXISTS {index_name(number)}")
        connection.ask(
            f"CREATE INDEX CONCURRENTLY {index_name(number)} ON embeddings"
            f" USING hnsw ((vector::halfvec({dimensions})) halfvec_ip_ops)"
            f" WITH (m = {_LINKS}, ef_construction = {_CARE}) WHERE collection = {number}"
        )


def _index_is_valid(connection: ServerConnection, number: int) -> bool | None:
    """Return whether a collection's index can be used; ``None`` if this role may not change it.

    Only the owner of the tables creates and drops indexes; tenants do without.
    """
    row = connection.ask(
        "SELECT pg_has_role(t.relowner, 'USAGE'), coalesce(i.indisvalid, false) FROM pg_class t"
        " LEFT JOIN pg_class c ON c.relname = %s AND c.relnamespace = t.relnamespace"
        " LEFT JOIN pg_index i ON i.indexrelid = c.oid"
        " WHERE t.oid = 'lookfar.embeddings'::regclass",
        (index_name(number),),
    ).fetchone()
    return bool(row[1]) if row and row[0] else None


@contextmanager
def _lock_timeout(connection: ServerConnection, seconds: int) -> Iterator[None]:
    """Wait for readers, but not forever; what is left undone is for the next writer."""
    connection.ask(f"SET lock_timeout = '{seconds}s'")
    try:
        with suppress(psycopg.errors.LockNotAvailable):
            yield
    finally:
        connection.ask("RESET lock_timeout")
