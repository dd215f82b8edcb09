"""Short codes of vectors, and how a query is compared with very many of them.

The rows of a segment are rotated so that their variance decreases from number to number, and only
the first half of the numbers is kept, one byte each. The product of a query with a code estimates
its similarity to the row closely enough that a few thousand proposals contain the nearest rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lookfar.common.cores import map_on_two_cores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lookfar.store.vectors.coarse import Segment

_LEVELS: Final = 127
_FITTED_ROWS: Final = 16_384
"""More rows hardly change the directions of the greatest variance."""
_BLOCK: Final = 16_384
_KERNEL_BYTES: Final = 256
"""The product takes about as long for a row of this many bytes as for a quarter of it."""
_SAMPLED: Final = 128
"""One of this many scores is looked at to guess the score of the last row to propose."""
_MARGIN: Final = 1.25
_TOGETHER: Final = 4
"""Segments from which a second core is worth its start."""


class Directions(NamedTuple):
    """What the codes of one segment mean."""

    mean: NDArray[np.float32]
    basis: NDArray[np.float32]
    """The directions of the greatest variance, one per row, the greatest first."""
    scale: float
    """The length of one step of a code."""


class Scores(NamedTuple):
    """The estimated similarities of the rows of one segment: ``base + factor * products``."""

    first: int
    products: NDArray[np.int32]
    factor: float
    base: float

    def estimate(self, products: NDArray[np.int32]) -> NDArray[np.float64]:
        estimates: NDArray[np.float64] = self.base + self.factor * products.astype(np.float64)
        return estimates

    def reaching(self, edge: float) -> NDArray[np.bool_]:
        """Mark the rows whose estimate is at least ``edge``, up to rounding."""
        bounds = np.iinfo(np.int32)
        lowest = np.clip(np.floor((edge - self.base) / self.factor), bounds.min, bounds.max)
        return self.products >= np.int32(lowest)


def count_kept(dimensions: int) -> int:
    """Return how many numbers of a row are kept: half of them, in whole words of 64 bytes."""
    return min(dimensions, -(-dimensions // 128) * 64)


def fit_directions(rows: NDArray[np.float16], kept: int) -> Directions:
    """Find the directions in which the rows that are not blank differ the most."""
    sample = rows[:: max(1, len(rows) // _FITTED_ROWS)].astype(np.float32)
    sample = sample[sample.any(axis=1)]
    dimensions = rows.shape[1]
    if not len(sample):
        basis = np.eye(kept, dimensions, dtype=np.float32)
        return Directions(np.zeros(dimensions, dtype=np.float32), basis, 1.0)
    mean = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
    sample -= mean
    _, vectors = np.linalg.eigh((sample.T @ sample).astype(np.float64))
    basis = np.ascontiguousarray(vectors[:, ::-1][:, :kept].T, dtype=np.float32)
    farthest = float(np.abs(sample @ basis.T).max())
    return Directions(mean, basis, farthest / _LEVELS or 1.0)


def encode(rows: NDArray[np.float16], directions: Directions) -> NDArray[np.int8]:
    """Return the codes of rows; those of blank rows are zeros."""
    codes = np.empty((len(rows), len(directions.basis)), dtype=np.int8)
    for first in range(0, len(rows), _BLOCK):
        part = rows[first : first + _BLOCK].astype(np.float32)
        blank = ~part.any(axis=1)
        part -= directions.mean
        numbers = part @ directions.basis.T
        numbers /= directions.scale
        np.clip(np.rint(numbers, out=numbers), -_LEVELS, _LEVELS, out=numbers)
        numbers[blank] = 0
        codes[first : first + _BLOCK] = numbers
    return codes


def score_segments(query: NDArray[np.float32], segments: Sequence[Segment]) -> list[Scores]:
    """Estimate the similarity of a query to every row, on two cores if there are many."""
    import numkong  # noqa: F401 -- Imported here, not by two threads at the same time.

    if len(segments) < _TOGETHER:
        return [_score_segment(query, segment) for segment in segments]
    return map_on_two_cores(lambda segment: _score_segment(query, segment), segments)


def _score_segment(query: NDArray[np.float32], segment: Segment) -> Scores:
    import numkong

    mean, basis, scale = segment.directions
    kept = len(basis)
    numbers = basis @ query
    step = float(np.abs(numbers).max()) / _LEVELS or 1.0
    weights = np.rint(numbers / step).astype(np.int8)
    # Several short codes are read as one long row, with a copy of the query at the place of each.
    group = _group_rows(kept, len(segment.codes))
    shifted = np.zeros((group, group * kept), dtype=np.int8)
    for place in range(group):
        shifted[place, place * kept : (place + 1) * kept] = weights
    joined = segment.codes.reshape(-1, group * kept)
    products = np.asarray(numkong.dots_packed(joined, numkong.dots_pack(shifted))).reshape(-1)
    return Scores(segment.first, products, step * scale, float(query @ mean))


def _group_rows(kept: int, rows: int) -> int:
    group = 1
    while 2 * group * kept <= _KERNEL_BYTES and rows % (2 * group) == 0:
        group *= 2
    return group


def choose_rows(
    scored: Sequence[Scores], wanted: int, allowed: NDArray[np.bool_] | None = None
) -> NDArray[np.intp]:
    """Return the rows with the best estimates, in order.

    There are at least ``wanted``, if so many exist, and all that tie with the last of them.
    ``allowed`` says for every row whether it counts. A threshold guessed from a sample of the
    scores leaves few rows to sort: sorting all of them takes longer than computing them.
    """
    parts = [_part(allowed, scores) for scores in scored]
    sample = np.concatenate(
        [
            scores.estimate(_select(scores.products[::_SAMPLED], part, _SAMPLED))
            for scores, part in zip(scored, parts, strict=True)
        ]
    )
    expected = wanted * _MARGIN + 4 * _SAMPLED
    while True:
        last = len(sample) - int(expected / _SAMPLED)
        edge = float(np.partition(sample, last)[last]) if last >= 0 else -np.inf
        marked = [
            (scores.reaching(edge) if part is None else scores.reaching(edge) & part)
            for scores, part in zip(scored, parts, strict=True)
        ]
        places = [np.flatnonzero(marks) for marks in marked]
        if sum(map(len, places)) >= wanted or edge == -np.inf:
            break
        expected *= 2
    rows: NDArray[np.intp] = np.concatenate(
        [at + s.first for at, s in zip(places, scored, strict=True)]
    )
    if len(rows) <= wanted:
        return rows
    estimates = np.concatenate(
        [s.estimate(s.products[at]) for at, s in zip(places, scored, strict=True)]
    )
    worst = np.partition(estimates, len(estimates) - wanted)[len(estimates) - wanted]
    best: NDArray[np.intp] = rows[estimates >= worst]
    return best


def _part(allowed: NDArray[np.bool_] | None, scores: Scores) -> NDArray[np.bool_] | None:
    return None if allowed is None else allowed[scores.first : scores.first + len(scores.products)]


def _select(
    products: NDArray[np.int32], part: NDArray[np.bool_] | None, stride: int
) -> NDArray[np.int32]:
    return products if part is None else products[part[::stride]]
