"""Which kind of file system a folder lies on, and whether its files are elsewhere.

Takes: a path, which exists. Gives: the name that the kernel has for what is mounted there, and
which of them are far away: the system hears of what is done there only if it does it itself.
Refuses: to guess; where the kernel does not say, nothing is known.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

MOUNTS: Final = Path("/proc/self/mounts")
FAR: Final = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre"),
        *("fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.glusterfs", "davfs", "virtiofs"),
    )
)
"""File systems whose files are elsewhere."""


def mounted(path: Path, mounts: Path = MOUNTS) -> str:
    """The kind of file system that a path lies on, as the kernel calls it; empty if unknown."""
    real = Path(os.path.realpath(path))
    best, kind = -1, ""
    for line in mounts.read_text("utf-8", "surrogateescape").splitlines():
        with suppress(IndexError):
            _, where, found, *_ = line.split(" ")
            point = Path(where.encode().decode("unicode_escape"))
            if (point == real or point in real.parents) and len(point.parts) >= best:
                best, kind = len(point.parts), found
    return kind


def is_far(path: str) -> bool:
    """Whether others may change what lies there without the system's knowledge."""
    try:
        return mounted(Path(path)) in FAR
    except (OSError, ValueError):
        return False
