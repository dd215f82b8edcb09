"""Whose vector is whose: which rows a wide filter admits, without asking for each document.

Takes: the catalogue's chunks. Gives: a mark for every row of the vector file. Refuses: to
know of generations and spans; whoever filters looks at those once few rows are left.
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
    """Which documents have which rows, read once and then as far as there is more.

    A row may belong to several documents, and a document that was purged still stands here:
    nobody asks for it again.
    """

    def __init__(self) -> None:
        self._documents: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._rows: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._last = -1
        self._reading = Lock()

    def rows_of(
        self, connection: Connection, documents: Collection[int], count: int
    ) -> NDArray[np.bool_]:
        """Of each of the first ``count`` rows, whether one of ``documents`` has it."""
        with self._reading:
            self._read_on(connection)
            owners, rows = self._documents, self._rows
        wanted = np.zeros(int(owners.max(initial=-1)) + 1, dtype=np.bool_)
        named = np.fromiter(documents, dtype=np.int64, count=len(documents))
        wanted[named[named < len(wanted)]] = True
        allowed = np.zeros(count, dtype=np.bool_)
        mine = rows[wanted[owners]]
        allowed[mine[mine < count]] = True
        return allowed

    def _read_on(self, connection: Connection) -> None:
        # Numbers of chunks only grow, and what a number stands for never changes.
        found = connection.execute(
            "SELECT key, document, vector FROM chunks WHERE key > ? AND vector IS NOT NULL"
            " ORDER BY key",
            (self._last,),
        )
        read = np.fromiter(chain.from_iterable(found), dtype=np.int64).reshape(-1, 3)
        if len(read):
            self._last = int(read[-1, 0])
            self._documents = np.concatenate([self._documents, read[:, 1]])
            self._rows = np.concatenate([self._rows, read[:, 2]])
