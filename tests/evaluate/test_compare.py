"""The randomisation test and the intervals, on data whose truth is known."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from lookfar.errors import InvalidArgument
from lookfar.evaluate.compare import compare
from lookfar.evaluate.metrics import METRICS, interval, randomisation_test
from lookfar.evaluate.results import Results, Scored, read_results, results_as_json


def scored(name: str, value: float, mark: str = "") -> Scored:
    scores = dict.fromkeys(METRICS, value)
    return Scored(name, f"query {name}", "", mark or name, scores, int(value > 0), 1.0, ())


def results(values: dict[str, float], k: int = 10) -> Results:
    queries = tuple(scored(name, value) for name, value in values.items())
    return Results("made", k, "hybrid", "hash", {}, queries)


# --- the test itself --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([], 1.0),
        ([0.0, 0.0], 1.0),
        ([0.5], 1.0),  # Both signs give a mean as large.
        ([0.5, 0.5], 0.5),  # ++ and -- of four.
        ([0.1] * 5, 2 / 32),
        ([0.1] * 6, 2 / 64),
        ([0.0, *[0.1] * 6, 0.0], 2 / 64),  # What did not change has no say.
        # Of the eight sums 7, 5, 3, 1, -1, -3, -5, -7 six are at least 3 from 0.
        ([4.0, -2.0, 1.0], 6 / 8),
        # All of the same sign, or only the smallest turned: 4 of 8.
        ([4.0, 2.0, -1.0], 4 / 8),
    ],
)
def test_few_differences_are_tried_in_every_way(differences: list[float], p: float) -> None:
    assert randomisation_test(differences) == pytest.approx(p)
    assert randomisation_test([-query for query in differences]) == pytest.approx(p)


def test_many_differences_agree_with_all_ways() -> None:
    """Where both ways of computing are possible they give the same within chance."""
    differences = np.random.PCG64(1).random_raw(13) / 2**64 - 0.35
    exact = randomisation_test(differences)
    # One more difference, too small to matter, is one too many to try every way.
    sampled = randomisation_test([*differences, 1e-12])
    assert sampled == pytest.approx(exact, abs=0.02)
    assert 0.01 < exact < 0.99


def test_no_probability_is_zero() -> None:
    assert randomisation_test([1.0] * 100) == pytest.approx(1 / 10_001)


def test_it_is_the_same_every_time_and_other_with_another_seed() -> None:
    differences = np.random.PCG64(2).random_raw(60) / 2**64 - 0.45
    first = randomisation_test(differences)
    assert first == randomisation_test(differences)
    assert first != randomisation_test(differences, seed=1)


def test_it_is_calibrated_where_nothing_differs() -> None:
    """Under the null hypothesis every probability is as likely as every other."""
    source = np.random.Generator(np.random.PCG64(3))
    comparison = np.array(
        [
            randomisation_test(source.normal(0, 1, 40) * (source.random(40) < 0.7), resamples=999)
            for _ in range(400)
        ]
    )
    assert 0.02 <= (comparison < 0.05).mean() <= 0.09
    assert 0.06 <= (comparison < 0.10).mean() <= 0.15
    assert 0.43 <= (comparison < 0.5).mean() <= 0.57
    assert 0.84 <= (comparison < 0.9).mean() <= 0.95


def test_it_sees_a_clear_difference() -> None:
    source = np.random.Generator(np.random.PCG64(4))
    clear = [randomisation_test(source.normal(0.5, 1, 80), resamples=999) for _ in range(50)]
    assert np.mean(np.array(clear) < 0.05) > 0.9


# --- intervals --------------------------------------------------------------------------------


def test_an_interval_of_equal_values_is_that_value() -> None:
    assert interval([0.25] * 10) == pytest.approx((0.25, 0.25))


def test_an_interval_of_two_values() -> None:
    """Means of two draws are 0, 1/2 and 1, a quarter of them at each end."""
    assert interval([0.0, 1.0]) == (0.0, 1.0)
    assert interval([0.0, 1.0], confidence=0.2) == (0.5, 0.5)


def test_intervals_cover_the_truth() -> None:
    source = np.random.Generator(np.random.PCG64(5))
    covered = 0
    for _ in range(200):
        low, high = interval(source.normal(0.3, 1, 50), resamples=1000)
        covered += low <= 0.3 <= high
    assert 180 <= covered <= 199


def test_an_interval_narrows_with_more_values() -> None:
    low, high = interval([0.0, 1.0] * 50)
    # Two standard errors of a fair coin over a hundred throws are a tenth.
    assert low == pytest.approx(0.4, abs=0.02)
    assert high == pytest.approx(0.6, abs=0.02)


def test_no_values_have_no_interval() -> None:
    with pytest.raises(InvalidArgument):
        interval([])


# --- comparing results ------------------------------------------------------------------------


def test_a_comparison_by_hand() -> None:
    before = results({"a": 0.5, "b": 1.0, "c": 0.0, "d": 0.25})
    after = results({"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.5})
    comparison = compare(after, before, "mrr")
    assert (comparison.metric, comparison.queries, comparison.unpaired) == ("mrr", 4, 0)
    assert (comparison.before, comparison.after) == (0.4375, 0.375)
    assert comparison.delta == pytest.approx(-0.0625)
    assert (comparison.wins, comparison.losses, comparison.ties) == (2, 1, 1)
    # Of the sums of 0.5, -1 and 0.25 with any sign all are at least a quarter from 0.
    assert comparison.p == 1.0
    assert not comparison.significant
    assert not comparison.worse
    assert [(query.id, query.delta) for query in comparison.moved] == [
        ("b", -1.0),
        ("a", 0.5),
        ("d", 0.25),
    ]
    assert (comparison.moved[0].rank_before, comparison.moved[0].rank_after) == (1, 0)
    assert comparison.low <= comparison.delta <= comparison.high


def test_better_and_worse_are_told_apart() -> None:
    low = results({str(n): 0.1 for n in range(20)})
    high = results({str(n): 0.3 for n in range(20)})
    up, down = compare(high, low), compare(low, high)
    assert (up.better, up.worse, down.better, down.worse) == (True, False, False, True)
    assert up.p == down.p < 0.001
    assert up.delta == pytest.approx(0.2) == -down.delta
    assert (up.low, up.high) == pytest.approx((0.2, 0.2))


def test_rounding_is_not_a_change() -> None:
    comparison = compare(results({"a": 0.1 + 0.2}), results({"a": 0.3}))
    assert (comparison.ties, comparison.moved, comparison.p) == (1, (), 1.0)


def test_saved_results_compare_as_equal(tmp_path: Path) -> None:
    """Caught: six digits were kept, and the same answers counted as significantly worse."""
    now = results({str(number): 1 / math.log2(3) for number in range(8)})
    saved = tmp_path / "kept.json"
    saved.write_text(json.dumps(results_as_json(now)), encoding="utf-8")
    comparison = compare(now, read_results(saved))
    assert (comparison.ties, comparison.moved, comparison.p) == (8, (), 1.0)


def test_only_questions_judged_alike_are_paired() -> None:
    before = results({"a": 0.0, "b": 0.0, "gone": 1.0})
    after = Results(
        "made", 10, "hybrid", "hash", {},
        (scored("a", 1.0), scored("b", 1.0, mark="judged anew"), scored("new", 1.0)),
    )  # fmt: skip
    comparison = compare(after, before)
    assert (comparison.queries, comparison.unpaired, comparison.delta) == (1, 4, 1.0)


def test_unpaired_measurements_are_rejected() -> None:
    with pytest.raises(InvalidArgument, match="no question in common"):
        compare(results({"a": 1.0}), results({"b": 1.0}))
    with pytest.raises(InvalidArgument, match="first 5 answers"):
        compare(results({"a": 1.0}), results({"a": 1.0}, k=5))
