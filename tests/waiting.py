"""Wait for what another thread or process does, instead of sleeping and hoping.

Takes: a condition. Gives: its first true value. Refuses: a condition that stays false for
``DEADLINE`` seconds. That is long, because shared machines are slow and only failures
wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

DEADLINE: Final = 120.0


def wait_for(
    condition: Callable[[], Any],
    what: object = "",
    *,
    pause: float = 0.02,
    seconds: float = DEADLINE,
) -> Any:
    """Return the first true value of a condition. ``what`` says what was expected.

    A ``what`` that is a function is called when the condition fails, to describe the state then.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"never happened: {what() if callable(what) else what or value}")
        time.sleep(pause)
    return value
