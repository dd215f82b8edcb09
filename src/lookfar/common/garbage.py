"""How often Python looks for garbage: seldom where many objects are made without cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Look for cycles seldom for a while, such as during a pass that makes millions of rows."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _YOUNG), max(before[1], _OLDER), max(before[2], _OLDER))
    try:
        yield
    finally:
        gc.set_threshold(*before)
