"""When an index pass saves what it has so far."""

from __future__ import annotations

import time
from collections.abc import Callable

_CHECKPOINT_SECONDS = 5.0
_CHECKPOINT_SHARE = 0.02


class CheckpointTimer:
    """Decide when the next checkpoint is due.

    Checkpoints are at least some seconds apart and take at most a small share of the time,
    however slow the disk is.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due = clock() + _CHECKPOINT_SECONDS

    def run_if_due(self, checkpoint: Callable[[], None]) -> None:
        started = self._clock()
        if started < self._due:
            return
        checkpoint()
        now = self._clock()
        self._due = now + max(_CHECKPOINT_SECONDS, (now - started) / _CHECKPOINT_SHARE)
