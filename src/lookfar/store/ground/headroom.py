"""Memory that is left under a limit, asked before native code takes it.

Takes: how much is wanted. Gives: nothing where it is there, and how often the system has killed for
memory. Refuses: with ``OutOfMemory`` where a limit of the address space (``ulimit -v``) or of the
control group (a container's) leaves less. tantivy ends the process where an allocation fails, and
the kernel kills one that outgrows its group, so this has to be asked before.
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
    # Not when it is needed: a process that gave up its rights may not reach the library then.
    import resource

_STATM = Path("/proc/self/statm")
_RESIDENT: Final = 64_000_000
"""Bytes that a group has to leave: what a pass takes between two looks, with room to spare."""
_LOOK_SECONDS: Final = 0.1
"""A pass asks for every document, and a look reads a few files."""
_UNLIMITED: Final = 1 << 60
"""Limits of the first version from here on mean that there is none."""
_MOST_READ: Final = 65_536
_DEEPEST: Final = 32
"""Groups that a group may be in, as far as is looked."""


@dataclass(frozen=True, slots=True)
class _Version:
    """The names that one version of control groups has for the same things."""

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
    """The control groups that a process is in, with their limits of memory."""

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
        self._looked = float("-inf")
        self._left: int | None = None

    def left(self) -> int | None:
        """Bytes that the tightest group leaves, a moment ago; None where there is no limit.

        The cache of files counts as free: the kernel drops it before it kills.
        """
        if self._clock() - self._looked >= _LOOK_SECONDS:
            self._left = min(self._each_left(), default=None)
            self._looked = self._clock()
        return self._left

    def kills(self) -> int:
        """How many processes the system has killed for memory, here or anywhere."""
        own = (_fields(folder / version.kills) for folder, version in self._groups)
        return sum(counts.get("oom_kill", 0) for counts in (*own, _fields(self._vmstat)))

    def _each_left(self) -> Iterator[int]:
        for folder, version in self._groups:
            limit, usage = _number(folder / version.limit), _number(folder / version.usage)
            if limit is None or usage is None or limit >= _UNLIMITED:
                continue
            counts = _fields(folder / "memory.stat")
            cached = sum(counts.get(name, 0) for name in version.cache)
            yield max(0, limit - max(0, usage - cached))

    @cached_property
    def _groups(self) -> list[tuple[Path, _Version]]:
        """The process's own group and those around it."""
        groups: list[tuple[Path, _Version]] = []
        for line in _text(self._listing).splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if controllers and "memory" not in controllers.split(","):
                continue
            top = self._mount / "memory" if controllers else self._mount
            version = _FIRST if controllers else _SECOND
            own = PurePosixPath(path.lstrip("/"))
            if ".." in own.parts or not (top / own).is_dir():
                own = PurePosixPath()  # A container sees its own group as the top.
            folders = [top / own, *(top / parent for parent in own.parents)]
            groups += ((folder, version) for folder in dict.fromkeys(folders[:_DEEPEST]))
        return groups


_GROUPS: Final = ControlGroups()


def refuse_little(wanted: int, groups: ControlGroups = _GROUPS) -> None:
    """Raise ``OutOfMemory`` where the limits of this process leave too little.

    ``wanted`` are bytes of address space. Of a group's memory that much is not needed at once.
    """
    left = address_space_left()
    if left is not None and left < wanted:
        raise out_of_memory(f"{left:,} bytes of address space left, {wanted:,} wanted")
    left = groups.left()
    if left is not None and left < _RESIDENT:
        raise out_of_memory(f"{left:,} bytes left in the control group, {_RESIDENT:,} wanted")


def memory_kills(groups: ControlGroups = _GROUPS) -> int:
    """How many processes the system has killed for memory so far, as far as it says."""
    return groups.kills()


def address_space_left() -> int | None:
    """Bytes that a limit leaves to this process; None where there is none, or nobody knows."""
    if sys.platform == "win32":
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        pages = int(_STATM.read_bytes().split()[0])
    except (OSError, ValueError):
        return None
    return max(0, limit - pages * os.sysconf("SC_PAGE_SIZE"))


def _text(path: Path) -> str:
    """A small file of the kernel; empty where there is none, or it may not be read."""
    try:
        with path.open("rb") as file:
            return file.read(_MOST_READ).decode("ascii", "replace")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    """A file with one number; None for the word ``max`` and for a file that is not there."""
    text = _text(path).strip()
    return int(text) if text.isascii() and text.isdigit() else None


def _fields(path: Path) -> dict[str, int]:
    """A file with a name and a number in each line."""
    fields: dict[str, int] = {}
    for line in _text(path).splitlines():
        name, _, number = line.partition(" ")
        with suppress(ValueError):
            fields[name] = int(number)
    return fields
