"""Vectors as float16 rows of one memory-mapped, append-only file.

Takes: unit vectors. Gives: the nearest rows, and scores for named rows. Refuses: to give
a score that is not computed from the row itself.

Few rows are scanned exactly. Of more than ``coarse_above`` a coarse pass over their bits
puts some thousands forward, and those are scored exactly: see :mod:`lookfar.store.vectors.coarse`.

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
from lookfar.model import VectorPass
from lookfar.store.catalogue.rows import Recall
from lookfar.store.ground import files
from lookfar.store.vectors.coarse import SEGMENT_ROWS, CoarseFile, Segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

VECTORS = "vectors.f16"
"""In the folder of an epoch."""
_MAGIC = b"LOOKFARV1\n"
_HEADER = 64
COARSE_ABOVE = 500_000
"""Rows from which a coarse pass is quicker than a scan: measured with bench/scale.py."""
_KEPT = ((0, 8_000), (100_000, 32_000), (500_000, 48_000), (1_000_000, 64_000))
"""Above so many rows, how many the coarse pass puts forward: with hardly one of the nearest
missing."""
_KEPT_PER_WANTED = 8
_FEW = 0.05
"""The share of allowed rows up to which these are scanned and no others."""
_SAMPLE, _NEAREST = 32, 10
_ROUNDING = 1e-6


class VectorFile:
    """The float16 rows of one epoch, and their bits beside them."""

    def __init__(self, path: Path, dimensions: int, coarse_above: int = COARSE_ABOVE) -> None:
        """``coarse_above`` 0 scans exactly, however many there are."""
        self.path = path
        self.dimensions = dimensions
        self.coarse = CoarseFile(path.with_suffix(".bits"), dimensions)
        self.coarse_above = coarse_above
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

    def blank(self, rows: Sequence[int], count: int) -> None:
        """Overwrite some of the ``count`` rows with zeros, for good, and their bits too."""
        for row in rows:
            self.append(row, bytes(self._row_bytes))
        if rows:
            self.sync()
            self.coarse.renew(rows, self.rows(count))

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

    def extend_coarse(self, count: int) -> bool:
        """Make the bits that the first ``count`` rows lack, durable; whether there were any."""
        return self.is_many(count) and self.coarse.extend(self.rows(count))

    def is_many(self, count: int) -> bool:
        """Whether a coarse pass comes before the exact one."""
        return 0 < self.coarse_above < count

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
        allowed: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The ``limit`` best of ``rows``, best first, ties by row: of all, of those ``among``
        them, or of those that are ``allowed``, where that says of each whether it is.
        """
        if among is None and allowed is not None and allowed.mean() <= _FEW:
            among = np.flatnonzero(allowed)
        if among is not None:
            best, values = _best(_dots(query, rows[self._existing(among, rows)]), limit)
            return among[best], values
        segments = self.coarse.segments(len(rows)) if self.is_many(len(rows)) else []
        kept = max(_kept(len(rows)), _KEPT_PER_WANTED * limit)
        if allowed is None and (not segments or kept >= len(rows)):
            return _best(_dots(query, rows), limit)
        return self._coarse_nearest(query, rows, limit, segments, kept, allowed)

    def _coarse_nearest(
        self,
        query: NDArray[np.float32],
        rows: NDArray[np.float16],
        limit: int,
        segments: Sequence[Segment],
        kept: int,
        allowed: NDArray[np.bool_] | None,
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Exact among ``kept`` rows of the segments, and all others."""
        near = self.coarse.propose(query, segments, kept, allowed)
        named, values = [near], [_dots(query, rows[near])]
        for first, last in self.coarse.gaps(segments, len(rows)):
            # Where nearly all are scored anyway, picking some out takes longer than scoring.
            found, scores = np.arange(first, last), _dots(query, rows[first:last])
            if allowed is not None:
                found, scores = found[allowed[first:last]], scores[allowed[first:last]]
            named.append(found)
            values.append(scores)
        every, scores = np.concatenate(named), np.concatenate(values)
        order = np.argsort(every, kind="stable")
        best, scores = _best(scores[order], limit)
        return every[order[best]], scores

    def recall(self, count: int) -> Recall | None:
        """How much of the exact answer the coarse pass gives, for some of the first ``count``
        rows as questions; ``None`` where every row is scanned.
        """
        rows = self.rows(count)
        if not self.is_many(count) or not self.coarse.segments(count):
            return None
        asked = np.linspace(0, count - 1, min(_SAMPLE, count)).astype(np.intp)
        asked = asked[rows[asked].any(axis=1)]
        found = 0
        for row, edge in zip(asked.tolist(), self._edges(rows[asked], rows), strict=True):
            best, scores = self.nearest(rows[row].astype(np.float32), rows, _NEAREST + 1)
            found += min(_NEAREST, int(np.count_nonzero(scores[best != row] >= edge)))
        return Recall(count, len(asked) * _NEAREST, found)

    def told(self, count: int, measured: Recall | None) -> VectorPass:
        """How the nearest of ``count`` rows are found, with what was last measured of it."""
        segments = self.coarse.segments(count) if self.is_many(count) else []
        if not segments:
            return VectorPass(count, "exact", count)
        scanned = sum(last - first for first, last in self.coarse.gaps(segments, count))
        kept = _kept(count) + scanned
        if measured is None:
            return VectorPass(count, "coarse", kept)
        share = measured.found / measured.wanted
        return VectorPass(count, "coarse", kept, round(share, 4), measured.wanted // _NEAREST)

    def _edges(self, asked: NDArray[np.float16], rows: NDArray[np.float16]) -> list[float]:
        """How near one must be to be among the nearest of each of some rows, besides itself; by a
        scan of all, a block at a time.
        """
        import numkong

        best = np.empty((len(asked), 0))
        for first in range(0, len(rows), SEGMENT_ROWS):
            part = rows[first : first + SEGMENT_ROWS]
            scores = np.asarray(numkong.cdist(asked, part, "dot")).reshape(len(asked), -1)
            both = np.hstack([best, scores])
            best = -np.partition(-both, min(_NEAREST, both.shape[1] - 1), axis=1)[:, : _NEAREST + 1]
        return [float(edge) - _ROUNDING for edge in best.min(axis=1)]

    def _existing(self, wanted: NDArray[np.intp], rows: NDArray[np.float16]) -> NDArray[np.intp]:
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < len(rows):
            raise _damaged(self.path, f"the catalogue names a row that is not among {len(rows)}")
        return wanted


def dimensions_in(file: BinaryIO) -> int:
    """How long the rows of a file are, by its header; ``ValueError`` for any other file."""
    header = file.read(_HEADER)
    number = header.removeprefix(_MAGIC).rstrip(b"\0")
    if not header.startswith(_MAGIC) or not number.isdigit():
        raise ValueError("no file of vectors")
    return int(number)


def _kept(count: int) -> int:
    """How many of so many rows the coarse pass puts forward."""
    return next(kept for above, kept in reversed(_KEPT) if count >= above)


def checksum(content: bytes, vector: bytes) -> int:
    """What the catalogue records of a row: of its numbers and of what they are called."""
    return crc32(content, crc32(vector))


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
