"""Copy the vectors of a collection into this process, which then compares them by itself.

A row never changes and its number is never given to another vector, so a copy only grows. Erased
vectors are the exception: the server counts erasures, and another count means another copy.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import psycopg

from lookfar.errors import LookfarError
from lookfar.store.vectors.vector_file import best_rows, dot_products

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from lookfar.store.postgres.server import Reading, Serving

_FEW: Final = 4096
"""Rows that a question copies before it is answered; more are copied beside the questions."""
_BLOCK: Final = 65_536
"""Rows that one statement copies."""
_SPARE: Final = 1.125
_HEADER_BYTES: Final = 19
_TRAILER_BYTES: Final = 2
"""What encloses the rows of a binary COPY."""

VECTOR_BYTES: Final = 1 << 30
"""Vectors of up to this size are compared by front ends, unless a setting says otherwise."""
VECTOR_ROWS: Final = "vector_rows"
ERASURES: Final = "vector_erasures"
"""The keys in ``meta`` of the number of rows, and of how often some were erased."""


class _Copy(NamedTuple):
    """Rows up to some number; ``values`` may have room for more."""

    erasures: int
    size: int
    values: NDArray[np.float16]


class VectorMemory:
    """The copy of one numbered collection's vectors. May be shared by threads."""

    def __init__(self, dimensions: int, most_bytes: int) -> None:
        self._dimensions = dimensions
        self._most_rows = most_bytes // max(1, dimensions * 2)
        self._lock = Lock()
        self._copy = _Copy(0, 0, np.empty((0, dimensions), dtype=np.float16))
        self._asked = False
        self._filling: Thread | None = None

    def has_room(self, count: int) -> bool:
        """Whether so many rows may be copied."""
        return 0 < count <= self._most_rows

    def rows(
        self, connection: Reading, serving: Serving, fill: Callable[[VectorMemory], None]
    ) -> NDArray[np.float16] | None:
        """Return all vectors of the connection's snapshot; None if they are not copied yet.

        From the second question on, ``fill`` is called in another thread to copy many: a process
        that answers only one question does not need them.
        """
        count, erasures = count_rows(serving)
        if count is None or not self.has_room(count):
            return None
        copy = self._copy
        if copy.erasures == erasures and copy.size >= count:
            return copy.values[:count]
        if self._filling is not None:
            return None
        known = copy.size if copy.erasures == erasures else 0
        if count - known <= _FEW:
            # After a lost connection, the server is asked by a new one.
            with suppress(psycopg.OperationalError):
                return self.extend(connection, serving)
            return None
        with self._lock:
            if self._asked and self._filling is None:
                self._filling = Thread(target=self._fill, args=(fill,), daemon=True)
                self._filling.start()
            self._asked = True
        return None

    def _fill(self, fill: Callable[[VectorMemory], None]) -> None:
        try:
            # The server answers meanwhile, and the next question tries again.
            with suppress(LookfarError):
                fill(self)
        finally:
            with self._lock:
                self._filling = None

    def wait(self, seconds: float) -> None:
        """Wait until a copy that was begun is complete."""
        filling = self._filling
        if filling is not None:
            filling.join(seconds)

    def extend(self, connection: Reading, serving: Serving) -> NDArray[np.float16]:
        """Copy the rows of the connection's snapshot that are not here yet; return all of them."""
        count, erasures = count_rows(serving)
        assert count is not None
        with self._lock:
            copy = self._copy
            if copy.erasures != erasures:
                copy = _Copy(erasures, 0, np.empty((0, self._dimensions), dtype=np.float16))
            if copy.size < count:
                values = copy.values
                if len(values) < count:
                    # Pages that are never written take no memory.
                    values = np.zeros((int(count * _SPARE), self._dimensions), dtype=np.float16)
                    values[: copy.size] = copy.values[: copy.size]
                for first in range(copy.size, count, _BLOCK):
                    last = min(first + _BLOCK, count)
                    _read_rows(connection.raw, values, first, last)
                copy = _Copy(erasures, count, values)
            # A reader of an older state must not replace a newer copy.
            if copy.erasures >= self._copy.erasures:
                self._copy = copy
            return copy.values[:count]


def count_rows(serving: Serving) -> tuple[int | None, int]:
    """Return how many rows a collection has, if that is recorded, and how often some were
    erased."""
    count = serving.meta.get(VECTOR_ROWS)
    return None if count is None else int(count), int(serving.meta.get(ERASURES, "0"))


def nearest_rows(
    rows: NDArray[np.float16],
    query: NDArray[np.float32],
    limit: int,
    among: Sequence[int] | None = None,
) -> list[tuple[int, float]]:
    """Return the nearest of all rows, or of those in ``among``, best first and ties by row."""
    if among is None:
        numbers, scores = best_rows(dot_products(query, rows), limit)
    else:
        chosen = np.asarray(among, dtype=np.intp)
        best, scores = best_rows(dot_products(query, rows[chosen]), limit)
        numbers = chosen[best]
    return list(zip(numbers.tolist(), scores.tolist(), strict=True))


def _read_rows(
    raw: psycopg.Connection[Any], values: NDArray[np.float16], first: int, last: int
) -> None:
    """Copy rows ``first`` to ``last``; the server sends them as records of one size."""
    record = np.dtype(
        [
            ("fields", ">i2"), ("row_bytes", ">i4"), ("row", ">i8"), ("vector_bytes", ">i4"),
            ("dimensions", ">u2"), ("unused", ">u2"), ("vector", ">f2", (values.shape[1],)),
        ]
    )  # fmt: skip
    statement = (
        f"COPY (SELECT row, vector FROM embeddings WHERE row >= {first:d} AND row < {last:d}"
        " AND vector IS NOT NULL) TO STDOUT (FORMAT BINARY)"
    )
    with raw.cursor() as cursor, cursor.copy(statement) as copy:
        sent = b"".join(copy)
    rows = np.frombuffer(
        sent, record, (len(sent) - _HEADER_BYTES - _TRAILER_BYTES) // record.itemsize, _HEADER_BYTES
    )
    values[rows["row"]] = rows["vector"]
