"""What makes reading a collection fast, done after a commit and outside of transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psycopg

from lookfar.store.catalogue import rows as catalog
from lookfar.store.postgres import schema
from lookfar.store.postgres.server import ServerConnection
from lookfar.store.postgres.vector_search import index_name

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


def tune(connection: ServerConnection, number: int, dimensions: int, changes: int) -> None:
    """Update the planner's statistics, and index the vectors of a large collection."""
    if changes >= _WORTH_ANALYSING:
        for table in schema.TABLES:
            connection.ask(f"ANALYZE {table}")
    many = catalog.vector_rows(connection) >= EXACT_BELOW
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
