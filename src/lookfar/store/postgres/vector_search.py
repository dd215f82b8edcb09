"""Compare vectors on the server, with pgvector.

Up to some tens of thousands of vectors, and wherever filters leave few, all are compared exactly.
Beyond that an HNSW index of the collection proposes candidates, whose similarities are still exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lookfar.store.postgres.server import Halfvec, ServerConnection

if TYPE_CHECKING:
    from numpy.typing import NDArray

CANDIDATES: Final = 1000
"""How many candidates the index proposes, the most it can. A search that needs more, because few
pass its filters, compares all vectors."""


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
) -> dict[int | None, NDArray[np.float32]]:
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
