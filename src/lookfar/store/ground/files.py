"""The only module that writes, syncs, locks and removes files.

Index files are given by path; documents, which an edit replaces, by an open folder and a name in
it. A write is complete or absent after a crash, and the operating system frees the writer lock
when its process ends. Errors of the operating system are raised as typed errors.

Every change of the disk passes a fault point first, and so does every commit in SQLite. There a
test can count, end the process, or simulate a failing disk.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import get_ident
from types import TracebackType

from lookfar.common.folders import list_folder, make_private, walk_folder
from lookfar.common.programs import try_lock
from lookfar.errors import IndexBusy, IndexReadOnly, PermissionDenied, from_os_error

_ABANDONED_SECONDS = 600.0
_PLAIN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_WITHOUT_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
_WITHOUT_FULL_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOTTY)
"""Errors of network file systems that cannot flush the drive's own cache."""
_SHARING_ERRORS = (5, 32)
"""What Windows reports while another program has a file open: access denied, sharing violation."""
_REPLACE_SECONDS = 2.0
_REMOVE_SECONDS = 0.25
"""Shorter: a file that a reader has mapped stays open for long, and a later writer removes it."""
_MOST_AT_ONCE = 1 << 26
_PROBE_BYTES = 1 << 16
"""More than SQLite allocates at once."""

on_fault_point: Callable[[str, str, int], int] | None = None
"""Called at every fault point; only tests set it."""


def fault_point(action: str, name: str, size: int = 0) -> int:
    """Announce that ``action`` is about to be done to ``name``.

    Return how many of ``size`` bytes to write: all of them, unless a test wants a short write.
    """
    return size if on_fault_point is None else on_fault_point(action, name, size)


@contextmanager
def translate_errors(action: str) -> Iterator[None]:
    """Turn an ``OSError`` into a typed error that names the ``action``."""
    try:
        yield
    except OSError as error:
        raise from_os_error(error, action) from error


def retry_while_open(change: Callable[[], None], seconds: float = _REPLACE_SECONDS) -> None:
    """Replace or remove a name, which Windows refuses while another program has the file open.

    Readers and virus scanners have it open for milliseconds, so the change is tried again.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            change()
            return
        except PermissionError as error:
            sharing = getattr(error, "winerror", None) in _SHARING_ERRORS
            if not sharing or time.monotonic() >= deadline:
                raise
            time.sleep(0.01)


def make_folder(path: Path, *, sync: bool = True) -> None:
    """Create a folder that only its owner can read, because an index contains private text.

    Without ``sync``, a power failure may undo this until the parent folder is synced.
    """
    with translate_errors(f"creating the folder {path}"):
        new = [folder for folder in (path, *path.parents) if not folder.exists()]
        if new:
            fault_point("folder", path.name)
            make_private(path)
        for folder in reversed(new) if sync else ():
            sync_folder(folder.parent)


def write_atomic(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Replace a file atomically: a reader sees the old bytes or the new ones, even after a crash.

    Only the holder of the writer lock may call this. The temporary file has a fixed name, so
    that one left by a crash is overwritten. Without ``sync``, a power failure may bring back the
    old bytes until the folder is synced.
    """
    _replace(path, path.with_name(f".{path.name}.tmp"), data, sync)


def write_shared(path: Path, data: bytes) -> None:
    """Replace a file that several processes write without a lock; the last one wins.

    Each process has its own temporary file. Old ones were left by a crash and are removed.
    """
    _replace(path, path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}.tmp"), data)
    for temporary in list_folder(path.parent, f".{path.name}.*.tmp"):
        with suppress(OSError):
            if time.time() - temporary.stat().st_mtime > _ABANDONED_SECONDS:
                temporary.unlink()


def write_fetched(path: Path, data: bytes) -> None:
    """Write a file that can be fetched again, with its folders; a power failure may lose it."""
    make_folder(path.parent, sync=False)
    with translate_errors(f"writing {path.name}"):
        fault_point("create", path.name)
        with path.open("wb", buffering=0) as file:
            _write(file.fileno(), data, path.name)


