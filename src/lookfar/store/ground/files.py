"""The one door through which files are written, synced, locked and removed.

Takes: paths inside an index folder and bytes; for documents, which an edit replaces, an open
folder and names in it. Gives: writes that are whole or absent, and a writer lock that dies
with its process. Refuses: nothing by itself; the operating system's refusals come out as typed
errors.

Each change of the disk passes a fault point first, and so does each commit that the store asks
SQLite or tantivy for: there a test counts, ends the process, or lets the disk fail.
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
from lookfar.common.locks import try_lock
from lookfar.errors import IndexBusy, IndexReadOnly, PermissionDenied, from_os_error

_LEFT_SECONDS = 600.0
_PLAIN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_WITHOUT_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
_WITHOUT_FULL_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOTTY)
"""What disks on other machines answer to a sync that goes down to the drive."""
_MOST_AT_ONCE = 1 << 26
_TRIED_BYTES = 1 << 16
"""More than the pages that SQLite asks for at once."""

on_point: Callable[[str, str, int], int] | None = None
"""Asked at every fault point, where a test has put something here; nothing else ever does."""


def point(what: str, name: str, size: int = 0) -> int:
    """Pass a fault point: ``what`` is about to be done to ``name``. Gives how many of ``size``
    bytes to write, which are all of them unless a test wants a short write.
    """
    return size if on_point is None else on_point(what, name, size)


@contextmanager
def disk(what: str) -> Iterator[None]:
    """Turn an ``OSError`` into the typed error that says what was being done."""
    try:
        yield
    except OSError as error:
        raise from_os_error(error, what) from error


def make_folder(path: Path, *, sync: bool = True) -> None:
    """Create ``path`` for its owner alone: an index repeats the text of private files.

    Without ``sync`` a loss of power may take it back until the folder above is synced.
    """
    with disk(f"creating the index folder {path}"):
        new = [each for each in (path, *path.parents) if not each.exists()]
        if new:
            point("folder", path.name)
            make_private(path)
        for each in reversed(new) if sync else ():
            sync_folder(each.parent)


def write_atomic(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Replace ``path`` so that a reader, or a crash, sees the old bytes or the new ones.

    Only the holder of the writer lock may call this: the temporary file has one
    name, so that what a crash left of it is overwritten and not piled up. Without
    ``sync`` a loss of power may bring back the old bytes until the folder is synced.
    """
    _replace(path, path.with_name(f".{path.name}.tmp"), data, sync)


