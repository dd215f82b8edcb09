"""Maximal marginal relevance, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from lookfar.retrieve.answer.similarity import reorder_by_novelty
from retrieve.passage_maker import passage

NEAR = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 1.0]], dtype=np.float32)
PASSAGES = [passage("a", 1.0, "a"), passage("b", 0.9, "b"), passage("c", 0.7, "c")]


def test_dissimilar_passage_comes_before_similar_one() -> None:
    reordered = reorder_by_novelty(PASSAGES, NEAR, 0.5)
    # Balance 0.5: b has 0.9 - 0.9, c has 0.7 - 0.1; then b loses 0.9 for a, not 0.2 for c.
    assert [passage.place.uri for passage in reordered] == ["a", "c", "b"]
    assert [passage.score for passage in reordered] == pytest.approx([1.0, 0.6, 0.0], abs=1e-6)
    assert reordered[0].steps == ()
    assert [step.stage for step in reordered[1].steps] == ["mmr"]
    assert [step.value for step in reordered[1].steps] == pytest.approx([-0.1])
    assert "cosine 0.900 with a:1" in reordered[2].steps[0].note


def test_the_balance_decides() -> None:
    # At 0.75, b loses at most a third of 0.9, and c a third of 0.1.
    assert [passage.place.uri for passage in reorder_by_novelty(PASSAGES, NEAR, 0.9)] == [
        "a",
        "b",
        "c",
    ]
    assert [passage.place.uri for passage in reorder_by_novelty(PASSAGES, NEAR, 0.75)] == [
        "a",
        "c",
        "b",
    ]
    assert reorder_by_novelty(PASSAGES, NEAR, 1.0) == PASSAGES


def test_penalty_is_a_share_of_the_best_score() -> None:
    doubled = [passage(single.place.uri, 2 * single.score, single.place.uri) for single in PASSAGES]
    reordered = reorder_by_novelty(doubled, NEAR, 0.5)
    assert [passage.score for passage in reordered] == pytest.approx([2.0, 1.2, 0.0], abs=1e-6)


def test_ties_keep_their_order_and_scores_decrease() -> None:
    equal = [passage(uri, 0.5, uri) for uri in "abcdef"]
    near = np.full((6, 6), 0.3, dtype=np.float32)
    reordered = reorder_by_novelty(equal, near, 0.7)
    assert [passage.place.uri for passage in reordered] == list("abcdef")
    mixed = np.random.default_rng(1).uniform(0, 1, (6, 6)).astype(np.float32)
    scores = [
        passage.score for passage in reorder_by_novelty(equal, np.maximum(mixed, mixed.T), 0.7)
    ]
    assert scores == sorted(scores, reverse=True)


def test_passages_beyond_the_matrix_follow_unchanged() -> None:
    more = [*PASSAGES, passage("z", 0.1, "z")]
    assert reorder_by_novelty(more, NEAR, 0.5)[3:] == more[3:]


def test_empty_and_zero_scores_are_unchanged() -> None:
    assert reorder_by_novelty([], np.zeros((0, 0), np.float32), 0.5) == []
    bad = [passage("a", 0.0), passage("b", -1.0)]
    assert reorder_by_novelty(bad, np.ones((2, 2), np.float32), 0.5) == bad
