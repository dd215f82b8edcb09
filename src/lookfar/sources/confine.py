"""Read files inside a root folder, and nothing outside it. All user files are read here.

Each path component is opened relative to the one before it and without following links, so a
folder that is replaced with a link between two steps is not followed. No directory descriptor
outlives a call: a cached one would still read a folder that was moved out of the root. That
costs about 15 µs per file. A hard link may share a file with a path outside the root, so files
with several names are rejected unless the caller allows them.

On systems that cannot open relative to a descriptor (Windows), every component is checked
first, and after opening the system is asked for the real path of the file.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Sequence
from typing import ClassVar, Final

from lookfar.errors import InvalidArgument, OutsideRoot, RootNotFound, from_os_error
from lookfar.model import Fingerprint
from lookfar.sources.fingerprints import make_fingerprint

Handle = int | str
"""An open folder: a descriptor, or its path on systems that cannot open relative to one."""

ON_WINDOWS: Final = os.name == "nt"

_ATTEMPTS: Final = 3
_MAX_URI_BYTES: Final = 4096
_CLOSED_ON_EXEC: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_FOLDER_FLAGS: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _CLOSED_ON_EXEC
# O_NONBLOCK: opening a FIFO must not wait for a writer. O_NOCTTY: a terminal must not become ours.
_FILE_FLAGS: Final = (
    os.O_RDONLY
    | _CLOSED_ON_EXEC
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)
_DRIVE: Final = re.compile(r"[A-Za-z]:(?:\\|$)")
_WINDOWS_TRICK: Final = re.compile(
    r"[\\:]|[. ]$|^(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|$)", re.I
)
_GONE: Final = frozenset((errno.ENOENT, errno.ENAMETOOLONG, errno.ESTALE))
_SPECIAL: Final = frozenset((errno.ENXIO, errno.ENODEV, errno.EISDIR, errno.EOPNOTSUPP))


class Refused(Exception):
    """Raised for a file inside the root that must not or cannot be read.

    ``reason`` is one of ``gone``, ``symlink``, ``hard_link``, ``not_a_file``, ``too_large`` and
    ``changing``; callers use it as the reason of a ``Skipped`` or the code of a ``Failure``.
    """

    def __init__(self, uri: str, reason: str, detail: str = "") -> None:
        super().__init__(f"{uri}: {reason}" + (f" ({detail})" if detail else ""))
        self.uri = uri
        self.reason = reason
        self.detail = detail


def path_problem(uri: str) -> str:
    """Return why a text is not a relative POSIX path that can be opened; empty if it is one."""
    parts = uri.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in uri:
        return "not a plain path"
    if _DRIVE.match(parts[0]) or (ON_WINDOWS and any(map(_WINDOWS_TRICK.search, parts))):
        return "a drive or a device on Windows"
    try:
        return "too long" if len(uri.encode("utf-8")) > _MAX_URI_BYTES else ""
    except UnicodeEncodeError:
        return "not UTF-8"


def components(uri: str) -> list[str]:
    """Split a relative POSIX path; ``OutsideRoot`` for anything else."""
    if path_problem(uri):
        raise OutsideRoot(
            f"{uri[:200]!r} is not a path inside the folder.",
            hint="Give a path relative to the folder, like docs/guide.md, without '..'.",
        )
    return uri.split("/")


def open_child(parent: Handle, name: str) -> Handle:
    """Open a subfolder of an open folder, without following links."""
    if isinstance(parent, int):
        return os.open(name, _FOLDER_FLAGS, dir_fd=parent)
    path = os.path.join(parent, name)
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    if not _has_no_links(path):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return path


def close_folder(folder: Handle) -> None:
    """Close a folder opened by ``open_child`` or ``Root.open_folder``."""
    if isinstance(folder, int):
        os.close(folder)


def lstat_in(folder: Handle, name: str) -> os.stat_result:
    """Stat an entry of an open folder without following links."""
    if isinstance(folder, int):
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    return os.lstat(os.path.join(folder, name))


def read_in(folder: Handle, name: str, uri: str, limit: int) -> bytes:
    """Return the bytes of a regular file in an open folder; ``Refused`` for anything else.

    Unlike ``Root.read``, it allows hard links, and raises ``FileNotFoundError`` for a missing file.
    """
    try:
        if isinstance(folder, int):
            file = os.open(name, _FILE_FLAGS, dir_fd=folder)
        else:
            path = os.path.join(folder, name)
            if not stat.S_ISREG(os.lstat(path).st_mode) or not _has_no_links(path):
                raise Refused(uri, "symlink", "its path leads through a link or another spelling")
            file = os.open(path, _FILE_FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise Refused(uri, "symlink") from error
        if error.errno in _SPECIAL:
            raise Refused(uri, "not_a_file", "a folder, pipe, socket or device") from error
        raise
    try:
        info = os.fstat(file)
        if not stat.S_ISREG(info.st_mode):
            raise Refused(uri, "not_a_file", "a folder, pipe, socket or device")
        if info.st_size > limit:
            raise Refused(uri, "too_large", f"{info.st_size} bytes, limit {limit}")
        return os.read(file, limit)
    finally:
        os.close(file)


def _has_no_links(path: str) -> bool:
    try:
        return os.path.realpath(path) == path
    except OSError:  # A link was removed while it was resolved.
        return False


def _real_path(file: int) -> str:
    """Ask the system for the real path of an open file."""
    if sys.platform == "win32":
        import ctypes
        import msvcrt

        buffer = ctypes.create_unicode_buffer(1 << 15)
        handle = ctypes.c_void_p(msvcrt.get_osfhandle(file))
        if not ctypes.windll.kernel32.GetFinalPathNameByHandleW(handle, buffer, len(buffer), 0):
            raise ctypes.WinError()
        share = "\\\\?\\UNC\\"
        if buffer.value.startswith(share):
            return "\\\\" + buffer.value[len(share) :]
        return buffer.value.removeprefix("\\\\?\\")
    else:
        return os.readlink(f"/proc/self/fd/{file}")


class Root:
    """A folder that may be read. Holds no descriptor, so it can be shared and pickled."""

    __slots__ = ("_identity", "allow_hard_links", "path")

    by_descriptor: ClassVar[bool] = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")

    def __init__(self, path: str, identity: tuple[int, int], allow_hard_links: bool) -> None:
        self.path = path
        """The real path at the time the root was opened."""
        self.allow_hard_links = allow_hard_links
        self._identity = identity

    def __repr__(self) -> str:
        return f"Root({self.path!r})"

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, allow_hard_links: bool = False) -> Root:
        """Resolve the folder once; links in the path *to* it are followed."""
        given = os.fspath(path)
        try:
            real = os.path.realpath(given, strict=True)
            info = os.stat(real)
        except (FileNotFoundError, NotADirectoryError, ValueError) as error:
            raise RootNotFound(
                f"The folder {given!r} does not exist.",
                hint="Check the spelling; folders are not created automatically.",
                details={"path": given},
            ) from error
        except OSError as error:
            raise from_os_error(error, f"opening the folder {given!r}") from error
        if not stat.S_ISDIR(info.st_mode):
            raise InvalidArgument(
                f"{given!r} is not a folder.",
                hint=f"Give the folder that contains it: {os.path.dirname(real)}",
            )
        return cls(real, (info.st_dev, info.st_ino), allow_hard_links)

    @classmethod
    def absent(cls, path: str | os.PathLike[str]) -> Root:
        """Return a root for a folder on another machine, which cannot be read."""
        return cls(os.path.abspath(path), (0, 0), False)

    def read(self, uri: str, limit: int) -> tuple[bytes, Fingerprint]:
        """Return the bytes of a file of at most ``limit`` bytes, with their fingerprint."""
        parts = components(uri)
        try:
            for _ in range(_ATTEMPTS):
                content = self._read_once(uri, parts, limit)
                if content is not None:
                    return content
        except OSError as error:
            raise from_os_error(error, f"reading {uri!r}") from error
        raise Refused(uri, "changing", f"written to during each of {_ATTEMPTS} readings")

    def stat(self, uri: str) -> Fingerprint | None:
        """Return the fingerprint of a file that ``read`` would open, or None.

        Links, folders and special files give None, too.
        """
        parts = components(uri)
        try:
            folder = self._enter(uri, parts[:-1])
            try:
                info = lstat_in(folder, parts[-1])
            finally:
                close_folder(folder)
            self._check(uri, info)
        except Refused:
            return None
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise from_os_error(error, f"examining {uri!r}") from error
        return make_fingerprint(info)

    def contains(self, uri: str) -> bool:
        """Whether ``uri`` is a readable regular file inside the root."""
        try:
            return self.stat(uri) is not None
        except OutsideRoot:
            return False

    def uri_of(self, path: str | os.PathLike[str]) -> str:
        """Convert an absolute path below the root to a URI, without touching the disk."""
        below = os.path.relpath(os.fspath(path), self.path) if os.path.isabs(path) else ".."
        uri = below.replace(os.sep, "/")
        components(uri)
        return uri

    def open_folder(self, uri: str = "") -> Handle:
        """Open a folder inside the root for listing; the caller closes it."""
        return self._enter(uri, components(uri) if uri else [])

    def _top(self) -> Handle:
        """Open the root itself, and check that it is the same folder.

        The path had no links when the root was opened. A checkout may have put one in it since,
        so another folder is accepted only if the path still has no links: the folder was deleted
        and created again.
        """
        try:
            if not self.by_descriptor:
                os.lstat(self.path)
                return self.path if _has_no_links(self.path) else self._raise_lost()
            top = os.open(self.path, _FOLDER_FLAGS)
        except OSError as error:
            if error.errno in (*_GONE, errno.ENOTDIR, errno.ELOOP):
                self._raise_lost(error)
            raise
        info = os.fstat(top)
        identity = (info.st_dev, info.st_ino)
        if identity != self._identity:
            if not _has_no_links(self.path):
                os.close(top)
                self._raise_lost()
            self._identity = identity
        return top

    def _raise_lost(self, cause: OSError | None = None) -> str:
        raise RootNotFound(
            f"The folder {self.path!r} is gone or has become a link.",
            hint="Restore the folder, or index its new location.",
            details={"path": self.path},
        ) from cause

    def _enter(self, uri: str, folders: Sequence[str]) -> Handle:
        """Open the folder at the end of a chain of names."""
        here = self._top()
        for name in folders:
            try:
                inner = open_child(here, name)
            except OSError as error:
                self._refuse(uri, error, here, name)
                raise
            finally:
                close_folder(here)
            here = inner
        return here

    def _open_file(self, uri: str, parts: Sequence[str]) -> int:
        folder = self._enter(uri, parts[:-1])
        name = parts[-1]
        try:
            if isinstance(folder, int):
                return os.open(name, _FILE_FLAGS, dir_fd=folder)
            return self._open_by_path(uri, os.path.join(folder, name))
        except OSError as error:
            self._refuse(uri, error, folder, name)
            raise
        finally:
            close_folder(folder)

    def _open_by_path(self, uri: str, path: str) -> int:
        """Open a file, then compare its real path, which no later change of the path can alter."""
        self._check(uri, os.lstat(path))
        file = os.open(path, _FILE_FLAGS)
        try:
            if os.path.normcase(_real_path(file)) == os.path.normcase(path):
                return file
        except OSError:
            os.close(file)
            raise
        os.close(file)
        raise Refused(uri, "symlink", "its path leads through a link or another spelling")

    def _read_once(
        self, uri: str, parts: Sequence[str], limit: int
    ) -> tuple[bytes, Fingerprint] | None:
        """Return the content, or None if it changed while it was read."""
        file = self._open_file(uri, parts)
        try:
            before = os.fstat(file)
            self._check(uri, before)
            size = before.st_size
            if size > limit:
                raise Refused(uri, "too_large", f"{size} bytes, limit {limit}")
            # One byte more than expected shows that the file grew.
            data = os.read(file, size + 1)
            while len(data) < size and (more := os.read(file, size + 1 - len(data))):
                data += more
            after = os.fstat(file)
        finally:
            os.close(file)
        fingerprint = make_fingerprint(before)
        if len(data) != size or make_fingerprint(after) != fingerprint:
            return None
        return data, fingerprint

    def _check(self, uri: str, info: os.stat_result) -> None:
        """Raise unless it is a regular file with one name."""
        if stat.S_ISLNK(info.st_mode):
            raise Refused(uri, "symlink")
        if not stat.S_ISREG(info.st_mode):
            raise Refused(uri, "not_a_file", "a folder, pipe, socket or device")
        if info.st_nlink > 1 and not self.allow_hard_links:
            raise Refused(uri, "hard_link", f"it has {info.st_nlink} hard links")

    def _refuse(self, uri: str, error: OSError, folder: Handle, name: str) -> None:
        """Raise ``Refused`` if a failed open is about the file; return for other system errors."""
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
            # With O_DIRECTORY the system reports a link as "not a directory".
            try:
                linked = stat.S_ISLNK(lstat_in(folder, name).st_mode)
            except OSError:
                linked = False
            if linked or error.errno != errno.ENOTDIR:
                raise Refused(uri, "symlink", f"{name!r} is a link") from error
            raise Refused(uri, "gone", f"{name!r} is not a folder") from error
        if error.errno in _GONE:
            raise Refused(uri, "gone") from error
        if error.errno in _SPECIAL:
            raise Refused(uri, "not_a_file", "a folder, pipe, socket or device") from error
