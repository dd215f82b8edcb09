"""The second copy of inserted documents: a log of frames beside the catalogue.

Takes: documents as a write session stores them, and the names of those that are erased. Gives:
every document back whose frame is intact, whatever happened to the catalogue. Refuses: to count a
frame that differs from its hash; the ones before and behind it stay readable.

A frame is on the disk before the catalogue names it, so the log may run ahead of the catalogue and
never behind. ``meta`` records where the log ended with the last commit; the next writer cuts off
what lies behind. Erased documents leave a frame that says so, and once their traces are removed
the log is written again without them. While it is replaced, the catalogue does not vouch for a log:
a death in between must not make a sound database look damaged.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from lookfar.store.catalogue import generations
from lookfar.store.catalogue import rows as catalog
from lookfar.store.ground import files
from lookfar.store.ground.sql import Connection

if TYPE_CHECKING:
    from lookfar.ports import Version

JOURNAL = "documents.log"
"""In the folder of an epoch whose documents have no other home."""
_END, _LAST, _OF = "journal_end", "journal_last", "journal_of"
"""Keys in ``meta``: where the log ended, where its last frame began, and with which generation."""
_MAGIC = b"\x93Lfd"
_HEAD = struct.Struct(">4sII16s")
_BUFFERED = 1 << 20
_NEW = ".new"


class Entry(NamedTuple):
    """One intact frame."""

    start: int
    end: int
    uri: str
    metadata: str
    text_sha: bytes
    body: bytes
    """The compressed text; empty where the document was erased."""


def _packed(uri: str, generation: int, metadata: str, text_sha: bytes, body: bytes) -> bytes:
    told = json.dumps([uri, generation, metadata, text_sha.hex()], ensure_ascii=False).encode()
    return _HEAD.pack(_MAGIC, len(told), len(body), _hash(told, body)) + told + body


def _hash(told: bytes, body: bytes) -> bytes:
    hashed = blake2b(len(told).to_bytes(4, "big"), digest_size=16)
    hashed.update(told)
    hashed.update(body)
    return hashed.digest()


# -- writing -------------------------------------------------------------------


class JournalWriter:
    """Appends the frames of one write session; they count once the catalogue has committed."""

    def __init__(
        self, path: Path, connection: Connection, generation: int, *, served: bool
    ) -> None:
        """``connection`` is in the session's transaction. Where the epoch has ``served`` and its
        log is not that of the serving generation (it is absent, cut, or an older program wrote
        documents without it), it is written anew from the catalogue."""
        self._path = path
        self._generation = generation
        self._buffer: list[bytes] = []
        self._size = 0
        self._end = catalog.read_number(connection, _END)
        self._last = catalog.read_number(connection, _LAST)
        self._flushed = False
        if served and not self._continues(connection):
            self._last, self._end = rewrite(path, connection)
            files.sync_folder(path.parent)

    def _continues(self, connection: Connection) -> bool:
        if catalog.read_number(connection, _OF) != generations.active(connection):
            return False
        try:
            with self._path.open("rb") as file:
                found = _frame(file, self._last) if self._end else None
        except OSError:
            return False
        return not self._end or (found is not None and found.end == self._end)

    def put(self, version: Version) -> None:
        self._add(
            _packed(version.uri, self._generation, version.metadata, version.text_sha, version.text)
        )

    def erase(self, uri: str) -> None:
        self._add(_packed(uri, self._generation, "", b"", b""))

    def _add(self, frame: bytes) -> None:
        self._buffer.append(frame)
        self._size += len(frame)
        if self._size >= _BUFFERED:
            self._flush()

    def _flush(self) -> None:
        if not self._buffer:
            return
        # Frames of a session that died would look like frames of this one.
        files.append(self._path, self._end, b"".join(self._buffer), last=not self._flushed)
        self._flushed = True
        self._last = self._end + self._size - len(self._buffer[-1])
        self._end += self._size
        self._buffer.clear()
        self._size = 0

    def sync(self) -> None:
        """Do not return before every frame is on the disk."""
        self._flush()
        if self._flushed:
            files.sync(self._path)

    def record(self, connection: Connection) -> None:
        """Say in the session's transaction where the log ends."""
        _record(connection, self._last, self._end, self._generation)


def _record(connection: Connection, last: int, end: int, generation: int) -> None:
    for key, value in ((_LAST, last), (_END, end), (_OF, generation)):
        catalog.record(connection, key, value)


def create(path: Path) -> None:
    """An empty log. Its name is safe once the folder is synced, before anything counts in it."""
    files.append(path, 0, b"")


def rewrite(path: Path, connection: Connection) -> tuple[int, int]:
    """Write the log anew from the live rows of the catalogue, each checked against its hash;
    gives where its last frame begins and where it ends. The caller syncs the folder before it
    commits."""
    number = generations.active(connection)
    rows = connection.execute(
        "SELECT d.uri, d.metadata, d.text_sha, t.body FROM documents d"
        f" LEFT JOIN texts t ON t.sha = d.text_sha WHERE {catalog.ALIVE} ORDER BY d.id",
        {"g": number},
    )
    new = path.with_name(path.name + _NEW)
    files.remove(new)
    create(new)
    last = end = 0
    for frames in _together(_checked(connection, rows, number)):
        files.append(new, end, b"".join(frames))
        last, end = end + sum(map(len, frames[:-1])), end + sum(map(len, frames))
    files.sync(new)
    files.rename(new, path, sync=False)
    return last, end


