"""The vectors of the second model: rows that are filled in gradually, in any order.

A vector has the number of the row that the first model's vector of the same chunk has, so a chunk
finds both by one number. Two files in the folder of an epoch belong to one model:

    quality-MODEL.f16     float16 rows, as in :mod:`lookfar.store.vectors.vector_file`
    quality-MODEL.log     which rows are there: number, content name and checksum, append-only

Rows are written and synced before the log names them, and each part of the log has a checksum. A
row counts only if its bytes have the recorded checksum and the catalogue still has the recorded
content for it. So a crash, a damaged file or a catalogue restored from a backup costs time and
never yields a wrong vector. Everything here can be deleted and made again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from lookfar.common.folders import list_folder
from lookfar.errors import LookfarError
from lookfar.store.ground import files
from lookfar.store.vectors.vector_file import VectorFile, checksum

if TYPE_CHECKING:
    from numpy.typing import NDArray

PREFIX = "quality-"
_LOG, _ROWS = ".log", ".f16"
_MAGIC = b"LOOKFARQ1\n"
_HEADER = 256
_PART = struct.Struct("<4sII")
"""The header of a part of the log: a mark, the number of entries, their checksum."""
_MARK = b"part"
_ENTRY = np.dtype([("row", "<u4"), ("state", "<u4"), ("checksum", "<u4"), ("content", "V16")])
_EMBEDDED, _UNREADABLE = 1, 2
"""States of an entry; an unreadable text is one that the model does not understand."""
_LONGEST_MODEL = 180

Encoded = bytes | None
"""A float16 vector; None for a text that the model does not understand."""
ReadContents = Callable[[Sequence[int]], Mapping[int, bytes]]
"""Returns the content names that the catalogue has for these rows."""


class QualityRow(NamedTuple):
    """A vector to store."""

    row: int
    content: bytes
    vector: Encoded


class QualityVectors:
    """The vectors of one model in one epoch. Readers may be shared by threads."""

    def __init__(self, folder: Path, model: str, dimensions: int) -> None:
        key = sha256(f"{model} {dimensions}".encode()).hexdigest()[:16]
        self.model = model
        self.file = VectorFile(folder / f"{PREFIX}{key}{_ROWS}", dimensions, coarse_above=0)
        self.log = folder / f"{PREFIX}{key}{_LOG}"
        named = f"{dimensions} {model}".encode()[:_LONGEST_MODEL]
        self._head = (_MAGIC + named).ljust(_HEADER, b"\0")
        self._lock = Lock()
        self._forget()

    def _forget(self) -> None:
        self._read = 0
        """The end of the part of the log that was read."""
        self._identity = (0, 0)
        self._first = b""
        """The header of the first part, which has a checksum of it."""
        self._entries = np.empty(0, dtype=_ENTRY)
        """By row number."""
        self._checked = np.empty(0, dtype=np.bool_)
        """Rows whose bytes and content were compared with what is recorded."""
        self.file.unmap()

    # -- reading -------------------------------------------------------------------

    def refresh(self) -> None:
        """Read what was appended to the log since the last call."""
        with self._lock:
            self._refresh()

    def _refresh(self) -> None:
        try:
            info = self.log.stat()
        except OSError:
            self._forget()
            return
        identity = (info.st_dev, info.st_ino)
        if identity != self._identity or info.st_size < self._read:
            self._forget()
            self._identity = identity
        if info.st_size <= _HEADER:
            return
        with suppress(OSError), self.log.open("rb") as file:
            head, first = file.read(_HEADER), file.read(_PART.size)
            if head != self._head or (self._read and first != self._first):
                # Another file may have the same inode and size: the system reuses the inodes of
                # removed files.
                self._forget()
                self._identity = identity
            if head != self._head:
                return
            self._first = first
            start = self._read or _HEADER
            file.seek(start)
            data = file.read(info.st_size - start)
            self._read = start + sum(map(self._add_part, _split_parts(data)))

    def _add_part(self, part: bytes) -> int:
        """Take the entries of a part of the log; return its length."""
        entries = np.frombuffer(part, dtype=_ENTRY, offset=_PART.size)
        if len(entries):
            last = int(entries["row"].max())
            if last >= len(self._entries):
                size = max(last + 1, len(self._entries) * 5 // 4)
                grown, checked = np.zeros(size, dtype=_ENTRY), np.zeros(size, dtype=np.bool_)
                grown[: len(self._entries)] = self._entries
                checked[: len(self._checked)] = self._checked
                self._entries, self._checked = grown, checked
            rows = entries["row"]
            self._entries[rows] = entries
            self._checked[rows] = False
        return len(part)

    @property
    def is_empty(self) -> bool:
        """Whether there is certainly no vector; decided without reading."""
        with suppress(OSError):
            return self.log.stat().st_size <= _HEADER
        return True

    def mark_done(self, contents: Mapping[int, bytes]) -> tuple[set[int], set[int]]:
        """Return which rows have a vector for this content, and which texts were not understood.

        ``contents`` are the rows of the catalogue with their content names.
        """
        self.refresh()
        entries = self._entries
        wanted = np.fromiter(contents, dtype=np.int64, count=len(contents))
        wanted = wanted[wanted < len(entries)]
        embedded, unreadable = set[int](), set[int]()
        chosen = entries[wanted]
        for row, state, content in zip(
            wanted.tolist(), chosen["state"].tolist(), chosen["content"].tolist(), strict=True
        ):
            if state and content == contents[row]:
                (embedded if state == _EMBEDDED else unreadable).add(row)
        return embedded, unreadable

    def _mark_embedded(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each of these rows whether it has a vector, whole or not."""
        states = self._entries["state"]
        embedded = np.zeros(len(rows), dtype=np.bool_)
        inside = rows < len(states)
        embedded[inside] = states[rows[inside]] == _EMBEDDED
        return embedded

    def entries(self) -> NDArray[np.void]:
        """Return what is recorded of each row that was dealt with."""
        dealt_with: NDArray[np.void] = self._entries[self._entries["state"] != 0]
        return dealt_with

    def read_entries(self) -> Iterator[QualityRow]:
        """Yield the rows that match their checksum, and those of texts that were not understood."""
        stored = self.rows()
        for entry in self.entries():
            row, content = int(entry["row"]), entry["content"].tobytes()
            if entry["state"] == _UNREADABLE:
                yield QualityRow(row, content, None)
            elif row < len(stored):
                vector = stored[row].tobytes()
                if checksum(content, vector) == int(entry["checksum"]):
                    yield QualityRow(row, content, vector)

    def rows(self) -> NDArray[np.float16]:
        """Return all rows as mapped; those without a vector are zeros or leftovers."""
        self.refresh()
        try:
            return self.file.rows(self._count_rows())
        except LookfarError:
            # Deleted or cut short: the next writer begins again.
            return self.file.rows(0)

    def _count_rows(self) -> int:
        embedded = np.flatnonzero(self._entries["state"] == _EMBEDDED)
        return int(embedded[-1]) + 1 if len(embedded) else 0

    def find_sound(
        self,
        wanted: Sequence[int],
        stored: NDArray[np.float16],
        read_contents: ReadContents,
    ) -> NDArray[np.bool_]:
        """Return which of the ``wanted`` rows have the vector that their chunk should have.

        Each row is compared once with its checksum, and with the content in the catalogue.
        """
        numbers = np.asarray(wanted, dtype=np.int64)
        with self._lock:
            sound = self._mark_embedded(numbers) & (numbers < len(stored))
            present = np.unique(numbers[sound])
            unchecked = present[~self._checked[present]].tolist()
            if unchecked:
                contents = read_contents(unchecked)
                wrong = [row for row in unchecked if not self._is_sound(row, stored, contents)]
                self._checked[unchecked] = True
                self._entries["state"][wrong] = 0
                sound &= ~np.isin(numbers, wrong)
        return sound

    def _is_sound(
        self, row: int, stored: NDArray[np.float16], contents: Mapping[int, bytes]
    ) -> bool:
        entry = self._entries[row]
        content = entry["content"].tobytes()
        vector = stored[row].tobytes()
        known = int(entry["checksum"])
        return contents.get(row) == content and checksum(content, vector) == known

    # -- writing, by the holder of the lock on these vectors -----------------------

    def create(self) -> None:
        """Begin both files if they are missing, cut short or of another form."""
        if (
            self._has_head(self.log, self._head)
            and self.file.path.is_file()
            and len(self.rows()) == self._count_rows()
        ):
            return
        self.remove()
        self.file.create()
        self.file.sync()
        files.append(self.log, 0, self._head)
        files.sync(self.log)
        files.sync_folder(self.log.parent)
        self._forget()

    def _has_head(self, path: Path, head: bytes) -> bool:
        with suppress(OSError), path.open("rb") as file:
            return file.read(len(head)) == head
        return False

    def put(self, rows: Sequence[QualityRow]) -> None:
        """Store vectors durably: first the rows, then the log that names them."""
        self.refresh()
        rows = sorted(rows, key=lambda row: row.row)
        entries = np.zeros(len(rows), dtype=_ENTRY)
        for at, (row, content, vector) in enumerate(rows):
            state = _UNREADABLE if vector is None else _EMBEDDED
            known = 0 if vector is None else checksum(content, vector)
            entries[at] = (row, state, known, content)
        runs = list(_join_runs(rows))
        for first, vectors in runs:
            self.file.append(first, vectors)
        if runs:
            self.file.sync()
        body = entries.tobytes()
        part = _PART.pack(_MARK, len(entries), crc32(body)) + body
        # Over the rest of a part that a crash cut short.
        files.append(self.log, self._read or _HEADER, part, last=True)
        files.sync(self.log)
        self.refresh()

    def blank(self, rows: Sequence[int]) -> None:
        """Overwrite rows with zeros permanently, and drop their names from the log."""
        self.refresh()
        ours = [row for row in rows if row < len(self._entries) and self._entries[row]["state"]]
        if not ours:
            return
        kept = self._entries[self._entries["state"] != 0]
        kept = kept[~np.isin(kept["row"], ours)]
        for row in ours:
            if self._entries[row]["state"] == _EMBEDDED:
                self.file.append(row, bytes(self.file.dimensions * 2))
        self.file.sync()
        body = kept.tobytes()
        part = _PART.pack(_MARK, len(kept), crc32(body)) + body
        files.write_atomic(self.log, self._head + part)
        self.refresh()

    def remove(self) -> None:
        """Remove both files, the log first: without it, no row counts."""
        files.remove(self.log)
        files.remove(self.file.path)
        with self._lock:
            self._forget()

    # -- checking ------------------------------------------------------------------

    def damage(self, read_contents: ReadContents) -> list[str]:
        """Describe what differs from what was written.

        What a crash left behind the last whole part of the log is not damage.
        """
        wrong = self._find_wrong(read_contents)
        if wrong and len(self.rows()) <= wrong[-1]:
            return [f"{self.file.path.name}: it is missing or cut short"]
        return [f"{self.file.path.name}: row {row} differs from what was written" for row in wrong]

    def _find_wrong(self, read_contents: ReadContents) -> list[int]:
        self.refresh()
        embedded = np.flatnonzero(self._entries["state"] == _EMBEDDED).tolist()
        stored = self.rows()
        if embedded and len(stored) <= embedded[-1]:
            return embedded
        wrong = []
        for some in (embedded[at : at + 500] for at in range(0, len(embedded), 500)):
            contents = read_contents(some)
            wrong += [row for row in some if not self._is_sound(row, stored, contents)]
        return wrong

    def drop_damaged(self, read_contents: ReadContents) -> None:
        """Remove the rows that differ from what was written, or all if the file is cut short."""
        wrong = self._find_wrong(read_contents)
        if wrong and len(self.rows()) <= wrong[-1]:
            self.remove()
        elif wrong:
            self.blank(wrong)


