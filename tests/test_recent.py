"""Bounded caches return what was read, ask once for each key, and stay within their limits."""

from __future__ import annotations

from collections.abc import Sequence

from lookfar.common.recent import RecentTable, RecentValues


def test_a_table_asks_once_for_each_key() -> None:
    asked: list[list[str]] = []

    def read(keys: Sequence[str]) -> dict[str, int]:
        asked.append(list(keys))
        return {key: len(key) for key in keys if key != "absent"}

    table: RecentTable[str, int] = RecentTable(10)
    assert dict(table.look_up(["a", "bb", "absent"], read, 0)) == {"a": 1, "bb": 2, "absent": 0}
    again = table.look_up(["bb", "absent", "ccc"], read, 0)
    assert [again[key] for key in ("bb", "absent", "ccc")] == [2, 0, 3]
    assert asked == [["a", "bb", "absent"], ["ccc"]]


def test_a_full_table_is_emptied() -> None:
    """Seen to fail with a table that does not weigh its entries."""
    asked: list[list[int]] = []

    def read(keys: Sequence[int]) -> dict[int, str]:
        asked.append(list(keys))
        return {key: "x" * key for key in keys}

    table: RecentTable[int, str] = RecentTable(10, len)
    for keys in ([4, 5], [4, 5], [3], [3], [5], [30], [30]):
        assert [table.look_up(keys, read, "")[key] for key in keys] == ["x" * key for key in keys]
    assert asked == [[4, 5], [3], [5], [30], [30]]


def test_the_least_recently_used_value_is_dropped() -> None:
    """Seen to fail with a value that keeps its place although it was asked for."""
    values: RecentValues[str, int] = RecentValues(80)
    for number, name in enumerate("abcdefgh"):
        values.add(name, number, 10)
    values.add("a", 99, 10)
    assert values.get("a") == 0
    values.add("new", 8, 10)
    values.add("large", 9, 11)
    assert [values.get(name) for name in ("a", "b", "c", "new", "large")] == [0, None, 2, 8, None]
