"""Vectors as float16 rows of one memory-mapped, append-only file, scanned exactly.

Takes: unit vectors. Gives: the nearest rows, and scores for named rows. Refuses:
approximation; above some hundred thousand rows a coarse pass belongs in front of
it, behind the same functions.

The file runs ahead of the catalogue, never behind: rows are written and synced
before the catalogue names them, and what it does not name is overwritten later.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from zlib import crc32

import numpy as np

from lookfar.errors import IndexCorrupt, from_os_error
from lookfar.store import files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_MAGIC = b"LOOKFARV1\n"
_HEADER = 64


class VectorFile:
    """One segment of float16 rows."""

    def __init__(self, path: Path, dimensions: int) -> None:
        self.path = path
        self.dimensions = dimensions
        self._mapped: NDArray[np.float16] = np.empty((0, dimensions), dtype=np.float16)

    @property
    def _row_bytes(self) -> int:
        return self.dimensions * 2

    def create(self) -> None:
        header = _MAGIC + str(self.dimensions).encode()
        files.append(self.path, 0, header.ljust(_HEADER, b"\0"))

    def append(self, row: int, vectors: bytes) -> None:
        """Write float16 ``vectors`` as rows ``row``, ``row + 1``, ..."""
        files.append(self.path, _HEADER + row * self._row_bytes, vectors)

    def blank(self, rows: Sequence[int]) -> None:
        """Overwrite rows with zeros, for good."""
        for row in rows:
            self.append(row, bytes(self._row_bytes))
        if rows:
            self.sync()

    def sync(self) -> None:
        files.sync(self.path)

    def rows(self, count: int) -> NDArray[np.float16]:
        """The first ``count`` rows, mapped; the mapping grows when the file has.

        What was mapped stays readable when the file is removed, but not when it is cut
        short: then the process would die of reading it. So its size is checked each time.
        """
        if count:
            try:
                # One opening for both: a name may be gone, or another's, the next moment.
                with self.path.open("rb") as file:
                    size = self._checked_size(file, count)
                    if count > len(self._mapped):
                        self._mapped = self._map(file, size)
            except FileNotFoundError as error:
                raise _damaged(self.path, str(error)) from error
            except OSError as error:
                raise from_os_error(error, f"reading {self.path.name}") from error
        return self._mapped[:count]

    def _checked_size(self, file: BinaryIO, count: int) -> int:
        expected = _MAGIC + str(self.dimensions).encode()
        header = file.read(_HEADER)
        size = os.fstat(file.fileno()).st_size
        if header.rstrip(b"\0") != expected or size < _HEADER + count * self._row_bytes:
            raise _damaged(self.path, f"{size} bytes cannot hold {count} rows of {expected!r}")
        return size

    def _map(self, file: BinaryIO, size: int) -> NDArray[np.float16]:
        available = (size - _HEADER) // self._row_bytes
        mapped = np.memmap(
            file, np.float16, "r", offset=_HEADER, shape=(available, self.dimensions)
        )
        return mapped.view(np.ndarray)

    def checksums(self, count: int) -> list[int]:
        """CRC-32 of every row, to compare with what the catalogue recorded."""
        return [crc32(row.tobytes()) for row in self.rows(count)]

    def scores(
        self, query: NDArray[np.float32], rows: NDArray[np.float16], wanted: Sequence[int]
    ) -> NDArray[np.float64]:
        """The similarity of each wanted one of ``rows``."""
        if not wanted:
            return np.empty(0)
        return _dots(query, rows[self._existing(np.asarray(wanted, dtype=np.intp), rows)])

    def chosen(self, rows: NDArray[np.float16], wanted: Sequence[int]) -> NDArray[np.float32]:
        """The wanted ones of ``rows``, in that order."""
        return rows[self._existing(np.asarray(wanted, dtype=np.intp), rows)].astype(np.float32)

    def mean(self, rows: NDArray[np.float16], wanted: Sequence[int]) -> NDArray[np.float32] | None:
        """The unit vector between the wanted ones of ``rows``; ``None`` where there is none."""
        if not wanted:
            return None
        between: NDArray[np.float32] = self.chosen(rows, wanted).mean(axis=0)
        length = float(np.linalg.norm(between))
        return between / np.float32(length) if length else None

    def nearest(
        self,
        query: NDArray[np.float32],
        rows: NDArray[np.float16],
        limit: int,
        among: NDArray[np.intp] | None = None,
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The ``limit`` best of ``rows``, or of those ``among`` them: best first, ties by row."""
        if among is None:
            return _best(_dots(query, rows), limit)
        best, values = _best(_dots(query, rows[self._existing(among, rows)]), limit)
        return among[best], values

    def _existing(self, wanted: NDArray[np.intp], rows: NDArray[np.float16]) -> NDArray[np.intp]:
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < len(rows):
            raise _damaged(self.path, f"the catalogue names a row that is not among {len(rows)}")
        return wanted


def _dots(query: NDArray[np.float32], rows: NDArray[np.float16]) -> NDArray[np.float64]:
    if not len(rows):
        return np.empty(0)
    import numkong

    half = query.astype(np.float16).reshape(1, -1)
    return np.asarray(numkong.cdist(half, rows, "dot")).reshape(-1)


def _best(scores: NDArray[np.float64], limit: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    if limit < len(scores):
        # All rows tied with the last of the best, so that the cut does not depend on layout.
        edge = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        found = np.flatnonzero(scores >= edge)
    else:
        found = np.arange(len(scores))
    order = np.lexsort((found, -scores[found]))
    best = found[order][:limit]
    return best, scores[best]


def _damaged(path: Path, why: str) -> IndexCorrupt:
    return IndexCorrupt(
        "The vector file of this index is damaged.",
        hint="Rebuild it from the sources: lookfar index PATH --rebuild.",
        developer=f"{path.name}: {why}",
        details={"path": str(path)},
    )
