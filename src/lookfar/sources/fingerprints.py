"""Compare files by fingerprint, hash their content, and tell binary from text."""

from __future__ import annotations

import os
from hashlib import sha256

from lookfar.common.wide_text import detect_wide
from lookfar.model import Fingerprint

HEAD_BYTES = 8192
"""How many bytes are checked to tell text from binary."""

SETTLING_NS = 2_000_000_000
"""The coarsest timestamp resolution in use (FAT): writes this close can share a timestamp."""

_MOST = (1 << 63) - 1
"""The largest integer that SQLite can store."""

NOT_TEXT = "its content is not text"

_MOST_CONTROLS = 50
"""One byte in so many may be a control character in a text. Other bytes decide nothing: in Latin-1,
Shift_JIS or KOI8 most of them are not UTF-8."""

_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b"))

_SPACES = b" \t\n\r\f"
_LONG_WORD = 256
_LONGEST_CHARACTER = 4

_WIDE_TEXT = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
"""Byte-order marks of UTF-16 and UTF-32, which contain many NUL bytes."""


def make_fingerprint(info: os.stat_result) -> Fingerprint:
    """Build the fingerprint of a file from its stat result.

    It includes inode and ctime because an edit can preserve size and mtime. Inodes may have 64
    bits and times may be after the year 2262, so they are limited to signed 64-bit integers.
    """
    return Fingerprint(
        info.st_size,
        min(max(info.st_mtime_ns, -_MOST), _MOST),
        min(max(info.st_ctime_ns, -_MOST), _MOST),
        info.st_ino & _MOST,
    )


def is_unchanged(old: Fingerprint, new: Fingerprint) -> bool:
    """Whether the fingerprints are equal; reliable only if ``old`` was settled."""
    return old == new


def is_settled(fingerprint: Fingerprint, read_at_ns: int) -> bool:
    """Whether any later edit changes the fingerprint.

    A file written just before it was read can be written again with the same timestamp. Such a
    file, or one with a timestamp in the future, must be hashed again next time.
    """
    return max(fingerprint.mtime_ns, fingerprint.ctime_ns) + SETTLING_NS <= read_at_ns


def content_hash(data: bytes) -> bytes:
    """Return the SHA-256 digest of a file's bytes."""
    return sha256(data).digest()


def is_binary(data: bytes, *, known: bool = True) -> bool:
    """Whether the start of a file contains a NUL byte and is not UTF-16 or UTF-32.

    A file of an unknown format is also binary if it contains many control characters, or if it is
    not UTF-8 and contains no white space.
    """
    head = data[:HEAD_BYTES]
    if head.startswith(_WIDE_TEXT):
        return False
    if b"\0" in head:
        return detect_wide(data) is None
    return not known and (_has_many_controls(head) or _has_no_spaces(head))


def _has_many_controls(head: bytes) -> bool:
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return controls * _MOST_CONTROLS > len(head)


def _has_no_spaces(head: bytes) -> bool:
    """Whether many bytes, most of them not ASCII, contain no white space: that is not text."""
    if len(head) < _LONG_WORD or head.isascii() or len(head) != len(head.translate(None, _SPACES)):
        return False
    try:
        head[:-_LONGEST_CHARACTER].decode("utf-8")
    except UnicodeDecodeError as error:
        # A character may be cut at the end of the head.
        return error.start < len(head) - 2 * _LONGEST_CHARACTER
    return False
