"""Signatures of documents, which quickly rule out documents that cannot contain a text.

A signature is a Bloom filter of the groups of three consecutive bytes of the folded text. A
document without a valid signature is always a candidate, so none is missed.

The file grows by one segment per write session: a header, a row for each document, and the bits.
A segment is used only if its checksum matches, and a row only if its text hash matches the
catalogue's.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from functools import reduce
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

import numpy as np

from lookfar.ports import AllOf, Need
from lookfar.store.catalogue import rows as catalog
from lookfar.store.ground import files

if TYPE_CHECKING:
    from sqlite3 import Connection

    from numpy.typing import NDArray

SIGNATURES: Final = "signatures.bits"
"""The file in the folder of an epoch."""
SHORTEST: Final = 3
"""The fewest bytes of a text that can rule out documents."""
_MAGIC: Final = b"LOOKFARS1\n\0\0\0\0\0\0"
_HEAD: Final = struct.Struct("<IIQQ")
"""The header of a segment: checksum, number of rows, number of signature bytes, and offset."""
_ROW: Final = np.dtype([("document", "<u8"), ("tag", "<u8"), ("start", "<u8"), ("bytes", "<u8")])
_BITS_PER_GROUP: Final = 4
_LEAST_BYTES: Final = 8
_COUNTED: Final = 1 << 16
_PIECE: Final = 1 << 20
_MULTIPLIERS: Final = (np.uint32(0x9E3779B1), np.uint32(0x85EBCA77))


def fold(text: bytes) -> bytes:
    """Lower ASCII letters, and map the long s and the kelvin sign to their ASCII letters."""
    folded = text.lower()
    if not folded.isascii():
        folded = folded.replace(b"\xc5\xbf", b"s").replace(b"\xe2\x84\xaa", b"k")
    return folded


def sign(text: bytes) -> bytes:
    folded = fold(text)
    if len(folded) > _PIECE:  # All of its groups at once would need twenty times its memory.
        seen = np.zeros(1 << 8 * SHORTEST, dtype=np.bool_)
        for start in range(0, len(folded), _PIECE):
            seen[_groups(folded[start : start + _PIECE + SHORTEST - 1])] = True
        groups = np.flatnonzero(seen).astype(np.uint32)
    else:
        groups = _groups(folded)
    first = groups * _MULTIPLIERS[0]
    size = _size(first)
    bits = np.zeros(size * 8, dtype=np.bool_)
    bits[_places(first, size)] = True
    bits[_places(groups * _MULTIPLIERS[1], size)] = True
    return np.packbits(bits, bitorder="little").tobytes()


def _groups(folded: bytes) -> NDArray[np.uint32]:
    count = len(folded) - SHORTEST + 1
    if count < 1:
        return np.empty(0, dtype=np.uint32)
    # Four bytes at every position; the last byte is shifted out.
    windows = np.ndarray(count, ">u4", folded + b"\0", strides=(1,))
    return windows.astype(np.uint32) >> np.uint32(8)


def _size(hashes: NDArray[np.uint32]) -> int:
    """Choose the bytes of a signature from an estimate of the number of distinct groups.

    The estimate counts the used slots of a hash table, which is quicker than sorting the groups.
    """
    table = np.zeros(_COUNTED, dtype=np.bool_)
    table[(hashes >> np.uint32(16)).astype(np.intp)] = True
    free = max(_COUNTED - int(np.count_nonzero(table)), 1)
    different = -_COUNTED * float(np.log(free / _COUNTED))
    return max(_LEAST_BYTES, round(different * _BITS_PER_GROUP / 8))


def _places(hashes: NDArray[np.uint32], size: int) -> NDArray[np.int64]:
    """Return the bit positions of groups in a signature of ``size`` bytes."""
    spread = hashes.astype(np.uint64)
    spread *= np.uint64(size * 8)
    spread >>= np.uint64(32)
    return spread.view(np.int64)


class Signed(NamedTuple):
    document: int
    text_sha: bytes
    signature: bytes


class _Segment(NamedTuple):
    end: int
    rows: NDArray[np.void]
    """Here ``start`` is relative to the beginning of the file."""


class Documents(NamedTuple):
    """Documents of a generation and the positions of their signatures, sorted by number."""

    numbers: NDArray[np.int64]
    starts: NDArray[np.int64]
    """In bits; -1 without a valid signature."""
    sizes: NDArray[np.uint64]
    """In bits."""
    bits: NDArray[np.uint8]
    """The mapped file."""

    def holding(self, need: Need, among: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the documents that may meet a condition, of all or ``among`` these numbers."""
        chosen = np.arange(len(self.numbers))
        if among is not None:
            at = np.searchsorted(self.numbers, among)
            at = at[at < len(self.numbers)]
            chosen = at[np.isin(self.numbers[at], among)]
        return self.numbers[np.sort(self._filter(need, chosen))]

    def _filter(self, need: Need, chosen: NDArray[np.intp]) -> NDArray[np.intp]:
        if isinstance(need, bytes):
            return self._filter_by_text(need, chosen)
        if isinstance(need, AllOf):
            return reduce(lambda left, part: self._filter(part, left), need.parts, chosen)
        return np.unique(np.concatenate([self._filter(part, chosen) for part in need.parts]))

    def _filter_by_text(self, text: bytes, chosen: NDArray[np.intp]) -> NDArray[np.intp]:
        groups = np.unique(_groups(text))
        unsigned = chosen[self.starts[chosen] < 0]
        signed = chosen[self.starts[chosen] >= 0]
        for hashes in (groups * multiplier for multiplier in _MULTIPLIERS):
            for value in hashes.astype(np.uint64):
                if not len(signed):
                    return unsigned
                positions = self.starts[signed] + (
                    value * self.sizes[signed] >> np.uint64(32)
                ).astype(np.int64)
                is_set = self.bits[positions >> 3] >> (positions & 7).astype(np.uint8) & 1
                signed = signed[is_set != 0]
        return np.concatenate([unsigned, signed])


