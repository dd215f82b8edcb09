"""SQLite's log, checked by ourselves.

Takes: the path of a ``-wal`` file. Gives: what is wrong with it. Refuses: nothing; no log is a
sound one.

SQLite takes a log that is broken for one that ends there, and shows the state before: whatever was
committed since is gone without a word, and with the last connection so is the log. Where that is
the last commit alone it is no damage: a loss of power leaves it so before anybody was told that it
is done. A frame that is broken with further commits behind it is.
"""

from __future__ import annotations

import struct
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = 0x377F0682
_LOOKS = 3
_PAUSE = 0.05
_BUFFER = 1 << 20


def log_of(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def has_log(database: Path) -> bool:
    """Whether something may be in the log that is not in the database yet."""
    try:
        return log_of(database).stat().st_size > 0
    except FileNotFoundError:
        return False


def broken_log(path: Path) -> str:
    """What is wrong with a log, if it stays wrong: a writer may be starting it over."""
    seen = ""
    for look in range(_LOOKS):
        if look:
            time.sleep(_PAUSE)
        try:
            with path.open("rb", buffering=_BUFFER) as log:
                why = _damage(log)
        except OSError:  # It is SQLite's turn to say so.
            return ""
        if not why or (look and why != seen):
            return ""
        seen = why
    return seen


def _damage(log: BinaryIO) -> str:
    """Read in turn: a log that nobody could empty for long is larger than its database."""
    head = log.read(_HEADER.size)
    if len(head) < _HEADER.size:  # Nothing was ever committed to it.
        return ""
    magic, _, size, _, salt, pepper, first, second = _HEADER.unpack(head)
    order = ">u4" if magic & 1 else "<u4"
    sums = _sums(np.frombuffer(head[:24], dtype=order), (0, 0))
    if magic & ~1 != _MAGIC or sums != (first, second):
        begun = _started_over(log.read(_FRAME.size), (salt, pepper))
        return "" if begun else "its header differs from what was written"
    step = _FRAME.size + size
    number, broken, commits = 0, 0, 0
    while len(frame := log.read(step)) == step:
        number += 1
        told = _FRAME.unpack_from(frame)
        if not broken:
            sums = _sums(np.frombuffer(frame[:8], dtype=order), sums)
            sums = _sums(np.frombuffer(frame[_FRAME.size :], dtype=order), sums)
            if told[2:] != (salt, pepper, *sums):
                if told[2] == (salt + 1) & 0xFFFFFFFF:  # Of the next round; see below.
                    return ""
                broken = number
        # Frames of another round have neither word of this one; of a broken one, one is left.
        if broken and told[1] and (told[2] == salt or told[3] == pepper):
            commits += 1
            if commits > 1:  # Not of the last one alone, nor behind it.
                return f"frame {broken} differs from what was written"
    return ""


def _started_over(frame: bytes, salts: tuple[int, int]) -> bool:
    """Whether the power failed while the log was started over with another header: both words
    that tell rounds apart differ, or no frame is there yet. All that the round before held is in
    the database by then.
    """
    return len(frame) < _FRAME.size or not any(
        one == other for one, other in zip(_FRAME.unpack(frame)[2:4], salts, strict=True)
    )


def _sums(words: NDArray[np.uint32], before: tuple[int, int]) -> tuple[int, int]:
    """SQLite's checksum, from where it stood: a recurrence, taken in one product."""
    pairs = words.astype(np.uint32).reshape(-1, 2)
    of_first, of_both, carried = _weights(len(pairs))
    both = pairs[:, 0] + pairs[:, 1]
    sums = []
    for row in (0, 1):
        total = int((of_first[row] * pairs[:, 0] + of_both[row] * both).sum(dtype=np.uint32))
        total += carried[row][0] * before[0] + carried[row][1] * before[1]
        sums.append(total & 0xFFFFFFFF)
    return sums[0], sums[1]


@cache
def _weights(
    count: int,
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], tuple[tuple[int, int], tuple[int, int]]]:
    """How much each of ``count`` steps of ((1, 1), (1, 2)) still counts at the end."""
    a, b, c, d = 1, 0, 0, 1
    powers = []
    for _ in range(count):
        powers.append((a, b, c, d))
        a, b, c, d = (each & 0xFFFFFFFF for each in (a + b, a + 2 * b, c + d, c + 2 * d))
    table = np.array(powers[::-1], dtype=np.uint32).reshape(-1, 4)
    return table[:, (0, 2)].T, table[:, (1, 3)].T, ((a, b), (c, d))
