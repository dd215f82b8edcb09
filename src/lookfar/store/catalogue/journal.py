"""A second copy of inserted documents: a log of frames next to the catalogue.

Every document with an intact frame can be recovered, even if the catalogue is lost. A frame is on
disk before the catalogue refers to it. ``meta`` records where the log ended at the last commit, or
nothing while the log is being replaced.

After each commit a mark is appended, and a log that is rewritten begins with one. A mark of a
commit that the catalogue does not know proves that the catalogue is older: SQLite lost that commit,
or the file was replaced by an earlier copy. The log has every document then. Only what follows the
last commit of both is truncated, by the next writer.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, suppress
from hashlib import blake2b
from pathlib import Path
from sqlite3 import Connection
from typing import BinaryIO, NamedTuple

from lookfar.errors import LookfarError
from lookfar.ports import Version
from lookfar.store.catalogue import generations
from lookfar.store.catalogue import rows as catalog
from lookfar.store.ground import files
from lookfar.store.ground.database import connect

JOURNAL = "documents.log"
"""The file in the folder of an epoch that is the only copy of its documents."""
_END, _LAST, _OF = "journal_end", "journal_last", "journal_of"
"""Keys in ``meta``: the end of the log, the start of its last frame, and its generation."""
_MAGIC = b"\x93Lfd"
_HEAD = struct.Struct(">4sII16s")
_MARK = ""
"""The URI of a frame that marks a commit."""
_BUFFERED = 1 << 20
_NEAR_END = 1 << 12
_NEW = ".new"


class Entry(NamedTuple):
    """One intact frame."""

    start: int
    end: int
    uri: str
    metadata: str
    text_sha: bytes
    body: bytes
    """The compressed text; empty if the document was erased."""
    generation: int


def _pack_frame(uri: str, generation: int, metadata: str, text_sha: bytes, body: bytes) -> bytes:
    fields = json.dumps([uri, generation, metadata, text_sha.hex()], ensure_ascii=False).encode()
    return _HEAD.pack(_MAGIC, len(fields), len(body), _hash(fields, body)) + fields + body


def _pack_mark(generation: int) -> bytes:
    return _pack_frame(_MARK, generation, "", b"", b"")


def _hash(fields: bytes, body: bytes) -> bytes:
    hashed = blake2b(len(fields).to_bytes(4, "big"), digest_size=16)
    hashed.update(fields)
    hashed.update(body)
    return hashed.digest()


# --- writing --------------------------------------------------------------------------------------


class JournalWriter:
    """Append the frames of one write session; they count once the catalogue commits."""

    def __init__(
        self, path: Path, connection: Connection, generation: int, *, served: bool
    ) -> None:
        """``connection`` is in the session's transaction.

        If the epoch has ``served`` and its log does not belong to the serving generation (it is
        missing or truncated, or an older program wrote without it), it is rewritten from the
        catalogue.
        """
        self._path = path
        self._generation = generation
        self._buffer: list[bytes] = []
        self._size = 0
        self._end = catalog.read_number(connection, _END)
        self._last = catalog.read_number(connection, _LAST)
        self._flushed = False
        if served and not _has_prefix(path, connection):
            self._last, self._end = rewrite(path, connection)
            files.sync_folder(path.parent)

    def put(self, version: Version) -> None:
        self._add(
            _pack_frame(
                version.uri, self._generation, version.metadata, version.text_sha, version.text
            )
        )

    def erase(self, uri: str) -> None:
        self._add(_pack_frame(uri, self._generation, "", b"", b""))

    def _add(self, frame: bytes) -> None:
        self._buffer.append(frame)
        self._size += len(frame)
        if self._size >= _BUFFERED:
            self._flush()

    def _flush(self) -> None:
        if not self._buffer:
            return
        # Truncate first: frames of an interrupted session would look like frames of this one.
        files.append(self._path, self._end, b"".join(self._buffer), last=not self._flushed)
        self._flushed = True
        self._last = self._end + self._size - len(self._buffer[-1])
        self._end += self._size
        self._buffer.clear()
        self._size = 0

    def sync(self) -> None:
        """Wait until every frame is on disk."""
        self._flush()
        if self._flushed:
            files.sync(self._path)

    def record(self, connection: Connection) -> None:
        """Record the end of the log in the session's transaction."""
        _record(connection, self._last, self._end, self._generation)

    def mark_committed(self) -> None:
        """Append the mark of a commit.

        An error is ignored: the commit is durable already, and the mark only helps to detect
        damage.
        """
        with suppress(LookfarError):
            files.append(self._path, self._end, _pack_mark(self._generation), last=True)


