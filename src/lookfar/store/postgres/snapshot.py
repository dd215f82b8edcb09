"""One numbered collection on a server, and snapshots of it.

Takes: a server and a name. Gives: snapshots that answer like those of the embedded store: the
same statements over the same tables, keywords from lists, vectors from pgvector. Refuses: to mix;
a snapshot is one transaction, whichever generation is activated meanwhile.

Vectors are compared exactly, in the database, up to some tens of thousands and wherever filters
leave few; beyond that an HNSW index of the collection's own puts candidates forward, and their
similarities are still exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from lookfar.model import VectorPass
from lookfar.ports import Streams
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.remembered import Remembered
from lookfar.store.keywords.tantivy_index import NAMES
from lookfar.store.postgres.keywords import Memory, PostgresKeywords
from lookfar.store.postgres.server import Halfvec, Reading, ServerConnection, Serving
from lookfar.store.sqlite.epoch import Epoch, EpochSnapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lookfar.model import Filters
    from lookfar.ports import Need, Place

EXACT_BELOW: Final = 30_000
"""Vectors up to which all are compared; more have an index."""
LINKS: Final = 32
CARE: Final = 200
"""How the index is built: vectors of a static model lie close together, and with pgvector's own
values it finds two thirds of the ten nearest among 61,000."""
MOST_DIMENSIONS: Final = 4000
"""Of vectors that pgvector has an index for."""
_CANDIDATES: Final = 1000
"""That the index puts forward, the most that it can; whoever needs more, because filters leave few
of them, compares all."""


class PostgresEpoch(Remembered):
    """What is remembered of one numbered collection, in this process."""

    def __init__(self, serving: Serving) -> None:
        super().__init__()
        self.collection = serving.collection
        self.fingerprint = serving.fingerprint
        self.dimensions = serving.dimensions
        self.model = serving.model
        self._remembering = Lock()
        self._memory: tuple[int, Memory] = (-1, Memory())

    def check_version(self, connection: Reading, document: int) -> None:
        """Nothing to do: a server checks its own pages."""

    def memory(self, commit: int) -> Memory:
        """Of the keywords of one commit; whoever reads an older one remembers by himself."""
        with self._remembering:
            if commit > self._memory[0]:
                self._memory = (commit, Memory())
            return self._memory[1] if commit == self._memory[0] else Memory()


class PostgresSnapshot(EpochSnapshot):
    """One generation, read inside one transaction of the server."""

    def __init__(self, epoch: PostgresEpoch, connection: Reading, generation: int) -> None:
        keywords = PostgresKeywords(connection, epoch.memory(catalog.keywords_stamp(connection)))
        nothing = np.empty((0, epoch.dimensions), dtype=np.float16)
        # What is asked of an epoch besides what it remembers are its vectors, and those are
        # asked of the server here.
        super().__init__(cast(Epoch, epoch), connection, keywords, nothing, generation)
        self._server = connection
        self._collection = epoch.collection
        self._dimensions = epoch.dimensions

    @property
    def dimensions(self) -> int:
        return self._dimensions

    def _narrowed(self, need: Need, admitted: list[int] | None) -> list[int]:  # noqa: ARG002
        """All of them: there are no signatures on a server."""
        return self._every_document() if admitted is None else admitted

    def streams(self, uri: str) -> Streams | None:
        known = self.document(uri)
        if known is None:
            return None
        names = self._server.ask(
            "SELECT title, path, description, aliases, keywords FROM titles WHERE document = %s",
            (known["id"],),
        ).fetchone()
        rows = self._server.ask(
            "SELECT headings, tags, body, code FROM entries WHERE document = %s ORDER BY key",
            (known["id"],),
        )
        return names or ("",) * len(NAMES), [tuple(row) for row in rows]

    def vector_pass(self) -> VectorPass:
        rows = catalog.vector_rows(self._connection)
        if index_name(self._collection) not in _indexes(self._server):
            return VectorPass(rows, "exact", rows)
        return VectorPass(rows, "coarse", _CANDIDATES)

    def vector_search(
        self, query: NDArray[np.float32], limit: int, filters: Filters
    ) -> list[tuple[Place, float]]:
        if query.ndim == 2:
            found = [hit for row in query for hit in self.vector_search(row, limit, filters)]
            return sorted((hit for hit in found if hit[1]), key=lambda hit: -hit[1])
        scope = self._scope(filters)
        listed = self._listed(scope)
        among = None if listed is None else self._vector_rows(listed).tolist()
        fetch, exact = limit, False
        while True:
            rows, exact = nearest(self._server, self._collection, query, fetch, among, exact=exact)
            alive = catalog.places_by_vector(
                self._connection, [row for row, _ in rows], self.generation
            )
            kept = [
                (place, score)
                for row, score in rows
                for place in alive.get(row, ())
                if scope is None or scope.admits(place)
            ]
            if len(kept) >= limit:
                return kept[:limit]
            if len(rows) == fetch:
                fetch *= 4
            elif exact:
                return kept
            else:  # That the index put fewer forward does not say that there are no more.
                exact = True

    def vector_scores(self, query: NDArray[np.float32], places: Sequence[Place]) -> list[float]:
        summed = query if query.ndim == 1 else query.sum(axis=0)
        half = summed.astype(np.float16).astype(np.float32)
        found: list[float] = (self.vectors(places) @ half).astype(float).tolist()
        return found

    def vectors(self, places: Sequence[Place]) -> NDArray[np.float32]:
        rows = {place.vector for place in places if place.vector is not None}
        stored = stored_vectors(self._server, sorted(rows))
        found = np.zeros((len(places), self._dimensions), dtype=np.float32)
        for at, place in enumerate(places):
            if place.vector in stored:
                found[at] = stored[place.vector]
        return found

    def centre(
        self, uri: str, start: int = 0, end: int | None = None
    ) -> NDArray[np.float32] | None:
        known = self.document(uri)
        if known is None:
            return None
        wanted = catalog.vectors_between(self._connection, known["id"], start, end)
        if not wanted:
            return None
        stored = stored_vectors(self._server, wanted)
        between: NDArray[np.float32] = np.mean([stored[row] for row in wanted], axis=0)
        length = float(np.linalg.norm(between))
        return (between / np.float32(length)).astype(np.float32) if length else None


def nearest(
    connection: ServerConnection,
    collection: int,
    query: NDArray[np.float32],
    limit: int,
    among: Sequence[int] | None = None,
    *,
    exact: bool = False,
) -> tuple[list[tuple[int, float]], bool]:
    """Rows and similarities of the nearest vectors, best first and ties by row; and whether all
    were compared. The index sees candidates, of which some are of uncommitted writers."""
    asked = Halfvec(query.astype("<f2").tobytes())
    similar, where, values = "-(vector <#> %s)", "", []
    if among is not None:
        where, values = " AND row = ANY(%s::bigint[])", [list(among)]
    elif not exact and limit <= _CANDIDATES and index_name(collection) in _indexes(connection):
        connection.ask(
            "SELECT set_config('hnsw.ef_search', %s, true)",
            (str(_CANDIDATES),),
        )
        # The number stands in the statement, so that the planner sees whose index it may use.
        found = connection.ask(
            f"SELECT row, {similar} FROM embeddings WHERE collection = {collection}"
            f" ORDER BY vector::halfvec({len(query)}) <#> %s LIMIT %s",
            (asked, asked, limit),
        )
        return sorted(((int(row), float(score)) for row, score in found), key=_by_score), False
    found = connection.ask(
        f"SELECT row, {similar} AS score FROM embeddings WHERE vector IS NOT NULL{where}"
        " ORDER BY score DESC, row LIMIT %s",
        (asked, *values, limit),
    )
    return [(int(row), float(score)) for row, score in found], True


def _by_score(hit: tuple[int, float]) -> tuple[float, int]:
    return -hit[1], hit[0]


def stored_vectors(
    connection: ServerConnection, rows: Sequence[int]
) -> dict[int | None, NDArray[np.float32]]:
    """Vectors by row, as they were written."""
    if not rows:
        return {}
    found = connection.ask(
        "SELECT row, halfvec_send(vector) FROM embeddings WHERE row = ANY(%s::bigint[])"
        " AND vector IS NOT NULL",
        (list(rows),),
    )
    return {row: unpacked(sent).astype(np.float32) for row, sent in found}


def unpacked(sent: bytes) -> NDArray[np.float16]:
    """A vector as pgvector sends it."""
    return np.frombuffer(sent, ">f2", offset=4).astype(np.float16)


def index_name(collection: int) -> str:
    return f"embeddings_nearest_{collection}"


def _indexes(connection: ServerConnection) -> set[str]:
    """The indexes of vectors that are ready to be used."""
    rows: Any = connection.ask(
        "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        " WHERE i.indrelid = 'lookfar.embeddings'::regclass AND i.indisvalid"
    )
    return {name for (name,) in rows}
