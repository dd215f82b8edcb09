"""Whether one configuration answers better than another, or chance explains the difference.

Takes: the scores that two configurations have for the same questions. Gives: the mean
difference with a confidence interval, the probability of one at least as large if the
two were equal, and how many questions were won and lost. Refuses: scores that do not pair.

The test is a paired randomisation test: if it made no difference which configuration answered,
each question's difference could as well have the other sign. Few differences are tried in
every way, many in ten thousand random ways. Intervals are percentiles of ten thousand
resamples of the questions. Random numbers are the raw output of one generator with a fixed
seed, so the same scores give the same figures wherever they are computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lookfar.errors import InvalidArgument

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lookfar.evaluate.results import Results

SEED = 20_240_229
RESAMPLES = 10_000
SIGNIFICANT = 0.05
_BATCH = 500
_EXACT = 13
"""So many differences have fewer ways to turn their signs than there are resamples."""
_NOISE = 1e-6
"""Differences below this are rounding: what is kept of a measurement has six digits."""


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
    """One metric of two configurations over the questions that both answered."""

    metric: str
    queries: int
    unpaired: int
    """Questions that only one of them answered, or that were judged differently."""
    before: float
    after: float
    delta: float
    low: float
    high: float
    """Between these lies the true difference, in 95 of 100 such measurements."""
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
    """How much better ``after`` answers than ``before``."""
    if after.k != before.k:
        raise InvalidArgument(
            f"One measurement looked at the first {before.k} answers, the other at {after.k}.",
            hint=f"Measure again with -k {before.k}.",
        )
    known = {each.mark: each for each in before.queries}
    pairs = [(known[each.mark], each) for each in after.queries if each.mark in known]
    if not pairs:
        raise InvalidArgument(
            "The two measurements have no question in common.",
            hint="Compare measurements of the same judged questions.",
        )
    old = np.array([each.scores[metric] for each, _ in pairs])
    new = np.array([each.scores[metric] for _, each in pairs])
    differences = new - old
    differences[np.abs(differences) < _NOISE] = 0.0
    low, high = interval(differences)
    moved = sorted(
        (
            Moved(
                b.id, b.query, a.scores[metric], b.scores[metric], a.rank, b.rank
            )
            for (a, b), difference in zip(pairs, differences, strict=True)
            if difference
        ),
        key=lambda each: (-abs(each.delta), each.delta, each.id),
    )  # fmt: skip
    return Comparison(
        metric=metric,
        queries=len(pairs),
        unpaired=len(after.queries) + len(before.queries) - 2 * len(pairs),
        before=float(old.mean()),
        after=float(new.mean()),
        delta=float(differences.mean()),
        low=low,
        high=high,
        p=randomisation_test(differences),
        wins=int((differences > 0).sum()),
        losses=int((differences < 0).sum()),
        ties=int((differences == 0).sum()),
        moved=tuple(moved),
    )


def randomisation_test(
    differences: Sequence[float] | NDArray[np.float64],
    *,
    seed: int = SEED,
    resamples: int = RESAMPLES,
) -> float:
    """How probable a mean difference at least as large is, if signs were left to chance.

    Two-sided. Differences of 0 have no sign and change nothing.
    """
    given = np.asarray(differences, dtype=np.float64)
    given = given[given != 0]
    if not len(given):
        return 1.0
    observed = abs(float(given.sum())) - _NOISE
    if len(given) <= _EXACT:
        ways = np.arange(2 ** len(given), dtype=np.uint64)[:, None]
        turned = (ways >> np.arange(len(given), dtype=np.uint64)) & np.uint64(1)
        sums = np.abs((1.0 - 2.0 * turned) @ given)
        return float((sums >= observed).mean())
    at_least = 0
    for words in _raw(seed, resamples, -(-len(given) // 64)):
        bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, : len(given)]
        sums = np.abs((1.0 - 2.0 * bits) @ given)
        at_least += int((sums >= observed).sum())
    # What was observed is one of the ways, so that no probability is 0.
    return (at_least + 1) / (resamples + 1)


def interval(
    values: Sequence[float] | NDArray[np.float64],
    *,
    seed: int = SEED,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Between which means the true one lies with this confidence, by resampling the values."""
    given = np.asarray(values, dtype=np.float64)
    if not len(given):
        raise InvalidArgument("There are no values.", hint="Measure at least one question.")
    means = np.concatenate(
        [
            given[(words % np.uint64(len(given))).astype(np.intp)].mean(axis=1)
            for words in _raw(seed, resamples, len(given))
        ]
    )
    outside = (1 - confidence) / 2
    low, high = np.quantile(means, (outside, 1 - outside))
    return float(low), float(high)


def _raw(seed: int, rows: int, columns: int) -> Iterator[NDArray[np.uint64]]:
    """Random 64-bit words, some rows at a time: the one stream that numpy promises to keep."""
    source = np.random.PCG64(seed)
    for begun in range(0, rows, _BATCH):
        some = min(_BATCH, rows - begun)
        words = np.asarray(source.random_raw(some * columns), dtype="<u8")
        yield words.reshape(some, columns)
