"""How often Python looks for garbage in a process that answers questions for a long time."""

from __future__ import annotations

import gc
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
