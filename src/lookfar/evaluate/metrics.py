"""Metrics of one ranked answer, as numbers between 0 and 1.

``ranked`` lists what was found, best first; ``gains`` maps each relevant item to its gain. Gains
are linear (a grade of 2 is worth two of 1) and discounted by log2(rank + 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

DEPTH = 10
METRICS = ("ndcg", "mrr", "recall", "success")
"""In display order; the first is the default for comparisons."""


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
