"""Verify a collection on a server: texts, spans, vectors and posting lists.

Pages are checked by the server itself (``data_checksums``).
"""

from __future__ import annotations

from collections.abc import Iterator

from lookfar.common.caller import check_cancelled
from lookfar.model import Damage
from lookfar.ports import OnStep
from lookfar.store.catalogue.erasing import UNSETTLED
from lookfar.store.health.verify import check_pointer, check_texts
from lookfar.store.postgres.server import ServerConnection
from lookfar.store.postgres.vector_search import unpack_vector
from lookfar.store.vectors.vector_file import checksum

_BATCH = 20_000


def verify(connection: ServerConnection, on_step: OnStep | None = None) -> list[Damage]:
    """Return all damage in a collection; an empty list if it is sound."""
    problems: list[Damage] = []
    for name, check in (
        ("catalogue", check_pointer),
        ("texts", check_texts),
        ("vectors", _check_vectors),
        ("keywords", _check_keywords),
    ):
        check_cancelled()
        if on_step is not None:
            on_step(name)
        problems += check(connection)
    return problems


def _check_vectors(connection: ServerConnection) -> Iterator[Damage]:
    last = -1
    while True:
        rows = connection.ask(
            "SELECT row, content, checksum, halfvec_send(vector) FROM embeddings"
            " WHERE row > %s ORDER BY row LIMIT %s",
            (last, _BATCH),
        ).fetchall()
        for row, content, expected, sent in rows:
            # A vector that is about to be erased is used by no chunk.
            if sent is None or expected == UNSETTLED:
                continue
            if checksum(content, unpack_vector(sent).tobytes()) != expected:
                yield Damage("vectors", f"row {row} differs from what was written")
        if len(rows) < _BATCH:
            break
        last = rows[-1][0]
    (missing,) = connection.ask(
        "SELECT count(*) FROM chunks c WHERE c.vector IS NOT NULL AND NOT EXISTS"
        " (SELECT 1 FROM embeddings e WHERE e.row = c.vector AND e.vector IS NOT NULL)"
    ).fetchone() or (0,)
    if missing:
        yield Damage("vectors", f"{missing} chunks name a vector that does not exist")


def _check_keywords(connection: ServerConnection) -> Iterator[Damage]:
    (chunks,) = connection.ask(
        "SELECT count(*) FROM chunks c FULL JOIN entries e ON e.key = c.key"
        " WHERE c.key IS NULL OR e.key IS NULL"
    ).fetchone() or (0,)
    if chunks:
        yield Damage("keywords", f"{chunks} chunks without their terms, or terms without a chunk")
    rows = connection.ask(
        "SELECT t.term FROM terms t LEFT JOIN (SELECT field, term, sum(entries) AS n"
        " FROM postings GROUP BY field, term) p ON p.field = t.field AND p.term = t.term"
        " WHERE t.entries IS DISTINCT FROM p.n LIMIT 20"
    )
    for (term,) in rows:
        yield Damage("keywords", f"the list of {term!r} is not as long as was written")
    (wrong,) = connection.ask(
        "SELECT count(*) FROM postings WHERE mod(octet_length(data), entries) != 0"
        " OR octet_length(data) / entries NOT BETWEEN 4 AND 7"
    ).fetchone() or (0,)
    if wrong:
        yield Damage("keywords", f"{wrong} blocks are damaged")
