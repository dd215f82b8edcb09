"""The one door through which index files are written, synced, locked and removed.

Takes: paths inside an index folder and bytes. Gives: writes that are whole or
absent, and a writer lock that dies with its process. Refuses: nothing by
itself; the operating system's refusals come out as typed errors.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import get_ident
from types import TracebackType

from lookfar.errors import IndexBusy, from_os_error

_LEFT_SECONDS = 600.0


@contextmanager
def disk(what: str) -> Iterator[None]:
    """Turn an ``OSError`` into the typed error that says what was being done."""
    try:
        yield
    except OSError as error:
        raise from_os_error(error, what) from error


def make_folder(path: Path) -> None:
    """Create ``path`` for its owner alone: an index repeats the text of private files."""
    with disk(f"creating the index folder {path}"):
        path.mkdir(parents=True, exist_ok=True, mode=0o700)


def write_atomic(path: Path, data: bytes) -> None:
    """Replace ``path`` so that a reader, or a crash, sees the old bytes or the new ones.

    Only the holder of the writer lock may call this: the temporary file has one
    name, so that what a crash left of it is overwritten and not piled up.
    """
    _replace(path, path.with_name(f".{path.name}.tmp"), data)


def write_shared(path: Path, data: bytes) -> None:
    """The same for a file that several processes write without a lock; the last one wins.

    Each has a temporary file of its own; one that is old was left by a crash and goes.
    """
    _replace(path, path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}.tmp"), data)
    for left in path.parent.glob(f".{path.name}.*.tmp"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _LEFT_SECONDS:
                left.unlink()


def _replace(path: Path, temporary: Path, data: bytes) -> None:
    with disk(f"writing {path.name}"):
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def append(path: Path, offset: int, data: bytes | memoryview) -> None:
    """Write ``data`` at ``offset`` of an append-only file, over whatever a crash left there."""
    with disk(f"writing {path.name}"):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        try:
            view = memoryview(data).cast("B")
            os.lseek(descriptor, offset, os.SEEK_SET)
            while view:
                written = os.write(descriptor, view[: 1 << 26])
                view = view[written:]
        finally:
            os.close(descriptor)


def sync(path: Path) -> None:
    """Do not return before the file's bytes are on the disk."""
    with disk(f"syncing {path.name}"):
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Make the names inside a folder durable; Windows has no such call and needs none."""
    if sys.platform == "win32":
        return
    with disk(f"syncing {path.name}"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def rename(path: Path, to: Path) -> None:
    """Give a file or folder another name beside its old one, for good."""
    with disk(f"renaming {path.name}"):
        os.replace(path, to)
        sync_folder(to.parent)


def remove(path: Path) -> None:
    """Remove a file or a whole folder; what is already gone is fine."""
    with disk(f"removing {path.name}"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def size_of(path: Path) -> int:
    """Bytes of all files below ``path``; what vanishes while it is counted counts nothing."""
    total = 0
    for each in path.rglob("*"):
        with suppress(OSError):
            total += each.stat().st_size if each.is_file() else 0
    return total


def link_all(folder: Path, into: Path, *, copied: str) -> None:
    """Name the files of ``folder`` in ``into`` too; the one called ``copied`` is copied.

    For a library that insists on a writable folder where ours is not. Links that
    exist stay: index files never change under one name, except the copied one.
    """
    with disk(f"reading {folder.name}"):
        shutil.copyfile(folder / copied, into / copied)
        for path in folder.iterdir():
            link = into / path.name
            if path.suffix != ".lock" and not link.is_symlink() and path.name != copied:
                link.symlink_to(path)


class WriterLock:
    """At most one writer per collection, over all processes. The kernel frees it on any death."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self, wait_seconds: float = 0.0) -> None:
        """Take the lock, or raise ``IndexBusy`` when ``wait_seconds`` have passed."""
        deadline = time.monotonic() + wait_seconds
        while self._descriptor is None:
            with disk("opening the writer lock"):
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                self._await(descriptor, deadline)
                # Whoever held it may have deleted the index, and this file with it.
                if self._named_so(descriptor):
                    with disk("taking the writer lock"):
                        os.utime(self._path)
                    self._descriptor = descriptor
            finally:
                if self._descriptor is None:
                    os.close(descriptor)

    def _named_so(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self._path))
        except FileNotFoundError:
            return False

    def _await(self, descriptor: int, deadline: float) -> None:
        with disk("taking the writer lock"):
            while not _try_lock(descriptor):
                if time.monotonic() >= deadline:
                    raise IndexBusy(
                        "Another process is updating this index.",
                        hint="Wait for it to finish and try again; searching works meanwhile.",
                        developer=f"writer lock held: {self._path}",
                        details={"since": _moment(os.fstat(descriptor).st_mtime)},
                    )
                time.sleep(0.02)

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> WriterLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _try_lock(descriptor: int) -> bool:
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