def renew(path: Path, connection: Connection) -> None:
    """The same, and record it in the caller's transaction."""
    last, end = rewrite(path, connection)
    _record(connection, last, end, generations.active(connection))


def disown(connection: Connection) -> None:
    """Say in the caller's transaction that the log is about to be replaced: until another is
    recorded, the catalogue does not claim to know where it ends."""
    connection.execute("DELETE FROM meta WHERE key = ?", (_OF,))


def _checked(connection: Connection, rows: Iterable[tuple], number: int) -> Iterator[bytes]:  # type: ignore[type-arg]
    for uri, metadata, text_sha, body in rows:
        catalog.decode_text(connection, text_sha, body)
        yield _packed(uri, number, metadata, text_sha, body)


def _together(frames: Iterable[bytes]) -> Iterator[list[bytes]]:
    some: list[bytes] = []
    size = 0
    for frame in frames:
        some.append(frame)
        size += len(frame)
        if size >= _BUFFERED:
            yield some
            some, size = [], 0
    if some:
        yield some


# -- reading -------------------------------------------------------------------


class Log:
    """The frames of a log by document, without their texts."""

    def __init__(self, path: Path, end: int | None = None) -> None:
        """Only frames before ``end`` count, where that is known."""
        self.path = path
        self.gaps: list[tuple[int, int]] = []
        """The bytes that belong to no intact frame."""
        self._places: dict[str, int] = {}
        self.erased: set[str] = set()
        """The documents whose last frame says that they were erased."""
        try:
            with path.open("rb") as file:
                self._scan(file, end)
        except FileNotFoundError:
            if end:
                self.gaps = [(0, end)]

    def _scan(self, file: BinaryIO, end: int | None) -> None:
        size = file.seek(0, 2)
        stop = size if end is None else min(end, size)
        at = 0
        while at < stop:
            entry = _frame(file, at)
            if entry is None or entry.end > stop:
                begin, at = at, _next_magic(file, at + 1, stop)
                self._note_gap(begin, at)
                continue
            at = entry.end
            if entry.body:
                self._places[entry.uri] = entry.start
                self.erased.discard(entry.uri)
            else:
                self._places.pop(entry.uri, None)
                self.erased.add(entry.uri)
        if end is not None and size < end:
            self._note_gap(size, end)

    def _note_gap(self, start: int, stop: int) -> None:
        if self.gaps and self.gaps[-1][1] == start:
            start = self.gaps.pop()[0]
        self.gaps.append((start, stop))

    @property
    def uris(self) -> Iterable[str]:
        return self._places.keys()

    def entry(self, uri: str) -> Entry | None:
        """The last frame of a document; ``None`` where it has none that is intact."""
        at = self._places.get(uri)
        if at is None:
            return None
        with self.path.open("rb") as file:
            return _frame(file, at)


def recorded_end(connection: Connection) -> int | None:
    """Where the log ended with the last commit; ``None`` where the catalogue does not keep one
    of its serving generation."""
    if catalog.read_number(connection, _OF) != generations.active(connection):
        return None
    return catalog.read_number(connection, _END)


def journal_damage(path: Path, connection: Connection) -> list[str]:
    """What the log lacks of what the catalogue has; nothing where none was kept yet."""
    end = recorded_end(connection)
    if end is None:
        return []
    log = Log(path, end)
    problems = [f"{path.name}: bytes {start}-{stop} differ" for start, stop in log.gaps[:20]]
    rows = connection.execute(
        f"SELECT d.uri, d.metadata, d.text_sha FROM documents d WHERE {catalog.ALIVE}",
        {"g": generations.active(connection)},
    )
    missing = sum(1 for uri, metadata, sha in rows if not _same(log.entry(uri), metadata, sha))
    if missing:
        problems.append(f"{path.name}: {missing:,} documents have no frame")
    return problems


def _same(entry: Entry | None, metadata: str, text_sha: bytes) -> bool:
    return entry is not None and (entry.metadata, entry.text_sha) == (metadata, text_sha)


def _frame(file: BinaryIO, at: int) -> Entry | None:
    """The frame that begins at an offset, if it is intact."""
    file.seek(at)
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size or not head.startswith(_MAGIC):
        return None
    _, told_size, body_size, digest = _HEAD.unpack(head)
    rest = file.seek(0, 2) - at - _HEAD.size
    if told_size + body_size > rest:
        return None
    file.seek(at + _HEAD.size)
    told, body = file.read(told_size), file.read(body_size)
    if _hash(told, body) != digest:
        return None
    uri, _, metadata, sha = json.loads(told)
    end = at + _HEAD.size + told_size + body_size
    return Entry(at, end, uri, metadata, bytes.fromhex(sha), body)


def _next_magic(file: BinaryIO, at: int, stop: int) -> int:
    """Where a frame may begin again."""
    while at < stop:
        file.seek(at)
        data = file.read(min(_BUFFERED, stop - at))
        found = data.find(_MAGIC)
        if found >= 0:
            return at + found
        if len(data) < _BUFFERED:
            return stop
        at += len(data) - len(_MAGIC) + 1
    return stop
