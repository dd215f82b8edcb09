"""Limits on time that hold on a busy machine, too."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def processor_time_below(seconds: float) -> Iterator[None]:
    """Fail if the block takes this thread more processor time.

    A busy machine, threads of other tests and the collection of their garbage do not count.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        started = time.thread_time()
        yield
        taken = time.thread_time() - started
    finally:
        if collects:
            gc.enable()
    assert taken < seconds, f"{taken:.2f} s of processor time, {seconds} s allowed"


def scale_by_load(seconds: float) -> float:
    """Return a limit for real time, longer if more processes want to run than there are cores.

    In a container the number of cores may say little, so some work is timed, too.
    """
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return seconds * max(1.0, load / (os.cpu_count() or 1), _measure_slowness())


def _measure_slowness() -> float:
    """Return how many times longer some work takes than the processor time it uses."""
    started, used = time.monotonic(), time.thread_time()
    while (worked := time.thread_time() - used) < 0.05:
        pass
    return (time.monotonic() - started) / worked
