"""Atomic writes, and a lock that ends with its process."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from leaks import leaving_nothing_open
from lookfar.errors import DiskFull, IndexBusy, IndexReadOnly, IOFailed, PermissionDenied
from lookfar.store.ground import files
from points import Points
from store.shelf import Elsewhere, python
from waiting import DEADLINE

HOLD = """
    import sys, time
    from pathlib import Path
    from lookfar.store.ground.files import WriterLock
    lock = WriterLock(Path(sys.argv[1]))
    lock.acquire()
    print("held", flush=True)
    time.sleep(60)
"""


def test_an_atomic_write_replaces_the_bytes_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "CURRENT"
    files.write_atomic(path, b"old")
    files.write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["CURRENT"]


def test_a_failed_atomic_write_keeps_the_old_bytes_and_no_temporary_file(small_disk: Path) -> None:
    """Seen to fail when the temporary file was left behind, and when the target was opened."""
    path = small_disk / "CURRENT"
    files.write_atomic(path, b"old")
    with pytest.raises(DiskFull) as raised:
        files.write_atomic(path, b"x" * 4_000_000)
    assert raised.value.hint
    assert path.read_bytes() == b"old"
    assert os.listdir(small_disk) == ["CURRENT"]


def test_a_temporary_file_left_by_a_crash_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "CURRENT"
    (tmp_path / ".CURRENT.tmp").write_bytes(b"half of someth")
    files.write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["CURRENT"]


@pytest.mark.skipif(sys.platform == "win32", reason="modes")
def test_created_folders_are_private(tmp_path: Path) -> None:
    """Seen to fail when those above it were made as the umask says."""
    before = os.umask(0o022)
    try:
        files.make_folder(tmp_path / "share" / "lookfar" / "index" / "docs")
    finally:
        os.umask(before)
    made = [tmp_path / "share", *(path for path in tmp_path.rglob("*") if path.is_dir())]
    assert {path.stat().st_mode & 0o777 for path in made} == {0o700}


def test_append_overwrites_what_a_crash_left(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    files.append(path, 0, b"head")
    files.append(path, 4, b"lost in a crash")
    files.append(path, 4, memoryview(b"kept"))
    assert path.read_bytes() == b"headkept in a crash"
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, DiskFull),
        (errno.EDQUOT, DiskFull),
        (errno.EROFS, IndexReadOnly),
        (errno.EACCES, PermissionDenied),
        (errno.EIO, IOFailed),
    ],
)
def test_operating_system_errors_are_typed(number: int, kind: type[IOFailed]) -> None:
    with pytest.raises(IOFailed) as raised, files.translate_errors("writing"):
        raise OSError(number, os.strerror(number), "/somewhere")
    assert type(raised.value) is kind
    assert raised.value.hint
    assert errno.errorcode[number] in raised.value.developer


def test_removing_a_missing_file_is_fine(tmp_path: Path) -> None:
    files.remove(tmp_path / "never")
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    files.remove(tmp_path / "folder")
    assert os.listdir(tmp_path) == []


def test_a_link_to_a_folder_is_removed_and_not_what_it_points_at(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    files.remove(tmp_path / "link")
    assert os.listdir(tmp_path) == ["kept"]


def test_each_change_of_the_disk_passes_a_fault_point_first(tmp_path: Path) -> None:
    with Points().watching() as points:
        files.make_folder(tmp_path / "new" / "folder")
        files.write_atomic(tmp_path / "one", b"bytes")
        files.append(tmp_path / "two", 0, b"bytes")
        files.sync(tmp_path / "two")
        files.link_or_copy(tmp_path / "two", tmp_path / "three")
        files.rename(tmp_path / "two", tmp_path / "four")
        files.remove(tmp_path / "new")
    base = tmp_path.name
    assert points.seen == [
        ("folder", "folder"), ("sync", base), ("sync", "new"),
        ("create", "one"), ("write", "one"), ("sync", "one"), ("rename", "one"), ("sync", base),
        ("open", "two"), ("write", "two"), ("sync", "two"), ("link", "two"),
        ("rename", "two"), ("sync", base), ("remove", "new"),
    ]  # fmt: skip
    assert files.on_fault_point is None


def test_a_short_write_is_continued(tmp_path: Path) -> None:
    """Seen to fail when the bytes that the system left over were not written."""
    left = [3]

    def a_few(what: str, name: str, size: int) -> int:
        return left.pop() if what == "write" and left else size

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files, "on_fault_point", a_few)
        files.write_atomic(tmp_path / "one", b"some bytes")
    assert (tmp_path / "one").read_bytes() == b"some bytes"


def test_a_second_process_is_refused_until_the_holder_dies(
    tmp_path: Path, elsewhere: Elsewhere
) -> None:
    """Seen to fail when a lock that someone else holds was granted."""
    path = tmp_path / "writer.lock"
    holder = subprocess.Popen(python(HOLD, path), stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(IndexBusy) as raised:
        files.WriterLock(path).acquire()
    assert raised.value.hint
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    lock = files.WriterLock(path)
    lock.acquire(wait_seconds=DEADLINE)
    other = elsewhere(
        "import sys; from pathlib import Path; from lookfar.store.ground.files import WriterLock;"
        "WriterLock(Path(sys.argv[1])).acquire()",
        path,
    )
    assert "IndexBusy" in other.stderr
    lock.release()


def test_a_thread_waits_for_the_lock_up_to_its_timeout(tmp_path: Path) -> None:
    path = tmp_path / "writer.lock"
    first, second = files.WriterLock(path), files.WriterLock(path)
    first.acquire()
    started = time.monotonic()
    with pytest.raises(IndexBusy):
        second.acquire(wait_seconds=0.2)
    assert 0.2 <= time.monotonic() - started < 20
    threading.Timer(0.2, first.release).start()
    second.acquire(wait_seconds=DEADLINE)
    second.release()


def test_refused_locks_leak_no_descriptors(tmp_path: Path) -> None:
    path = tmp_path / "writer.lock"
    with files.WriterLock(path) as held:
        held.acquire()
        with leaving_nothing_open():
            for _ in range(20):
                with pytest.raises(IndexBusy):
                    files.WriterLock(path).acquire()


@pytest.mark.parametrize(
    ("refusal", "expected"), [(None, []), (errno.ENOTSUP, ["fsync"]), (errno.EIO, None)]
)
def test_sync_flushes_the_drive_cache_on_macos(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refusal: int | None,
    expected: list[str] | None,
) -> None:
    """Where ``fsync`` leaves it in the drive's memory, which a loss of power empties. Seen to fail
    with ``fsync`` alone, without it where the disk knows no other, and with errors passed over."""
    fcntl = pytest.importorskip("fcntl")

    done: list[str] = []

    def full(descriptor: int, what: int) -> None:
        assert what == 51
        done.append("full")
        if refusal is not None:
            raise OSError(refusal, "no")

    path = tmp_path / "one"
    path.write_bytes(b"bytes")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", full)
    monkeypatch.setattr(os, "fsync", lambda _: done.append("fsync"))
    monkeypatch.setattr(sys, "platform", "darwin")
    if expected is None:
        with pytest.raises(IOFailed):
            files.sync(path)
    else:
        files.sync(path)
    assert done == ["full", *(expected or [])]
