"""Lists of the entries that hold a term: how they are packed, and what BM25 makes of them.

Takes: numbers of entries, how often each holds a term, and how long each is. Gives: blocks of
bytes and back, and scores that are those of the embedded store's index. Refuses: to know where
blocks are kept.

The embedded index keeps the length of an entry in one byte, and so do blocks: exact up to 40
terms, within an eighth beyond. Scores of both stores agree because both round alike.
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
"""Entries of one block."""
_FARTHEST: Final = 1 << 32
_MOST_TIMES: Final = 65_535
_BYTES: Final = 7
"""Of an entry: four of its number, two of how often, one of its length."""
POSTING: Final = np.dtype([("key", "<i8"), ("times", "<u2"), ("length", "u1")])
"""An entry as it is gathered, before its block is made."""


def _length(number: int) -> int:
    """The length that a byte stands for: four bits that count, and how far they are shifted."""
    if number < _FREE:
        return number
    bits, shift = (number - _FREE) & 7, ((number - _FREE) >> 3) - 1
    return _FREE + (bits if shift < 0 else (bits | 8) << shift)


_LENGTHS: Final = tuple(map(_length, range(256)))
_DECODED: Final = np.array(_LENGTHS, dtype=np.float64)


@lru_cache(maxsize=4096)
def length_byte(terms: int) -> int:
    """The byte of the longest length that is not longer than this."""
    return bisect_right(_LENGTHS, terms) - 1


class Postings(NamedTuple):
    """The entries that hold one term in one field, by their numbers."""

    keys: NDArray[np.int64]
    times: NDArray[np.uint16]
    lengths: NDArray[np.uint8]

    def among(self, wanted: NDArray[np.int64]) -> Postings:
        """Those of them that are among some, which are sorted."""
        at = np.searchsorted(wanted, self.keys)
        at[at == len(wanted)] = 0
        held = wanted[at] == self.keys if len(wanted) else np.zeros(len(self.keys), dtype=bool)
        return self.only(held)

    def only(self, which: NDArray[np.bool_]) -> Postings:
        return Postings(self.keys[which], self.times[which], self.lengths[which])

    def scores(self, weight: float, mean_length: float) -> NDArray[np.float64]:
        """What the term adds to the score of each."""
        factor = _K1 * (1 - _B + _B * _DECODED / mean_length)
        times = self.times.astype(np.float64)
        found: NDArray[np.float64] = weight * (1 + _K1) * times / (times + factor[self.lengths])
        return found


NONE: Final = Postings(
    np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint16), np.empty(0, dtype=np.uint8)
)


def bound(weight: float) -> float:
    """More than the term can add to any score."""
    return weight * (1 + _K1)


def idf(entries: int, having: int) -> float:
    """How much a word says that so many of the entries hold."""
    having = min(having, entries)
    return math.log(1 + (entries - having + 0.5) / (having + 0.5))


def blocks(found: Postings) -> Iterator[tuple[int, int, int, bytes]]:
    """First number, last number, how many, and the bytes of each block."""
    # A block also ends where a number would be too far from its first.
    far = found.keys // _FARTHEST
    for some in np.split(np.arange(len(far)), np.flatnonzero(np.diff(far)) + 1):
        for at in range(0, len(some), MOST):
            which = slice(int(some[at]), int(some[at]) + len(some[at : at + MOST]))
            keys = found.keys[which]
            first, last = int(keys[0]), int(keys[-1])
            offsets = (keys - first).astype("<u4").tobytes()
            rest = found.times[which].tobytes() + found.lengths[which].tobytes()
            yield first, last, len(keys), offsets + rest


def unpacked(first: int, data: bytes) -> Postings:
    """What :func:`blocks` packed."""
    count = len(data) // _BYTES
    return Postings(
        np.frombuffer(data, "<u4", count).astype(np.int64) + first,
        np.frombuffer(data, "<u2", count, count * 4),
        np.frombuffer(data, "u1", count, count * 6),
    )


def joined(parts: list[Postings]) -> Postings:
    """Several as one, by number."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return NONE
    together = Postings(
        np.concatenate([each.keys for each in parts]),
        np.concatenate([each.times for each in parts]),
        np.concatenate([each.lengths for each in parts]),
    )
    order = np.argsort(together.keys, kind="stable")
    return Postings(together.keys[order], together.times[order], together.lengths[order])


def gathered(raw: bytes | bytearray) -> Postings:
    """Entries that were written one after another, each as a ``POSTING``."""
    rows = np.frombuffer(raw, POSTING)
    return Postings(
        np.ascontiguousarray(rows["key"]),
        np.ascontiguousarray(rows["times"]),
        np.ascontiguousarray(rows["length"]),
    )


def times_of(count: int) -> int:
    return min(count, _MOST_TIMES)


def best(
    parts: list[tuple[Postings, NDArray[np.float64]]],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Numbers, each once, and the sum of what each of their terms added."""
    keys = np.concatenate([found.keys for found, _ in parts]) if parts else NONE.keys
    if not len(keys):
        return NONE.keys, np.empty(0)
    scores = np.concatenate([added for _, added in parts])
    low, high = int(keys.min()), int(keys.max())
    if high - low <= 16 * len(keys) + 65_536:
        # Counting into one place for each number is quicker than sorting them.
        sums: NDArray[np.float64] = np.bincount(keys - low, weights=scores).astype(np.float64)
        there = np.flatnonzero(sums).astype(np.int64)
        return there + low, sums[there]
    named, which = np.unique(keys, return_inverse=True)
    return named, np.bincount(which, weights=scores).astype(np.float64)