def _join_runs(rows: Sequence[QualityRow]) -> Iterator[tuple[int, bytes]]:
    """Yield the vectors of consecutive rows together, with the number of the first."""
    first, parts = 0, list[bytes]()
    for row, _, vector in rows:
        if parts and (vector is None or row != first + len(parts)):
            yield first, b"".join(parts)
            parts = []
        if vector is not None:
            first = first if parts else row
            parts.append(vector)
    if parts:
        yield first, b"".join(parts)


def _split_parts(data: bytes) -> Iterator[bytes]:
    """Yield the whole parts at the beginning of ``data``."""
    start = 0
    while start + _PART.size <= len(data):
        mark, count, expected = _PART.unpack_from(data, start)
        end = start + _PART.size + count * _ENTRY.itemsize
        if mark != _MARK or end > len(data) or crc32(data[start + _PART.size : end]) != expected:
            return
        yield data[start:end]
        start = end


def open_all(folder: Path) -> list[QualityVectors]:
    """Open the vectors of every second model in the folder of an epoch."""
    opened = []
    for path in list_folder(folder, f"{PREFIX}*{_LOG}"):
        with suppress(OSError, ValueError), path.open("rb") as file:
            head = file.read(_HEADER)
            number, _, model = head.removeprefix(_MAGIC).rstrip(b"\0").partition(b" ")
            vectors = QualityVectors(folder, model.decode(), int(number))
            if head.startswith(_MAGIC) and vectors.log == path:
                opened.append(vectors)
    return opened


def carry_over(source: Path, target: Path, rows: Mapping[bytes, int]) -> None:
    """Copy the vectors of an epoch to the one that replaces it, whose ``rows`` are by content."""
    for old in open_all(source):
        moved = [
            entry._replace(row=rows[entry.content])
            for entry in old.read_entries()
            if entry.content in rows
        ]
        if moved:
            new = QualityVectors(target, old.model, old.file.dimensions)
            new.create()
            new.put(moved)


def remove_others(folder: Path, ours: QualityVectors) -> None:
    """Remove the files of all models but ours."""
    for path in list_folder(folder, f"{PREFIX}*"):
        if path not in (ours.log, ours.file.path):
            # On Windows another process may still map it; the next writer tries again.
            with suppress(LookfarError):
                files.remove(path)
