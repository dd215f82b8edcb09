"""Metrics of one ranked answer, as numbers between 0 and 1, and whether means of them differ.

``ranked`` lists what was found, best first; ``gains`` maps each relevant item to its gain. Gains
are linear (a grade of 2 is worth two of 1) and discounted by log2(rank + 1).

The test is a paired randomisation test: under the null hypothesis the sign of each question's
difference is random. Confidence intervals are percentiles of bootstrap resamples of the questions.
Random numbers have a fixed seed, so the same scores give the same figures on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lookfar.errors import InvalidArgument

if TYPE_CHECKING:
    from numpy.typing import NDArray


DEPTH = 10
METRICS = ("ndcg", "mrr", "recall", "success")
"""In display order; the first is the default for comparisons."""
SEED = 20_240_229
RESAMPLES = 10_000
NOISE = 1e-6
"""Differences below this are rounding, because saved measurements have six digits."""
_BATCH = 500
_MAX_EXACT = 13
"""With up to this many differences there are fewer combinations of signs than resamples."""


def ndcg(ranked: Sequence[str], gains: Mapping[str, float], k: int = DEPTH) -> float:
    """Return the discounted gain of the first ``k``, relative to the ideal order."""
    best = _discounted(sorted(gains.values(), reverse=True)[:k])
    return _discounted(gains.get(item, 0.0) for item in ranked[:k]) / best if best else 0.0


def reciprocal_rank(ranked: Sequence[str], gains: Mapping[str, float], k: int = DEPTH) -> float:
    """Return 1 / rank of the first relevant item; 0 if none is among the first ``k``."""
    rank = first_rank(ranked, gains, k)
    return 1 / rank if rank else 0.0


def recall(ranked: Sequence[str], gains: Mapping[str, float], k: int = DEPTH) -> float:
    """Return the share of the relevant items that is among the first ``k``."""
    relevant = {item for item, gain in gains.items() if gain > 0}
    return len(relevant.intersection(ranked[:k])) / len(relevant) if relevant else 0.0


def success(ranked: Sequence[str], gains: Mapping[str, float]) -> float:
    """Return 1 if the first item is relevant, otherwise 0."""
    return 1.0 if first_rank(ranked, gains, 1) else 0.0


def first_rank(ranked: Sequence[str], gains: Mapping[str, float], k: int = DEPTH) -> int:
    """Return the rank of the first relevant item, from 1; 0 if none is among the first ``k``."""
    for rank, item in enumerate(ranked[:k], start=1):
        if gains.get(item, 0.0) > 0:
            return rank
    return 0


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    if not values:
        return 0.0
    position = max(math.ceil(share * len(values)) - 1, 0)
    return sorted(values)[position]


def _discounted(gains: Iterable[float]) -> float:
    return sum(gain / math.log2(position + 2) for position, gain in enumerate(gains))


def randomisation_test(
    differences: Sequence[float] | NDArray[np.float64],
    *,
    seed: int = SEED,
    resamples: int = RESAMPLES,
) -> float:
    """Return the two-sided p-value of the mean difference, with signs assigned at random.

    Differences of 0 have no sign and do not count.
    """
    values = np.asarray(differences, dtype=np.float64)
    values = values[values != 0]
    if not len(values):
        return 1.0
    observed = abs(float(values.sum())) - NOISE
    if len(values) <= _MAX_EXACT:
        combinations = np.arange(2 ** len(values), dtype=np.uint64)[:, None]
        negated = (combinations >> np.arange(len(values), dtype=np.uint64)) & np.uint64(1)
        sums = np.abs((1.0 - 2.0 * negated) @ values)
        return float((sums >= observed).mean())
    at_least = 0
    for words in _random_words(seed, resamples, -(-len(values) // 64)):
        bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, : len(values)]
        sums = np.abs((1.0 - 2.0 * bits) @ values)
        at_least += int((sums >= observed).sum())
    # The observed signs count as one of the resamples, so that p is never 0.
    return (at_least + 1) / (resamples + 1)


def interval(
    values: Sequence[float] | NDArray[np.float64],
    *,
    seed: int = SEED,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Return the bootstrap confidence interval of the mean."""
    samples = np.asarray(values, dtype=np.float64)
    if not len(samples):
        raise InvalidArgument("There are no values.", hint="Measure at least one question.")
    means = np.concatenate(
        [
            samples[(words % np.uint64(len(samples))).astype(np.intp)].mean(axis=1)
            for words in _random_words(seed, resamples, len(samples))
        ]
    )
    outside = (1 - confidence) / 2
    low, high = np.quantile(means, (outside, 1 - outside))
    return float(low), float(high)


def _random_words(seed: int, rows: int, columns: int) -> Iterator[NDArray[np.uint64]]:
    """Yield batches of random 64-bit words from raw output, which numpy guarantees to be stable."""
    source = np.random.PCG64(seed)
    for start in range(0, rows, _BATCH):
        size = min(_BATCH, rows - start)
        words = np.asarray(source.random_raw(size * columns), dtype="<u8")
        yield words.reshape(size, columns)
