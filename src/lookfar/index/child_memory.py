"""How much physical memory a process uses, from what each system offers for that."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Final

LIMITED_BY_SYSTEM: Final = sys.platform not in ("win32", "darwin")
"""Whether a process can limit its own memory: macOS accepts such a limit but ignores it."""
THIS_PROCESS: Final = -1
"""The handle that Windows takes for the process that asks."""
_TASK_INFO: Final = 4
"""The name of this kind of information in macOS, ``PROC_PIDTASKINFO``."""


def resident_bytes(pid: int, handle: int = 0) -> int:
    """Return the physical memory of a process; 0 if it has ended or cannot be asked.

    Windows asks by the handle of the process, other systems by its id.
    """
    if sys.platform == "win32":
        return _ask_windows(handle)
    if sys.platform == "darwin":
        return _ask_macos(pid)
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class _TaskInfo(ctypes.Structure):
    """``struct proc_taskinfo`` of macOS."""

    _fields_ = (
        ("virtual_size", ctypes.c_uint64),
        ("resident_size", ctypes.c_uint64),
        ("times", ctypes.c_uint64 * 4),
        ("counts", ctypes.c_int32 * 12),
    )


def _ask_macos(pid: int) -> int:
    info = _TaskInfo()
    size = ctypes.sizeof(info)
    try:
        library = ctypes.CDLL("/usr/lib/libproc.dylib")
        written = library.proc_pidinfo(
            ctypes.c_int(pid), _TASK_INFO, ctypes.c_uint64(0), ctypes.byref(info), size
        )
    except (OSError, AttributeError):
        return 0
    return int(info.resident_size) if written == size else 0


class _MemoryCounters(ctypes.Structure):
    """``PROCESS_MEMORY_COUNTERS`` of Windows."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("page_faults", ctypes.c_uint32),
        ("peak_working_set", ctypes.c_size_t),
        ("working_set", ctypes.c_size_t),
        ("pools", ctypes.c_size_t * 4),
        ("committed", ctypes.c_size_t),
        ("peak_committed", ctypes.c_size_t),
    )


def _ask_windows(handle: int) -> int:
    counters = _MemoryCounters()
    counters.size = ctypes.sizeof(counters)
    try:
        kernel = ctypes.CDLL("kernel32")
        done = kernel.K32GetProcessMemoryInfo(
            ctypes.c_void_p(handle), ctypes.byref(counters), ctypes.c_uint32(counters.size)
        )
    except (OSError, AttributeError):
        return 0
    # Memory that was swapped out is not in the working set but counts as well.
    return max(int(counters.working_set), int(counters.committed)) if done else 0
