"""Read a git folder without git: references, shallow boundary, configuration and objects.

A repository may come from anywhere, and git follows what it finds there: links, alternates,
``commondir`` and included files can lead it anywhere on the disk, and a pipe can block it. So git
gets only the objects of a git folder, after every entry it might open was found to be a regular
file in a real folder. Links, pipes, sockets, devices, files beyond a size limit, and alternates
that lead to a forbidden path raise ``Refused``.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from lookfar.errors import IOFailed, OutsideRoot, RootNotFound, from_os_error
from lookfar.sources.confine import (
    Handle,
    Refused,
    Root,
    close_folder,
    lstat_in,
    open_child,
    read_in,
)

HASH: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
PLACES: Final = ("refs/heads", "refs/remotes", "refs/tags")
SETTLING_NS: Final = 2 * 10**9
"""Within this time after a change, another change may not alter a folder's timestamps."""

_MOST_LINE: Final = 4096
_MOST_CONFIG: Final = 1 << 20
_MOST_PACKED: Final = 32 << 20
_MOST_SHALLOW: Final = 8 << 20
_MOST_TABLES: Final = 64 << 20
_MOST_ALTERNATES: Final = 1 << 16
_MOST_DATABASES: Final = 32
_MOST_REFERENCES: Final = 200_000
_MOST_OBJECT_FILES: Final = 2_000_000
_DEEPEST: Final = 32
_LONGEST_CHAIN: Final = 5
"""Symbolic references are followed this far, as by git."""

_FAN_OUT: Final = re.compile(r"[0-9a-f]{2}|pack")
_TABLE: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*\.ref")
_SYMBOLIC: Final = "ref: "
_BLOCK: Final = 512

Allowed = Callable[[str], bool]
"""Whether a real path may be read for a repository."""


# --- files of a git folder ----------------------------------------------------------------------


def open_git_folder(path: str) -> Root:
    """Open the folder at a real path; ``Refused`` if the path now contains a link."""
    try:
        root = Root.open(path, allow_hard_links=True)
    except RootNotFound as error:
        raise Refused(path, "gone") from error
    if root.path != path:
        raise Refused(path, "symlink", "its path leads through a link")
    return root


def read_file(folder: Root, name: str, limit: int) -> bytes | None:
    """Return the bytes of a regular file, or None if it does not exist."""
    try:
        return folder.read(name, limit)[0]
    except Refused as refusal:
        if refusal.reason == "gone":
            return None
        raise


def read_line(folder: Root, name: str, limit: int = _MOST_LINE) -> str:
    """Return the first line of a small file; empty if it does not exist."""
    data = read_file(folder, name, limit) or b""
    return data.partition(b"\n")[0].decode("utf-8", "replace").strip()


def peek_line(path: str, name: str) -> str:
    """Like ``read_line`` for a path, but empty for anything unreadable; only for comparing."""
    try:
        return read_line(open_git_folder(path), name)
    except (Refused, IOFailed, OutsideRoot):
        return ""


def read_config(folder: Root) -> str:
    """Return the configuration of a repository and its worktree. It is inspected, never applied."""
    names = ("config", "config.worktree")
    parts = (read_file(folder, name, _MOST_CONFIG) or b"" for name in names)
    return b"\n".join(parts).decode("utf-8", "replace")


def read_shallow(folder: Root) -> tuple[str, ...]:
    """Return the boundary commits of a shallow clone; empty for a full one."""
    data = read_file(folder, "shallow", _MOST_SHALLOW) or b""
    lines = data.decode("ascii", "replace").split("\n")
    return tuple(line for line in lines if HASH.fullmatch(line))


def read_tables(folder: Root) -> dict[str, bytes]:
    """Return the files of a reftable store by name; empty if references are files."""
    data = read_file(folder, "reftable/tables.list", _MOST_ALTERNATES)
    if data is None:
        return {}
    tables = {"tables.list": data}
    size = 0
    for name in filter(_TABLE.fullmatch, data.decode("ascii", "replace").split("\n")):
        table = read_file(folder, f"reftable/{name}", _MOST_TABLES) or b""
        size += len(table)
        if size > _MOST_TABLES:
            raise Refused("reftable", "too_large", f"limit {_MOST_TABLES:,} bytes")
        tables[name] = table
    return tables


# --- references ---------------------------------------------------------------------------------


