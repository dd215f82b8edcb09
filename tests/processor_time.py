"""A limit on the processor time of a block, for tests that nothing takes far too long."""

from __future__ import annotations

import gc
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
