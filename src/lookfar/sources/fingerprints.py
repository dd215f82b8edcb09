"""How a file is known to be the same as before, and whether it is text.

Takes: stat results and bytes. Gives: fingerprints, content hashes and the
answers to "did it change?", "can that answer be trusted?" and "is it binary?".
Refuses: to touch the disk; whoever holds the stat result or the bytes asks here.
"""

from __future__ import annotations

import os
from hashlib import sha256

from lookfar.model import Fingerprint

HEAD_BYTES = 8192
"""How much of a file is looked at to tell text from binary."""

SETTLING_NS = 2_000_000_000
"""The coarsest timestamp step in common use (FAT): two writes may share one stamp for so long."""

_MOST = (1 << 63) - 1
"""The largest number that a catalogue can keep."""

_WIDE_TEXT = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
"""Byte-order marks of UTF-16 and UTF-32, whose ASCII half is full of zero bytes."""


def fingerprint_of(info: os.stat_result) -> Fingerprint:
    """What a stat result says about a file's content.

    Inode and ctime are part of it because an edit can keep size and mtime. Disks give inodes
    of 64 bits, and times beyond the year 2262; what is stored has 63 and a sign.
    """
    return Fingerprint(
        info.st_size,
        min(max(info.st_mtime_ns, -_MOST), _MOST),
        min(max(info.st_ctime_ns, -_MOST), _MOST),
        info.st_ino & _MOST,
    )


def unchanged(old: Fingerprint, new: Fingerprint) -> bool:
    """True when the disk shows no difference. Trust it only if ``old`` had settled."""
    return old == new


def settled(fingerprint: Fingerprint, read_at_ns: int) -> bool:
    """True when a later edit must show up in the fingerprint.

    A file written within a timestamp step of being read can be written again
    under the same stamp. Such a file (or one from the future, by a wrong clock)
    has to be hashed again next time, whatever its fingerprint says.
    """
    return max(fingerprint.mtime_ns, fingerprint.ctime_ns) + SETTLING_NS <= read_at_ns


def content_hash(data: bytes) -> bytes:
    """The SHA-256 digest of a file's bytes as they are on disk."""
    return sha256(data).digest()


def is_binary(head: bytes) -> bool:
    """True when the start of a file holds a zero byte that no text encoding explains."""
    return b"\0" in head[:HEAD_BYTES] and not head.startswith(_WIDE_TEXT)
