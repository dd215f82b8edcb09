"""Which documents use which vector rows, to apply a wide filter without a query per document.

Generations and spans are ignored here; the caller checks those once few rows are left.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lookfar.store.ground.sql import Connection


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
