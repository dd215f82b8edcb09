"""The vectors of the second model on a server: sent by the process that makes them, and followed.

One process of all machines makes them. They do not belong to a generation, and each copy checks
them against its own catalogue, so they may arrive at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np
from psycopg import Connection

from lookfar.errors import IndexBusy
from lookfar.ports import ComposePassage, LackingDocument, QualityPassage
from lookfar.store.ground import files
from lookfar.store.postgres import schema
from lookfar.store.postgres.server import Inserts, copy_out, select_in_transaction
from lookfar.store.sqlite.epoch import Epoch
from lookfar.store.sqlite.quality_writer import EpochQualityWriter

FOLLOWED: Final = "quality.followed"
"""The file in an epoch with the number of the last vector that it has from the server."""
_AT_ONCE: Final = 5_000
_BATCH: Final = 500

Lock = Callable[[], AbstractContextManager[None]]


def read_followed(folder: Path) -> int:
    try:
        return int((folder / FOLLOWED).read_bytes())
    except (OSError, ValueError):
        return 0


def _record_followed(folder: Path, number: int) -> None:
    files.write_atomic(folder / FOLLOWED, str(number).encode(), sync=False)


def follow(raw: Connection[Any], collection: int, epoch: Epoch, lock: Lock) -> bool:
    """Add some of the vectors that a copy lacks, in the caller's transaction; return whether more
    may follow."""
    select_in_transaction(raw, collection)
    columns = schema.TYPES["quality"]
    names = ", ".join(name for name, _ in columns)
    query = (
        f"SELECT {names} FROM quality WHERE number > {read_followed(epoch.folder)}"
        f" ORDER BY number LIMIT {_AT_ONCE}"
    )
    last = count = 0
    for (model, dimensions), some in groupby(
        copy_out(raw, query, [kind for _, kind in columns]), lambda row: row[1:3]
    ):
        rows = list(some)
        writer = EpochQualityWriter(epoch, epoch.open_quality(model, dimensions), lock)
        for first in range(0, len(rows), _BATCH):
            writer.put(
                [
                    (QualityPassage(row, content, ""), vector and _swap(vector, ">f2", "<f2"))
                    for _, _, _, row, content, vector in rows[first : first + _BATCH]
                ]
            )
        last, count = rows[-1][0], count + len(rows)
    if count:
        _record_followed(epoch.folder, last)
    return count == _AT_ONCE


class ServerQualityWriter:
    """Stores vectors on the server and in the copy, for the holder of the server's lock on them."""

    def __init__(
        self, writer: EpochQualityWriter, raw: Connection[Any], collection: int, epoch: Epoch
    ) -> None:
        self._writer = writer
        self._raw = raw
        self._collection = collection
        self._epoch = epoch
        self._inserts = Inserts(raw)
        self._send_lacking()

    def list_documents(self) -> list[LackingDocument]:
        return self._writer.list_documents()

    def read(self, documents: Sequence[int], compose: ComposePassage) -> list[QualityPassage]:
        return self._writer.read(documents, compose)

    def put(self, rows: Sequence[tuple[QualityPassage, bytes | None]]) -> None:
        self._writer.put(rows)
        self._send([(passage.row, passage.content, vector) for passage, vector in rows])

    def _send_lacking(self) -> None:
        """Send what this copy has alone, such as the vectors of a replaced index; drop those of
        other models."""
        vectors = self._writer.vectors
        with self._raw.transaction():
            select_in_transaction(self._raw, self._collection)
            self._raw.execute("DELETE FROM quality WHERE model != %s", (vectors.model,))
            stored = {row for (row,) in self._raw.execute("SELECT row FROM quality")}
        vectors.refresh()
        if len(stored) == len(vectors.entries()):
            return  # To read all of them takes long.
        lacking = [entry for entry in vectors.read_entries() if entry.row not in stored]
        for first in range(0, len(lacking), _AT_ONCE):
            self._send(lacking[first : first + _AT_ONCE])

    def _send(self, rows: Sequence[tuple[int, bytes, bytes | None]]) -> None:
        vectors = self._writer.vectors
        model = vectors.model, vectors.file.dimensions
        with self._raw.transaction():
            select_in_transaction(self._raw, self._collection)
            (last,) = self._raw.execute(
                "SELECT quality FROM collections WHERE collection = %s AND serving FOR UPDATE",
                (self._collection,),
            ).fetchone() or (None,)
            if last is None:
                raise IndexBusy(
                    "The index was rebuilt while its passages were being embedded.",
                    hint="Try again: what was embedded before is kept.",
                )
            self._inserts.insert("quality", list(self._number(rows, model, last)))
            self._raw.execute(
                "UPDATE collections SET quality = %s WHERE collection = %s",
                (last + len(rows), self._collection),
            )
        if read_followed(self._epoch.folder) == last:
            _record_followed(self._epoch.folder, last + len(rows))

    def _number(
        self, rows: Sequence[tuple[int, bytes, bytes | None]], model: tuple[str, int], last: int
    ) -> Iterator[tuple[Any, ...]]:
        for number, (row, content, vector) in enumerate(rows, last + 1):
            yield number, *model, row, content, vector and _swap(vector, "<f2", ">f2")


def _swap(vector: bytes, before: str, after: str) -> bytes:
    return np.frombuffer(vector, dtype=before).astype(after).tobytes()
