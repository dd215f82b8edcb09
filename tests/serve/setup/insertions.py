"""Whether an edit put something in, and left all else as it was."""

from __future__ import annotations


def is_one_insertion(old: str, new: str) -> bool:
    before = after = 0
    while before < len(old) and old[before] == new[before]:
        before += 1
    while after < len(old) and old[-1 - after] == new[-1 - after]:
        after += 1
    return before + after >= len(old)


def only_inserted(old: str, new: str) -> bool:
    """Return whether ``new`` is ``old`` with one insertion, and perhaps a comma before it."""
    if is_one_insertion(old, new):
        return True
    at = 0
    while True:
        if new[at] == "," and is_one_insertion(old, new[:at] + new[at + 1 :]):
            return True
        if at >= len(old) or old[at] != new[at]:
            return False
        at += 1
