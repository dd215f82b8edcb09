"""Unit vectors as float16 rows of one memory-mapped, append-only file.

Rows are written and synced before the catalogue refers to them. Few rows are scanned exactly; for
many, :mod:`lookfar.store.vectors.coarse` proposes those that are scored.
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
"""The file in the folder of an epoch."""
_MAGIC = b"LOOKFARV1\n"
_HEADER = 64
COARSE_ABOVE = 150_000
"""Rows from which a coarse pass saves milliseconds: measured with bench/scale.py."""
_PROPOSED = 2_000
"""How many rows the coarse pass proposes at least, to miss hardly any of the nearest."""
_PROPOSED_SHARE = 1 / 400
"""The same as a share of all rows: the more there are, the closer are the nearest ones."""
_PROPOSED_PER_WANTED = 8
_FEW = 0.05
"""Up to this share of allowed rows, only these are scanned."""
_SAMPLE, _NEAREST = 32, 10
_ROUNDING = 1e-6
_GROUP = 16
"""Rows of which only the best one is considered at first."""


class VectorFile:
    """The float16 rows of one epoch, and the file with their codes."""

    def __init__(self, path: Path, dimensions: int, coarse_above: int = COARSE_ABOVE) -> None:
        """With ``coarse_above`` 0, every scan is exact."""
        self.path = path
        self.dimensions = dimensions
        self.coarse = CoarseFile(path.with_suffix(".codes"), dimensions)
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
        """Overwrite some of the ``count`` rows with zeros permanently, and their codes too."""
        for row in rows:
            self.append(row, bytes(self._row_bytes))
        if rows:
            self.sync()
            self.coarse.renew(rows, self.rows(count))

    def sync(self) -> None:
        files.sync(self.path)

    def rows(self, count: int) -> NDArray[np.float16]:
        """Return the first ``count`` rows, mapped; the mapping grows with the file.

        A mapped file stays readable when it is removed, but reading it crashes the process when
        it is truncated. So its size is checked each time.
        """
        if count:
            try:
                # Open it once for both: the name may be removed or reused at any moment.
                with self.path.open("rb") as file:
                    size = self._check_size(file, count)
                    if count > len(self._mapped):
                        self._mapped = self._map(file, size)
            except FileNotFoundError as error:
                raise _corrupt_error(self.path, str(error)) from error
            except OSError as error:
                raise from_os_error(error, f"reading {self.path.name}") from error
        return self._mapped[:count]

    def unmap(self) -> None:
        """Map the file again when it is next read, because another one may have its name now."""
        self._mapped = np.empty((0, self.dimensions), dtype=np.float16)

    def _check_size(self, file: BinaryIO, count: int) -> int:
        expected = _MAGIC + str(self.dimensions).encode()
        header = file.read(_HEADER)
        size = os.fstat(file.fileno()).st_size
        if header.rstrip(b"\0") != expected or size < _HEADER + count * self._row_bytes:
            raise _corrupt_error(
                self.path, f"{size} bytes cannot hold {count} rows of {expected!r}"
            )
        return size

    def _map(self, file: BinaryIO, size: int) -> NDArray[np.float16]:
        available = (size - _HEADER) // self._row_bytes
        mapped = np.memmap(
            file, np.float16, "r", offset=_HEADER, shape=(available, self.dimensions)
        )
        return mapped.view(np.ndarray)

    def extend_coarse(self, count: int) -> bool:
        """Write missing codes of the first ``count`` rows durably; return whether any were."""
        return self.is_many(count) and self.coarse.extend(self.rows(count))

    def is_many(self, count: int) -> bool:
        """Whether there are enough rows for a coarse pass."""
        return 0 < self.coarse_above < count

    def scores(
        self, query: NDArray[np.float32], rows: NDArray[np.float16], wanted: Sequence[int]
    ) -> NDArray[np.float64]:
        if not wanted:
            return np.empty(0)
        return dot_products(query, rows[self._existing(np.asarray(wanted, dtype=np.intp), rows)])

    def chosen(self, rows: NDArray[np.float16], wanted: Sequence[int]) -> NDArray[np.float32]:
        return rows[self._existing(np.asarray(wanted, dtype=np.intp), rows)].astype(np.float32)

    def mean(self, rows: NDArray[np.float16], wanted: Sequence[int]) -> NDArray[np.float32] | None:
        """Return the mean direction of the wanted rows, or ``None`` if there is none."""
        if not wanted:
            return None
        mean: NDArray[np.float32] = self.chosen(rows, wanted).mean(axis=0)
        length = float(np.linalg.norm(mean))
        return mean / np.float32(length) if length else None

    def nearest(
        self,
        query: NDArray[np.float32],
        rows: NDArray[np.float16],
        limit: int,
        among: NDArray[np.intp] | None = None,
        allowed: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the ``limit`` best rows, best first, ties by row number.

        ``among`` lists the rows to consider; ``allowed`` says for every row whether it counts.
        """
        if among is None and allowed is not None and allowed.mean() <= _FEW:
            among = np.flatnonzero(allowed)
        if among is not None:
            best, values = best_rows(dot_products(query, rows[self._existing(among, rows)]), limit)
            return among[best], values
        segments = self.coarse.segments(len(rows)) if self.is_many(len(rows)) else []
        proposed = max(_count_proposed(len(rows)), _PROPOSED_PER_WANTED * limit)
        if allowed is None and (not segments or proposed >= len(rows)):
            return best_rows(dot_products(query, rows), limit)
        return self._coarse_nearest(query, rows, limit, segments, proposed, allowed)

    def _coarse_nearest(
        self,
        query: NDArray[np.float32],
        rows: NDArray[np.float16],
        limit: int,
        segments: Sequence[Segment],
        proposed: int,
        allowed: NDArray[np.bool_] | None,
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Score the proposed rows of the segments, and all rows outside them, exactly."""
        near = self.coarse.propose(query, segments, proposed, allowed)
        candidates, values = [near], [dot_products(query, rows[near])]
        for first, last in self.coarse.gaps(segments, len(rows)):
            # Scoring all rows takes less time than selecting the allowed ones first.
            numbers, scores = np.arange(first, last), dot_products(query, rows[first:last])
            if allowed is not None:
                numbers, scores = numbers[allowed[first:last]], scores[allowed[first:last]]
            candidates.append(numbers)
            values.append(scores)
        merged, scores = np.concatenate(candidates), np.concatenate(values)
        order = np.argsort(merged, kind="stable")
        best, scores = best_rows(scores[order], limit)
        return merged[order[best]], scores

    def recall(self, count: int) -> Recall | None:
        """Measure how many of the true nearest rows the coarse pass finds, for a sample.

        Return ``None`` if every row is scanned anyway.
        """
        rows = self.rows(count)
        if not self.is_many(count) or not self.coarse.segments(count):
            return None
        sample = np.linspace(0, count - 1, min(_SAMPLE, count)).astype(np.intp)
        sample = sample[rows[sample].any(axis=1)]
        matched = 0
        for row, edge in zip(sample.tolist(), self._edges(rows[sample], rows), strict=True):
            best, scores = self.nearest(rows[row].astype(np.float32), rows, _NEAREST + 1)
            matched += min(_NEAREST, int(np.count_nonzero(scores[best != row] >= edge)))
        return Recall(count, len(sample) * _NEAREST, matched)

    def describe_pass(self, count: int, measured: Recall | None) -> VectorPass:
        """Describe how ``count`` rows are searched, with the last measured recall."""
        segments = self.coarse.segments(count) if self.is_many(count) else []
        if not segments:
            return VectorPass(count, "exact", count)
        scanned = sum(last - first for first, last in self.coarse.gaps(segments, count))
        compared = _count_proposed(count) + scanned
        if measured is None:
            return VectorPass(count, "coarse", compared)
        share = measured.found / measured.wanted
        return VectorPass(count, "coarse", compared, round(share, 4), measured.wanted // _NEAREST)

    def _edges(self, sample: NDArray[np.float16], rows: NDArray[np.float16]) -> list[float]:
        """Return for each sampled row the similarity of its tenth nearest other row.

        All rows are scanned, one block at a time.
        """
        import numkong

        best = np.empty((len(sample), 0))
        for first in range(0, len(rows), SEGMENT_ROWS):
            part = rows[first : first + SEGMENT_ROWS]
            scores = np.asarray(numkong.cdist(sample, part, "dot")).reshape(len(sample), -1)
            both = np.hstack([best, scores])
            best = -np.partition(-both, min(_NEAREST, both.shape[1] - 1), axis=1)[:, : _NEAREST + 1]
        return [float(edge) - _ROUNDING for edge in best.min(axis=1)]

    def _existing(self, wanted: NDArray[np.intp], rows: NDArray[np.float16]) -> NDArray[np.intp]:
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < len(rows):
            raise _corrupt_error(self.path, f"the catalogue has a row beyond the {len(rows)} here")
        return wanted


def dimensions_in(file: BinaryIO) -> int:
    """Read the dimensions from the header of a file; raise ``ValueError`` for other files."""
    header = file.read(_HEADER)
    number = header.removeprefix(_MAGIC).rstrip(b"\0")
    if not header.startswith(_MAGIC) or not number.isdigit():
        raise ValueError("not a vector file")
    return int(number)


def _count_proposed(count: int) -> int:
    """Return how many of ``count`` rows the coarse pass proposes."""
    return max(_PROPOSED, int(count * _PROPOSED_SHARE))


def checksum(content: bytes, vector: bytes) -> int:
    """Return the checksum of a vector and its content name, as the catalogue records it."""
    return crc32(content, crc32(vector))


def dot_products(query: NDArray[np.float32], rows: NDArray[np.float16]) -> NDArray[np.float64]:
    """Return the similarity of each row to a question."""
    if not len(rows):
        return np.empty(0)
    import numkong

    half = query.astype(np.float16).reshape(1, -1)
    return np.asarray(numkong.cdist(half, rows, "dot")).reshape(-1)


def best_rows(
    scores: NDArray[np.float64], limit: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the numbers of the ``limit`` highest scores, and these, highest first."""
    if limit < len(scores):
        # Include all rows that tie with the last one, so that the cut does not depend on layout.
        candidates = np.flatnonzero(scores >= _find_edge(scores, limit))
    else:
        candidates = np.arange(len(scores))
    order = np.lexsort((candidates, -scores[candidates]))
    best = candidates[order][:limit]
    return best, scores[best]


def _find_edge(scores: NDArray[np.float64], limit: int) -> float:
    """Return a score that at least ``limit`` rows reach, and few others.

    Of many rows, only the best of each group is sorted: if ``limit`` groups have a row that reaches
    a score, so do ``limit`` rows.
    """
    groups = len(scores) // _GROUP
    if groups > limit:
        scores = scores[: groups * _GROUP].reshape(_GROUP, groups).max(axis=0)
    return float(np.partition(scores, len(scores) - limit)[len(scores) - limit])


def _corrupt_error(path: Path, why: str) -> IndexCorrupt:
    return IndexCorrupt(
        "The vector file of this index is damaged.",
        hint="Rebuild it from the sources: lookfar index PATH --rebuild.",
        developer=f"{path.name}: {why}",
        details={"path": str(path)},
    )
