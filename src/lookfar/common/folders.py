"""List folders that other threads and processes change at the same time, and make private ones.

Entries that vanish during a listing are omitted; a folder that exists but cannot be listed is a
typed error. ``Path.glob`` and ``Path.rglob`` of Python 3.11 and 3.12 raise when a folder vanishes
and silently skip unreadable ones, so the package does not use them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from lookfar.errors import from_os_error

_GONE = (FileNotFoundError, NotADirectoryError)


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents, accessible only to their owner.

    ``Path.mkdir`` applies the mode only to the last one.
    """
    if not folder.exists():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
    elif not folder.is_dir():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))


def list_folder(folder: Path, pattern: str = "*") -> list[Path]:
    """Return the entries of a folder that match a pattern, by name; empty if it is gone."""
    return [Path(entry.path) for entry in scan_folder(folder) if fnmatchcase(entry.name, pattern)]


def walk_folder(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield everything below a folder, a folder before its contents; links are not followed."""
    waiting = [folder]
    while waiting:
        for entry in scan_folder(waiting.pop()):
            yield entry
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))


def folder_bytes(folder: Path) -> int:
    """Add up the sizes of all files below a folder."""
    total = 0
    for entry in walk_folder(folder):
        try:
            # A link's target is not in this folder, so only the link itself counts.
            if entry.is_file(follow_symlinks=False):
                total += entry.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            continue
    return total


def scan_folder(folder: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder, by name; empty if it is gone."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except _GONE:
        return []
    except OSError as error:
        raise from_os_error(error, f"listing {folder}") from error
