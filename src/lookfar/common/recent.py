"""Bounded caches that threads may share. A full table is replaced by an empty one; of values, the
least recently used are dropped.

Only what cannot change belongs in them: facts of one generation, or results of a pure function.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RecentTable(Generic[K, V]):
    """A table that is read in groups; it is emptied when it is full."""

    def __init__(self, most: int, weigh: Callable[[V], int] | None = None) -> None:
        """``most`` limits the entries, or the sum of what ``weigh`` returns for each."""
        self._most = most
        self._weigh = weigh
        self._entries: dict[K, V] = {}
        self._weight = 0
        self._lock = Lock()

    def look_up(
        self, keys: Sequence[K], read: Callable[[Sequence[K]], Mapping[K, V]], absent: V
    ) -> Mapping[K, V]:
        """Return a table with the entry of each key; ``read`` gives those not known yet."""
        # Read once: another thread may begin a new table, but it never removes from this one.
        entries = self._entries
        missing = [key for key in keys if key not in entries]
        if not missing:
            return entries
        read_now = read(missing)
        table = {key: entries[key] for key in keys if key in entries}
        table.update((key, read_now.get(key, absent)) for key in missing)
        self.add({key: table[key] for key in missing[: self._most]})
        return table

    def add(self, entries: Mapping[K, V]) -> None:
        weight = len(entries) if self._weigh is None else sum(map(self._weigh, entries.values()))
        if weight > self._most:
            return
        with self._lock:
            if self._weight + weight > self._most:
                self._entries, self._weight = {}, 0
            self._entries.update(entries)
            self._weight += weight


class RecentValues(Generic[K, V]):
    """Values by key, up to a sum of sizes; the least recently used goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            known = self._values.get(key)
            if known is None:
                return None
            self._values.move_to_end(key)
            return known[0]

    def add(self, key: K, value: V, size: int) -> None:
        if size > self._most // 8:
            return
        with self._lock:
            if key in self._values:
                return
            self._values[key] = (value, size)
            self._size += size
            while self._size > self._most:
                _, (_, gone) = self._values.popitem(last=False)
                self._size -= gone

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._size = 0
