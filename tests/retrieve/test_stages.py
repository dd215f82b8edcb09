"""Each stage, on cases small enough to compute by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lookfar.config import SearchSettings
from lookfar.ports import Place
from lookfar.retrieve.answer.diversify import make_passages
from lookfar.retrieve.ranking import Candidate, Ranking
from lookfar.retrieve.stages.boost import boost_exact
from lookfar.retrieve.stages.fuse import fuse_by_score

MakePlace = Callable[..., Place]
MakeRanking = Callable[..., Ranking]
WEIGHTS = SearchSettings(vector_weight=0.25, keyword_weight=0.75)


def test_ties_go_by_uri_then_by_start(make_place: MakePlace, make_ranking: MakeRanking) -> None:
    candidates = [
        Candidate(make_place(1, uri="b.md", start=0), 0, 0, 0),
        Candidate(make_place(2, uri="a.md", start=9), 0, 0, 0),
        Candidate(make_place(3, uri="a.md", start=5), 0, 0, 0),
    ]
    assert make_ranking(candidates, [0.5, 0.5, 0.5]).order() == [2, 1, 0]


def test_fusion_is_weighted_sum_of_scaled_scores(
    make_place: MakePlace, make_ranking: MakeRanking
) -> None:
    """Fails if the shares of chunk and page are swapped."""
    candidates = [
        Candidate(make_place(1, document=1), keyword=4.0, page=10.0, vector=0.2),
        Candidate(make_place(2, document=2), keyword=2.0, page=5.0, vector=0.6),
    ]
    fused = fuse_by_score(make_ranking(candidates, settings=WEIGHTS))
    # Words: 4 and 2 of the best chunk's 4, 10 and 5 of the best page's 10; meaning: min to max.
    assert fused.scores == pytest.approx((0.75 * 1.0, 0.75 * 0.5 + 0.25 * 1.0))


def test_fusion_ignores_vectors_if_the_model_knows_no_word(
    make_place: MakePlace, make_ranking: MakeRanking
) -> None:
    candidates = [
        Candidate(make_place(1, document=1), 1.0, 1.0, 0.0),
        Candidate(make_place(2, document=2), 0.5, 0.5, 1.0),
    ]
    fused = fuse_by_score(make_ranking(candidates, trust=0.0, settings=WEIGHTS))
    assert fused.scores == pytest.approx((1.0, 0.5))


@pytest.mark.parametrize(("mode", "best"), [("keyword", 0), ("vector", 1)])
def test_single_modes_use_one_retriever(
    make_place: MakePlace, make_ranking: MakeRanking, mode: str, best: int
) -> None:
    candidates = [
        Candidate(make_place(1, document=1), 5.0, 5.0, 0.1),
        Candidate(make_place(2, document=2), 1.0, 1.0, 0.9),
    ]
    given = {"vector": None} if mode == "keyword" else {}
    ranking = make_ranking(candidates, mode=mode, **given)
    fused = fuse_by_score(replace(ranking, settings=WEIGHTS))
    assert fused.order()[0] == best
    assert fused.scores[best] == pytest.approx(1.0)


def test_page_vector_is_mean_of_three_nearest_chunks(
    make_place: MakePlace, make_ranking: MakeRanking
) -> None:
    near = [0.9, 0.6, 0.6, 0.0]
    candidates = [
        *(Candidate(make_place(at, document=1), 0, 0, value) for at, value in enumerate(near)),
        Candidate(make_place(9, document=2), 0, 0, 0.5),
    ]
    fused = fuse_by_score(make_ranking(candidates, mode="vector", settings=WEIGHTS))
    # Document 1 has the mean 0.7, document 2 has 0.5: the best and the worst page.
    pages = next(step.added for step in fused.steps if step.stage == "page vector")
    assert pages == pytest.approx((0.8, 0.8, 0.8, 0.8, 0))


def test_every_score_is_the_sum_of_its_explanation(
    make_place: MakePlace, make_ranking: MakeRanking
) -> None:
    candidates = [
        Candidate(make_place(1, document=1, title="Word"), 3.0, 2.0, 0.4),
        Candidate(make_place(2, document=2), 1.0, 4.0, 0.8),
    ]
    ranking = make_ranking(candidates)
    ranking = replace(ranking, plan=replace(ranking.plan, text="word"))
    ranked = boost_exact(fuse_by_score(replace(ranking, settings=WEIGHTS)))
    for at, score in enumerate(ranked.scores):
        assert sum(step.value for step in ranked.explain(at)) == pytest.approx(score, abs=1e-5)
    assert [step.stage for step in ranked.explain(0)][-1] == "title"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("tasks/drain-node.md", "docs/tasks/drain-node.md"),
        ("Drain-Node.md", "docs/tasks/drain-node.md"),
        ("drain-node", "docs/tasks/drain-node.md"),
        ("/docs/tasks/drain-node.md", "docs/tasks/drain-node.md"),
        ("./docs/tasks/drain-node.md:41-50", "docs/tasks/drain-node.md"),
        ("node.md", "a.md"),
        ("tasks", "a.md"),
        ("drain node", "a.md"),
    ],
)
def test_question_that_is_a_path_puts_that_file_first(
    make_place: MakePlace, make_ranking: MakeRanking, text: str, first: str
) -> None:
    candidates = [
        Candidate(make_place(1, document=1, uri="a.md"), 0, 0, 0),
        Candidate(make_place(2, document=2, uri="docs/tasks/drain-node.md"), 0, 0, 0),
    ]
    ranking = make_ranking(candidates, [0.9, 0.1])
    ranking = replace(ranking, plan=replace(ranking.plan, text=text))
    ranked = boost_exact(ranking)
    assert ranked.candidates[ranked.order()[0]].place.uri == first


def test_equally_good_neighbours_are_merged(
    make_place: MakePlace, make_ranking: MakeRanking
) -> None:
    candidates = [
        Candidate(make_place(1, start=0, end=100), 0, 0, 0),
        Candidate(make_place(2, start=150, end=250), 0, 0, 0),
        Candidate(make_place(3, start=900, end=950), 0, 0, 0),
    ]
    passages = make_passages(
        make_ranking(candidates, [0.8, 0.9, 0.7]), per_document=3, merge_gap=200, max_chars=4000
    )
    assert [(p.start, p.end, p.chunks, p.score) for p in passages] == [
        (0, 250, 2, 0.9),
        (900, 950, 1, 0.7),
    ]
    assert passages[0].place.key == 2


def test_weaker_neighbour_is_not_merged(make_place: MakePlace, make_ranking: MakeRanking) -> None:
    candidates = [
        Candidate(make_place(1, start=0, end=100), 0, 0, 0),
        Candidate(make_place(2, start=100, end=200), 0, 0, 0),
    ]
    passages = make_passages(
        make_ranking(candidates, [0.9, 0.2]), per_document=3, merge_gap=200, max_chars=4000
    )
    assert [(p.start, p.end) for p in passages] == [(0, 100), (100, 200)]


def test_document_scores_do_not_make_chunks_equally_good(
    make_place: MakePlace, make_ranking: MakeRanking
) -> None:
    """Fails if whole scores are compared: a good page became one long passage."""
    candidates = [
        Candidate(make_place(1, start=0, end=100), 0, 0, 0),
        Candidate(make_place(2, start=100, end=200), 0, 0, 0),
    ]
    ranking = make_ranking(candidates, [0.4, 0.1])
    ranking = ranking.add_step("page", [0.6, 0.6], lambda _: "", whole_document=True)
    assert len(make_passages(ranking, per_document=3, merge_gap=200, max_chars=4000)) == 2


def test_top_k_does_not_change_spans(make_place: MakePlace, make_ranking: MakeRanking) -> None:
    """Fails if only the requested hits are merged."""
    candidates = [
        Candidate(make_place(at, start=at * 100, end=at * 100 + 90), 0, 0, 0) for at in range(4)
    ]
    scores = [0.9, 0.8, 0.85, 0.8]
    one = make_passages(
        make_ranking(candidates, scores, top_k=1), per_document=3, merge_gap=200, max_chars=4000
    )
    many = make_passages(
        make_ranking(candidates, scores, top_k=9), per_document=3, merge_gap=200, max_chars=4000
    )
    assert one == many


@pytest.mark.parametrize(("cap", "expected"), [(1, 1), (2, 2), (0, 4)])
def test_passages_per_document_are_limited(
    make_place: MakePlace, make_ranking: MakeRanking, cap: int, expected: int
) -> None:
    candidates = [
        Candidate(make_place(at, start=at * 1000, end=at * 1000 + 10), 0, 0, 0) for at in range(4)
    ]
    candidates.append(Candidate(make_place(9, document=2, uri="b.md"), 0, 0, 0))
    ranking = make_ranking(candidates, [0.9, 0.8, 0.7, 0.6, 0.1])
    passages = make_passages(ranking, per_document=cap, merge_gap=0, max_chars=4000)
    assert sum(p.place.document == 1 for p in passages) == expected
    assert sum(p.place.document == 2 for p in passages) == 1


def test_one_document_cannot_fill_the_pool(
    make_place: MakePlace, make_ranking: MakeRanking
) -> None:
    """Fails if the pool is filled without a limit per document."""
    candidates = [
        Candidate(make_place(at, document=at // 40, start=at * 999, end=at * 999), 0, 0, 0)
        for at in range(160)
    ]
    scores = [1.0 - at / 1000 for at in range(160)]
    passages = make_passages(
        make_ranking(candidates, scores), per_document=3, merge_gap=0, max_chars=4000
    )
    assert {passage.place.document for passage in passages} == {0, 1, 2, 3}


def test_empty_ranking_gives_no_passages(make_ranking: MakeRanking) -> None:
    empty = boost_exact(fuse_by_score(make_ranking([], settings=WEIGHTS)))
    assert empty.scores == ()
    assert make_passages(empty, per_document=3, merge_gap=200, max_chars=4000) == []
