"""A tool result that is too large is made again with a smaller size, but seldom often."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lookfar.serve.tools.tool import MOST_TOKENS, Result, bounded

_WORD = "word "


def _make(sizes: list[int], words: Callable[[int], int]) -> Callable[[int], Result]:
    """Return how to make a result with so many words for a size, and note the sizes."""

    def make(size: int) -> Result:
        sizes.append(size)
        return Result({}, _WORD * words(size))

    return make


@pytest.mark.parametrize("fixed", [0, 4_000, 12_000])
@pytest.mark.parametrize("each", [0.3, 1.5, 40.0])
def test_a_result_is_made_a_few_times_and_nearly_fills_the_limit(fixed: int, each: float) -> None:
    """Fails if the next size is only in proportion to the last cost: that takes up to 25 results,
    since a part of the cost does not depend on the size."""
    sizes: list[int] = []
    result = bounded(_make(sizes, lambda size: fixed + int(size * each)), 100_000)
    assert result.cost <= MOST_TOKENS
    assert len(sizes) <= 8
    next_size = _make([], lambda size: fixed + int(size * each))(sizes[-1] + 10 + sizes[-1] // 10)
    assert next_size.cost > MOST_TOKENS


def test_a_cost_in_steps_is_not_cut_below_half_at_once() -> None:
    """Fails without the lower limit: two costs that differ by little would give the least size."""
    sizes: list[int] = []
    steps = {True: 30_000, False: 1_000}
    result = bounded(_make(sizes, lambda size: steps[size > 600] + size), 1_000)
    assert result.cost <= MOST_TOKENS
    assert 300 <= sizes[-1] <= 600


def test_the_least_size_is_given_even_if_it_does_not_fit() -> None:
    sizes: list[int] = []
    assert bounded(_make(sizes, lambda _: 90_000), 50, 7).cost > MOST_TOKENS
    assert sizes[-1] == 7
