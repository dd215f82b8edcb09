"""Find the file system that a folder is on, and whether it is remote."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

MOUNTS: Final = Path("/proc/self/mounts")
REMOTE: Final = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre"),
        *("fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.glusterfs", "davfs", "virtiofs"),
    )
)
"""Remote file systems: other machines can change files without an event here."""


def file_system_type(path: Path, mounts: Path = MOUNTS) -> str:
    """Return the kernel's name for the file system of a path; empty if unknown."""
    real = Path(os.path.realpath(path))
    best, kind = -1, ""
    for line in mounts.read_text("utf-8", "surrogateescape").splitlines():
        with suppress(IndexError):
            _, where, name, *_ = line.split(" ")
            point = Path(where.encode().decode("unicode_escape"))
            if (point == real or point in real.parents) and len(point.parts) >= best:
                best, kind = len(point.parts), name
    return kind


def is_remote(path: str) -> bool:
    """Whether other machines may change files there without an event on this one."""
    try:
        return file_system_type(Path(path)) in REMOTE
    except (OSError, ValueError):
        return False
