"""Rank fusion, weights by variance, alpha and low relevance, computed by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lookfar.config import SearchSettings
from lookfar.embed.bundled import BundledEmbedder
from lookfar.library.compat import choose_ways, fuse_by_rank, weigh_by_variance
from lookfar.model import Lane
from lookfar.ports import Place
from lookfar.retrieve.answer.relevance import (
    BY_MEANING,
    BY_WORDS,
    FEWEST,
    FITS_WELL,
    LEADS,
    judge_confidence,
    measure_relevance,
)
from lookfar.retrieve.ranking import Candidate, Candidates, NamedPlace, Ranking
from lookfar.retrieve.search import USUAL
from lookfar.retrieve.stages.fuse import fuse_by_score

MakePlace = Callable[..., Place]
MakeRanking = Callable[..., Ranking]


def set_to(ranking: Ranking, **settings: Any) -> Ranking:
    return replace(ranking, settings=SearchSettings(**settings))


def by_rank(ranking: Ranking, vector: float, keyword: float) -> Ranking:
    return fuse_by_rank(set_to(ranking, vector_weight=vector, keyword_weight=keyword))


@pytest.fixture
def four(make_place: MakePlace, make_ranking: MakeRanking) -> Ranking:
    """First by words, second by both, first by meaning, and one that no retriever found."""
    scores = [(9.0, 0.2), (5.0, 0.6), (0.0, 0.9), (0.0, 0.0)]
    return make_ranking(
        [
            Candidate(make_place(at, document=at), words, words, near)
            for at, (words, near) in enumerate(scores, 1)
        ]
    )


def test_ranks_are_fused_by_their_reciprocals(four: Ranking) -> None:
    """With k = 60: 1/61, 1/62 and 1/63 by rank, relative to the best possible sum."""
    fused = by_rank(four, 0.5, 0.5)
    best = 1 / 61
    assert fused.scores == pytest.approx(
        (
            (0.5 / 61 + 0.5 / 63) / best,
            (0.5 / 62 + 0.5 / 62) / best,
            (0.5 / 61) / best,
            0.0,
        )
    )
    assert [step.stage for step in fused.explain(0)] == ["keyword", "vector"]


def test_ranks_are_weighted(four: Ranking) -> None:
    words = by_rank(four, 0.0, 1.0)
    assert words.scores == pytest.approx((1.0, 61 / 62, 0.0, 0.0))
    near = by_rank(four, 1.0, 0.0)
    assert near.order()[:3] == [2, 1, 0]


def test_a_chunk_ranks_with_the_words_of_its_document(
    make_place: MakePlace, make_ranking: MakeRanking
) -> None:
    ranking = make_ranking(
        [
            Candidate(make_place(1, document=1), 0.0, 99.0, 0.0),
            Candidate(make_place(2, document=2), 0.1, 0.1, 0.0),
            Candidate(make_place(3, document=-1), 0.01, 99.0, 0.0),
        ]
    )
    # The words of a file of code say nothing about one of its comments.
    assert by_rank(ranking, 0.0, 1.0).scores == pytest.approx((1.0, 61 / 62, 61 / 63))


def test_retriever_with_little_variance_counts_less(
    make_place: MakePlace, make_ranking: MakeRanking
) -> None:
    """Ten chunks: by words five are good and five bad (variance 1/4), by meaning one is nearer than
    the rest (variance 9/100), which is nine tenths of the threshold."""
    ranking = make_ranking(
        [
            Candidate(make_place(at, document=at), at % 2 * 8.0, 0.0, 0.9 if at == 1 else 0.4)
            for at in range(1, 11)
        ]
    )
    near, by_words = weigh_by_variance(
        set_to(ranking, variance_threshold=0.1, min_weight_factor=0.1), 0.5, 0.5
    )
    assert (near, by_words) == pytest.approx((0.45 / 0.95, 0.5 / 0.95))
    assert weigh_by_variance(
        set_to(ranking, variance_threshold=0.05, min_weight_factor=0.1), 0.5, 0.5
    ) == pytest.approx((0.5, 0.5))
    # A retriever without any variance still has the minimum weight.
    flat = replace(
        ranking, candidates=Candidates(c._replace(vector=0.4) for c in ranking.candidates)
    )
    assert weigh_by_variance(
        set_to(flat, variance_threshold=0.1, min_weight_factor=0.2), 0.5, 0.5
    ) == pytest.approx((0.1 / 0.6, 0.5 / 0.6))
    # A single retriever keeps its weight.
    assert weigh_by_variance(
        set_to(ranking, variance_threshold=0.1, min_weight_factor=0.1), 0.0, 0.75
    ) == (0.0, 0.75)


def test_weights_by_variance_reach_the_fusion(four: Ranking) -> None:
    def silent(_: Ranking, meaning: float, words: float) -> tuple[float, float]:
        return 0.0, meaning + words

    fused = fuse_by_score(set_to(four, boosts=False), silent)
    assert fused.scores == pytest.approx((1.0, 5 / 9, 0.0, 0.0))


@pytest.mark.parametrize(("alpha", "order"), [(0.0, [0, 1]), (1.0, [2, 1])])
def test_alpha_is_the_share_of_vectors(four: Ranking, alpha: float, order: list[int]) -> None:
    assert fuse_by_score(set_to(four, alpha=alpha)).order()[:2] == order


def test_fusion_is_chosen_by_a_setting(four: Ranking) -> None:
    ranks = SearchSettings(fusion="rrf", vector_weight=0.5, keyword_weight=0.5)
    fused = choose_ways(ranks).fuse(replace(four, settings=ranks))
    assert fused.scores == by_rank(four, 0.5, 0.5).scores
    weighed = SearchSettings(dynamic_weights=True, variance_threshold=1, min_weight_factor=1)
    fused = choose_ways(weighed).fuse(replace(four, settings=weighed))
    assert fused.scores == USUAL.fuse(four).scores
    assert choose_ways(SearchSettings()) == USUAL


def test_the_fit_is_measured_of_the_best_candidate(four: Ranking) -> None:
    """The words of the question weigh 20, three quarters of them occur."""
    plan = replace(four.plan, embedder=BundledEmbedder())
    scores = (0.0, 0.0, 1.0, 0.0)
    asked = replace(
        four, plan=plan, rarity={"a": 12.0, "b": 8.0}, scores=scores, entries=100, known_share=0.75
    )
    best = asked.candidates[2]
    judged = measure_relevance(asked)
    assert judged is not None
    values = (best.vector, best.page / 20, 0.75, math.log(100), 1)
    assert judged[0] == pytest.approx(np.dot(BY_MEANING, values))
    in_many = measure_relevance(replace(asked, entries=50_000))
    assert in_many is not None
    assert in_many[0] < judged[0]


def test_the_lead_is_over_the_tenth_document(
    make_place: MakePlace, make_ranking: MakeRanking
) -> None:
    """Seen to fail with the tenth chunk: of the first document there are two."""
    documents = [1, 1, *range(2, 15)]
    candidates = [
        Candidate(make_place(at, document=document), 1.0, 1.0, 0.5)
        for at, document in enumerate(documents, 1)
    ]
    ranking = replace(
        make_ranking(candidates),
        rarity={"a": 2.0},
        entries=FEWEST,
        scores=tuple(1 - at / 20 for at in range(len(documents))),
    )
    judged = measure_relevance(ranking)
    assert judged is not None
    assert judged[1] == pytest.approx(0.5)
    few = replace(ranking, candidates=Candidates(candidates[:9]), scores=ranking.scores[:9])
    judged = measure_relevance(few)
    assert judged is not None
    assert judged[1] == 1.0


def test_a_definition_that_the_question_names_fits(four: Ranking) -> None:
    words = replace(
        four, plan=replace(four.plan, vector=None), rarity={"a": 1e6}, entries=FEWEST, known_share=0
    )
    doubted = measure_relevance(words)
    assert doubted is not None
    assert doubted[0] < 0
    best = words.best().chunk
    defined = measure_relevance(replace(words, named={best: NamedPlace(0, 1, "it defines a")}))
    assert defined is not None
    assert defined[0] == FITS_WELL


@pytest.mark.parametrize(
    ("relevance", "confidence"),
    [
        (None, None),
        ((-0.01, 1.0), "low"),
        ((0.0, 1.0), "medium"),
        ((FITS_WELL, LEADS - 0.01), "medium"),
        ((FITS_WELL, LEADS), "high"),
    ],
)
def test_confidence_has_three_levels(
    relevance: tuple[float, float] | None, confidence: str | None
) -> None:
    assert judge_confidence(relevance) == confidence


def test_words_that_do_not_occur_have_no_vote(four: Ranking) -> None:
    """Seen to fail when words always had their full weight: a Japanese question about English pages
    was decided by the few Latin letters in it."""
    known, unknown, by_meaning = (
        fuse_by_score(ranking)
        for ranking in (
            four,
            replace(four, known_share=0.0),
            replace(four, plan=replace(four.plan, mode="vector")),
        )
    )
    assert unknown.order() == by_meaning.order()
    assert known.order() != by_meaning.order()


def test_relevance_without_a_model_is_by_words(four: Ranking) -> None:
    words = replace(four, plan=replace(four.plan, vector=None), rarity={"a": 36.0}, entries=FEWEST)
    judged = measure_relevance(words)
    assert judged is not None
    values = (0, words.best().page / 36, 1, math.log(FEWEST), 1)
    assert judged[0] == pytest.approx(np.dot(BY_WORDS, values))
    assert measure_relevance(replace(words, entries=FEWEST - 1)) is None
    assert measure_relevance(replace(words, plan=replace(words.plan, mode="vector"))) is None


def test_cosines_of_two_models_share_one_range(
    make_place: MakePlace, make_ranking: MakeRanking
) -> None:
    """The second model, for code, gives 0.9 where the first gives 0.3: its best counts as much as
    the best of the first, and not more."""
    near: list[tuple[float, Lane]] = [(0.1, "docs"), (0.3, "docs"), (0.8, "code"), (0.9, "code")]
    candidates = [
        Candidate(make_place(at, document=at)._replace(lane=lane), 0.0, 0.0, value)
        for at, (value, lane) in enumerate(near, 1)
    ]
    settings = SearchSettings(alpha=1.0, boosts=False)
    one = make_ranking(candidates, mode="vector", vector=np.ones(4), settings=settings)
    two = make_ranking(candidates, mode="vector", vector=np.ones((2, 4)), settings=settings)
    scores = fuse_by_score(one).scores
    prose = [score for score, each in zip(scores, near, strict=True) if each[1] == "docs"]
    assert max(prose) < 0.5
    scores = fuse_by_score(two).scores
    assert scores[:2] == pytest.approx((0.0, 1.0))
    assert scores[2] < scores[3]
    assert scores[3] == pytest.approx(1.0)
