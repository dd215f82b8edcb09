"""Vectors that other indexes on this machine already hold: worktrees, clones, older epochs.

Takes: the folder of all indexes and the model's fingerprint. Gives: the vectors of
contents that any serving epoch of the same model has. Refuses: to fail; a sibling that
is damaged, busy or gone is passed over, and what it had is simply embedded again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from pathlib import Path

from lookfar.errors import LookfarError
from lookfar.store import catalog
from lookfar.store.database import connect, typed_errors
from lookfar.store.vectors import VectorFile

_MOST_SIBLINGS = 16


class Siblings:
    """The serving epochs of one model under one folder, but for the one being written."""

    def __init__(self, index_dir: Path, besides: Path, model: str, dimensions: int) -> None:
        self._index_dir = index_dir
        self._besides = besides
        self._model = model
        self._dimensions = dimensions

    def vectors(self, contents: Collection[bytes]) -> dict[bytes, bytes]:
        """Float16 rows of those ``contents`` that a sibling has."""
        found: dict[bytes, bytes] = {}
        wanted = set(contents)
        for epoch in self._epochs() if wanted else ():
            with suppress(LookfarError):
                found |= self._from(epoch, wanted)
                wanted.difference_update(found)
            if not wanted:
                break
        return found

    def _epochs(self) -> Iterator[Path]:
        """Epoch folders, the most recently written first."""
        serving: list[tuple[float, Path]] = []
        for pointer in self._index_dir.glob("*/CURRENT"):
            with suppress(OSError, ValueError):
                epoch = pointer.parent / pointer.read_text("ascii").strip()
                if epoch != self._besides and epoch.parent == pointer.parent:
                    serving.append((pointer.stat().st_mtime, epoch))
        for _, epoch in sorted(serving, reverse=True)[:_MOST_SIBLINGS]:
            yield epoch

    def _from(self, epoch: Path, wanted: set[bytes]) -> dict[bytes, bytes]:
        path = epoch / "catalogue.db"
        if not path.is_file():
            return {}
        with typed_errors(path), closing(connect(path, write=False)) as connection:
            if catalog.model_of(connection) != self._model:
                return {}
            rows = dict(_rows(connection, wanted))
            if not rows:
                return {}
            file = VectorFile(epoch / "vectors.f16", self._dimensions)
            matrix = file.rows(catalog.vector_rows(connection))
            return {content: matrix[row].tobytes() for content, row in rows.items()}


def _rows(connection: sqlite3.Connection, wanted: set[bytes]) -> Iterator[tuple[bytes, int]]:
    for some in catalog.batches(sorted(wanted)):
        yield from connection.execute(
            f"SELECT content, row FROM embeddings WHERE content IN ({catalog.marks(some)})", some
        )
