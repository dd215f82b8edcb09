"""Check SQLite's write-ahead log (the ``-wal`` file) for damage.

SQLite treats a damaged frame as the end of the log. It silently drops all later commits, and
the last connection removes the log. An incomplete last commit is not damage: that is what a
power failure leaves when it strikes before the commit is reported as done. A damaged frame with
further commits after it is damage.
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
_TRIES = 3
_PAUSE = 0.05
_BUFFER = 1 << 20


def log_path(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def has_log(database: Path) -> bool:
    try:
        return log_path(database).stat().st_size > 0
    except FileNotFoundError:
        return False


def describe_log_damage(path: Path) -> str:
    """Say what is wrong with a log; empty if it is intact or missing.

    Damage must show in every try: a writer may be restarting the log.
    """
    last = ""
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE)
        try:
            with path.open("rb", buffering=_BUFFER) as log:
                why = _find_damage(log)
        except OSError:  # SQLite will report it.
            return ""
        if not why or (attempt and why != last):
            return ""
        last = why
    return last


def _find_damage(log: BinaryIO) -> str:
    """Read frame by frame: a log that was not emptied for long can exceed its database."""
    head = log.read(_HEADER.size)
    if len(head) < _HEADER.size:  # Nothing was ever committed.
        return ""
    magic, _, size, _, salt, pepper, first, second = _HEADER.unpack(head)
    order = ">u4" if magic & 1 else "<u4"
    sums = _sums(np.frombuffer(head[:24], dtype=order), (0, 0))
    if magic & ~1 != _MAGIC or sums != (first, second):
        restarted = _is_restarting(log.read(_FRAME.size), (salt, pepper))
        return "" if restarted else "its header differs from what was written"
    step = _FRAME.size + size
    number, broken, commits = 0, 0, 0
    while len(frame := log.read(step)) == step:
        number += 1
        fields = _FRAME.unpack_from(frame)
        if not broken:
            sums = _sums(np.frombuffer(frame[:8], dtype=order), sums)
            sums = _sums(np.frombuffer(frame[_FRAME.size :], dtype=order), sums)
            if fields[2:] != (salt, pepper, *sums):
                if fields[2] == (salt + 1) & 0xFFFFFFFF:  # The log was restarted; see below.
                    return ""
                broken = number
        # A frame from before the restart has neither salt; a damaged one still has one of them.
        if broken and fields[1] and (fields[2] == salt or fields[3] == pepper):
            commits += 1
            if commits > 1:  # More than the last commit is affected.
                return f"frame {broken} differs from what was written"
    return ""


def _is_restarting(frame: bytes, salts: tuple[int, int]) -> bool:
    """Whether the power failed while the log was restarted with a new header.

    Then both salts differ, or there is no frame yet. Everything in the old log is in the
    database by then.
    """
    return len(frame) < _FRAME.size or not any(
        one == other for one, other in zip(_FRAME.unpack(frame)[2:4], salts, strict=True)
    )


def _sums(words: NDArray[np.uint32], before: tuple[int, int]) -> tuple[int, int]:
    """Continue SQLite's checksum; its recurrence is computed as one weighted sum."""
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
    """Return the weight of each of ``count`` steps: the powers of ((1, 1), (1, 2))."""
    a, b, c, d = 1, 0, 0, 1
    powers = []
    for _ in range(count):
        powers.append((a, b, c, d))
        a, b, c, d = (value & 0xFFFFFFFF for value in (a + b, a + 2 * b, c + d, c + 2 * d))
    table = np.array(powers[::-1], dtype=np.uint32).reshape(-1, 4)
    return table[:, (0, 2)].T, table[:, (1, 3)].T, ((a, b), (c, d))
