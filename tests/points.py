"""The fault points of `store/ground/files.py`, counted; one of them is the first or last to fail.

Takes: which point, and how it goes wrong there. Gives: a hook to put at `files.on_fault_point`.
Refuses: nothing. One way for all tests that need a disk that fails or a process that dies.

    kill                 the process dies before the point
    short kill           half the bytes of a write, then the process dies
    short ENOSPC         half the bytes of a write, then the disk is full
    full                 the disk is full from there on: nothing grows, removing still works
    EACCES               nothing may be written from there on
    ENOSPC, EIO          this once
"""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from lookfar.store.ground import files

DEATHS = ("kill", "short kill")
ERRORS = ("full", "EIO", "EACCES", "short ENOSPC")
_GROWS = frozenset(("create", "write", "folder", "commit", "open", "link", "merge"))
_SQLITE = {
    "ENOSPC": sqlite3.SQLITE_FULL,
    "EIO": sqlite3.SQLITE_IOERR,
    "EACCES": sqlite3.SQLITE_READONLY,
}


class Points:
    """Counts what passes, and fails at point number ``at``, which 0 never is."""

    def __init__(self, at: int = 0, how: str = "kill") -> None:
        self.at = at
        self.how = how
        self.seen: list[tuple[str, str]] = []
        self._short = False

    def __call__(self, what: str, name: str, size: int) -> int:
        self.seen.append((what, name))
        count, way = len(self.seen), self.how.replace("full", "ENOSPC").rpartition(" ")[2]
        if self._short:  # The rest of the bytes that were cut.
            self._short = way != "kill" and way != "EIO"
            self._fail(what, name, way)
        elif count == self.at and self.how.startswith("short"):
            self._short = True
            return max(1, size // 2)
        elif count == self.at or (count > self.at > 0 and self._lasts(what, way)):
            self._fail(what, name, way)
        return size

    def _lasts(self, what: str, way: str) -> bool:
        return way == "EACCES" or (self.how == "full" and what in _GROWS)

    def _fail(self, what: str, name: str, way: str) -> None:
        if way == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        number = getattr(errno, way)
        if what == "commit" and name == "catalogue.db":  # Said as SQLite says it.
            error = sqlite3.OperationalError(f"injected {way}")
            error.sqlite_errorcode, error.sqlite_errorname = _SQLITE[way], way
            raise error
        raise OSError(number, os.strerror(number), name)

    @contextmanager
    def watching(self) -> Iterator[Points]:
        """Be asked at every point until this is left."""
        assert files.on_fault_point is None
        files.on_fault_point = self
        try:
            yield self
        finally:
            files.on_fault_point = None


class Died(BaseException):
    """Simulates the end of the process, for tests that go on in the same one."""


def die_at(number: int) -> Callable[[str, str, int], int]:
    """Return a hook for ``files.on_fault_point`` that dies at the point with this number."""
    points = count(1)

    def pass_point(what: str, name: str, size: int) -> int:
        if next(points) == number:
            raise Died(f"{what} {name}")
        return size

    return pass_point
