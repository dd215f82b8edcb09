"""Posting lists: how they are scored and selected from."""

from __future__ import annotations

import numpy as np
import pytest

from lookfar.store.keywords import postings
from lookfar.store.keywords.postings import Postings


def _make(count: int, *, most_times: int = 9, first: int = 0, seed: int = 1) -> Postings:
    chance = np.random.default_rng(seed)
    keys = first + np.cumsum(chance.integers(1, 5, count))
    times = chance.integers(1, most_times + 1, count).astype(np.uint16)
    return Postings(keys, times, chance.integers(0, 256, count).astype(np.uint8))


@pytest.mark.parametrize("most_times", [9, 31, 32, 255, 256, 65_535])
@pytest.mark.parametrize("count", [1, 100, 40_000])
def test_a_table_gives_the_same_scores(
    count: int, most_times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = _make(count, most_times=most_times)
    short = entries._replace(keys=entries.keys.astype(np.uint32))
    fast = [entries.impacts(33.3).values, short.impacts(33.3).values]
    monkeypatch.setattr(postings, "_TABULATED", 10**9)
    slow = entries.impacts(33.3).values
    assert all(np.array_equal(scores, slow) for scores in fast)


@pytest.mark.parametrize("wanted_count", [0, 3, 200, 3_000])
def test_wanted_entries_beyond_four_bytes_match_nothing(wanted_count: int) -> None:
    """Fails if wanted numbers are cut to the size of the keys: 2**32 + 5 would become 5."""
    entries = _make(300)
    short = entries._replace(keys=entries.keys.astype(np.uint32)).impacts(33.3)
    inside = short.keys[:wanted_count:3].astype(np.int64)
    wanted = np.concatenate([inside, 2**32 + np.arange(wanted_count)])
    assert short.among(wanted).keys.tolist() == inside.tolist()


def test_lengths_are_rounded_down() -> None:
    lengths = np.array([0, 1, 39, 40, 41, 42, 55, 56, 59, 60])
    assert postings.length_bytes(lengths).tolist() == [0, 1, 39, 40, 40, 41, 47, 48, 48, 49]