def read_references(folder: Root) -> list[tuple[str, str]]:
    """Return branches, tags and HEAD, each with the hash of a commit or tag object."""
    values = _read_packed(folder)
    for place in PLACES:
        try:
            handle = folder.open_folder(place)
        except Refused as refusal:
            if refusal.reason == "gone":
                continue
            raise
        _add_loose(handle, place, values)
    resolved = ((name, _resolve(value, values)) for name, value in sorted(values.items()))
    references = [(name, value) for name, value in resolved if value]
    head = _resolve(_read_head(folder), values)
    return [*references, ("HEAD", head)] if head else references


def _read_head(folder: Root) -> str:
    handle = folder.open_folder()
    try:
        return _read_value(handle, "HEAD", "HEAD")
    except FileNotFoundError:
        return ""
    finally:
        close_folder(handle)


def _read_packed(folder: Root) -> dict[str, str]:
    data = read_file(folder, "packed-refs", _MOST_PACKED) or b""
    values: dict[str, str] = {}
    needles = [f" {place}/".encode() for place in PLACES]
    if sum(map(data.count, needles)) > _MOST_REFERENCES:
        raise Refused("packed-refs", "too_many", f"limit {_MOST_REFERENCES:,} references")
    for needle in needles:
        # Most lines of a mirror are other references, so searching is faster than splitting.
        at = data.find(needle)
        while at >= 0:
            start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
            end = len(data) if end < 0 else end
            name = data[at + 1 : end].decode("utf-8", "replace")
            values[name] = data[start:at].decode("ascii", "replace")
            at = data.find(needle, end)
    return values


def _add_loose(handle: Handle, place: str, values: dict[str, str], depth: int = 2) -> None:
    """Add the loose references below an open folder, and close it."""
    try:
        if depth > _DEEPEST:
            raise Refused(_printable(place), "too_deep", f"limit {_DEEPEST} folders")
        with os.scandir(handle) as entries:
            for entry in entries:
                # As in git: these are files being written.
                if entry.name.startswith(".") or entry.name.endswith(".lock"):
                    continue
                name = f"{place}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    _add_loose(open_child(handle, entry.name), name, values, depth + 1)
                    continue
                try:
                    values[_printable(name)] = _read_value(handle, entry.name, name)
                except FileNotFoundError:  # Moved to packed-refs, or deleted.
                    continue
                if len(values) > _MOST_REFERENCES:
                    raise Refused("refs", "too_many", f"limit {_MOST_REFERENCES:,} references")
    except OSError as error:
        raise from_os_error(error, f"reading {_printable(place)!r}") from error
    finally:
        close_folder(handle)


def _read_value(handle: Handle, name: str, path: str) -> str:
    """Return the content of a reference file: a hash, or the name of another reference."""
    if isinstance(handle, int) and stat.S_ISLNK(lstat_in(handle, name).st_mode):
        # The old form of a symbolic reference; git reads only the target of the link.
        target = os.readlink(name, dir_fd=handle)
        if target.startswith("refs/"):
            return _SYMBOLIC + target
        raise Refused(_printable(path), "symlink")
    data = read_in(handle, name, _printable(path), _MOST_LINE)
    return data.partition(b"\n")[0].decode("utf-8", "replace").strip()


def _resolve(value: str, values: dict[str, str]) -> str:
    """Follow symbolic references to a hash; empty if there is none."""
    for _ in range(_LONGEST_CHAIN):
        if not value.startswith(_SYMBOLIC):
            break
        value = values.get(value.removeprefix(_SYMBOLIC).strip(), "")
    return value if HASH.fullmatch(value) else ""