def _record(connection: Connection, last: int, end: int, generation: int) -> None:
    for key, value in ((_LAST, last), (_END, end), (_OF, generation)):
        catalog.record(connection, key, value)


def create(path: Path) -> None:
    """Create an empty log; its name is durable once the caller syncs the folder."""
    files.append(path, 0, b"")


def rewrite(path: Path, connection: Connection) -> tuple[int, int]:
    """Rewrite the log from the live rows of the catalogue, each checked against its hash.

    Return where the last frame begins and where it ends. The caller syncs the folder before it
    commits.
    """
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
    for frames in _batch_frames(_make_frames(connection, rows, number)):
        files.append(new, end, b"".join(frames))
        last, end = end + sum(map(len, frames[:-1])), end + sum(map(len, frames))
    files.sync(new)
    files.rename(new, path, sync=False)
    return last, end


def renew(path: Path, connection: Connection) -> None:
    """Rewrite the log and record its end in the caller's transaction."""
    last, end = rewrite(path, connection)
    _record(connection, last, end, generations.active(connection))


def disown(connection: Connection) -> None:
    """Record in the caller's transaction that the log is being replaced and its end is unknown."""
    connection.execute("DELETE FROM meta WHERE key = ?", (_OF,))


def _make_frames(connection: Connection, rows: Iterable[tuple], number: int) -> Iterator[bytes]:  # type: ignore[type-arg]
    yield _pack_mark(number)
    for uri, metadata, text_sha, body in rows:
        catalog.decode_text(connection, text_sha, body)
        yield _pack_frame(uri, number, metadata, text_sha, body)


