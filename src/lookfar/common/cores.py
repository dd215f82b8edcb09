"""Use a second core for work that releases the interpreter lock."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

_starting = threading.Lock()


def map_on_two_cores(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Apply a function to items, here and at the same time on another core if one is free."""
    waiting = deque(enumerate(items))
    results: dict[int, R] = {}

    def work() -> None:
        while True:
            try:
                number, item = waiting.popleft()
            except IndexError:
                return
            results[number] = function(item)

    helper = start(work)
    try:
        work()
    finally:
        waiting.clear()
        # A helper that is busy with another question has not begun, and is not waited for.
        if helper is not None and not helper.cancel():
            helper.result()
    return [results[number] for number in range(len(results))]


def start(function: Callable[P, R], *args: P.args, **named: P.kwargs) -> Future[R] | None:
    """Call a function on another core; return ``None`` if there is only one."""
    if (os.cpu_count() or 1) < 2:
        return None
    with _starting:
        return _make_helpers().submit(function, *args, **named)


@cache
def _make_helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 1), "lookfar-cores")
