"""The files of outside sources on this machine: one folder per source, with a record.

    <outside.dir>/<name>-<hash>/
        record.json     what it is, from where, and the hash of all files
        origins.json    where single files come from, such as the address of a page
        files/          the files that are indexed
        incoming/       the next state, while it is fetched
        next.json       written when incoming/ is complete

A new state is fetched into ``incoming`` and then moved file by file. If that is interrupted, the
next process to write or open the source finishes it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields, replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, Final

from lookfar.common.folders import list_folder, walk_folder
from lookfar.errors import InvalidArgument, LookfarError, NotFound
from lookfar.model import OutsideSource, SourceChange
from lookfar.sources.confine import ON_WINDOWS, path_problem
from lookfar.store.ground import files
from lookfar.store.ground.records import pack_record, unpack_record

_RECORD: Final = "record.json"
_ORIGINS: Final = "origins.json"
_NEXT: Final = "next.json"
_LOCK: Final = "writer.lock"
_FIELDS: Final = frozenset(item.name for item in fields(OutsideSource))
_NAME: Final = re.compile(r"[^\s/\x00-\x1f][^\s\x00-\x1f]{0,150}")

Origins = Mapping[str, Mapping[str, Any]]
"""What is known about single files by URI, such as ``url``."""
Stamp = tuple[int, int, int]
"""Time of change, size and inode of a record."""
FileHashes = dict[str, tuple[str, int]]
"""SHA-256 and size of files by URI."""


class Shelf:
    """All outside sources of a user. May be shared by threads and processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._records: dict[Path, tuple[Stamp | None, OutsideSource | None]] = {}
        """What records said, each valid for one stamp: every search asks for them."""

    def list_all(self) -> list[OutsideSource]:
        """Return every source by name; one whose record is damaged is not among them."""
        sources = filter(None, map(self._read, self._places()))
        return sorted(sources, key=lambda source: source.name)

    def get(self, name: str) -> OutsideSource:
        source = self.find(name)
        if source is None:
            raise NotFound(
                f"There is no source {name!r}.",
                hint="To list sources, run: lookfar sources. To add one, run: lookfar add ORIGIN",
                details={"candidates": [source.name for source in self.list_all()]},
            )
        return source

    def find(self, name: str) -> OutsideSource | None:
        return self._read(self.place(name))

    def place(self, name: str) -> Path:
        """Return the folder of a source, which need not exist."""
        slug = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") or "source"
        key = sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:12]
        return self.folder / f"{slug[:60]}-{key}"

    def files_folder(self, source: OutsideSource) -> Path:
        """Return where the files of a source are; a folder elsewhere is not copied."""
        if source.kind == "folder":
            return Path(source.origin)
        return self.place(source.name) / "files"

    def stamp(self, name: str) -> Stamp | None:
        """Return a value that changes whenever the record is written; None without a record."""
        return _stamp_record(self.place(name))

    def origins(self, name: str) -> Origins:
        try:
            return unpack_record((self.place(name) / _ORIGINS).read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}

    def _read(self, place: Path) -> OutsideSource | None:
        stamp = _stamp_record(place)
        known = self._records.get(place)
        if known is None or known[0] != stamp:
            known = self._records[place] = stamp, _read_record(place)
        return known[1]

    def _places(self) -> list[Path]:
        return [place for place in list_folder(self.folder) if (place / _RECORD).exists()]

    def list_places(self) -> list[Path]:
        """Return the folders of all sources, also of those whose first fetch was interrupted."""
        return [place for place in list_folder(self.folder) if (place / _LOCK).is_file()]

    # -- writing -----------------------------------------------------------------

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Lock a source against other writers; yield the folder for its next state."""
        check_name(name)
        place = self.place(name)
        files.make_folder(place)
        lock = files.WriterLock(place / _LOCK)
        message = f"{name} is being fetched by another process."
        lock.acquire(0.0, message, "Try again when it has finished.")
        try:
            _finish(place)
            yield place / "incoming"
        finally:
            is_empty = {path.name for path in list_folder(place)} <= {_LOCK}
            if is_empty and not ON_WINDOWS:  # Windows cannot remove an open file.
                files.remove(place / _LOCK)
            lock.release()
            if is_empty:
                _remove_empty(place)

    def write(self, source: OutsideSource) -> None:
        """Write the record alone; the caller holds :meth:`writing`."""
        files.write_atomic(self.place(source.name) / _RECORD, pack_record(_as_record(source)))

    def take_over(self, source: OutsideSource, origins: Origins | None = None) -> SourceChange:
        """Replace the files of a source with those in ``incoming``.

        The caller holds :meth:`writing`. Returns the source as it was recorded, and which files
        differ from before.
        """
        place = self.place(source.name)
        before, after = hash_files(place / "files"), hash_files(place / "incoming")
        size = sum(size for _, size in after.values())
        source = replace(source, files=len(after), bytes=size, digest=compute_digest(after))
        upcoming = {"record": _as_record(source), "origins": dict(origins or {}), "files": after}
        files.write_atomic(place / _NEXT, pack_record(upcoming))
        _finish(place)
        both = after.keys() & before.keys()
        return SourceChange(
            source,
            added=tuple(sorted(after.keys() - before.keys())),
            changed=tuple(sorted(uri for uri in both if after[uri] != before[uri])),
            removed=tuple(sorted(before.keys() - after.keys())),
        )

    def finish(self, name: str) -> None:
        """Complete a change that was interrupted after everything had been fetched."""
        if (self.place(name) / _NEXT).exists():
            with self.writing(name):
                pass

    def remove(self, name: str) -> None:
        """Delete the files and the record of a source; a folder elsewhere is not touched."""
        self.get(name)
        with self.writing(name):
            self.discard(name)

    def discard(self, name: str) -> None:
        """Delete everything that is stored of a source; the caller holds :meth:`writing`."""
        place = self.place(name)
        files.remove(place / _RECORD)  # First: without it, what is left is not a source.
        for path in list_folder(place):
            if path.name != _LOCK:
                files.remove(path)


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{name!r} cannot name a source.",
            hint="Use at most 150 characters without spaces, like flask-docs.",
        )


def write_incoming(incoming: Path, uri: str, data: bytes) -> None:
    """Write one file of the next state; the path of ``uri`` must stay inside the folder."""
    if problem := path_problem(uri):
        raise InvalidArgument(
            f"{uri[:200]!r} cannot be stored: {problem}.", hint="Leave this file out."
        )
    files.write_fetched(incoming / uri, data)


def hash_files(folder: Path) -> FileHashes:
    """Return the hash and the size of every file below a folder; empty without one."""
    hashes: FileHashes = {}
    if not folder.is_dir():
        return hashes
    for entry in walk_folder(folder):
        if entry.is_file(follow_symlinks=False):
            data = Path(entry.path).read_bytes()
            uri = os.path.relpath(entry.path, folder).replace(os.sep, "/")
            hashes[uri] = sha256(data).hexdigest(), len(data)
    return hashes


def compute_digest(hashes: FileHashes) -> str:
    """Return one hash over the names and contents of all files."""
    total = sha256()
    for uri in sorted(hashes):
        total.update(f"{uri}\0{hashes[uri][0]}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def _finish(place: Path) -> None:
    """Move the files of a complete next state into place. Repeatable after an interruption."""
    try:
        upcoming = unpack_record((place / _NEXT).read_bytes())
    except FileNotFoundError:
        return
    except (OSError, ValueError, RecursionError):
        files.remove(place / _NEXT)  # A power failure cut it; the state before is whole.
        return
    expected = {uri: (sha, size) for uri, (sha, size) in upcoming["files"].items()}
    staged, current = hash_files(place / "incoming"), hash_files(place / "files")
    if any({**current, **staged}.get(uri) != expected[uri] for uri in expected):
        # A power failure lost bytes that were fetched: they are fetched again by an update.
        files.remove(place / "incoming")
        files.remove(place / _NEXT)
        return
    gone = sorted(current.keys() - expected.keys())
    # On a disk that ignores case, Guide.md is the new guide.md once that has been moved.
    folded = {uri.casefold() for uri in expected}
    for uri in gone:
        if uri.casefold() in folded:
            files.remove(place / "files" / uri)
    for uri in sorted(staged.keys() & expected.keys()):
        _make_room(place / "files", uri)
        files.move(place / "incoming" / uri, place / "files" / uri)
    for uri in gone:
        if (place / "files" / uri).is_file() and uri.casefold() not in folded:
            files.remove(place / "files" / uri)
    files.make_folder(place / "files")
    files.write_atomic(place / _ORIGINS, pack_record(upcoming["origins"]))
    files.write_atomic(place / _RECORD, pack_record(upcoming["record"]))
    files.remove(place / "incoming")
    files.remove(place / _NEXT)


def _make_room(folder: Path, uri: str) -> None:
    """Remove a file where ``uri`` needs a folder, or a folder where it needs a file."""
    for parent in PurePosixPath(uri).parents:
        if (folder / parent).is_file():
            files.remove(folder / parent)
    if (folder / uri).is_dir():
        files.remove(folder / uri)


def _remove_empty(place: Path) -> None:
    """Remove the folder of a source that stored nothing, once its lock is released."""
    if ON_WINDOWS:
        with suppress(LookfarError):
            files.remove(place / _LOCK)
    with suppress(OSError):  # Another process has begun to write there.
        place.rmdir()


def _as_record(source: OutsideSource) -> dict[str, Any]:
    return {**asdict(source), "folders": list(source.folders), "options": dict(source.options)}


def _stamp_record(place: Path) -> Stamp | None:
    try:
        info = (place / _RECORD).stat()
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size, info.st_ino


def _read_record(place: Path) -> OutsideSource | None:
    try:
        record = unpack_record((place / _RECORD).read_bytes())
        known = {key: value for key, value in record.items() if key in _FIELDS}
        return OutsideSource(**{**known, "folders": tuple(known.get("folders", ()))})
    except (OSError, ValueError, TypeError, RecursionError):
        return None
