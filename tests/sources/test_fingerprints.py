"""Fingerprints: every kind of edit shows, or is known not to show yet."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from lookfar.model import Fingerprint
from lookfar.sources.fingerprints import (
    content_hash,
    is_binary,
    is_settled,
    is_unchanged,
    make_fingerprint,
)


def test_an_edit_that_keeps_size_and_mtime_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one")
    before = os.stat(path)
    time.sleep(0.02)
    path.write_text("two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = os.stat(path)
    assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    assert not is_unchanged(make_fingerprint(before), make_fingerprint(after))
    assert is_unchanged(make_fingerprint(after), make_fingerprint(os.stat(path)))


@pytest.mark.parametrize("field", ["size", "mtime_ns", "ctime_ns", "inode"])
def test_every_field_counts(field: str) -> None:
    values = {"size": 1, "mtime_ns": 2, "ctime_ns": 3, "inode": 4}
    changed = Fingerprint(**{**values, field: 9})
    assert not is_unchanged(Fingerprint(**values), changed)


@pytest.mark.parametrize(
    ("mtime", "ctime", "read_at", "expected"),
    [
        (10, 10, 12, True),
        (10, 10, 11, False),
        (10, 1, 11, False),
        (1, 10, 11, False),
        (99, 1, 11, False),
        (1, 1, 11, True),
    ],
)
def test_settled(mtime: int, ctime: int, read_at: int, expected: bool) -> None:
    second = 1_000_000_000
    fingerprint = Fingerprint(1, mtime * second, ctime * second, 1)
    assert is_settled(fingerprint, read_at * second) is expected


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"", False),
        (b"plain", False),
        ("日本語".encode(), False),
        ("日本語".encode("shift_jis"), False),
        (b"\x89PNG\r\n\x1a\n\x00\x00", True),
        (b"a\0b", True),
        (b"a" * 8191 + b"\0", True),
        (b"a" * 8192 + b"\0", False),
        ("\ufeffhello".encode("utf-16-le"), False),
        ("\ufeffhello".encode("utf-16-be"), False),
        ("\ufeffhello".encode("utf-32-be"), False),
        ("hello".encode("utf-16-le"), False),
    ],
)
def test_is_binary(head: bytes, expected: bool) -> None:
    assert is_binary(head) is expected


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"", False),
        (b"plain\ttext\r\n\f", False),
        ("日本語のテキスト".encode() * 600, False),
        ("Grüße aus Köln, und noch ein paar Wörter".encode("latin-1"), False),
        ("日本語のテキスト".encode("shift_jis"), False),
        (bytes(range(1, 256)) * 4, True),
        (bytes(range(128, 256)) * 4, True),
        ("日本語".encode() * 4000, False),
        (("日本語" * 20 + "\n").encode("euc-jp") * 9, False),
        (b"\x01\x02text" * 9, True),
        (b"a\0b", True),
        ("\ufeffhello".encode("utf-16-le"), False),
    ],
)
def test_content_of_an_unknown_format_must_be_text(head: bytes, expected: bool) -> None:
    assert is_binary(head, known=False) is expected


def test_content_hash_is_of_the_bytes_on_disk() -> None:
    assert content_hash(b"a\r\n") == sha256(b"a\r\n").digest() != content_hash(b"a\n")


BEYOND = 1 << 63


def stat_result(inode: int, mtime_ns: int, ctime_ns: int) -> os.stat_result:
    """As disks give them; few let a test ask for such an inode."""
    whole = (0o100644, inode, 1, 1, 0, 0, 5, 0, mtime_ns // 10**9, ctime_ns // 10**9)
    return os.stat_result(whole, {"st_mtime_ns": mtime_ns, "st_ctime_ns": ctime_ns})


@pytest.mark.parametrize("mtime_ns", [BEYOND, -BEYOND - 1, 5 * BEYOND])
@pytest.mark.parametrize("inode", [BEYOND, 2 * BEYOND - 1, BEYOND + 7])
def test_numbers_of_more_than_63_bits_can_be_stored(inode: int, mtime_ns: int) -> None:
    """Seen to fail with an ``OverflowError`` of SQLite's when a fingerprint was as the disk
    says, for its times and for its inode."""
    made = make_fingerprint(stat_result(inode, mtime_ns, mtime_ns))
    with closing(sqlite3.connect(":memory:")) as connection:
        told = (made.size, made.mtime_ns, made.ctime_ns, made.inode)
        assert connection.execute("SELECT ?, ?, ?, ?", told).fetchone() == told
    assert not is_unchanged(made, make_fingerprint(stat_result(inode - 1, mtime_ns, mtime_ns)))
