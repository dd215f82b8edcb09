"""Posting lists of the PostgreSQL store: compact ones score and select as others do."""

from __future__ import annotations

import numpy as np
import pytest

from lookfar.store.keywords import postings
from lookfar.store.keywords.postings import Postings
from lookfar.store.postgres import blocks, keywords
from lookfar.store.postgres.keywords import Memory


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
    """Not nearly the same: both stores must rank alike."""
    entries = _make(count, most_times=most_times)
    fast = [entries.impacts(33.3).values, entries.compact().impacts(33.3).values]
    monkeypatch.setattr(postings, "_TABULATED", 10**9)
    slow = entries.impacts(33.3).values
    assert all(np.array_equal(scores, slow) for scores in fast)


@pytest.mark.parametrize("first", [0, 2**31, 2**32 - 200, 2**40])
def test_compact_lists_have_the_same_entries(first: int) -> None:
    entries = _make(300, first=first)
    compact = entries.compact()
    for before, after in zip(entries, compact, strict=True):
        assert before.tolist() == after.tolist()
    assert compact.nbytes < entries.nbytes


@pytest.mark.parametrize("wanted_count", [0, 3, 200, 3_000])
def test_wanted_entries_beyond_four_bytes_match_nothing(wanted_count: int) -> None:
    """Fails if wanted numbers are cut to the size of the keys: 2**32 + 5 would become 5."""
    compact = _make(300).compact()
    assert compact.keys.dtype == np.uint32
    inside = compact.keys[:wanted_count:3].astype(np.int64)
    wanted = np.concatenate([inside, 2**32 + np.arange(wanted_count)])
    assert compact.among(wanted).keys.tolist() == inside.tolist()


def test_a_compact_list_does_not_hold_the_bytes_of_its_block() -> None:
    """Otherwise a cached list would take twice the memory that is counted for it."""
    ((first, _, count, data),) = blocks.pack_blocks(_make(300))
    compact = blocks.unpack_block(first, count, data).compact()
    assert all(part.base is None for part in compact)


def test_blocks_that_overlap_are_joined_in_order() -> None:
    one, other = _make(50, seed=1), _make(50, first=40, seed=2)
    joined = blocks.join([other, one])
    assert joined.keys.tolist() == sorted([*one.keys.tolist(), *other.keys.tolist()])


def test_lists_that_were_not_used_for_the_longest_time_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries = _make(1_000).compact()
    monkeypatch.setattr(keywords, "_REMEMBERED_BYTES", 3 * (entries.nbytes + 500))
    memory = Memory()
    for term in ("a", "b", "c"):
        memory.keep_list((0, term), entries)
    assert set(memory.find_lists([(0, "a")])) == {(0, "a")}
    memory.keep_list((0, "d"), entries)
    memory.keep_list((0, "d"), entries)
    names = [(0, term) for term in "abcd"]
    assert set(memory.find_lists(names)) == {(0, "a"), (0, "c"), (0, "d")}
