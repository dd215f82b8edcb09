"""Programs and file locks on every system: find a program, start Python, lock a file."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, Final

_WINDOWS_SUFFIXES: Final = (".com", ".exe", ".bat", ".cmd")
_LAUNCHER_VARIABLE: Final = "__PYVENV_LAUNCHER__"
"""By this variable Python on Windows learns which virtual environment it belongs to."""

_NEW_PROCESS_GROUP: Final = 0x200
OWN_GROUP: Final[dict[str, Any]] = (
    {"creationflags": _NEW_PROCESS_GROUP} if sys.platform == "win32" else {"process_group": 0}
)
"""Options of ``Popen`` for a child that Ctrl-C in a terminal must not reach, not even while the
child still imports. Its parent ends it."""


def find_program(name: str, search_path: str, system: str = sys.platform) -> str | None:
    """Return the program that a terminal would start by this name, or None.

    Windows searches the working directory first. An untrusted repository may contain a program of
    that name, so the working directory is not searched here.
    """
    if system != "win32":
        return shutil.which(name, path=search_path)
    folders = (folder.strip('"') for folder in search_path.split(";"))
    candidates = (
        os.path.join(folder, name + suffix)
        for folder in folders
        if os.path.isabs(folder)
        for suffix in _WINDOWS_SUFFIXES
    )
    return next(filter(os.path.isfile, candidates), None)


def python_program(system: str = sys.platform) -> tuple[str, dict[str, str]]:
    """Return the Python for a child process, and the variables to add to its environment.

    In a virtual environment on Windows, ``python.exe`` starts the real Python as another process,
    whose memory could not be measured. So the real one is started, as ``multiprocessing`` does.
    """
    real = str(getattr(sys, "_base_executable", sys.executable))
    if system != "win32" or os.path.normcase(real) == os.path.normcase(sys.executable):
        return sys.executable, {}
    return real, {_LAUNCHER_VARIABLE: sys.executable}


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
