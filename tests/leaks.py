"""Find threads and file descriptors that a block leaves behind.

Takes: a block. Refuses: one after which this process has more of them than before, and keeps them.
Fewer are no leak: threads and connections of earlier tests may still be ending.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from waiting import wait_for


def count_open() -> tuple[int, int, int]:
    """Return the number of Python threads, of all threads and of file descriptors."""
    gc.collect()
    if not os.path.isdir("/proc/self/fd"):
        return threading.active_count(), 0, 0
    tasks, descriptors = os.listdir("/proc/self/task"), os.listdir("/proc/self/fd")
    return threading.active_count(), len(tasks), len(descriptors)


@contextmanager
def leaving_nothing_open(more: int = 0) -> Iterator[None]:
    """Fail if the block leaves more than ``more`` threads or descriptors open."""
    before = count_open()
    yield
    wait_for(
        lambda: all(now <= then + more for now, then in zip(count_open(), before, strict=True)),
        lambda: f"{count_open()} open, {before} before",
    )
