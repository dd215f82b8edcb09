"""Maximal marginal relevance, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from lookfar.retrieve.answer.mmr import reorder_by_novelty
from retrieve.passage_maker import passage

NEAR = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 1.0]], dtype=np.float32)
PASSAGES = [passage("a", 1.0, "a"), passage("b", 0.9, "b"), passage("c", 0.7, "c")]


def test_what_is_unlike_the_first_comes_before_what_is_like_it() -> None:
    found = reorder_by_novelty(PASSAGES, NEAR, 0.5)
    # Half and half: b has 0.9 - 0.9, c has 0.7 - 0.1; then b loses 0.9 for a, not 0.2 for c.
    assert [each.place.uri for each in found] == ["a", "c", "b"]
    assert [each.score for each in found] == pytest.approx([1.0, 0.6, 0.0], abs=1e-6)
    assert found[0].steps == ()
    assert [(each.stage, each.value) for each in found[1].steps] == [("mmr", pytest.approx(-0.1))]
    assert "cosine 0.900 with a:1" in found[2].steps[0].note


def test_the_balance_decides() -> None:
    # b loses a third of 0.9 at most at 0.75, and c a third of 0.1.
    assert [each.place.uri for each in reorder_by_novelty(PASSAGES, NEAR, 0.9)] == ["a", "b", "c"]
    assert [each.place.uri for each in reorder_by_novelty(PASSAGES, NEAR, 0.75)] == ["a", "c", "b"]
    assert reorder_by_novelty(PASSAGES, NEAR, 1.0) == PASSAGES


def test_what_is_lost_is_a_share_of_the_best_score() -> None:
    doubled = [passage(each.place.uri, 2 * each.score, each.place.uri) for each in PASSAGES]
    found = reorder_by_novelty(doubled, NEAR, 0.5)
    assert [each.score for each in found] == pytest.approx([2.0, 1.2, 0.0], abs=1e-6)


def test_ties_stay_in_order_and_scores_fall() -> None:
    equal = [passage(uri, 0.5, uri) for uri in "abcdef"]
    near = np.full((6, 6), 0.3, dtype=np.float32)
    found = reorder_by_novelty(equal, near, 0.7)
    assert [each.place.uri for each in found] == list("abcdef")
    mixed = np.random.default_rng(1).uniform(0, 1, (6, 6)).astype(np.float32)
    scores = [each.score for each in reorder_by_novelty(equal, np.maximum(mixed, mixed.T), 0.7)]
    assert scores == sorted(scores, reverse=True)


def test_what_is_beyond_the_square_follows_unchanged() -> None:
    more = [*PASSAGES, passage("z", 0.1, "z")]
    assert reorder_by_novelty(more, NEAR, 0.5)[3:] == more[3:]


def test_nothing_and_nothing_good_stay_as_they_are() -> None:
    assert reorder_by_novelty([], np.zeros((0, 0), np.float32), 0.5) == []
    bad = [passage("a", 0.0), passage("b", -1.0)]
    assert reorder_by_novelty(bad, np.ones((2, 2), np.float32), 0.5) == bad
