"""Posting lists packed into blocks of bytes, as tables on the server keep them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from lookfar.store.keywords.postings import NONE, Postings

MOST: Final = 4096
"""The most entries in one block."""
_FARTHEST: Final = 1 << 32
_NARROW: Final = "<u2"
_MOST_NARROW: Final = 65_535
_WIDE: Final = 6
"""Bytes per entry from which its number takes four of them, not two. The term frequency takes one
or two, and the length one."""
ENTRIES: Final = "keyword_entries"
"""The key in ``meta`` of the number of entries."""


def tokens_key(field: int) -> str:
    """Return the key in ``meta`` of the number of tokens in a field."""
    return f"keyword_tokens_{field}"


def pack_blocks(entries: Postings) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield the first number, last number, count and bytes of each block.

    An entry takes four to seven bytes, as many as the numbers in its block need.
    """
    keys, total, at = entries.keys, len(entries.keys), 0
    while at < total:
        end = min(at + MOST, total)
        first = int(keys[at])
        if int(keys[end - 1]) - first >= _FARTHEST:
            # Offsets from the first number have at most 32 bits.
            end = at + int(np.searchsorted(keys[at:end], first + _FARTHEST))
        last = int(keys[end - 1])
        offsets = (keys[at:end] - first).astype(_NARROW if last - first <= _MOST_NARROW else "<u4")
        times = entries.times[at:end]
        if times.max() < 256:
            times = times.astype(np.uint8)
        lengths = entries.lengths[at:end].tobytes()
        yield first, last, end - at, offsets.tobytes() + times.tobytes() + lengths
        at = end


def unpack_block(first: int, count: int, data: bytes) -> Postings:
    """Decode what :func:`pack_blocks` packed; the bytes per entry say how."""
    size = len(data) // count
    wide = 4 if size >= _WIDE else 2
    offsets = np.frombuffer(data, f"<u{wide}", count)
    # One byte is the length; the rest is the frequency.
    times = np.frombuffer(data, f"<u{size - wide - 1}", count, count * wide)
    return Postings(
        offsets.astype(np.int64) + first,
        times.astype(np.uint16),
        np.frombuffer(data, "u1", count, count * (size - 1)),
    )


def join(parts: list[Postings]) -> Postings:
    """Merge posting lists into one, ordered by number."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return NONE
    together = Postings(
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.times for part in parts]),
        np.concatenate([part.lengths for part in parts]),
    )
    if not (together.keys[1:] < together.keys[:-1]).any():
        return together
    order = np.argsort(together.keys, kind="stable")
    return Postings(together.keys[order], together.times[order], together.lengths[order])