def _printable(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# --- objects ------------------------------------------------------------------------------------


class Objects(NamedTuple):
    """A checked object database that git may read."""

    handle: Handle
    path: str
    disk_bytes: int
    """Size on disk, with its alternates."""


@contextmanager
def open_objects(git_dir: str, allowed: Allowed) -> Iterator[Objects]:
    """Open and check the objects of a git folder, and check again after the block.

    The folder stays open, so a process that uses its descriptor does not see a replacement.
    """
    path = os.path.join(git_dir, "objects")
    try:
        handle = open_git_folder(git_dir).open_folder("objects")
        try:
            yield Objects(handle, path, _check_databases(handle, path, allowed))
            _check_databases(handle, path, allowed)
        finally:
            close_folder(handle)
    except OSError as error:
        raise from_os_error(error, f"reading the objects in {git_dir!r}") from error


def _check_databases(handle: Handle, path: str, allowed: Allowed) -> int:
    """Check a database and its alternates, and return their size."""
    size = _check_database(handle, path)
    seen = {path}
    pending = list(_list_alternates(handle, path, allowed))
    while pending:
        alternate = pending.pop()
        if alternate in seen:
            continue
        seen.add(alternate)
        if len(seen) > _MOST_DATABASES:
            raise Refused("objects/info/alternates", "too_many", f"limit {_MOST_DATABASES}")
        inner = open_git_folder(alternate).open_folder()
        try:
            size += _check_database(inner, alternate)
            pending += _list_alternates(inner, alternate, allowed)
        finally:
            close_folder(inner)
    return size


def _list_alternates(handle: Handle, path: str, allowed: Allowed) -> Iterator[str]:
    """Yield the alternate databases that git would read."""
    name = "objects/info/alternates"
    try:
        info = open_child(handle, "info")
    except FileNotFoundError:
        return
    try:
        data = read_in(info, "alternates", name, _MOST_ALTERNATES)
    except FileNotFoundError:
        return
    finally:
        close_folder(info)
    for line in os.fsdecode(data).split("\n"):
        if not line or line.startswith("#"):
            continue
        target = os.path.normpath(os.path.join(path, line))
        exists = "\0" not in line and os.path.lexists(target)
        if line.startswith('"') or "\0" in line or not allowed(os.path.realpath(target)):
            # Show the line only if it is a path: a hard link may contain any private text.
            detail = f"to {_printable(line)[:200]!r}" if exists else "not to a folder"
            raise Refused(name, "outside", detail)
        if not exists:
            continue  # As in git, which reports missing objects itself.
        yield target


def is_promisor(folder: Root) -> bool:
    """Whether a pack is marked as incomplete, with objects that a remote promises."""
    try:
        handle = folder.open_folder("objects/pack")
    except Refused as refusal:
        if refusal.reason == "gone":
            return False
        raise
    try:
        with os.scandir(handle) as entries:
            return any(entry.name.endswith(".promisor") for entry in entries)
    finally:
        close_folder(handle)


_clean: dict[tuple[int, int], tuple[tuple[int, int], int, int]] = {}
"""Object folders that passed the check, with their timestamps, number of files and bytes.

Adding a file to a folder, or replacing one with a link, changes the folder's timestamps.
"""
_MAX_CLEAN: Final = 20_000


def _check_database(handle: Handle, path: str) -> int:
    """Check every entry that git might open for an object, and return their total size."""
    size = count = 0
    with os.scandir(handle) as entries:
        names = [entry.name for entry in entries if _FAN_OUT.fullmatch(entry.name)]
    for name in (*names, "info", "info/commit-graphs"):
        files, folder_size = _check_folder(handle, name)
        size, count = size + folder_size, count + files
        if count > _MOST_OBJECT_FILES:
            raise Refused(path, "too_many", f"limit {_MOST_OBJECT_FILES:,} files")
    return size


def _check_folder(handle: Handle, name: str) -> tuple[int, int]:
    path = f"objects/{name}"
    above, _, last = name.rpartition("/")
    try:
        outer = open_child(handle, above) if above else handle
    except FileNotFoundError:
        return 0, 0
    try:
        info = lstat_in(outer, last)
        if not stat.S_ISDIR(info.st_mode):
            raise Refused(path, *_name_kind(info.st_mode))
        times = (info.st_mtime_ns, info.st_ctime_ns)
        known = _clean.get((info.st_dev, info.st_ino))
        if known is not None and known[0] == times:
            return known[1], known[2]
        now = time.time_ns()
        inner = open_child(outer, last)
        try:
            same = not isinstance(inner, int) or os.fstat(inner).st_ino == info.st_ino
            files, size = _check_files(inner, path)
        finally:
            close_folder(inner)
    except FileNotFoundError:
        return 0, 0
    finally:
        if above:
            close_folder(outer)
    if same and max(times) + SETTLING_NS <= now:
        if len(_clean) >= _MAX_CLEAN:
            _clean.clear()
        _clean[info.st_dev, info.st_ino] = (times, files, size)
    return files, size


def _check_files(handle: Handle, path: str) -> tuple[int, int]:
    count = size = 0
    with os.scandir(handle) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                continue  # Git opens no objects there, or the folder is checked separately.
            try:
                info = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if not stat.S_ISREG(info.st_mode):
                raise Refused(f"{path}/{_printable(entry.name)}", *_name_kind(info.st_mode))
            count += 1
            size += getattr(info, "st_blocks", -(-info.st_size // _BLOCK)) * _BLOCK
            if count > _MOST_OBJECT_FILES:
                raise Refused(path, "too_many", f"limit {_MOST_OBJECT_FILES:,} files")
    return count, size


def _name_kind(mode: int) -> tuple[str, str]:
    if stat.S_ISLNK(mode):
        return "symlink", ""
    return "not_a_file", "a file" if stat.S_ISREG(mode) else "a folder, pipe, socket or device"
