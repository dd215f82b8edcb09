"""Scores of two models in one answer: blended on one scale, never compared as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from lookfar.config import SearchSettings
from lookfar.library.compat import fuse_by_rank
from lookfar.model import Lane
from lookfar.ports import Place
from lookfar.retrieve.ranking import Candidate, Ranking
from lookfar.retrieve.stages.fuse import fuse_by_score

MakePlace = Callable[..., Place]
MakeRanking = Callable[..., Ranking]

FIRST = [0.9, 0.8, 0.7, 0.65, 0.6, 0.55, 0.5, 0.4, 0.3, 0.2]


@pytest.fixture
def rank(make_place: MakePlace, make_ranking: MakeRanking) -> Callable[..., Ranking]:
    def make(second: Sequence[float | None], lane: Lane = "docs", by_rank: bool = False) -> Ranking:
        ranking = make_ranking(
            [
                Candidate(make_place(at, document=at)._replace(lane=lane), 1.0, 1.0, near, 0, other)
                for at, (near, other) in enumerate(zip(FIRST, second, strict=True))
            ]
        )
        even = SearchSettings(vector_weight=0.5, keyword_weight=0.5)
        return fuse_by_rank(replace(ranking, settings=even)) if by_rank else fuse_by_score(ranking)

    return make


@pytest.mark.parametrize("lane", ["docs", "code"])
@pytest.mark.parametrize("by_rank", [False, True])
@pytest.mark.parametrize("present", [10, 8])
def test_the_range_of_the_second_model_does_not_matter(
    rank: Callable[..., Ranking], lane: str, by_rank: bool, present: int
) -> None:
    """Seen to fail when the cosines of the second model were blended in as they are."""
    judged = np.random.default_rng(3).normal(size=len(FIRST))
    ranges = [
        [float(value) * scale + shift if at < present else None for at, value in enumerate(judged)]
        for scale, shift in ((1.0, 0.0), (0.05, 0.9), (3.0, -2.0))
    ]
    first, *others = (rank(second, lane, by_rank).scores for second in ranges)
    for scores in others:
        assert scores == pytest.approx(first)


def test_a_chunk_gains_by_what_the_second_model_says_and_not_by_having_a_vector(
    rank: Callable[..., Ranking],
) -> None:
    """All of the second model's scores agree with the first: nothing changes for any chunk."""
    agreeing = [value * 0.1 + 0.85 for value in FIRST]
    half = [value if at % 5 else None for at, value in enumerate(agreeing)]
    whole = rank(agreeing)
    assert whole.order() == sorted(range(10), key=lambda at: -FIRST[at])
    assert rank(half).order() == whole.order()


def test_the_second_model_moves_what_it_judges(rank: Callable[..., Ranking]) -> None:
    opinion = [0.1] * 9 + [0.9]
    assert rank(opinion).order()[0] == 9
    notes = [c.note for c in rank(opinion).explain(9) if c.stage == "vector"]
    assert notes == ["cosine 0.200, second model 0.900"]


def test_few_judgements_change_nothing(rank: Callable[..., Ranking]) -> None:
    """The scales of two models cannot be compared by a handful of chunks."""
    few = [None] * 5 + [0.1, 0.2, 0.3, 0.4, 0.99]
    alone: list[float | None] = [None] * 10
    assert rank(few).order() == rank(alone).order()
    equal = [0.5] * 10
    assert rank(equal).order() == rank(alone).order()
