"""End a process at the first SIGINT or SIGTERM, whatever its threads are waiting for."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_CLOSE_SECONDS: Final = 1.0
"""How long closing may take. The index is consistent on disk at every moment, so that nothing is
lost if it takes longer."""


@contextmanager
def exit_on_signals(close: Callable[[], None]) -> Iterator[None]:
    """Call ``close`` and end the process when it is interrupted or terminated.

    Must be used in the main thread.
    """

    def stop(number: int, _: FrameType | None) -> None:
        closing = threading.Thread(target=close, daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)
        sys.stderr.flush()
        os._exit(128 + number)

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
