"""How good one ranked answer is, as numbers between 0 and 1.

Takes: what was found, the best first, each thing once, and the gain of each thing that should
be found. Gives: nDCG, reciprocal rank, recall and success. Refuses: nothing; an answer or a
judgement that is empty scores 0.

Gains count as they are (a grade of 2 is worth two of 1), each divided by the logarithm of its
rank plus one. The ideal order of all judged things scores 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

DEPTH = 10
METRICS = ("ndcg", "mrr", "recall", "success")
"""In the order in which they are shown; the first one decides unless another is named."""


def ndcg(ranked: Sequence[str], gains: Mapping[str, float], k: int = DEPTH) -> float:
    """The discounted gain of the first ``k``, as a share of the best order's."""
    best = _discounted(sorted(gains.values(), reverse=True)[:k])
    return _discounted(gains.get(each, 0.0) for each in ranked[:k]) / best if best else 0.0


def reciprocal_rank(ranked: Sequence[str], gains: Mapping[str, float], k: int = DEPTH) -> float:
    """One over the rank of the first relevant thing; 0 where none is among the first ``k``."""
    rank = first_rank(ranked, gains, k)
    return 1 / rank if rank else 0.0


def recall(ranked: Sequence[str], gains: Mapping[str, float], k: int = DEPTH) -> float:
    """The share of the relevant things that is among the first ``k``."""
    relevant = {each for each, gain in gains.items() if gain > 0}
    return len(relevant.intersection(ranked[:k])) / len(relevant) if relevant else 0.0


def success(ranked: Sequence[str], gains: Mapping[str, float]) -> float:
    """1 where the first thing is relevant, or else 0."""
    return 1.0 if first_rank(ranked, gains, 1) else 0.0


def first_rank(ranked: Sequence[str], gains: Mapping[str, float], k: int = DEPTH) -> int:
    """The rank of the first relevant thing, from 1; 0 where none is among the first ``k``."""
    for rank, each in enumerate(ranked[:k], start=1):
        if gains.get(each, 0.0) > 0:
            return rank
    return 0


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed; 0 for none."""
    if not values:
        return 0.0
    at = max(math.ceil(share * len(values)) - 1, 0)
    return sorted(values)[at]


def _discounted(gains: Iterable[float]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))
