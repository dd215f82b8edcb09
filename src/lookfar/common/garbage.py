"""How often Python looks for garbage: seldom where many objects are made without cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

_YOUNG: Final = 50_000
"""A question makes tens of thousands of objects that reference counting alone releases; Python's
own threshold of 700 looks through them dozens of times."""
_OLDER: Final = 20


def collect_seldom() -> None:
    """Look for cycles seldom, and never among what is loaded already."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _OLDER, _OLDER)


class _Pauses:
    """The calls of :func:`collecting_seldom` that are under way, in all threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._number = 0
        self._before = (0, 0, 0)

    def begin(self) -> None:
        with self._lock:
            if not self._number:
                self._before = before = gc.get_threshold()
                if before[0]:
                    gc.set_threshold(
                        max(before[0], _YOUNG), max(before[1], _OLDER), max(before[2], _OLDER)
                    )
            self._number += 1

    def end(self) -> None:
        with self._lock:
            self._number -= 1
            if not self._number:
                gc.set_threshold(*self._before)


_pauses: Final = _Pauses()


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Look for cycles seldom for a while, such as during a question, or a pass over many rows.

    A threshold of 0, which turns the collector off, stays.
    """
    _pauses.begin()
    try:
        yield
    finally:
        _pauses.end()