def _batch_frames(frames: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for frame in frames:
        batch.append(frame)
        size += len(frame)
        if size >= _BUFFERED:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


# --- reading --------------------------------------------------------------------------------------


class Log:
    """The frames of a log by document, without their texts."""

    def __init__(
        self, path: Path, end: int | None = None, *, start: int = 0, rewritten: bool = False
    ) -> None:
        """Read from ``start`` on; frames after ``end`` are ignored, if it is known.

        The first frame of a log that was ``rewritten`` proves that its generation was committed.
        """
        self.path = path
        self.gaps: list[tuple[int, int]] = []
        """Ranges of bytes that are not part of an intact frame."""
        self.marked = False
        """Whether it has a mark: the log of an epoch that never served has none."""
        self.committed = 0
        """The newest generation that a frame proves to be committed."""
        self.committed_end = start
        """Where the frames of that generation end."""
        self._first_counts = rewritten
        self._places: dict[str, int] = {}
        self.erased: set[str] = set()
        """The documents whose last frame says that they were erased."""
        try:
            with path.open("rb") as file:
                self._scan(file, end, start)
        except OSError:
            if end:
                self.gaps = [(0, end)]

    def _scan(self, file: BinaryIO, end: int | None, at: int) -> None:
        size = file.seek(0, 2)
        stop = size if end is None else min(end, size)
        while at < stop:
            entry = _read_frame(file, at)
            if entry is None or entry.end > stop:
                begin, at = at, _next_magic(file, at + 1, stop)
                self._note_gap(begin, at)
                continue
            at = entry.end
            self._note_commit(entry)
            if entry.uri == _MARK:
                continue
            if entry.body:
                self._places[entry.uri] = entry.start
                self.erased.discard(entry.uri)
            else:
                self._places.pop(entry.uri, None)
                self.erased.add(entry.uri)
        if end is not None and size < end:
            self._note_gap(size, end)

    def _note_commit(self, entry: Entry) -> None:
        """Note which commits a frame proves: a session begins after the one before it was
        committed, and ends with a mark."""
        self.marked |= entry.uri == _MARK
        done = entry.uri == _MARK or self._first_counts
        self._first_counts = False
        proved = entry.generation if done else entry.generation - 1
        if proved > self.committed:
            self.committed, self.committed_end = proved, entry.start
        if entry.generation <= self.committed:
            self.committed_end = entry.end

    def _note_gap(self, start: int, stop: int) -> None:
        if self.gaps and self.gaps[-1][1] == start:
            start = self.gaps.pop()[0]
        self.gaps.append((start, stop))

    @property
    def uris(self) -> Collection[str]:
        return self._places.keys()

    def entry(self, uri: str) -> Entry | None:
        """Return the last intact frame of a document, or ``None``."""
        at = self._places.get(uri)
        if at is None:
            return None
        with self.path.open("rb") as file:
            return _read_frame(file, at)


def recorded_end(connection: Connection) -> int | None:
    """Return where the log ended at the last commit.

    Return ``None`` if the catalogue has no log of its serving generation.
    """
    if catalog.read_number(connection, _OF) != generations.active(connection):
        return None
    return catalog.read_number(connection, _END)


def has_served(path: Path) -> bool:
    """Return whether the log has a mark: that of an epoch which never served has none.

    Only its beginning and its end are read.
    """
    near_end = max(0, path.stat().st_size - _NEAR_END) if path.is_file() else 0
    return Log(path, _NEAR_END).marked or Log(path, start=near_end).marked


def _has_prefix(path: Path, connection: Connection) -> bool:
    """Return whether the log begins with all that the catalogue recorded of it."""
    end, generation = recorded_end(connection), catalog.read_number(connection, _OF)
    with suppress(OSError), path.open("rb") as file:
        frame = _read_frame(file, catalog.read_number(connection, _LAST))
        if not end:  # Nothing is recorded, so it may only have the session after that.
            return end == 0 and (frame is None or frame.generation <= generation + 1)
        # Frames are often of equal length; those of another log have another generation.
        return frame is not None and (frame.end, frame.generation) == (end, generation)
    return False


def find_last_commit(path: Path, connection: Connection) -> tuple[int, int]:
    """Return the newest generation that the log proves to be committed, and where it ends.

    If the log begins with what the catalogue recorded, only the rest is read. Otherwise it was
    rewritten, by the commit of its first frame, or it is older than the catalogue.
    """
    same = _has_prefix(path, connection)
    end, known = (catalog.read_number(connection, key) if same else 0 for key in (_END, _OF))
    log = Log(path, start=end, rewritten=not same)
    return max(log.committed, known), log.committed_end


def is_commit_lost(path: Path, catalogue: Path, connection: Connection) -> bool:
    """Return whether the log proves a commit that is missing from the catalogue.

    ``connection`` may see an older state than the log, so a new connection decides.
    """
    committed, _ = find_last_commit(path, connection)
    if committed <= generations.active(connection):
        return False
    with closing(connect(catalogue, write=False)) as latest:
        return generations.active(latest) < committed


def describe_journal_damage(path: Path, connection: Connection) -> list[str]:
    """Describe what the log lacks compared with the catalogue; empty if there is no log yet."""
    end = recorded_end(connection)
    if end is None:
        return []
    log = Log(path, end)
    problems = [f"{path.name}: bytes {start}-{stop} differ" for start, stop in log.gaps[:20]]
    rows = connection.execute(
        f"SELECT d.uri, d.metadata, d.text_sha FROM documents d WHERE {catalog.ALIVE}",
        {"g": generations.active(connection)},
    )
    missing = sum(1 for uri, metadata, sha in rows if not _matches(log.entry(uri), metadata, sha))
    if missing:
        problems.append(f"{path.name}: {missing:,} documents have no frame")
    return problems


def _matches(entry: Entry | None, metadata: str, text_sha: bytes) -> bool:
    return entry is not None and (entry.metadata, entry.text_sha) == (metadata, text_sha)


def _read_frame(file: BinaryIO, at: int) -> Entry | None:
    """Read the frame at an offset; return ``None`` if it is not intact."""
    file.seek(at)
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size or not head.startswith(_MAGIC):
        return None
    _, fields_size, body_size, digest = _HEAD.unpack(head)
    rest = file.seek(0, 2) - at - _HEAD.size
    if fields_size + body_size > rest:
        return None
    file.seek(at + _HEAD.size)
    fields, body = file.read(fields_size), file.read(body_size)
    if _hash(fields, body) != digest:
        return None
    uri, generation, metadata, sha = json.loads(fields)
    end = at + _HEAD.size + fields_size + body_size
    return Entry(at, end, uri, metadata, bytes.fromhex(sha), body, generation)


def _next_magic(file: BinaryIO, at: int, stop: int) -> int:
    """Return the next offset at which a frame may begin."""
    while at < stop:
        file.seek(at)
        data = file.read(min(_BUFFERED, stop - at))
        position = data.find(_MAGIC)
        if position >= 0:
            return at + position
        if len(data) < _BUFFERED:
            return stop
        at += len(data) - len(_MAGIC) + 1
    return stop
