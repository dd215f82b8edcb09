"""Locks that die with their process, on files that stay.

Takes: the descriptor of an open file. Gives: whether the lock on it is now this descriptor's; the
kernel frees it when the descriptor is closed. Refuses: to wait, which the caller does.
"""

from __future__ import annotations

import sys


def try_lock(descriptor: int) -> bool:
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
