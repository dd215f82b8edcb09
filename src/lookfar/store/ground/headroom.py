"""Check the memory limits of this process before it allocates much.

The kernel kills a process that exceeds its control group (a container's limit). So the group limit
and the address space limit (``ulimit -v``) are checked first, and ``OutOfMemory`` is raised if too
little is left.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

from lookfar.errors import out_of_memory

if sys.platform != "win32":
    # Imported early: a process that drops its privileges may not be able to load it later.
    import resource

_STATM = Path("/proc/self/statm")
_RESIDENT: Final = 64_000_000
"""Bytes that must be free in a group: what a pass uses between two checks, with a margin."""
_CHECK_SECONDS: Final = 0.1
"""How long a result is reused: a pass checks for every document, and a check reads files."""
_UNLIMITED: Final = 1 << 60
"""In version 1 of control groups, a limit this high means no limit."""
_MOST_READ: Final = 65_536
_DEEPEST: Final = 32
"""How many enclosing groups are checked."""


@dataclass(frozen=True, slots=True)
class _Version:
    """The file and counter names of one version of control groups."""

    limit: str
    usage: str
    cache: tuple[str, ...]
    kills: str


_FIRST: Final = _Version(
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    ("total_inactive_file", "total_active_file"),
    "memory.oom_control",
)
_SECOND: Final = _Version(
    "memory.max", "memory.current", ("inactive_file", "active_file"), "memory.events"
)


class ControlGroups:
    """The control groups that contain this process, with their memory limits."""

    def __init__(
        self,
        listing: Path = Path("/proc/self/cgroup"),
        mount: Path = Path("/sys/fs/cgroup"),
        vmstat: Path = Path("/proc/vmstat"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listing = listing
        self._mount = mount
        self._vmstat = vmstat
        self._clock = clock
        self._checked = float("-inf")
        self._left: int | None = None

    def left(self) -> int | None:
        """Return the bytes left in the tightest group, or None without a limit.

        The file cache counts as free: the kernel drops it before it kills a process.
        """
        if self._clock() - self._checked >= _CHECK_SECONDS:
            self._left = min(self._measure_groups(), default=None)
            self._checked = self._clock()
        return self._left

    def kills(self) -> int:
        """Count the processes that the system has killed for memory, here or anywhere."""
        own = (_read_fields(folder / version.kills) for folder, version in self._groups)
        return sum(counts.get("oom_kill", 0) for counts in (*own, _read_fields(self._vmstat)))

    def _measure_groups(self) -> Iterator[int]:
        for folder, version in self._groups:
            limit, usage = (
                _read_number(folder / version.limit),
                _read_number(folder / version.usage),
            )
            if limit is None or usage is None or limit >= _UNLIMITED:
                continue
            counts = _read_fields(folder / "memory.stat")
            cached = sum(counts.get(name, 0) for name in version.cache)
            yield max(0, limit - max(0, usage - cached))

    @cached_property
    def _groups(self) -> list[tuple[Path, _Version]]:
        """The process's own group and the groups that contain it."""
        groups: list[tuple[Path, _Version]] = []
        for line in _read_text(self._listing).splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if controllers and "memory" not in controllers.split(","):
                continue
            top = self._mount / "memory" if controllers else self._mount
            version = _FIRST if controllers else _SECOND
            own = PurePosixPath(path.lstrip("/"))
            if ".." in own.parts or not (top / own).is_dir():
                own = PurePosixPath()  # A container sees its own group as the root.
            folders = [top / own, *(top / parent for parent in own.parents)]
            groups += ((folder, version) for folder in dict.fromkeys(folders[:_DEEPEST]))
        return groups


_GROUPS: Final = ControlGroups()


def require_memory(wanted: int, groups: ControlGroups = _GROUPS) -> None:
    """Raise ``OutOfMemory`` if the limits of this process leave too little.

    ``wanted`` is in bytes of address space; only a part of it is ever resident.
    """
    left = address_space_left()
    if left is not None and left < wanted:
        raise out_of_memory(f"{left:,} bytes of address space left, {wanted:,} wanted")
    left = groups.left()
    if left is not None and left < _RESIDENT:
        raise out_of_memory(f"{left:,} bytes left in the control group, {_RESIDENT:,} wanted")


def count_memory_kills(groups: ControlGroups = _GROUPS) -> int:
    """Count the processes that the system reports as killed for memory so far."""
    return groups.kills()


def address_space_left() -> int | None:
    """Return the bytes of address space left, or None without a limit or if it is unknown."""
    left = None
    if sys.platform != "win32":
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            with suppress(OSError, ValueError):
                pages = int(_STATM.read_bytes().split()[0])
                left = max(0, limit - pages * os.sysconf("SC_PAGE_SIZE"))
    return left


def _read_text(path: Path) -> str:
    """Read a small kernel file; return an empty text if it is missing or unreadable."""
    try:
        with path.open("rb") as file:
            return file.read(_MOST_READ).decode("ascii", "replace")
    except OSError:
        return ""


def _read_number(path: Path) -> int | None:
    """Read a file with one number; return None for ``max`` or a missing file."""
    text = _read_text(path).strip()
    return int(text) if text.isascii() and text.isdigit() else None


def _read_fields(path: Path) -> dict[str, int]:
    """Read a file with a name and a number in each line."""
    fields: dict[str, int] = {}
    for line in _read_text(path).splitlines():
        name, _, number = line.partition(" ")
        with suppress(ValueError):
            fields[name] = int(number)
    return fields
