"""The one door through which user files are read: nothing outside a root comes in.

Takes: the folder to serve, and URIs relative to it. Gives: bytes with the
fingerprint of exactly those bytes. Refuses: URIs that are absolute or climb
(``OutsideRoot``), and with ``Refused`` every link, special file, oversized or
vanished file.

Each component is opened relative to the one before it and without following
links, so a folder swapped for a link between two steps is met as a link and
not followed. No directory descriptor outlives a call: a cached one would go on
reading a folder that has since been moved out of the root. That costs about
15 µs per file. A second name of a file (a hard link) may lie outside the root and
cannot be told from the first, so files with several names are refused unless
the caller allows them.

Where the system cannot open relative to a descriptor (Windows), every component
is examined first, and after the open the system is asked where the file lies.
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
from lookfar.sources.fingerprints import fingerprint_of

Handle = int | str
"""An open folder: a descriptor, or its path where descriptors cannot be opened from."""

ON_WINDOWS: Final = os.name == "nt"

_ATTEMPTS: Final = 3
_MAX_URI_BYTES: Final = 4096
_CLOSED_ON_EXEC: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_FOLDER_FLAGS: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _CLOSED_ON_EXEC
# O_NONBLOCK: opening a FIFO must not wait for its writer. O_NOCTTY: nor may a terminal adopt us.
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
    """A file inside the root that must not or cannot be read.

    ``reason`` is one of ``gone``, ``symlink``, ``hard_link``, ``not_a_file``,
    ``too_large`` and ``changing``; callers make it the reason of a ``Skipped``
    or the code of a ``Failure``.
    """

    def __init__(self, uri: str, reason: str, detail: str = "") -> None:
        super().__init__(f"{uri}: {reason}" + (f" ({detail})" if detail else ""))
        self.uri = uri
        self.reason = reason
        self.detail = detail


def refused_as_path(uri: str) -> str:
    """Why a text is not a relative POSIX path that can be opened; empty where it is one."""
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
    """The parts of a relative POSIX path; ``OutsideRoot`` for anything that is not one."""
    if refused_as_path(uri):
        raise OutsideRoot(
            f"{uri[:200]!r} is not a path inside the folder.",
            hint="Give a path relative to the folder, like docs/guide.md, without '..'.",
        )
    return uri.split("/")


def open_child(parent: Handle, name: str) -> Handle:
    """Open a folder by its name in an open folder, never through a link."""
    if isinstance(parent, int):
        return os.open(name, _FOLDER_FLAGS, dir_fd=parent)
    path = os.path.join(parent, name)
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    if not _free_of_links(path):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return path


def close_folder(folder: Handle) -> None:
    """Give back what ``open_child`` or ``Root.open_folder`` gave."""
    if isinstance(folder, int):
        os.close(folder)


def lstat_in(folder: Handle, name: str) -> os.stat_result:
    """Stat an entry of an open folder without following it."""
    if isinstance(folder, int):
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    return os.lstat(os.path.join(folder, name))


def read_in(folder: Handle, name: str, uri: str, limit: int) -> bytes:
    """The bytes of a regular file of an open folder; ``Refused`` under its ``uri`` for all else.

    Unlike ``Root.read``, it allows further names of the file, and ``FileNotFoundError`` says that
    there is none.
    """
    try:
        if isinstance(folder, int):
            file = os.open(name, _FILE_FLAGS, dir_fd=folder)
        else:
            path = os.path.join(folder, name)
            if not stat.S_ISREG(os.lstat(path).st_mode) or not _free_of_links(path):
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


def _free_of_links(path: str) -> bool:
    try:
        return os.path.realpath(path) == path
    except OSError:  # a link was swapped away while it was resolved
        return False


def _place_of(file: int) -> str:
    """The real path of an open file, from the system and not from how it was opened."""
    if sys.platform == "win32":
        import ctypes
        import msvcrt

        room = ctypes.create_unicode_buffer(1 << 15)
        handle = ctypes.c_void_p(msvcrt.get_osfhandle(file))
        if not ctypes.windll.kernel32.GetFinalPathNameByHandleW(handle, room, len(room), 0):
            raise ctypes.WinError()
        share = "\\\\?\\UNC\\"
        if room.value.startswith(share):
            return "\\\\" + room.value[len(share) :]
        return room.value.removeprefix("\\\\?\\")
    else:
        return os.readlink(f"/proc/self/fd/{file}")


class Root:
    """A folder that may be read. Holds no descriptor: safe to share, pickle and forget."""

    __slots__ = ("_identity", "allow_hard_links", "path")

    by_descriptor: ClassVar[bool] = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")

    def __init__(self, path: str, identity: tuple[int, int], allow_hard_links: bool) -> None:
        self.path = path
        """The real path, without links, as it was when the root was opened."""
        self.allow_hard_links = allow_hard_links
        self._identity = identity

    def __repr__(self) -> str:
        return f"Root({self.path!r})"

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, allow_hard_links: bool = False) -> Root:
        """Resolve the folder once. Links on the way *to* it are the user's own business."""
        shown = os.fspath(path)
        try:
            real = os.path.realpath(shown, strict=True)
            info = os.stat(real)
        except (FileNotFoundError, NotADirectoryError, ValueError) as error:
            raise RootNotFound(
                f"The folder {shown!r} does not exist.",
                hint="Check the spelling; a folder is never created for you.",
            ) from error
        except OSError as error:
            raise from_os_error(error, f"opening the folder {shown!r}") from error
        if not stat.S_ISDIR(info.st_mode):
            raise InvalidArgument(
                f"{shown!r} is not a folder.",
                hint=f"Give the folder it lies in: {os.path.dirname(real)}",
            )
        return cls(real, (info.st_dev, info.st_ino), allow_hard_links)

    @classmethod
    def absent(cls, path: str | os.PathLike[str]) -> Root:
        """A folder that lies on another machine, by the name that it has there: nothing is read."""
        return cls(os.path.abspath(path), (0, 0), False)

    def read(self, uri: str, limit: int) -> tuple[bytes, Fingerprint]:
        """All bytes of a file of at most ``limit`` bytes, and the fingerprint they go with."""
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
        """The fingerprint of a file that ``read`` would open, or None when there is none.

        A link, a folder or a special file in its place counts as none.
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
        return fingerprint_of(info)

    def contains(self, uri: str) -> bool:
        """True when ``uri`` names a readable kind of file inside the root."""
        try:
            return self.stat(uri) is not None
        except OutsideRoot:
            return False

    def uri_of(self, path: str | os.PathLike[str]) -> str:
        """The URI of an absolute path below the root, by its spelling; ``OutsideRoot`` if none."""
        below = os.path.relpath(os.fspath(path), self.path) if os.path.isabs(path) else ".."
        uri = below.replace(os.sep, "/")
        components(uri)
        return uri

    def open_folder(self, uri: str = "") -> Handle:
        """Open a folder inside the root for listing; the caller closes it."""
        return self._enter(uri, components(uri) if uri else [])

    def _top(self) -> Handle:
        """The root itself, opened anew and recognised.

        The path was free of links once. A checkout may since have put a link in
        it, so a folder that is not the one we know is accepted only if the
        path is still free of links (the folder was deleted and made again).
        """
        try:
            if not self.by_descriptor:
                os.lstat(self.path)
                return self.path if _free_of_links(self.path) else self._lost()
            top = os.open(self.path, _FOLDER_FLAGS)
        except OSError as error:
            if error.errno in (*_GONE, errno.ENOTDIR, errno.ELOOP):
                self._lost(error)
            raise
        info = os.fstat(top)
        identity = (info.st_dev, info.st_ino)
        if identity != self._identity:
            if not _free_of_links(self.path):
                os.close(top)
                self._lost()
            self._identity = identity
        return top

    def _lost(self, cause: OSError | None = None) -> str:
        raise RootNotFound(
            f"The folder {self.path!r} is gone or has become a link.",
            hint="Put the folder back, or index its new place.",
            details={"path": self.path},
        ) from cause

    def _enter(self, uri: str, folders: Sequence[str]) -> Handle:
        """The open folder at the end of a chain of names."""
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
        """Open, then ask the system where the open file lies: no swap can change that answer."""
        self._check(uri, os.lstat(path))
        file = os.open(path, _FILE_FLAGS)
        try:
            if os.path.normcase(_place_of(file)) == os.path.normcase(path):
                return file
        except OSError:
            os.close(file)
            raise
        os.close(file)
        raise Refused(uri, "symlink", "its path leads through a link or another spelling")

    def _read_once(
        self, uri: str, parts: Sequence[str], limit: int
    ) -> tuple[bytes, Fingerprint] | None:
        """The content, or None when it changed under the reading."""
        file = self._open_file(uri, parts)
        try:
            before = os.fstat(file)
            self._check(uri, before)
            size = before.st_size
            if size > limit:
                raise Refused(uri, "too_large", f"{size} bytes, limit {limit}")
            # One byte more than expected: a file that grew shows it at once.
            data = os.read(file, size + 1)
            while len(data) < size and (more := os.read(file, size + 1 - len(data))):
                data += more
            after = os.fstat(file)
        finally:
            os.close(file)
        fingerprint = fingerprint_of(before)
        if len(data) != size or fingerprint_of(after) != fingerprint:
            return None
        return data, fingerprint

    def _check(self, uri: str, info: os.stat_result) -> None:
        """Refuse what is not a plain file with one name."""
        if stat.S_ISLNK(info.st_mode):
            raise Refused(uri, "symlink")
        if not stat.S_ISREG(info.st_mode):
            raise Refused(uri, "not_a_file", "a folder, pipe, socket or device")
        if info.st_nlink > 1 and not self.allow_hard_links:
            raise Refused(uri, "hard_link", f"{info.st_nlink} names lead to it")

    def _refuse(self, uri: str, error: OSError, folder: Handle, name: str) -> None:
        """Raise what a failed open says about the file; return if the system is to blame."""
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
            # Where a directory was asked for, the system reports a link as "not a directory".
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
