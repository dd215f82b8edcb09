"""The file of vector codes, for a coarse first pass over very many vectors.

The pass only proposes rows, which are then scored exactly; rows without valid codes are scanned.
Each segment has its own directions (:mod:`lookfar.store.vectors.codes`) and a checksum; the next
writer makes invalid segments again.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from lookfar.errors import IOFailed
from lookfar.store.ground import files
from lookfar.store.vectors.codes import (
    Directions,
    choose_rows,
    count_kept,
    encode,
    fit_directions,
    score_segments,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAGIC = b"LOOKFARC1\n"
_HEADER = 64
_ALIGNED = 64
_NUMBERS = struct.Struct("<IIf")
"""The header of a segment: checksum, number plus one, length of one step of a code."""
_BITS = ".bits"
"""The suffix of the file with sign bits that earlier versions wrote instead."""
SEGMENT_ROWS = 65_536
"""An exact scan of this many rows takes one or two milliseconds."""
_PAUSE = 0.2


class Segment(NamedTuple):
    """The codes of consecutive rows, as mapped; everything else is a copy."""

    first: int
    header: bytes
    """Its header in the file when its checksum was verified."""
    directions: Directions
    codes: NDArray[np.int8]
    """One row of bytes for each vector."""


class CoarseFile:
    """The segments of one vector file."""

    def __init__(self, path: Path, dimensions: int) -> None:
        self.path = path
        self._dimensions = dimensions
        self.segment_rows = segment_rows = SEGMENT_ROWS
        self._kept = count_kept(dimensions)
        self._numbers_end = _NUMBERS.size + 4 * dimensions * (1 + self._kept)
        self._head = -(-self._numbers_end // _ALIGNED) * _ALIGNED
        self._length = self._head + self._kept * segment_rows
        self._header = (_MAGIC + f"{dimensions} {segment_rows}".encode()).ljust(_HEADER, b"\0")
        self._valid: dict[int, Segment] = {}
        self._mapped: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
        self._identity = (0, 0)

    # --- reading ---

    def segments(self, count: int) -> list[Segment]:
        """Return the valid segments below row ``count``, in order.

        A mapped file stays readable when it is removed, but not when it is truncated, so its
        size is checked each time.
        """
        wanted = count // self.segment_rows
        if not wanted:
            return []
        try:
            info = os.stat(self.path)
        except OSError:
            return []
        existing = min(wanted, (info.st_size - _HEADER) // self._length)
        identity = (info.st_dev, info.st_ino)
        if identity != self._identity:
            self._valid, self._mapped, self._identity = {}, self._mapped[:0], identity
        segments = map(self._read_segment, range(existing))
        return [segment for segment in segments if segment is not None]

    def _read_segment(self, number: int) -> Segment | None:
        """Return a segment, or ``None`` if it is invalid or being written."""
        data = self._read_bytes(number)
        if data is None:
            return None
        # Another process may have dropped or rewritten the segment in place.
        header = data[: _NUMBERS.size].tobytes()
        known = self._valid.get(number)
        if known is not None and known.header == header:
            return known
        self._valid.pop(number, None)
        checksum, recorded, scale = _NUMBERS.unpack(header)
        # Copied before verifying the checksum, so that a later change cannot go unnoticed.
        numbers = data[_NUMBERS.size : self._numbers_end].copy().view(np.float32)
        if recorded != number + 1 or checksum != self._checksum(data.data):
            return None
        mean, basis = numbers[: self._dimensions], numbers[self._dimensions :]
        segment = Segment(
            first=number * self.segment_rows,
            header=header,
            directions=Directions(mean, basis.reshape(self._kept, self._dimensions), scale),
            codes=data[self._head :].view(np.int8).reshape(self.segment_rows, self._kept),
        )
        self._valid[number] = segment
        return segment

    def _read_bytes(self, number: int) -> NDArray[np.uint8] | None:
        start = _HEADER + number * self._length
        if start + self._length > len(self._mapped):
            try:
                mapped = np.memmap(self.path, np.uint8, "r")
            except (OSError, ValueError):
                return None
            self._mapped = mapped.view(np.ndarray)
        if self._mapped[:_HEADER].tobytes() != self._header:
            return None
        data = self._mapped[start : start + self._length]
        return data if len(data) == self._length else None

    def _checksum(self, data: memoryview) -> int:
        return crc32(data[4:], crc32(self._header))

    def propose(
        self,
        query: NDArray[np.float32],
        segments: Sequence[Segment],
        wanted: int,
        allowed: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.intp]:
        """Return the rows of ``segments`` that are likely the nearest, in order.

        There are at least ``wanted``, if so many exist, and all that tie with the last of them.
        ``allowed`` says for every row whether it counts.
        """
        if not segments:
            return np.empty(0, dtype=np.intp)
        return choose_rows(score_segments(query, segments), wanted, allowed)

    def gaps(self, segments: Sequence[Segment], count: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges below ``count`` that ``segments`` do not cover."""
        position = 0
        for segment in segments:
            if segment.first > position:
                yield position, segment.first
            position = segment.first + len(segment.codes)
        if position < count:
            yield position, count

    # --- writing, by the holder of the writer lock ---

    def extend(self, rows: NDArray[np.float16]) -> bool:
        """Write and sync every whole segment of ``rows`` that is missing or invalid."""
        valid = {segment.first // self.segment_rows for segment in self.segments(len(rows))}
        lacking = [n for n in range(len(rows) // self.segment_rows) if n not in valid]
        if lacking:
            self._write(lacking, rows)
        return bool(lacking)

    def renew(self, changed: Sequence[int], rows: NDArray[np.float16]) -> None:
        """Rewrite the segments of ``changed`` rows, so that nothing in them shows the old rows."""
        files.remove(self.path.with_suffix(_BITS))
        if not self.path.exists():
            return
        numbers = {row // self.segment_rows for row in changed}
        whole = len(rows) // self.segment_rows
        self.forget(whole * self.segment_rows)
        self._write(sorted(number for number in numbers if number < whole), rows)

    def forget(self, count: int) -> None:
        """Drop the segments that extend beyond row ``count``, whose rows will be replaced."""
        with suppress(IOFailed):  # Another process may use them on Windows: the next writer tries.
            files.remove(self.path.with_suffix(_BITS))
        try:
            size = os.stat(self.path).st_size
        except FileNotFoundError:
            return
        # Not truncated: that would crash a process that maps the file.
        for number in range(count // self.segment_rows, (size - _HEADER) // self._length):
            self._valid.pop(number, None)
            files.append(self.path, _HEADER + number * self._length, bytes(_NUMBERS.size))

    def _write(self, numbers: Sequence[int], rows: NDArray[np.float16]) -> None:
        if not self.path.exists() or self._header_on_disk() != self._header:
            files.append(self.path, 0, self._header)
        for number in numbers:
            first = number * self.segment_rows
            data = self._pack_segment(number, rows[first : first + self.segment_rows])
            files.append(self.path, _HEADER + number * self._length, data)
        files.sync(self.path)

    def _header_on_disk(self) -> bytes:
        with files.translate_errors(f"reading {self.path.name}"), self.path.open("rb") as file:
            return file.read(_HEADER)

    def _pack_segment(self, number: int, rows: NDArray[np.float16]) -> bytes:
        directions = fit_directions(rows, self._kept)
        head = _NUMBERS.pack(0, number + 1, directions.scale)
        head += directions.mean.tobytes() + directions.basis.tobytes()
        # The scale as it is stored and read again.
        directions = directions._replace(scale=_NUMBERS.unpack_from(head)[2])
        data = head.ljust(self._head, b"\0") + encode(rows, directions).tobytes()
        return self._checksum(memoryview(data)).to_bytes(4, "little") + data[4:]

    # --- checking ---

    def damage(self, rows: NDArray[np.float16]) -> list[str]:
        """Describe what does not match ``rows``; checked twice, because a writer may be at work."""
        problems = self._find_damage(rows)
        if not problems:
            return []
        time.sleep(_PAUSE)
        again = self._find_damage(rows)
        return [problem for problem in problems if problem in again]

    def _find_damage(self, rows: NDArray[np.float16]) -> list[str]:
        self._valid, self._mapped, self._identity = {}, self._mapped[:0], (0, 0)
        valid = {segment.first: segment for segment in self.segments(len(rows))}
        problems = []
        for number in range(len(rows) // self.segment_rows):
            first = number * self.segment_rows
            segment, data = valid.get(first), self._read_bytes(number)
            if segment is not None:
                part = rows[first : first + self.segment_rows]
                if not _match(segment.codes, encode(part, segment.directions)):
                    problems.append(f"the codes from row {first:,} on do not match the rows")
            elif data is not None and data[: _NUMBERS.size].any():  # Zeros: it was dropped.
                problems.append(f"the codes from row {first:,} on do not match their checksum")
        return problems


def _match(stored: NDArray[np.int8], computed: NDArray[np.int8]) -> bool:
    """Compare codes; another processor may round a product to the next step."""
    difference = np.subtract(stored, computed, dtype=np.int16)
    return bool(np.abs(difference, out=difference).max(initial=0) <= 1)
