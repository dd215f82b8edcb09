"""Compare two measurements: is the difference significant, and is the second model worth it?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lookfar.errors import InvalidArgument, how_many
from lookfar.evaluate.metrics import NOISE, interval, randomisation_test
from lookfar.evaluate.results import Results

SIGNIFICANT = 0.05
_FEW = 50
"""Questions below which a difference is seldom significant."""


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


def advise_tiers(
    comparison: Comparison, both: Results, alone: Results, *, generated: bool = False
) -> str:
    """Advise on the second model; ``comparison`` is that of ``both`` models with the first.

    ``generated`` says that the questions were made from the documents. They use the same words, so
    they show what the second model costs, but hardly what it gains.
    """
    slower = both.latency()["p50"] - alone.latency()["p50"]
    cost = f"a question takes {max(slower, 0.0):.0f} ms more"
    change = f"{comparison.metric} changes by {comparison.delta:+.3f}"
    interval = f"(95 % interval {comparison.low:+.3f} to {comparison.high:+.3f})"
    if comparison.better:
        return f"Keep the second model: {change} {interval}, and {cost}."
    if generated:
        return (
            f"No advice: {change} {interval}, and {cost}, but these questions use the words of"
            " your documents. The second model is for questions in other words; measure it with"
            " your own: lookfar eval questions.jsonl PATH --tiers"
        )
    if comparison.worse:
        return f"Turn the second model off (quality.enabled = off): {change} {interval}."
    asked = how_many(comparison.queries, "question")
    more = "; ask more questions to be sure" if comparison.queries < _FEW else ""
    return (
        f"No significant difference on {asked}: {change} {interval}, and {cost}. The second model"
        f" is not needed here{more}."
    )
