"""A coarse first pass over very many vectors, with one bit per dimension.

The pass only proposes rows, which are then scored exactly; rows without valid bits are scanned.
A bit says on which side of its segment's mean a number is, because vectors of one model lean to
one side. The count of differing bits is converted to an estimate of the similarity, so that
segments can be compared. Each segment has a checksum; the next writer makes invalid ones again.
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
"""The header of a segment: checksum, number plus one, mean distance of its rows from the mean."""
SEGMENT_ROWS = 65_536
"""An exact scan of this many rows takes one or two milliseconds."""
_BLOCK = 16_384
_PAUSE = 0.2


class Segment(NamedTuple):
    """The bits of consecutive rows, as mapped; everything else is a copy."""

    first: int
    header: bytes
    """Its header in the file when its checksum was verified."""
    mean: NDArray[np.float32]
    spread: float
    """The mean distance of a row from ``mean``."""
    planes: NDArray[np.uint64]
    """The first 64 bits of every row, then the next 64, and so on."""

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
        checksum, recorded, spread = _NUMBERS.unpack(header)
        # Copy the mean before verifying the checksum, so that a later change cannot go unnoticed.
        mean = data[_NUMBERS.size : _NUMBERS.size + 4 * self._dimensions].copy().view(np.float32)
        if recorded != number + 1 or checksum != self._checksum(data.data):
            return None
        segment = Segment(
            first=number * self.segment_rows,
            header=header,
            mean=mean,
            spread=spread,
            planes=data[self._head :].view(np.uint64).reshape(self._words, self.segment_rows),
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
        differing = [self._count_differing(query, segment) for segment in segments]
        counted = [
            (differing[at] if allowed is None else differing[at][_part(allowed, segment)])
            for at, segment in enumerate(segments)
        ]
        bits = self._words * _WORD
        tallies = np.stack([np.bincount(counts, minlength=bits + 1) for counts in counted])
        estimates = np.stack([self._estimate(query, segment, bits) for segment in segments])
        best = np.argsort(-estimates, axis=None, kind="stable")
        enough = np.searchsorted(np.cumsum(tallies.ravel()[best]), wanted)
        edge = estimates.ravel()[best[min(int(enough), len(best) - 1)]]
        proposed = []
        for at, segment in enumerate(segments):
            near = differing[at] < np.count_nonzero(estimates[at] >= edge)
            if allowed is not None:
                near &= _part(allowed, segment)
            proposed.append(np.flatnonzero(near) + segment.first)
        return np.concatenate(proposed)

    def _count_differing(self, query: NDArray[np.float32], segment: Segment) -> NDArray[np.uint16]:
        """Count for each row the significant bits that differ from the query."""
        offset = (query - segment.mean).reshape(1, -1)
        bits = _pack_bits(offset, self._words)[:, 0]
        significant = _pack_bits(_find_significant(offset).astype(np.float32), self._words)[:, 0]
        counts = np.zeros(segment.rows, dtype=np.uint16)
        size = min(_BLOCK, segment.rows)
        # Reuse the same small arrays, which stay in the processor's cache.
        words, ones = np.empty(size, dtype=np.uint64), np.empty(size, dtype=np.uint8)
        for first in range(0, segment.rows, size):
            sums = counts[first : first + size]
            for plane, word, mask in zip(segment.planes, bits, significant, strict=True):
                part = plane[first : first + size]
                np.bitwise_xor(part, word, out=words[: len(part)])
                np.bitwise_and(words[: len(part)], mask, out=words[: len(part)])
                np.bitwise_count(words[: len(part)], out=ones[: len(part)])
                np.add(sums, ones[: len(part)], out=sums)
        return counts

    def _estimate(
        self, query: NDArray[np.float32], segment: Segment, bits: int
    ) -> NDArray[np.float64]:
        """Estimate the similarity for each count of differing bits."""
        offset = query - segment.mean
        lengths = float(np.linalg.norm(offset)) * segment.spread
        significant = np.count_nonzero(_find_significant(offset))
        angles = np.minimum(np.arange(bits + 1) / significant, 1.0) * np.pi
        return float(query @ segment.mean) + lengths * np.cos(angles)

    def gaps(self, segments: Sequence[Segment], count: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges below ``count`` that ``segments`` do not cover."""
        position = 0
        for segment in segments:
            if segment.first > position:
                yield position, segment.first
            position = segment.first + segment.rows
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
        """Rewrite the segments of ``changed`` rows, so that neither bits nor mean show old rows."""
        if not self.path.exists():
            return
        numbers = {row // self.segment_rows for row in changed}
        whole = len(rows) // self.segment_rows
        self.forget(whole * self.segment_rows)
        self._write(sorted(number for number in numbers if number < whole), rows)

    def forget(self, count: int) -> None:
        """Drop the segments that extend beyond row ``count``, whose rows will be replaced."""
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
        mean, spread = _measure(rows)
        head = _NUMBERS.pack(0, number + 1, spread) + mean.tobytes()
        data = head.ljust(self._head, b"\0") + self._bits(rows, mean).tobytes()
        return self._checksum(memoryview(data)).to_bytes(4, "little") + data[4:]

    def _bits(self, rows: NDArray[np.float16], mean: NDArray[np.float32]) -> NDArray[np.uint64]:
        planes = np.empty((self._words, len(rows)), dtype=np.uint64)
        for first in range(0, len(rows), _BLOCK):
            part = rows[first : first + _BLOCK].astype(np.float32)
            bits = _pack_bits(part - mean, self._words)
            # Erased rows are zeros here as well.
            bits[:, ~part.any(axis=1)] = 0
            planes[:, first : first + _BLOCK] = bits
        return planes

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
                if not np.array_equal(segment.planes, self._bits(part, segment.mean)):
                    problems.append(f"the bits from row {first:,} on do not match the rows")
            elif data is not None and data[: _NUMBERS.size].any():  # Zeros: it was dropped.
                problems.append(f"the bits from row {first:,} on do not match their checksum")
        return problems


def _part(allowed: NDArray[np.bool_], segment: Segment) -> NDArray[np.bool_]:
    return allowed[segment.first : segment.first + segment.rows]


def _find_significant(offset: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Mark the half of the numbers that are farthest from the mean.

    The side of the others says next to nothing: ignoring them improves the recall.
    """
    lengths = np.abs(offset)
    significant: NDArray[np.bool_] = lengths >= np.median(lengths)
    return significant


def _pack_bits(centred: NDArray[np.float32], words: int) -> NDArray[np.uint64]:
    """Pack the signs of each row into words of 64 bits; the first words of all rows come first."""
    packed = np.zeros((len(centred), words * 8), dtype=np.uint8)
    bits = np.packbits(centred > 0, axis=1)
    packed[:, : bits.shape[1]] = bits
    return np.ascontiguousarray(packed.view(np.uint64).T)


def _measure(rows: NDArray[np.float16]) -> tuple[NDArray[np.float32], float]:
    """Return the mean of the rows that are not blank, and their mean distance from it."""
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
