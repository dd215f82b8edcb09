"""Posting lists, and the BM25 scores that follow from them.

The length of an entry is rounded to one byte: exact up to 40 terms, within an eighth beyond.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray

    Keys: TypeAlias = NDArray[np.int64 | np.uint32]
    """The numbers of entries, in order."""

_K1: Final = 1.2
_B: Final = 0.75
_FREE: Final = 24
MOST_COUNTED: Final = 65_535
"""How often a term is counted in one entry at most."""
_TABULATED: Final = 16_384
"""Entries from which the scores of a list are taken from a table, which has fewer."""
_TABLE_TIMES: Final = 32


def _length(number: int) -> int:
    """Decode a length byte: four significant bits and a shift."""
    if number < _FREE:
        return number
    bits, shift = (number - _FREE) & 7, ((number - _FREE) >> 3) - 1
    return _FREE + (bits if shift < 0 else (bits | 8) << shift)


_LENGTHS: Final = tuple(map(_length, range(256)))
_DECODED: Final = np.array(_LENGTHS, dtype=np.float64)


def length_bytes(terms: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Encode lengths, each rounded down to one that a byte can express."""
    return (np.searchsorted(_DECODED, terms, "right") - 1).astype(np.uint8)


class Postings(NamedTuple):
    """The entries that contain one term in one field, in the order of their numbers."""

    keys: Keys
    times: NDArray[np.uint16 | np.uint8]
    lengths: NDArray[np.uint8]

    def impacts(self, mean_length: float) -> Impacts:
        """Return what the term adds to the score of each entry."""
        factor = _K1 * (1 - _B + _B * _DECODED / mean_length)
        if len(self.keys) < _TABULATED or self.times.max() >= _TABLE_TIMES:
            times = self.times.astype(np.float64)
            return Impacts(self.keys, (1 + _K1) * times / (times + factor[self.lengths]))
        # A long list has few different entries, so each of them is computed once.
        times = np.arange(_TABLE_TIMES, dtype=np.float64)[:, None]
        table = ((1 + _K1) * times / (times + factor)).ravel()
        return Impacts(self.keys, table[(self.times.astype(np.uint16) << 8) | self.lengths])


class Impacts(NamedTuple):
    """What a term of weight 1 adds to the score of each entry that contains it."""

    keys: Keys
    values: NDArray[np.float64]

    def among(self, wanted: Keys) -> Impacts:
        """Return the entries that are in ``wanted``, which is sorted."""
        which = _find_wanted(self.keys, wanted)
        return Impacts(self.keys[which], self.values[which])


def _find_wanted(keys: Keys, wanted: Keys) -> NDArray[np.bool_ | np.intp]:
    """Return which of the keys are in ``wanted``; both are sorted."""
    if not len(keys):
        return np.empty(0, dtype=np.intp)
    # NumPy would copy the longer array to compare arrays of two types. What is left of the
    # wanted numbers fits the type of the keys.
    wanted = wanted[: np.searchsorted(wanted, keys[-1], "right")].astype(keys.dtype)
    if len(wanted) < len(keys):
        at = np.searchsorted(keys, wanted)
        at[at == len(keys)] = 0
        chosen: NDArray[np.intp] = at[keys[at] == wanted]
        return chosen
    at = np.searchsorted(wanted, keys)
    at[at == len(wanted)] = 0
    having: NDArray[np.bool_] = (
        wanted[at] == keys if len(wanted) else np.zeros(len(keys), dtype=np.bool_)
    )
    return having


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


def sum_scores(parts: list[Impacts]) -> tuple[Keys, NDArray[np.float64]]:
    """Return each entry once, with the sum of what its terms add."""
    keys = np.concatenate([part.keys for part in parts]) if parts else NONE.keys
    if not len(keys):
        return NONE.keys, np.empty(0)
    scores = np.concatenate([part.values for part in parts])
    low, high = int(keys.min()), int(keys.max())
    if high - low <= 16 * len(keys) + 65_536:
        # For dense numbers, counting is faster than sorting.
        sums: NDArray[np.float64] = np.bincount(keys - low, weights=scores).astype(np.float64)
        present = np.flatnonzero(sums).astype(np.int64)
        return present + low, sums[present]
    unique, which = np.unique(keys, return_inverse=True)
    return unique, np.bincount(which, weights=scores).astype(np.float64)