def write_shared(path: Path, data: bytes) -> None:
    """The same for a file that several processes write without a lock; the last one wins.

    Each has a temporary file of its own; one that is old was left by a crash and goes.
    """
    _replace(path, path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}.tmp"), data)
    for left in list_folder(path.parent, f".{path.name}.*.tmp"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _LEFT_SECONDS:
                left.unlink()


def _replace(path: Path, temporary: Path, data: bytes, sync: bool = True) -> None:
    with disk(f"writing {path.name}"):
        try:
            point("create", path.name)
            with temporary.open("wb", buffering=0) as file:
                _write(file.fileno(), data, path.name)
                _sync(file.fileno(), path.name)
            point("rename", path.name)
            os.replace(temporary, path)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        if sync:
            sync_folder(path.parent)


def _write(descriptor: int, data: bytes | memoryview, name: str) -> None:
    view = memoryview(data).cast("B")
    while view:
        most = point("write", name, min(len(view), _MOST_AT_ONCE))
        view = view[os.write(descriptor, view[:most]) :]


def _sync(descriptor: int, name: str) -> None:
    point("sync", name)
    if sys.platform == "darwin":
        # There fsync() leaves the bytes in the drive's own memory.
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
    """Make a file of these lines, however many; gives how many. One that is there is refused, and
    one that cannot be finished is removed."""
    number = 0
    with disk(f"writing {path}"), path.open("x", encoding="utf-8", newline="\n") as target:
        try:
            for line in lines:
                target.write(f"{line}\n")
                number += 1
            target.flush()
            _sync(target.fileno(), path.name)
        except BaseException:
            path.unlink()
            raise
    return number


def append(path: Path, offset: int, data: bytes | memoryview, *, last: bool = False) -> None:
    """Write ``data`` at ``offset`` of an append-only file, over whatever a crash left there;
    where it is to be the ``last`` of the file, what lies behind is cut off first.
    """
    with disk(f"writing {path.name}"):
        point("open", path.name)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        try:
            if last and os.fstat(descriptor).st_size > offset:
                point("cut", path.name)
                os.ftruncate(descriptor, offset)
            os.lseek(descriptor, offset, os.SEEK_SET)
            _write(descriptor, data, path.name)
        finally:
            os.close(descriptor)


def try_write(folder: Path) -> None:
    """Write a little into a folder and take it back, for the error that this ends in.

    SQLite says only that writing failed; the system says whether the disk is full.
    """
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        _write(file.fileno(), bytes(_TRIED_BYTES), "a trial")


def sync(path: Path) -> None:
    """Do not return before the file's bytes are on the disk."""
    with disk(f"syncing {path.name}"):
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
        try:
            _sync(descriptor, path.name)
        finally:
            os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Make the names inside a folder durable; Windows has no such call and needs none."""
    if sys.platform == "win32":
        return
    with disk(f"syncing {path.name}"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            _sync(descriptor, path.name)
        finally:
            os.close(descriptor)


def rename(path: Path, to: Path, *, sync: bool = True) -> None:
    """Give a file or folder another name beside its old one; for good, unless without ``sync``."""
    with disk(f"renaming {path.name}"):
        point("rename", path.name)
        os.replace(path, to)
        if sync:
            sync_folder(to.parent)


def name_too(path: Path, also: Path) -> None:
    """Give a finished file a second name; where the disk knows no such thing, a copy."""
    with disk(f"keeping {path.name}"):
        point("link", path.name)
        try:
            os.link(path, also)
        except OSError:
            shutil.copyfile(path, also)
            sync(also)


def remove(path: Path) -> None:
    """Remove a file or a whole folder; what is already gone is fine."""
    with disk(f"removing {path.name}"):
        if path.is_symlink() or not path.is_dir():
            _unlink(path)
            return
        folders = [path]
        for entry in walk_folder(path):
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
            else:
                _unlink(Path(entry.path))
        point("remove", path.name)
        for folder in reversed(folders):
            with suppress(FileNotFoundError):
                folder.rmdir()


def _unlink(path: Path) -> None:
    point("remove", path.name)
    path.unlink(missing_ok=True)


def link_all(folder: Path, into: Path, *, copied: str) -> None:
    """Name the files of ``folder`` in ``into`` too; the one called ``copied`` is copied.

    For a library that insists on a writable folder where ours is not. Links that
    exist stay: index files never change under one name, except the copied one.
    """
    with disk(f"reading {folder.name}"):
        shutil.copyfile(folder / copied, into / copied)
        for path in list_folder(folder):
            link = into / path.name
            if path.suffix != ".lock" and not link.is_symlink() and path.name != copied:
                link.symlink_to(path)


# -- documents, by their name in a folder that sources/confine opened -----------


@contextmanager
def _document(what: str) -> Iterator[None]:
    """As ``disk``, for what is not an index and cannot be put elsewhere."""
    try:
        yield
    except OSError as error:
        named = from_os_error(error, what)
        kind = PermissionDenied if isinstance(named, IndexReadOnly) else type(named)
        raise kind(
            named.message,
            hint="Nothing was changed. Look after the disk or the permissions, and try again.",
            developer=named.developer,
            details=named.details,
        ) from error


def stage(folder: int | str, name: str, data: bytes, like: str = "", mode: int = 0o666) -> None:
    """Write a new file beside a document, synced, with the mode and the owner of ``like``."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN
    with _document(f"writing {like or name!r}"):
        where = _at(folder)
        point("create", name)
        descriptor = os.open(_named(folder, name), flags, 0o600 if like else mode, **where)
        try:
            if like:
                _take_after(descriptor, folder, like)
            _write(descriptor, data, name)
            _sync(descriptor, name)
        finally:
            os.close(descriptor)


def _take_after(descriptor: int, folder: int | str, name: str) -> None:
    """Give a file the owner, the extended attributes and the mode of another, as far as we may."""
    if sys.platform == "win32":
        return
    model = os.open(_named(folder, name), os.O_RDONLY | os.O_NONBLOCK | _PLAIN, **_at(folder))
    try:
        info = os.fstat(model)
        mine = os.fstat(descriptor)
        if (info.st_uid, info.st_gid) != (mine.st_uid, mine.st_gid):
            # Whoever is not the owner may at least keep the group.
            for owner in (info.st_uid, -1):
                try:
                    os.fchown(descriptor, owner, info.st_gid)
                    break
                except PermissionError:
                    continue
        if sys.platform == "linux":
            with suppress(OSError):  # Some disks have none.
                for attribute in os.listxattr(model):
                    with suppress(OSError):  # Some are the system's business.
                        os.setxattr(descriptor, attribute, os.getxattr(model, attribute))
        os.fchmod(descriptor, stat.S_IMODE(info.st_mode))
    finally:
        os.close(model)


def swap(folder: int | str, staged: str, name: str) -> None:
    """Let a staged file take the place of a document, at once."""
    with _document(f"replacing {name!r}"):
        point("rename", name)
        if isinstance(folder, int):
            os.replace(staged, name, src_dir_fd=folder, dst_dir_fd=folder)
        else:
            os.replace(_named(folder, staged), _named(folder, name))


def put_new(folder: int | str, staged: str, name: str) -> bool:
    """Give a staged file its name; False where something of that name is there already."""
    with _document(f"creating {name!r}"):
        point("link", name)
        if isinstance(folder, int):
            try:
                os.link(staged, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _WITHOUT_LINKS:
                    raise
                return _renamed_new(folder, staged, name)
            point("remove", staged)
            os.unlink(staged, dir_fd=folder)
            return True
        try:
            os.rename(_named(folder, staged), _named(folder, name))  # Windows overwrites nothing.
        except FileExistsError:
            return False
        return True


def _renamed_new(folder: int, staged: str, name: str) -> bool:
    """The same on a disk without hard links, where looking first has to do."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(staged, name, src_dir_fd=folder, dst_dir_fd=folder)
        return True
    return False


def drop(folder: int | str, name: str) -> None:
    """Remove a file from a folder; one that is gone is fine."""
    with _document(f"removing {name!r}"), suppress(FileNotFoundError):
        point("remove", name)
        os.unlink(_named(folder, name), **_at(folder))


def make_inside(folder: int | str, name: str) -> None:
    """Make a folder in a folder; one that is there is fine."""
    with _document(f"creating the folder {name!r}"), suppress(FileExistsError):
        point("folder", name)
        os.mkdir(_named(folder, name), **_at(folder))


def drop_empty(folder: int | str, name: str) -> None:
    """Remove a folder in a folder, if it is there and nothing is in it."""
    with suppress(OSError):
        point("remove", name)
        os.rmdir(_named(folder, name), **_at(folder))


def sync_open(folder: int | str) -> None:
    """Make the names inside an open folder durable."""
    if isinstance(folder, int):
        with _document("syncing a folder"):
            _sync(folder, "a folder")


def lock_open(folder: int | str, wait_seconds: float) -> None:
    """Keep other editors of documents out of an open folder until it is closed.

    Whatever index they write to, and whichever root they come from. Where a disk cannot
    lock folders, the lock of the index has to do.
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
                "Another process is editing documents of this folder.",
                hint="Try again; nothing was changed.",
            )
        time.sleep(0.005)


def _named(folder: int | str, name: str) -> str:
    return name if isinstance(folder, int) else os.path.join(folder, name)


def _at(folder: int | str) -> dict[str, int]:
    return {"dir_fd": folder} if isinstance(folder, int) else {}


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
                point("open", self._path.name)
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
            while not try_lock(descriptor):
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
