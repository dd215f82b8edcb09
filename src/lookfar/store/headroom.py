"""Memory that is left under a limit, asked before native code takes it.

Takes: how much is wanted. Gives: nothing where it is there. Refuses: with ``OutOfMemory`` where a
limit of the address space (``ulimit -v``) leaves less. tantivy ends the process where an
allocation fails, so this has to be asked before.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lookfar.errors import out_of_memory

_STATM = Path("/proc/self/statm")


def refuse_little(wanted: int) -> None:
    """Raise ``OutOfMemory`` where the limit of this process leaves less than ``wanted`` bytes."""
    left = address_space_left()
    if left is not None and left < wanted:
        raise out_of_memory(f"{left:,} bytes of address space left, {wanted:,} wanted")


def address_space_left() -> int | None:
    """Bytes that a limit leaves to this process; None where there is none, or nobody knows."""
    if sys.platform == "win32":
        return None
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        pages = int(_STATM.read_bytes().split()[0])
    except (OSError, ValueError):
        return None
    return max(0, limit - pages * os.sysconf("SC_PAGE_SIZE"))
