"""Every metric against values worked out by hand."""

from __future__ import annotations

from math import log2

import pytest

from lookfar.evaluate.metrics import (
    first_rank,
    ndcg,
    percentile,
    recall,
    reciprocal_rank,
    success,
)

ONE = {"a": 1.0}
TWO = {"a": 1.0, "b": 1.0}
GRADED = {"a": 3.0, "b": 1.0}


@pytest.mark.parametrize(
    ("ranked", "gains", "k", "value"),
    [
        ("a", ONE, 10, 1.0),
        ("xa", ONE, 10, 1 / log2(3)),
        ("xxa", ONE, 10, 0.5),  # One over the logarithm of four.
        ("xxxxxxxxxa", ONE, 10, 1 / log2(11)),
        ("xxxxxxxxxxa", ONE, 10, 0.0),
        ("xa", ONE, 1, 0.0),
        ("ab", TWO, 10, 1.0),
        ("ba", TWO, 10, 1.0),
        ("axb", TWO, 10, (1 + 0.5) / (1 + 1 / log2(3))),
        ("a", TWO, 10, 1 / (1 + 1 / log2(3))),
        ("a", TWO, 1, 1.0),  # More than k relevant things cannot be asked of k answers.
        ("ab", GRADED, 10, 1.0),
        ("ba", GRADED, 10, (1 + 3 / log2(3)) / (3 + 1 / log2(3))),
        ("", ONE, 10, 0.0),
        ("a", {}, 10, 0.0),
        ("a", {"a": 0.0}, 10, 0.0),
    ],
)
def test_ndcg(ranked: str, gains: dict[str, float], k: int, value: float) -> None:
    assert ndcg(ranked, gains, k) == pytest.approx(value)


def test_ndcg_by_the_numbers() -> None:
    """The same once more without a formula."""
    assert ndcg("xa", ONE) == pytest.approx(0.6309, abs=1e-4)
    assert ndcg("axb", TWO) == pytest.approx(0.9197, abs=1e-4)
    assert ndcg("ba", GRADED) == pytest.approx(0.7967, abs=1e-4)


@pytest.mark.parametrize(
    ("ranked", "gains", "k", "value"),
    [
        ("a", ONE, 10, 1.0),
        ("xxa", ONE, 10, 1 / 3),
        ("xba", TWO, 10, 0.5),
        ("xxa", ONE, 2, 0.0),
        ("", ONE, 10, 0.0),
        ("za", {"z": 0.0, "a": 1.0}, 10, 0.5),
    ],
)
def test_reciprocal_rank(ranked: str, gains: dict[str, float], k: int, value: float) -> None:
    assert reciprocal_rank(ranked, gains, k) == pytest.approx(value)
    assert first_rank(ranked, gains, k) == (round(1 / value) if value else 0)


@pytest.mark.parametrize(
    ("ranked", "gains", "k", "value"),
    [
        ("ab", TWO, 10, 1.0),
        ("xxb", TWO, 10, 0.5),
        ("xxb", TWO, 2, 0.0),
        ("ab", {**TWO, "c": 2.0}, 10, 2 / 3),
        ("z", {"z": 0.0, "a": 1.0}, 10, 0.0),
        ("a", {}, 10, 0.0),
    ],
)
def test_recall(ranked: str, gains: dict[str, float], k: int, value: float) -> None:
    assert recall(ranked, gains, k) == pytest.approx(value)


@pytest.mark.parametrize(("ranked", "value"), [("ab", 1.0), ("ba", 1.0), ("xa", 0.0), ("", 0.0)])
def test_success_looks_at_the_first_alone(ranked: str, value: float) -> None:
    assert success(ranked, TWO) == value


@pytest.mark.parametrize(
    ("values", "share", "value"),
    [
        ([4.0, 1.0, 3.0, 2.0], 0.5, 2.0),
        ([4.0, 1.0, 3.0, 2.0], 0.95, 4.0),
        (list(range(1, 101)), 0.95, 95),
        (list(range(1, 101)), 0.5, 50),
        ([7.0], 0.5, 7.0),
        ([], 0.5, 0.0),
    ],
)
def test_percentile(values: list[float], share: float, value: float) -> None:
    assert percentile(values, share) == value
