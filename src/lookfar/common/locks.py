"""File locks that the kernel releases when the descriptor is closed or the process ends."""

from __future__ import annotations

import sys


def try_lock(descriptor: int) -> bool:
    """Try to lock an open file without waiting; return whether it succeeded."""
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
