"""Compare two measurements: is the difference significant?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lookfar.errors import InvalidArgument
from lookfar.evaluate.results import Results
from lookfar.evaluate.significance import NOISE, interval, randomisation_test

SIGNIFICANT = 0.05


@dataclass(frozen=True, slots=True)
class Moved:
    """A question that two configurations answered differently."""

    id: str
    query: str
    before: float
    after: float
    rank_before: int
    rank_after: int

    @property
    def delta(self) -> float:
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric of two configurations, over the questions that both answered."""

    metric: str
    queries: int
    unpaired: int
    """Questions that only one of them answered, or that were judged differently."""
    before: float
    after: float
    delta: float
    low: float
    high: float
    """``low`` to ``high`` is the 95 % confidence interval of the difference."""
    p: float
    wins: int
    losses: int
    ties: int
    moved: tuple[Moved, ...]
    """Every question whose score changed, the largest change first."""

    @property
    def significant(self) -> bool:
        return self.p < SIGNIFICANT

    @property
    def worse(self) -> bool:
        return self.significant and self.delta < 0

    @property
    def better(self) -> bool:
        return self.significant and self.delta > 0


def compare(after: Results, before: Results, metric: str = "ndcg") -> Comparison:
    """Compare ``after`` with ``before`` on the questions they share."""
    if after.k != before.k:
        raise InvalidArgument(
            f"One measurement used the first {before.k} answers, the other the first {after.k}.",
            hint=f"Measure again with -k {before.k}.",
        )
    earlier = {query.mark: query for query in before.queries}
    pairs = [(earlier[query.mark], query) for query in after.queries if query.mark in earlier]
    if not pairs:
        raise InvalidArgument(
            "The two measurements have no question in common.",
            hint="Compare measurements of the same judged questions.",
        )
    old_scores = np.array([old.scores[metric] for old, _ in pairs])
    new_scores = np.array([new.scores[metric] for _, new in pairs])
    differences = new_scores - old_scores
    differences[np.abs(differences) < NOISE] = 0.0
    low, high = interval(differences)
    moved = [
        Moved(new.id, new.query, old.scores[metric], new.scores[metric], old.rank, new.rank)
        for (old, new), difference in zip(pairs, differences, strict=True)
        if difference
    ]
    moved.sort(key=lambda question: (-abs(question.delta), question.delta, question.id))
    return Comparison(
        metric=metric,
        queries=len(pairs),
        unpaired=len(after.queries) + len(before.queries) - 2 * len(pairs),
        before=float(old_scores.mean()),
        after=float(new_scores.mean()),
        delta=float(differences.mean()),
        low=low,
        high=high,
        p=randomisation_test(differences),
        wins=int((differences > 0).sum()),
        losses=int((differences < 0).sum()),
        ties=int((differences == 0).sum()),
        moved=tuple(moved),
    )