def write_pieces(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Replace a file atomically with these pieces, which need not fit into memory together."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}.tmp")
    with translate_errors(f"writing {path.name}"):
        try:
            fault_point("create", path.name)
            with temporary.open("wb", buffering=0) as file:
                for piece in pieces:
                    _write(file.fileno(), piece, path.name)
                _sync(file.fileno(), path.name)
            fault_point("rename", path.name)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def move(path: Path, to: Path) -> None:
    """Move a file into another folder of the same disk, over what is there."""
    make_folder(to.parent, sync=False)
    with translate_errors(f"moving {path.name}"):
        fault_point("rename", path.name)
        retry_while_open(lambda: os.replace(path, to))


def write_cache(path: Path, data: bytes) -> None:
    """Replace a file that can be made again, and that shows by a checksum whether it is whole.

    Nothing is synced: after a power failure it may be damaged.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}.tmp")
    _replace(path, temporary, data, sync=False, durable=False)


def _replace(
    path: Path, temporary: Path, data: bytes, sync: bool = True, durable: bool = True
) -> None:
    with translate_errors(f"writing {path.name}"):
        try:
            fault_point("create", path.name)
            with temporary.open("wb", buffering=0) as file:
                _write(file.fileno(), data, path.name)
                if durable:
                    _sync(file.fileno(), path.name)
            fault_point("rename", path.name)
            retry_while_open(lambda: os.replace(temporary, path))
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        if sync:
            sync_folder(path.parent)


def _write(descriptor: int, data: bytes | memoryview, name: str) -> None:
    view = memoryview(data).cast("B")
    while view:
        most = fault_point("write", name, min(len(view), _MOST_AT_ONCE))
        view = view[os.write(descriptor, view[:most]) :]


def _sync(descriptor: int, name: str) -> None:
    fault_point("sync", name)
    if sys.platform == "darwin":
        # On macOS, fsync() leaves the bytes in the drive's cache.
        import fcntl

        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in _WITHOUT_FULL_SYNC:
                raise
        else:
            return
    os.fsync(descriptor)


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """Write lines to a new file and return their number.

    An existing file is not overwritten, and an unfinished one is removed.
    """
    count = 0
    with (
        translate_errors(f"writing {path}"),
        path.open("x", encoding="utf-8", newline="\n") as target,
    ):
        try:
            for line in lines:
                target.write(f"{line}\n")
                count += 1
            target.flush()
            _sync(target.fileno(), path.name)
        except BaseException:
            path.unlink()
            raise
    return count


def append(path: Path, offset: int, data: bytes | memoryview, *, last: bool = False) -> None:
    """Write at ``offset`` of an append-only file, over anything that a crash left there.

    With ``last``, the file is truncated at ``offset`` first.
    """
    with translate_errors(f"writing {path.name}"):
        fault_point("open", path.name)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        try:
            if last and os.fstat(descriptor).st_size > offset:
                fault_point("cut", path.name)
                os.ftruncate(descriptor, offset)
            os.lseek(descriptor, offset, os.SEEK_SET)
            _write(descriptor, data, path.name)
        finally:
            os.close(descriptor)


def probe_write(folder: Path) -> None:
    """Write a temporary file into a folder, for the error that this may raise.

    SQLite only reports that a write failed; the operating system says whether the disk is full.
    """
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        _write(file.fileno(), bytes(_PROBE_BYTES), "a trial")


def sync(path: Path) -> None:
    """Wait until the bytes of a file are on the disk."""
    with translate_errors(f"syncing {path.name}"):
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
        try:
            _sync(descriptor, path.name)
        finally:
            os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable; Windows does not need this."""
    if sys.platform == "win32":
        return
    with translate_errors(f"syncing {path.name}"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            _sync(descriptor, path.name)
        finally:
            os.close(descriptor)


def rename(path: Path, to: Path, *, sync: bool = True) -> None:
    """Rename a file or folder within its folder; durably, unless ``sync`` is false."""
    with translate_errors(f"renaming {path.name}"):
        fault_point("rename", path.name)
        retry_while_open(lambda: os.replace(path, to))
        if sync:
            sync_folder(to.parent)


def link_or_copy(path: Path, to: Path) -> None:
    """Give a finished file a second name by a hard link, or copy it where links do not work."""
    with translate_errors(f"linking {path.name}"):
        fault_point("link", path.name)
        try:
            os.link(path, to)
        except OSError:
            shutil.copyfile(path, to)
            sync(to)


def point_link(link: Path, target: Path) -> bool:
    """Let a symbolic link point at a file, relative to the link's folder.

    Return whether it does: not every system lets every user make links.
    """
    relative = os.path.relpath(target, link.parent)
    try:
        if link.is_symlink() and os.readlink(link) == relative:
            return True
        temporary = link.with_name(f"{link.name}.{os.getpid()}.{get_ident()}")
        os.symlink(relative, temporary)
        os.replace(temporary, link)
    except OSError:
        return False
    return True


def remove(path: Path) -> None:
    """Remove a file or a whole folder, if it exists."""
    with translate_errors(f"removing {path.name}"):
        if path.is_symlink() or not path.is_dir():
            _unlink(path)
            return
        folders = [path]
        for entry in walk_folder(path):
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
            else:
                _unlink(Path(entry.path))
        fault_point("remove", path.name)
        for folder in reversed(folders):
            with suppress(FileNotFoundError):
                retry_while_open(folder.rmdir, _REMOVE_SECONDS)


def _unlink(path: Path) -> None:
    fault_point("remove", path.name)
    retry_while_open(lambda: path.unlink(missing_ok=True), _REMOVE_SECONDS)


# --- documents, by their name in a folder that sources/confine opened -------------------------


@contextmanager
def _translate_document_errors(action: str) -> Iterator[None]:
    """Like ``translate_errors``, with hints that fit a document instead of an index."""
    try:
        yield
    except OSError as error:
        typed = from_os_error(error, action)
        kind = PermissionDenied if isinstance(typed, IndexReadOnly) else type(typed)
        raise kind(
            typed.message,
            hint="Nothing was changed. Check the disk and the permissions, and try again.",
            developer=typed.developer,
            details=typed.details,
        ) from error


def stage(folder: int | str, name: str, data: bytes, like: str = "", mode: int = 0o666) -> None:
    """Write and sync a new file next to a document, with the mode and owner of ``like``."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN
    with _translate_document_errors(f"writing {like or name!r}"):
        where = _dir_fd(folder)
        fault_point("create", name)
        descriptor = os.open(_join(folder, name), flags, 0o600 if like else mode, **where)
        try:
            if like:
                _copy_attributes(descriptor, folder, like)
            _write(descriptor, data, name)
            _sync(descriptor, name)
        finally:
            os.close(descriptor)


def _copy_attributes(descriptor: int, folder: int | str, name: str) -> None:
    """Copy owner, extended attributes and mode of a file, as far as permitted."""
    if sys.platform == "win32":
        return
    model = os.open(_join(folder, name), os.O_RDONLY | os.O_NONBLOCK | _PLAIN, **_dir_fd(folder))
    try:
        info = os.fstat(model)
        own = os.fstat(descriptor)
        if (info.st_uid, info.st_gid) != (own.st_uid, own.st_gid):
            # Another user cannot set the owner, but can often keep the group.
            for owner in (info.st_uid, -1):
                try:
                    os.fchown(descriptor, owner, info.st_gid)
                    break
                except PermissionError:
                    continue
        if sys.platform == "linux":
            with suppress(OSError):  # Not every file system has them.
                for attribute in os.listxattr(model):
                    with suppress(OSError):  # Only the system may set some.
                        os.setxattr(descriptor, attribute, os.getxattr(model, attribute))
        os.fchmod(descriptor, stat.S_IMODE(info.st_mode))
    finally:
        os.close(model)


def replace_document(folder: int | str, staged: str, name: str) -> None:
    with _translate_document_errors(f"replacing {name!r}"):
        fault_point("rename", name)
        if isinstance(folder, int):
            os.replace(staged, name, src_dir_fd=folder, dst_dir_fd=folder)
        else:
            retry_while_open(lambda: os.replace(_join(folder, staged), _join(folder, name)))


def create_document(folder: int | str, staged: str, name: str) -> bool:
    """Give a staged file its name; return False if that name exists already."""
    with _translate_document_errors(f"creating {name!r}"):
        fault_point("link", name)
        if isinstance(folder, int):
            try:
                os.link(staged, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _WITHOUT_LINKS:
                    raise
                return _rename_if_absent(folder, staged, name)
            fault_point("remove", staged)
            os.unlink(staged, dir_fd=folder)
            return True
        try:
            os.rename(_join(folder, staged), _join(folder, name))  # Windows never overwrites.
        except FileExistsError:
            return False
        return True


def _rename_if_absent(folder: int, staged: str, name: str) -> bool:
    """Rename without hard links: check first, which another process could get between."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(staged, name, src_dir_fd=folder, dst_dir_fd=folder)
        return True
    return False


def remove_entry(folder: int | str, name: str) -> None:
    with _translate_document_errors(f"removing {name!r}"), suppress(FileNotFoundError):
        fault_point("remove", name)
        retry_while_open(lambda: os.unlink(_join(folder, name), **_dir_fd(folder)))


def make_subfolder(folder: int | str, name: str) -> None:
    with _translate_document_errors(f"creating the folder {name!r}"), suppress(FileExistsError):
        fault_point("folder", name)
        os.mkdir(_join(folder, name), **_dir_fd(folder))


def remove_empty_folder(folder: int | str, name: str) -> None:
    with suppress(OSError):
        fault_point("remove", name)
        os.rmdir(_join(folder, name), **_dir_fd(folder))


def sync_open_folder(folder: int | str) -> None:
    if isinstance(folder, int):
        with _translate_document_errors("syncing a folder"):
            _sync(folder, "a folder")


def lock_folder(folder: int | str, wait_seconds: float) -> None:
    """Lock an open folder against other editors, of any index or root, until it is closed.

    Where the file system cannot lock folders, only the lock of the index protects it.
    """
    deadline = time.monotonic() + wait_seconds
    while isinstance(folder, int):
        try:
            if try_lock(folder):
                return
        except OSError:
            return
        if time.monotonic() >= deadline:
            raise IndexBusy(
                "Another process is editing documents in this folder.",
                hint="Try again; nothing was changed.",
            )
        time.sleep(0.005)


def _join(folder: int | str, name: str) -> str:
    return name if isinstance(folder, int) else os.path.join(folder, name)


def _dir_fd(folder: int | str) -> dict[str, int]:
    return {"dir_fd": folder} if isinstance(folder, int) else {}


class WriterLock:
    """Allow one writer per collection across all processes.

    The operating system frees the lock when the process ends.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(
        self,
        wait_seconds: float = 0.0,
        message: str = "Another process is updating this index.",
        hint: str = "Wait for it to finish and try again; searching works meanwhile.",
    ) -> None:
        """Take the lock, or raise ``IndexBusy`` when ``wait_seconds`` have passed."""
        deadline = time.monotonic() + wait_seconds
        while self._descriptor is None:
            with translate_errors("opening the writer lock"):
                fault_point("open", self._path.name)
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                self._wait(descriptor, deadline, message, hint)
                # The previous holder may have deleted the index, including this file.
                if self._is_current(descriptor):
                    with translate_errors("taking the writer lock"):
                        os.utime(self._path)
                    self._descriptor = descriptor
            finally:
                if self._descriptor is None:
                    os.close(descriptor)

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self._path))
        except FileNotFoundError:
            return False

    def _wait(self, descriptor: int, deadline: float, message: str, hint: str) -> None:
        with translate_errors("taking the writer lock"):
            while not try_lock(descriptor):
                if time.monotonic() >= deadline:
                    raise IndexBusy(
                        message,
                        hint=hint,
                        developer=f"writer lock held: {self._path}",
                        details={"since": _format_time(os.fstat(descriptor).st_mtime)},
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


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
