"""Check the place where indexes are stored: permissions, free space, file system and SQLite."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lookfar.common.folders import list_folder
from lookfar.config import data_dir
from lookfar.errors import OTHER_FOLDER
from lookfar.freshness.watch import REMOTE, file_system_type
from lookfar.serve.cli.doctor.findings import Finding, Subject
from lookfar.serve.cli.options import quote

_MIN_FREE_BYTES: Final = 200_000_000
_LOW_FREE_BYTES: Final = 1_000_000_000
_MOUNTS: Final = Path("/proc/self/mounts")


def check_permissions(subject: Subject) -> Iterator[Finding]:
    home = subject.index_home
    place = _nearest_folder(home)
    if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(
            "permissions", "error", f"Indexes cannot be in {home}: {place} is not writable.",
            f"Run: chmod u+rwx {quote(str(place))}; or choose another folder: {OTHER_FOLDER}.",
            (lambda: home.chmod(home.stat().st_mode | 0o700))
            if home == place and _is_ours(home) else None,
        )  # fmt: skip
        return
    if not home.exists():
        from lookfar.store.ground.files import make_folder

        yield Finding(
            "permissions", "warning", f"The index folder does not exist yet: {home}.",
            "The first index creates it.", lambda: make_folder(home),
        )  # fmt: skip
        return
    databases = Path(subject.library.settings.documents.dir)
    shared = [*open_to_others(home), *open_to_others(databases)]
    own = data_dir()  # Only Lookfar uses it, so all of it can be closed.
    if own.is_dir() and _is_open(own):
        shared.append(own)
    if shared:
        names = ", ".join(path.name for path in shared[:3])
        yield Finding(
            "permissions", "warning",
            f"Other users can read these folders, which contain the text of your files: {names}.",
            f"Run: chmod 700 {' '.join(quote(str(path)) for path in shared)}",
            # Not the index folder itself: the user may have chosen one that others use.
            lambda: _make_private(shared),
        )  # fmt: skip
    else:
        message = f"{home} is writable, and only you can read its indexes."
        yield Finding("permissions", "ok", message)


def check_space(subject: Subject) -> Iterator[Finding]:
    free = shutil.disk_usage(_nearest_folder(subject.index_home)).free
    message = f"{free / 1e9:,.1f} GB free on the disk that stores the indexes."
    advice = "Free some space, or choose another disk with --index-dir."
    if free < _MIN_FREE_BYTES:
        yield Finding("disk", "error", message, advice)
    elif free < _LOW_FREE_BYTES:
        yield Finding("disk", "warning", message, advice)
    else:
        yield Finding("disk", "ok", message)


def check_file_system(subject: Subject) -> Iterator[Finding]:
    """Check that indexes and folder are on local disks; only Linux lists its mounts."""
    if not _MOUNTS.exists():
        return
    home, root = _file_system(subject.index_home), _file_system(Path(subject.path))
    if home in REMOTE:
        yield Finding(
            "file system", "error",
            f"Indexes are on a network file system ({home}), where SQLite cannot lock them.",
            "Choose a folder on this machine: lookfar config set index.dir DIR",
        )  # fmt: skip
    if root in REMOTE:
        yield Finding(
            "file system", "warning",
            f"The folder is on a network file system ({root}), which does not report changes made"
            " on other machines.",
            "They are found every watch.reconcile_seconds, or by: lookfar index"
            f" {subject.shell_path}",
        )  # fmt: skip
    if home not in REMOTE and root not in REMOTE:
        yield Finding("file system", "ok", f"Index ({home}) and folder ({root}) are local.")


def check_sqlite(subject: Subject) -> Iterator[Finding]:
    from lookfar.store.ground.database import OLDEST_SQLITE, SQLITE_VERSION, wal_problem

    version, oldest = (".".join(map(str, parts)) for parts in (SQLITE_VERSION, OLDEST_SQLITE))
    if SQLITE_VERSION < OLDEST_SQLITE:
        yield Finding(
            "sqlite", "error", f"SQLite {version} is too old.",
            f"Use a Python that comes with SQLite {oldest} or newer.",
        )  # fmt: skip
        return
    with tempfile.TemporaryDirectory(
        dir=_nearest_folder(subject.index_home),
        prefix=".lookfar-doctor-",
        ignore_cleanup_errors=True,
    ) as folder:
        reason = wal_problem(Path(folder))
    if reason:
        yield Finding(
            "sqlite", "error",
            f"SQLite {version} cannot write a write-ahead log in the index folder: {reason}.",
            "Choose a folder on a local disk: lookfar config set index.dir DIR",
        )  # fmt: skip
    else:
        yield Finding("sqlite", "ok", f"SQLite {version}; write-ahead logs work on this disk.")


def open_to_others(home: Path) -> list[Path]:
    """Return the indexes in a folder that other users of this machine can read."""
    if sys.platform == "win32" or not home.is_dir() or not home.stat().st_mode & 0o077:
        return []
    # The user may keep other things in this folder; only indexes have a CURRENT file.
    folders = (path for path in list_folder(home) if path.is_dir() and not path.is_symlink())
    return [path for path in folders if (path / "CURRENT").is_file() and _is_open(path)]


def _is_open(path: Path) -> bool:
    """Return whether other users can read a folder that we own; False if the folder is gone."""
    try:
        return sys.platform != "win32" and _is_ours(path) and bool(path.stat().st_mode & 0o077)
    except FileNotFoundError:
        return False


def _is_ours(path: Path) -> bool:
    return sys.platform == "win32" or path.stat().st_uid == os.getuid()


def _make_private(folders: list[Path]) -> None:
    for path in folders:
        path.chmod(0o700)


def _nearest_folder(path: Path) -> Path:
    """Return the folder itself, or its nearest parent that exists."""
    return next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())


def _file_system(path: Path) -> str:
    return file_system_type(_nearest_folder(path), _MOUNTS)
