"""Hashes of rows, of the log and of small files: any single changed value is reported."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

from lookfar.errors import IndexCorrupt
from lookfar.store.ground import database
from lookfar.store.ground.records import pack_record, unpack_record
from lookfar.store.ground.sqlite_log import describe_log_damage
from store.shelf import Shelf, change_row, epoch_folder, rows_of

FRAME = 24 + 4096
"""Of a log: what is told about a page, and the page."""
TEXTS = {
    f"{n}.md": f"---\ntags: [t{n}]\naliases: [other {n}]\n---\n# Page {n}\n\nword{n}\n\n"
    f"## Sub {n}\n\nsee [[{n + 1}]] and [here]({n + 1}.md)\n"
    for n in range(8)
}
CHANGES = (
    "UPDATE documents SET title = 'Another' WHERE id = 3",
    "UPDATE documents SET lane = 'code' WHERE id = 3",
    "UPDATE documents SET uri = 'elsewhere.md' WHERE id = 3",
    "UPDATE documents SET born = born + 1 WHERE id = 3",
    "UPDATE documents SET body = body + 1 WHERE id = 3",
    "UPDATE documents SET metadata = '{}' WHERE id = 3",
    "UPDATE sections SET title = 'Another' WHERE document = 3 AND ordinal = 1",
    "UPDATE sections SET level = level + 1 WHERE document = 3 AND ordinal = 1",
    "DELETE FROM sections WHERE document = 3 AND ordinal = 1",
    "UPDATE chunks SET path = 'Another' WHERE document = 3",
    "UPDATE chunks SET id = zeroblob(16) WHERE document = 3",
    "UPDATE chunks SET start_line = start_line + 1 WHERE document = 3",
    "UPDATE chunks SET vector = 0 WHERE document = 3",
    "UPDATE links SET target = 'x' WHERE document = 3 AND ordinal = 0",
    "UPDATE links SET name = 'x' WHERE document = 3 AND ordinal = 0",
    "UPDATE names SET name = 'x' WHERE document = 3 AND way = 0",
    "UPDATE tags SET tag = 'x' WHERE document = 3",
    "INSERT INTO tags VALUES (3, 'more')",
    "INSERT INTO tags VALUES (99, 'of nobody')",
    "UPDATE embeddings SET content = zeroblob(32) WHERE row = 2",
    "UPDATE meta SET value = value || '1' WHERE key = 'last_key'",
    "INSERT INTO meta VALUES ('more', '1')",
    "UPDATE generations SET created_at = 'never'",
    "UPDATE generations SET pinned = 1",
    "INSERT INTO graves VALUES (7)",
    "INSERT INTO left_out VALUES ('a', 0, 'b', 'c', 1, 2, 3, 4, 1)",
    "UPDATE communities SET community = 77 WHERE uri = '3.md'",
    "UPDATE checks SET rows = zeroblob(16) WHERE document = 3",
    "UPDATE checks SET state = state + 1 WHERE document = 3",
    "DELETE FROM checks WHERE document = 3",
    "DELETE FROM seals WHERE name = 'meta'",
    "DROP INDEX links_by_name",
)


@pytest.fixture
def full(shelf: Shelf) -> Shelf:
    shelf.write(TEXTS)
    shelf.write({"5.md": "# Changed\n\nword\n", "6.md": None})
    assert shelf.store.verify() == []
    shelf.store.close()
    return shelf


@pytest.mark.parametrize("statement", CHANGES)
def test_any_changed_row_is_reported(full: Shelf, statement: str) -> None:
    """Seen to fail for all but two of them when ``seals.broken`` gave nothing."""
    change_row(full, statement)
    assert {problem.artefact for problem in full.store.verify()} & {"catalogue", "vectors"}


@pytest.mark.parametrize("column", ["died", "size", "mtime_ns", "ctime_ns", "inode", "settled"])
def test_mutable_columns_have_a_checksum(full: Shelf, column: str) -> None:
    """Bypass the trigger, as a flipped bit does. Seen to fail without the sum."""
    change_row(full, "DROP TRIGGER document_changed")
    change_row(full, f"UPDATE documents SET {column} = ifnull({column}, 0) + 256 WHERE id = 3")
    assert any("its file information" in problem.detail for problem in full.store.verify())


def test_changes_by_the_store_keep_checksums_valid(full: Shelf) -> None:
    """Removal, touch, rollback, pin, prune and purge all keep the hashes valid."""
    store = full.store
    store.pin(1)
    assert store.verify() == []
    store.roll_back(1)
    assert store.verify() == []
    full.write({"0.md": "# Again\n\nword\n"})
    assert store.verify() == []
    with full.session() as session:
        document = session.known()["1.md"].document
        session.touch(document, session.known()["2.md"].fingerprint, settled=False)
        session.commit_touches()
    assert store.verify() == []
    store.pin(1, pinned=False)
    store.prune(1)
    assert store.verify() == []
    ((checks, documents),) = rows_of(
        full, "SELECT (SELECT count(*) FROM checks), (SELECT count(*) FROM documents)"
    )
    assert checks == documents


def test_a_wrong_format_in_the_header_is_damage(full: Shelf) -> None:
    """Seen to fail (an older format was believed, and links were not followed)."""
    for version in (1, 37):
        change_row(full, f"PRAGMA user_version={version}")
        with pytest.raises(IndexCorrupt, match="damaged"):
            full.store.generations()
        assert full.store.verify() != []
        full.store.close()


# --- the log ----------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path) -> bytes:
    """Five commits that were never checkpointed into the database."""
    path = tmp_path / "some.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (x)")
        for number in range(4):
            connection.execute("INSERT INTO t VALUES (?)", (f"{number}" * 900,))
            connection.commit()
        return (tmp_path / "some.db-wal").read_bytes()


def test_an_intact_or_missing_log_is_not_damage(tmp_path: Path, log: bytes) -> None:
    path = tmp_path / "log"
    assert describe_log_damage(path) == ""
    for sound in (b"", log[:20], log, log + b"\0" * 5000):
        path.write_bytes(sound)
        assert describe_log_damage(path) == ""


def last_commit(log: bytes) -> int:
    """Return where the last commit of a log begins."""
    frames = range(32, len(log), FRAME)
    ends = [at for at in frames if any(log[at + 4 : at + 8])]
    return ends[-2] + FRAME


def test_every_flipped_byte_before_the_last_commit_is_reported(tmp_path: Path, log: bytes) -> None:
    """Those of salts and sums among them. Seen to fail (the last commit seemed to begin earlier)
    when a commit was known by both its salts."""
    path, last = tmp_path / "log", last_commit(log)
    assert last > 32 + 3 * FRAME
    commit = last - FRAME  # The frame that ends the commit before it.
    for at in (0, 9, 17, 25, *range(32, last, 1373), *range(commit + 8, commit + 24)):
        data = bytearray(log)
        data[at] ^= 16
        path.write_bytes(data)
        assert describe_log_damage(path), at


def test_a_zeroed_frame_before_commits_is_reported(tmp_path: Path, log: bytes) -> None:
    """Seen to fail (it was taken for a frame of another round, and commits were lost).

    One that ended the commit before the last is not told from the first of the last.
    """
    path = tmp_path / "log"
    for at in range(32, last_commit(log) - FRAME, FRAME):
        path.write_bytes(log[:at] + bytes(FRAME) + log[at + FRAME :])
        assert describe_log_damage(path), at


def test_a_torn_last_commit_is_not_damage(tmp_path: Path, log: bytes) -> None:
    """SQLite shows the state before it, as a loss of power may leave it."""
    path, last = tmp_path / "log", last_commit(log)
    for at in range(last, len(log), 97):
        data = bytearray(log)
        data[at] ^= 1
        for torn in (data, log[:at], log[:at] + bytes(len(log) - at)):
            path.write_bytes(torn)
            assert describe_log_damage(path) == "", at


def test_a_log_being_restarted_is_not_damage(tmp_path: Path, log: bytes) -> None:
    """A loss of power may keep the new header and lose the frames, or the other way round; all
    that the old round held is in the database then. Seen to fail when both were damage."""
    path = tmp_path / "log"
    salts = slice(16, 24)
    torn = bytearray(log)
    torn[salts] = bytes(each ^ 0x5A for each in torn[salts])  # The header of another round, torn.
    path.write_bytes(torn)
    assert describe_log_damage(path) == ""
    torn = bytearray(log)
    next_round = int.from_bytes(log[16:20], "big") + 1 & 0xFFFFFFFF
    torn[32 + 8 : 32 + 16] = next_round.to_bytes(4, "big") + bytes(4)  # A first frame of the next.
    path.write_bytes(torn)
    assert describe_log_damage(path) == ""
    path.write_bytes(log[:40])  # Nothing was written but a header.
    assert describe_log_damage(path) == ""


def test_a_large_log_is_checked_in_little_memory(tmp_path: Path, log: bytes) -> None:
    """Protects against a check that needs as much memory as the log is long."""
    path = tmp_path / "log"
    path.write_bytes(log)
    os.truncate(path, 40_000_000)
    tracemalloc.start()
    try:
        assert describe_log_damage(path) == ""
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_a_catalogue_with_a_damaged_log_is_not_opened(full: Shelf) -> None:
    """SQLite would show the state before it, and then remove the log.

    Seen to fail (documents were gone without a word) when ``connect`` did not look.
    """
    full.write({"late.md": "# Late\n\nword\n"})
    folder = epoch_folder(full)
    with full.store.snapshot():
        full.write({"later.md": "# Later\n\nword\n"})
        full.write({"latest.md": "# Latest\n\nword\n"})
        log = (folder / "catalogue.db-wal").read_bytes()
    full.store.close()
    assert len(log) > 3 * 4120
    data = bytearray(log)
    data[32 + 24 + 50] ^= 1
    (folder / "catalogue.db-wal").write_bytes(data)
    database._checked_logs.clear()  # As in another process.
    with pytest.raises(IndexCorrupt) as raised:
        Shelf(full.store.folder).found("word")
    assert "catalogue.db-wal" in raised.value.developer
    assert (folder / "catalogue.db-wal").read_bytes() == data


def test_verify_accepts_a_torn_last_commit(full: Shelf, tmp_path: Path) -> None:
    """As after a loss of power: nobody was told that it is done. Seen to fail (``verify`` called
    it damage until somebody wrote)."""
    left = tmp_path / "left"
    with full.store.snapshot():
        full.write({"late.md": "# Late\n\nword\n"})
        full.write({"latest.md": "# Latest\n\nword\n"})
        shutil.copytree(full.store.folder, left)
    again = Shelf(left)
    log = epoch_folder(again) / "catalogue.db-wal"
    data = bytearray(log.read_bytes())
    data[-100] ^= 1
    log.write_bytes(data)
    for shm in left.rglob("*-shm"):
        shm.unlink()
    assert again.store.verify() == []
    assert {"late.md", "latest.md"} & set(again.everything()) == {"late.md"}
    again.store.close()


# --- records ----------------------------------------------------------------------------------


def test_a_changed_record_is_rejected() -> None:
    record = {"root": "/a", "n": 7, "list": ["ü", "\udcff"]}
    data = pack_record(record)
    assert unpack_record(data) == record
    for at in range(len(data)):
        for bit in (0, 3, 5):
            spoilt = bytearray(data)
            spoilt[at] ^= 1 << bit
            try:
                assert unpack_record(bytes(spoilt)) == record
            except ValueError:
                continue
    with pytest.raises(ValueError, match="hash"):
        unpack_record(b'{"root": "/a"}')


def test_small_files_next_to_the_index_are_checked(full: Shelf) -> None:
    path = full.store.folder / "collection.json"
    path.write_bytes(path.read_bytes().replace(b"nowhere", b"NOwhere"))
    (problem,) = full.store.verify()
    assert problem.artefact == "beside"
    assert full.store.about() == {}
    full.store.mend_beside({"root": "/nowhere"})
    assert full.store.verify() == []
    assert full.store.about() == {"root": "/nowhere"}