class SignatureFile:
    """The signatures of one epoch."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._segments: list[_Segment] = []
        self._mapped: NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
        self._identity = (0, 0)

    # --- reading ---

    def documents(self, numbers: Sequence[int], text_shas: Iterable[bytes]) -> Documents:
        """Look up the signatures of these documents, sorted by number, with these texts."""
        wanted = np.array(numbers, dtype=np.int64)
        tags = np.frombuffer(b"".join(sha[:8] for sha in text_shas), dtype="<u8")
        starts = np.full(len(wanted), -1, dtype=np.int64)
        sizes = np.zeros(len(wanted), dtype=np.uint64)
        for segment in self._valid_segments():
            rows = segment.rows
            at = np.searchsorted(wanted, rows["document"].astype(np.int64))
            fits = at < len(wanted)
            at, rows = at[fits], rows[fits]
            same = (wanted[at] == rows["document"].astype(np.int64)) & (tags[at] == rows["tag"])
            at, rows = at[same], rows[same]
            starts[at] = rows["start"].astype(np.int64) * 8
            sizes[at] = rows["bytes"] * np.uint64(8)
        return Documents(wanted, starts, sizes, self._mapped)

    def _valid_segments(self) -> list[_Segment]:
        """Return the segments before the first invalid one, which may be in the making."""
        try:
            info = os.stat(self.path)
        except OSError:
            return []
        if (info.st_dev, info.st_ino) != self._identity or info.st_size < len(self._mapped):
            self._segments, self._mapped = [], self._mapped[:0]
            self._identity = (info.st_dev, info.st_ino)
        if info.st_size > len(self._mapped):
            try:
                self._mapped = np.memmap(self.path, np.uint8, "r").view(np.ndarray)
            except (OSError, ValueError):
                return []
        if self._mapped[: len(_MAGIC)].tobytes() != _MAGIC:
            return []
        segments = list(self._segments)
        end = segments[-1].end if segments else len(_MAGIC)
        while (segment := self._read_segment(end)) is not None:
            segments.append(segment)
            end = segment.end
        self._segments = segments
        return segments

    def _read_segment(self, start: int) -> _Segment | None:
        head = self._mapped[start : start + _HEAD.size].tobytes()
        if len(head) < _HEAD.size:
            return None
        checksum, count, size, place = _HEAD.unpack(head)
        first = start + _HEAD.size
        end = first + count * _ROW.itemsize + size
        if place != start or not count or end > len(self._mapped):
            return None
        if checksum != crc32(self._mapped[first:end].data, crc32(head[4:])):
            return None
        rows = self._mapped[first : first + count * _ROW.itemsize].view(_ROW).copy()
        rows["start"] += np.uint64(first + count * _ROW.itemsize)
        return _Segment(end, rows)

    # --- writing, by the holder of the writer lock ---

    def append(self, signed: Sequence[Signed]) -> None:
        """Add signatures durably; a later one of a document replaces an earlier one."""
        if not signed:
            return
        segments = self._valid_segments()
        if not segments and not self._has_beginning():
            files.append(self.path, 0, _MAGIC)
        start = segments[-1].end if segments else len(_MAGIC)
        files.append(self.path, start, _pack_segment(signed, start))
        files.sync(self.path)

    def _has_beginning(self) -> bool:
        return self._mapped[: len(_MAGIC)].tobytes() == _MAGIC

    def size(self) -> tuple[int, int]:
        segments = self._valid_segments()
        return sum(len(segment.rows) for segment in segments), len(segments)

    def rewrite(self, signed: Sequence[Signed]) -> None:
        """Replace the whole file, so that nothing of its old content is left.

        Until the folder is synced, a power failure may bring back the old file. That cannot hide
        a document, but after an erasure the caller must sync the folder.
        """
        data = _pack_segment(signed, len(_MAGIC)) if signed else b""
        files.write_atomic(self.path, _MAGIC + data, sync=False)

    def signatures(self, documents: Documents, text_shas: Sequence[bytes]) -> list[Signed]:
        """Return the valid signatures of these documents."""
        return [
            Signed(number, sha, documents.bits[start // 8 : (start + size) // 8].tobytes())
            for number, sha, start, size in zip(
                documents.numbers.tolist(), text_shas, documents.starts.tolist(),
                documents.sizes.tolist(), strict=True,
            )
            if start >= 0
        ]  # fmt: skip

    # --- checking ---

    def damage(self, connection: Connection) -> list[str]:
        """Describe what differs from what was written.

        Bytes after the last valid segment may be left by a writer that died. They are reported
        only if a document lacks its signature.
        """
        self._segments, self._mapped, self._identity = [], self._mapped[:0], (0, 0)
        hashes = catalog.text_hashes(connection)
        documents = self.documents(list(hashes), hashes.values())
        if not len(self._mapped):
            return []
        end = self._segments[-1].end if self._segments else 0
        if end < len(self._mapped) and (documents.starts < 0).any():
            return [f"the bytes after {end:,} do not match their checksum"]
        signatures = self.signatures(documents, list(hashes.values()))
        signed = {signature.document: signature for signature in signatures}
        return [
            f"the signature of document {number} does not match its text"
            for number, text in catalog.texts(connection, list(signed))
            if signed[number].signature != sign(text)
        ]


def signed_texts(connection: Connection, documents: Sequence[int]) -> list[Signed]:
    return [
        Signed(number, sha256(text).digest(), sign(text))
        for number, text in catalog.texts(connection, documents)
    ]


def _pack_segment(signed: Sequence[Signed], start: int) -> bytes:
    rows = np.zeros(len(signed), dtype=_ROW)
    rows["document"] = [item.document for item in signed]
    rows["tag"] = np.frombuffer(b"".join(item.text_sha[:8] for item in signed), dtype="<u8")
    sizes = np.array([len(item.signature) for item in signed], dtype=np.uint64)
    rows["bytes"] = sizes
    rows["start"] = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.uint64)
    bits = b"".join(item.signature for item in signed)
    head = _HEAD.pack(0, len(signed), len(bits), start)[4:]
    body = rows.tobytes() + bits
    return crc32(body, crc32(head)).to_bytes(4, "little") + head + body
