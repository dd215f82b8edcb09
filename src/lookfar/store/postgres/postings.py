"""Posting lists: pack them into blocks of bytes, and compute BM25 scores from them.

The embedded index stores the length of an entry in one byte, and so do blocks: exact up to 40
terms, within an eighth beyond. Both stores round alike, so their scores agree.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_K1: Final = 1.2
_B: Final = 0.75
_FREE: Final = 24
MOST: Final = 4096
"""The most entries in one block."""
_FARTHEST: Final = 1 << 32
_MOST_TIMES: Final = 65_535
_BYTES: Final = 7
"""Per entry: four for its number, two for the term frequency, one for its length."""
POSTING: Final = np.dtype([("key", "<i8"), ("times", "<u2"), ("length", "u1")])
"""An entry as the writer buffers it, before it is packed into a block."""


def _length(number: int) -> int:
    """Decode a length byte: four significant bits and a shift."""
    if number < _FREE:
        return number
    bits, shift = (number - _FREE) & 7, ((number - _FREE) >> 3) - 1
    return _FREE + (bits if shift < 0 else (bits | 8) << shift)


_LENGTHS: Final = tuple(map(_length, range(256)))
_DECODED: Final = np.array(_LENGTHS, dtype=np.float64)


@lru_cache(maxsize=4096)
def length_byte(terms: int) -> int:
    """Encode a length, rounded down to one that a byte can express."""
    return bisect_right(_LENGTHS, terms) - 1


class Postings(NamedTuple):
    """The entries that contain one term in one field, in the order of their numbers."""

    keys: NDArray[np.int64]
    times: NDArray[np.uint16]
    lengths: NDArray[np.uint8]

    def among(self, wanted: NDArray[np.int64]) -> Postings:
        """Return the entries that are in ``wanted``, which is sorted."""
        at = np.searchsorted(wanted, self.keys)
        at[at == len(wanted)] = 0
        matches = wanted[at] == self.keys if len(wanted) else np.zeros(len(self.keys), dtype=bool)
        return self.only(matches)

    def only(self, which: NDArray[np.bool_]) -> Postings:
        return Postings(self.keys[which], self.times[which], self.lengths[which])

    def scores(self, weight: float, mean_length: float) -> NDArray[np.float64]:
        """Return what the term adds to the score of each entry."""
        factor = _K1 * (1 - _B + _B * _DECODED / mean_length)
        times = self.times.astype(np.float64)
        scores: NDArray[np.float64] = weight * (1 + _K1) * times / (times + factor[self.lengths])
        return scores


NONE: Final = Postings(
    np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint16), np.empty(0, dtype=np.uint8)
)


def bound(weight: float) -> float:
    """Return an upper bound of what the term can add to a score."""
    return weight * (1 + _K1)


def idf(entries: int, having: int) -> float:
    """Return the inverse document frequency of a term that ``having`` entries contain."""
    having = min(having, entries)
    return math.log(1 + (entries - having + 0.5) / (having + 0.5))


def pack_blocks(entries: Postings) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield the first number, last number, count and bytes of each block."""
    # Offsets from the first number have 32 bits, so a block ends before they overflow.
    far = entries.keys // _FARTHEST
    for run in np.split(np.arange(len(far)), np.flatnonzero(np.diff(far)) + 1):
        for at in range(0, len(run), MOST):
            which = slice(int(run[at]), int(run[at]) + len(run[at : at + MOST]))
            keys = entries.keys[which]
            first, last = int(keys[0]), int(keys[-1])
            offsets = (keys - first).astype("<u4").tobytes()
            rest = entries.times[which].tobytes() + entries.lengths[which].tobytes()
            yield first, last, len(keys), offsets + rest


def unpack_block(first: int, data: bytes) -> Postings:
    """Decode what :func:`pack_blocks` packed."""
    count = len(data) // _BYTES
    return Postings(
        np.frombuffer(data, "<u4", count).astype(np.int64) + first,
        np.frombuffer(data, "<u2", count, count * 4),
        np.frombuffer(data, "u1", count, count * 6),
    )


def join(parts: list[Postings]) -> Postings:
    """Merge posting lists into one, ordered by number."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return NONE
    together = Postings(
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.times for part in parts]),
        np.concatenate([part.lengths for part in parts]),
    )
    order = np.argsort(together.keys, kind="stable")
    return Postings(together.keys[order], together.times[order], together.lengths[order])


def read_buffer(raw: bytes | bytearray) -> Postings:
    """Decode a buffer of ``POSTING`` records."""
    rows = np.frombuffer(raw, POSTING)
    return Postings(
        np.ascontiguousarray(rows["key"]),
        np.ascontiguousarray(rows["times"]),
        np.ascontiguousarray(rows["length"]),
    )


def clip_times(count: int) -> int:
    return min(count, _MOST_TIMES)


def sum_scores(
    parts: list[tuple[Postings, NDArray[np.float64]]],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return each entry once, with the sum of what its terms add."""
    keys = np.concatenate([entries.keys for entries, _ in parts]) if parts else NONE.keys
    if not len(keys):
        return NONE.keys, np.empty(0)
    scores = np.concatenate([added for _, added in parts])
    low, high = int(keys.min()), int(keys.max())
    if high - low <= 16 * len(keys) + 65_536:
        # For dense numbers, counting is faster than sorting.
        sums: NDArray[np.float64] = np.bincount(keys - low, weights=scores).astype(np.float64)
        present = np.flatnonzero(sums).astype(np.int64)
        return present + low, sums[present]
    unique, which = np.unique(keys, return_inverse=True)
    return unique, np.bincount(which, weights=scores).astype(np.float64)
