"""Remember which chunks each document has, so that they need not be asked for.

A document version gets its chunks once, under consecutive keys, and numbers are never used again. A
table of first and last keys therefore only grows.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lookfar.store.postgres.server import ServerConnection

_FEW: Final = 1000
"""Documents that a question reads before it is answered; more are read beside the questions."""


class ChunkRanges:
    """The first and last key of the documents of one collection. May be shared by threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._table: NDArray[np.int64] = np.empty((3, 0), dtype=np.int64)
        """The documents in order, the first key of each, and the last."""
        self._last = 0
        """The last document number that the table was read up to."""

    def find(
        self, connection: ServerConnection, documents: Sequence[int], last_document: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Return the keys of some documents, in order, and the document of each; None if too many
        documents are not read yet. ``last_document`` is the last number in the snapshot."""
        if self._last < last_document:
            if last_document - self._last > _FEW:
                return None
            self.extend(connection, last_document)
        table = self._table
        wanted = np.unique(np.asarray(documents, dtype=np.int64))
        at = np.searchsorted(table[0], wanted)
        at = at[at < table.shape[1]]
        owners, first, last = table[:, at[np.isin(table[0, at], wanted, assume_unique=True)]]
        sizes = last - first + 1
        starts = np.repeat(first - (np.cumsum(sizes) - sizes), sizes)
        return starts + np.arange(len(starts)), np.repeat(owners, sizes)

    def extend(self, connection: ServerConnection, last_document: int) -> None:
        """Read the documents up to this number that are not in the table yet."""
        with self._lock:
            if self._last >= last_document:
                return
            rows = connection.ask(
                "SELECT document, min(key), max(key) FROM chunks WHERE document > %s"
                " AND document <= %s GROUP BY document ORDER BY document",
                (self._last, last_document),
            ).fetchall()
            if rows:
                added = np.array(rows, dtype=np.int64).T
                self._table = np.concatenate([self._table, added], axis=1)
            self._last = last_document
