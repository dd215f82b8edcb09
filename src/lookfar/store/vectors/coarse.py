"""One bit per dimension of a vector: a quick first look at very many of them.

Takes: float16 rows, in segments of a fixed length. Gives: for a question the rows that are
worth an exact look, and how often the best are among them. Refuses: to answer; what it
proposes is scored from the rows themselves, and what it has no sound bits of is left to an
exact scan.

A bit says on which side of its segment's mean a number lies. Without the mean it would say
little: vectors of one model lean to one side, and most of their bits would agree. Two texts
are the nearer the fewer bits differ. How many differ means another thing in each segment, so
the count is turned into an estimate of the similarity before segments are compared.

The file is derived from the rows and may lack segments, or hold damaged ones: each has a
checksum, and who writes next makes anew what is not sound. The last rows, fewer than a
segment, have no bits: what is appended costs nothing until a segment is full.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from lookfar.store.ground import files

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAGIC = b"LOOKFARB1\n"
_HEADER = 64
_WORD = 64
_NUMBERS = struct.Struct("<IIf")
"""Of a segment: its checksum, its number plus one, how far its rows lie from their mean."""
SEGMENT_ROWS = 65_536
"""As many as an exact scan takes one or two milliseconds for."""
_BLOCK = 16_384
_PAUSE = 0.2


class Segment(NamedTuple):
    """The bits of rows that lie beside each other, as mapped; all else is a copy."""

    first: int
    told: bytes
    """Its numbers, as they stood in the file when it was found sound."""
    mean: NDArray[np.float32]
    spread: float
    """The mean distance of a row from ``mean``."""
    planes: NDArray[np.uint64]
    """The first 64 bits of every row, then the next ones, and so on."""

    @property
    def rows(self) -> int:
        return len(self.planes[0])


class CoarseFile:
    """The segments of one vector file."""

    def __init__(self, path: Path, dimensions: int) -> None:
        self.path = path
        self._dimensions = dimensions
        self.segment_rows = segment_rows = SEGMENT_ROWS
        self._words = -(-dimensions // _WORD)
        head = _NUMBERS.size + 4 * dimensions
        self._head = -(-head // _WORD) * _WORD
        self._length = self._head + self._words * 8 * segment_rows
        self._header = (_MAGIC + f"{dimensions} {segment_rows}".encode()).ljust(_HEADER, b"\0")
        self._sound: dict[int, Segment] = {}
        self._mapped: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
        self._identity = (0, 0)

    # -- reading -----------------------------------------------------------

    def segments(self, count: int) -> list[Segment]:
        """Those that lie below row ``count`` and are sound, in order.

        As with the rows, what was mapped may be read when the file is removed, but not when it
        is cut short; so its size is looked at each time.
        """
        wanted = count // self.segment_rows
        if not wanted:
            return []
        try:
            info = os.stat(self.path)
        except OSError:
            return []
        there = min(wanted, (info.st_size - _HEADER) // self._length)
        identity = (info.st_dev, info.st_ino)
        if identity != self._identity:
            self._sound, self._mapped, self._identity = {}, self._mapped[:0], identity
        return [found for number in range(there) if (found := self._segment(number)) is not None]

    def _segment(self, number: int) -> Segment | None:
        """One that is sound. A checksum that does not fit may be one that is being written."""
        data = self._bytes_of(number)
        if data is None:
            return None
        # Another process forgets a segment, or writes it anew, in the same place.
        told = data[: _NUMBERS.size].tobytes()
        found = self._sound.get(number)
        if found is not None and found.told == told:
            return found
        self._sound.pop(number, None)
        checksum, named, spread = _NUMBERS.unpack(told)
        # Before the checksum is made: a mean that is changed in between does not fit it.
        mean = data[_NUMBERS.size : _NUMBERS.size + 4 * self._dimensions].copy().view(np.float32)
        if named != number + 1 or checksum != self._checksum(data.data):
            return None
        found = Segment(
            first=number * self.segment_rows,
            told=told,
            mean=mean,
            spread=spread,
            planes=data[self._head :].view(np.uint64).reshape(self._words, self.segment_rows),
        )
        self._sound[number] = found
        return found

    def _bytes_of(self, number: int) -> NDArray[np.uint8] | None:
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
        """The rows of ``segments`` that are likely the nearest, in order: at least ``wanted``, as
        far as there are, and all that seem as near as the last of them.

        ``allowed`` says of every row whether it counts.
        """
        if not segments:
            return np.empty(0, dtype=np.intp)
        differing = [self._differing(query, each) for each in segments]
        counted = [
            (differing[at] if allowed is None else differing[at][_part(allowed, each)])
            for at, each in enumerate(segments)
        ]
        bits = self._words * _WORD
        tallies = np.stack([np.bincount(each, minlength=bits + 1) for each in counted])
        estimates = np.stack([self._estimates(query, each, bits) for each in segments])
        best = np.argsort(-estimates, axis=None, kind="stable")
        enough = np.searchsorted(np.cumsum(tallies.ravel()[best]), wanted)
        edge = estimates.ravel()[best[min(int(enough), len(best) - 1)]]
        found = []
        for at, each in enumerate(segments):
            near = differing[at] < np.count_nonzero(estimates[at] >= edge)
            if allowed is not None:
                near &= _part(allowed, each)
            found.append(np.flatnonzero(near) + each.first)
        return np.concatenate(found)

    def _differing(self, query: NDArray[np.float32], segment: Segment) -> NDArray[np.uint16]:
        """In how many of the bits that tell something each row differs from the question."""
        towards = (query - segment.mean).reshape(1, -1)
        bits = _planes(towards, self._words)[:, 0]
        telling = _planes(_telling(towards).astype(np.float32), self._words)[:, 0]
        found = np.zeros(segment.rows, dtype=np.uint16)
        size = min(_BLOCK, segment.rows)
        # Into the same small arrays again and again: they stay in the processor's cache.
        words, ones = np.empty(size, dtype=np.uint64), np.empty(size, dtype=np.uint8)
        for first in range(0, segment.rows, size):
            sums = found[first : first + size]
            for plane, word, heard in zip(segment.planes, bits, telling, strict=True):
                part = plane[first : first + size]
                np.bitwise_xor(part, word, out=words[: len(part)])
                np.bitwise_and(words[: len(part)], heard, out=words[: len(part)])
                np.bitwise_count(words[: len(part)], out=ones[: len(part)])
                np.add(sums, ones[: len(part)], out=sums)
        return found

    def _estimates(
        self, query: NDArray[np.float32], segment: Segment, bits: int
    ) -> NDArray[np.float64]:
        """What similarity each count of differing bits stands for: the fewer, the greater."""
        towards = query - segment.mean
        lengths = float(np.linalg.norm(towards)) * segment.spread
        angles = np.minimum(np.arange(bits + 1) / np.count_nonzero(_telling(towards)), 1.0) * np.pi
        return float(query @ segment.mean) + lengths * np.cos(angles)

    def gaps(self, segments: Sequence[Segment], count: int) -> Iterator[tuple[int, int]]:
        """The ranges below ``count`` that ``segments`` do not cover."""
        at = 0
        for each in segments:
            if each.first > at:
                yield at, each.first
            at = each.first + each.rows
        if at < count:
            yield at, count

    # -- writing, by the holder of the writer lock ---------------------------

    def extend(self, rows: NDArray[np.float16]) -> bool:
        """Write every whole segment of ``rows`` that is not there or not sound, and sync."""
        sound = {each.first // self.segment_rows for each in self.segments(len(rows))}
        lacking = [n for n in range(len(rows) // self.segment_rows) if n not in sound]
        if lacking:
            self._write(lacking, rows)
        return bool(lacking)

    def renew(self, changed: Sequence[int], rows: NDArray[np.float16]) -> None:
        """Write the segments of ``changed`` rows again, where there are any: nothing of what
        the rows were is left in them, not even in their mean.
        """
        if not self.path.exists():
            return
        numbers = {row // self.segment_rows for row in changed}
        whole = len(rows) // self.segment_rows
        self.forget(whole * self.segment_rows)
        self._write(sorted(number for number in numbers if number < whole), rows)

    def forget(self, count: int) -> None:
        """Drop segments that reach beyond row ``count``: their rows are about to be others."""
        try:
            size = os.stat(self.path).st_size
        except FileNotFoundError:
            return
        # Not cut off, which would be the end of a process that maps the file.
        for number in range(count // self.segment_rows, (size - _HEADER) // self._length):
            self._sound.pop(number, None)
            files.append(self.path, _HEADER + number * self._length, bytes(_NUMBERS.size))

    def _write(self, numbers: Sequence[int], rows: NDArray[np.float16]) -> None:
        if not self.path.exists() or self._header_on_disk() != self._header:
            files.append(self.path, 0, self._header)
        for number in numbers:
            first = number * self.segment_rows
            data = self._packed(number, rows[first : first + self.segment_rows])
            files.append(self.path, _HEADER + number * self._length, data)
        files.sync(self.path)

    def _header_on_disk(self) -> bytes:
        with files.translate_errors(f"reading {self.path.name}"), self.path.open("rb") as file:
            return file.read(_HEADER)

    def _packed(self, number: int, rows: NDArray[np.float16]) -> bytes:
        """A segment as it stands in the file."""
        mean, spread = _centre(rows)
        head = _NUMBERS.pack(0, number + 1, spread) + mean.tobytes()
        data = head.ljust(self._head, b"\0") + self._bits(rows, mean).tobytes()
        return self._checksum(memoryview(data)).to_bytes(4, "little") + data[4:]

    def _bits(self, rows: NDArray[np.float16], mean: NDArray[np.float32]) -> NDArray[np.uint64]:
        planes = np.empty((self._words, len(rows)), dtype=np.uint64)
        for first in range(0, len(rows), _BLOCK):
            part = rows[first : first + _BLOCK].astype(np.float32)
            bits = _planes(part - mean, self._words)
            # What was erased is zeros here as well.
            bits[:, ~part.any(axis=1)] = 0
            planes[:, first : first + _BLOCK] = bits
        return planes

    # -- checking --------------------------------------------------------------

    def damage(self, rows: NDArray[np.float16]) -> list[str]:
        """What is there and does not belong to ``rows``, in words, if it stays so: a writer may
        be at it.
        """
        seen = self._looked_at(rows)
        if not seen:
            return []
        time.sleep(_PAUSE)
        again = self._looked_at(rows)
        return [each for each in seen if each in again]

    def _looked_at(self, rows: NDArray[np.float16]) -> list[str]:
        self._sound, self._mapped, self._identity = {}, self._mapped[:0], (0, 0)
        sound = {each.first: each for each in self.segments(len(rows))}
        found = []
        for number in range(len(rows) // self.segment_rows):
            first = number * self.segment_rows
            segment, data = sound.get(first), self._bytes_of(number)
            if segment is not None:
                part = rows[first : first + self.segment_rows]
                if not np.array_equal(segment.planes, self._bits(part, segment.mean)):
                    found.append(f"the bits from row {first:,} on are not those of the rows")
            elif data is not None and data[: _NUMBERS.size].any():  # Else it was forgotten.
                found.append(f"the bits from row {first:,} on do not fit their checksum")
        return found


def _part(allowed: NDArray[np.bool_], segment: Segment) -> NDArray[np.bool_]:
    return allowed[segment.first : segment.first + segment.rows]


def _telling(towards: NDArray[np.float32]) -> NDArray[np.bool_]:
    """The half of the numbers that lie farthest from the mean. On which side the others lie says
    next to nothing: to leave them out finds more than to count them.
    """
    lengths = np.abs(towards)
    found: NDArray[np.bool_] = lengths >= np.median(lengths)
    return found


def _planes(centred: NDArray[np.float32], words: int) -> NDArray[np.uint64]:
    """Whether each number is positive, 64 of a row to a word, and the first words first."""
    packed = np.zeros((len(centred), words * 8), dtype=np.uint8)
    bits = np.packbits(centred > 0, axis=1)
    packed[:, : bits.shape[1]] = bits
    return np.ascontiguousarray(packed.view(np.uint64).T)


def _centre(rows: NDArray[np.float16]) -> tuple[NDArray[np.float32], float]:
    """The mean of the rows that are not blank, and how far they lie from it."""
    total = np.zeros(rows.shape[1], dtype=np.float64)
    squares, number = 0.0, 0
    for first in range(0, len(rows), _BLOCK):
        part = rows[first : first + _BLOCK].astype(np.float32)
        total += part.sum(axis=0, dtype=np.float64)
        squares += float(np.square(part).sum(dtype=np.float64))
        number += int(np.count_nonzero(part.any(axis=1)))
    mean = (total / max(number, 1)).astype(np.float32)
    spread = squares / max(number, 1) - float(mean.astype(np.float64) @ mean)
    return mean, float(np.sqrt(max(spread, 0.0)))
