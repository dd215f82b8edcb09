"""A damaged database of inserted documents is never empty and never erased.

The harness that damages every page is ``faults/test_database_damage.py``; here is what single
damages lead to, from the first reproduction on.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lookfar.collections.databases import Documents
from lookfar.collections.read_documents import list_indexed
from lookfar.errors import DiskFull, IndexCorrupt, LookfarError
from lookfar.library import Library
from lookfar.model import Verified
from lookfar.serve.cli.main import cli
from lookfar.store.catalogue import journal
from lookfar.store.catalogue.journal import Log

NAME = "notes"
COUNT = 60
ULID = "01HZZZZZZZZZZZZZZZZZZZZZ"
DAMAGE = 5168
"""Where zeros were seen to empty a database: in the pages of ``meta`` and ``generations``."""


def opened(base: Path, **more: Any) -> Library:
    (base / "project").mkdir(exist_ok=True)
    given = {"embed.provider": "hash", "documents.dir": str(base / "db")}
    return Library.open(base / "project", index_dir=base / "index", settings=given | more)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with 60 documents, closed."""
    base = tmp_path_factory.mktemp("sound")
    lines = [
        json.dumps(
            {
                "doc_id": f"{ULID}{number:02d}",
                "text": f"document {number} tells of the harbour",
                "metadata": {"n": number},
            }
        )
        for number in range(COUNT)
    ]
    with opened(base) as library:
        library.database(NAME).import_lines(lines[:50])
        for line in lines[50:]:
            library.database(NAME).import_lines([line])
    return base


@pytest.fixture
def base(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "base"))


def epoch_of(base: Path) -> Path:
    (found,) = (base / "db" / NAME).glob("epoch-*")
    return found


def catalogue_of(base: Path) -> Path:
    return epoch_of(base) / "catalogue.db"


def zero(path: Path, at: int = DAMAGE, size: int = 4096) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes(size))


def texts(library: Library) -> dict[str, str]:
    return {each.doc_id: each.text for each in library.database(NAME).entries()}


def options(base: Path) -> list[str]:
    """How a command line reaches the same."""
    return ["--set", f"documents.dir={base / 'db'}", "--index-dir", str(base / "index"),
            "--set", "embed.provider=hash"]  # fmt: skip


def repaired(base: Path) -> Verified:
    with opened(base) as library:
        (found,) = library.verified(repair=True)
        return found


def create_and_check(library: Library) -> None:
    library.database(NAME).create()
    library.database(NAME).check()


OPERATIONS: dict[str, Callable[[Library], object]] = {
    "find": lambda library: library.find_similar("harbour", database=NAME),
    "search": lambda library: library.search("harbour", collections=(f"{NAME}@documents",)),
    "list": lambda library: library.database(NAME).status(),
    "listed": lambda library: list_indexed(library.database(NAME)),
    "export": lambda library: list(library.database(NAME).export_lines()),
    "read": lambda library: library.read(f"{ULID}03", collection=f"{NAME}@documents"),
    "metadata": lambda library: library.database(NAME).metadata_of_all([f"{ULID}03"]),
    "insert": lambda library: library.database(NAME).insert("one more"),
    "import": lambda library: library.database(NAME).import_lines(['{"text": "one more"}']),
    "delete": lambda library: library.database(NAME).delete(f"{ULID}03"),
    "index": lambda library: library.database(NAME).index(),
    "create": create_and_check,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_page_of_zeros_is_reported_and_costs_nothing(base: Path, name: str) -> None:
    """Seen to fail with the code before the journal: ``find``, ``list`` and ``export`` were empty,
    ``insert`` succeeded, and the epoch with all documents was removed; and without
    ``refuse_damage``, for every operation. Without ``Watch.check`` alone this page is reported."""
    zero(catalogue_of(base))
    damaged = catalogue_of(base).read_bytes()
    with opened(base) as library, pytest.raises(IndexCorrupt) as raised:
        OPERATIONS[name](library)
    assert "--rebuild" not in raised.value.hint
    assert "lookfar verify --repair" in raised.value.hint
    assert NAME in raised.value.message
    assert catalogue_of(base).read_bytes() == damaged
    done = repaired(base)
    assert done.repaired
    assert done.salvaged is not None
    assert (done.salvaged.saved, done.salvaged.lost, done.salvaged.lost_ids) == (COUNT, 0, ())
    assert (Path(done.salvaged.kept_aside) / "catalogue.db").read_bytes() == damaged
    with opened(base) as library:
        assert len(texts(library)) == COUNT
        assert library.find_similar("document 7", database=NAME, top_k=1)[0][0].metadata == {"n": 7}
        assert library.database(NAME).insert("one more").chunk_count == 1
        assert library.database(NAME).store.verify() == []


def test_verify_and_doctor_name_the_database(base: Path) -> None:
    """Seen to fail with the code before the journal: ``verify`` refused to run in a folder that is
    not indexed."""
    zero(catalogue_of(base))
    settings = options(base)
    project = str(base / "project")
    found = CliRunner().invoke(cli, ["verify", project, *settings])
    assert found.exit_code == 9
    assert f"{NAME}@documents" in found.output
    checked = CliRunner().invoke(cli, ["doctor", project, "--json", *settings])
    assert checked.exit_code == 9
    errors = [each for each in json.loads(checked.stdout)["findings"] if each["state"] == "error"]
    assert [NAME in each["message"] for each in errors] == [True]
    assert "verify" in errors[0]["fix"]
    done = CliRunner().invoke(cli, ["verify", project, "--repair", *settings])
    assert done.exit_code == 0
    assert "60 documents saved" in done.output
    assert "damaged-epoch-1" in done.output
    assert "sources" not in done.output


def test_rows_that_are_gone_are_missed(base: Path) -> None:
    """A page may read as one with fewer rows. Seen to fail without ``refuse_miscount`` (57 were
    exported and listed, and one more was inserted), and without ``Watch.check``."""
    with closing(sqlite3.connect(catalogue_of(base))) as connection:
        for table, column in (("documents", "id"), ("chunks", "document"), ("tags", "document")):
            connection.execute("DROP TRIGGER IF EXISTS document_purged")
            connection.execute(f"DELETE FROM {table} WHERE {column} IN (3, 4, 5)")
        connection.execute("DELETE FROM checks WHERE document IN (3, 4, 5)")
        connection.commit()
    for name in ("find", "list", "export", "insert"):
        with opened(base) as library, pytest.raises(IndexCorrupt):
            OPERATIONS[name](library)
    done = repaired(base)
    assert done.salvaged is not None
    assert (done.salvaged.saved, done.salvaged.lost) == (COUNT, 0)


@pytest.mark.parametrize("name", ["find", "insert", "export"])
def test_a_pointer_that_is_gone_loses_nothing(base: Path, name: str) -> None:
    """Seen to fail with the code before the journal, and when ``exists`` did not look for lost
    epochs: the database was not listed."""
    (base / "db" / NAME / "CURRENT").unlink()
    with opened(base) as library:
        assert list(library.databases()) == [f"{NAME}@documents"]
        OPERATIONS[name](library)
        assert len(texts(library)) == COUNT + (name == "insert")


@pytest.mark.parametrize("name", ["find", "insert", "export"])
def test_a_crash_right_after_the_first_commit_loses_nothing(base: Path, name: str) -> None:
    """The catalogue then has no log yet, and nothing points at it.

    Seen to fail when the header without a log was taken for damage: 3 of 240 kills of a process
    during its first insert.
    """
    with closing(sqlite3.connect(catalogue_of(base))) as connection:
        assert connection.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
    (base / "db" / NAME / "CURRENT").unlink()
    with opened(base) as library:
        OPERATIONS[name](library)
        assert len(texts(library)) == COUNT + (name == "insert")
        assert library.verify(collection=f"{NAME}@documents") == []


def test_making_a_database_again_whose_pointer_is_gone_loses_nothing(base: Path) -> None:
    """Seen to fail with the code before the journal, and when ``_lost`` gave nothing: its epoch was
    removed as unfinished."""
    (base / "db" / NAME / "CURRENT").unlink()
    with opened(base) as library:
        library.database(NAME).create()
    with opened(base) as library:
        assert len(texts(library)) == COUNT


def test_a_pointer_to_nowhere_with_a_damaged_epoch_loses_nothing(base: Path) -> None:
    """Seen to fail with the code before the journal, and when ``_succeeded`` did not refuse: a
    rebuild took every epoch for unfinished and removed it."""
    (base / "db" / NAME / "CURRENT").write_bytes(b"epoch-7")
    zero(catalogue_of(base))
    for rebuild in (False, True):
        with opened(base) as library, pytest.raises(IndexCorrupt):
            library.database(NAME).index(rebuild=rebuild)
    done = repaired(base)
    assert done.salvaged is not None
    assert done.salvaged.saved == COUNT


# --- what is saved ----------------------------------------------------------------------------


def test_each_copy_alone_is_enough(base: Path) -> None:
    """The journal without any catalogue, and the catalogue without a journal."""
    catalogue_of(base).write_bytes(b"")
    done = repaired(base)
    assert done.salvaged is not None
    assert done.salvaged.saved == COUNT
    (epoch_of(base) / "documents.log").unlink()
    with closing(sqlite3.connect(catalogue_of(base))) as connection:
        connection.execute("UPDATE meta SET value = 'x' WHERE key = 'fingerprint'")
        connection.commit()
    done = repaired(base)
    assert done.salvaged is not None
    assert done.salvaged.saved == COUNT
    assert Path(done.salvaged.kept_aside).name == "damaged-epoch-2"
    aside = {each.name for each in (base / "db" / NAME).glob("damaged-*")}
    assert aside == {"damaged-epoch-1", "damaged-epoch-2"}


def test_what_both_copies_lost_is_named(base: Path) -> None:
    """Seen to fail (one was reported lost, and not which) when names were taken from intact rows
    alone."""
    log = epoch_of(base) / "documents.log"
    entry = Log(log).entry(f"{ULID}07")
    assert entry is not None
    zero(log, entry.start + 40, 20)
    with closing(sqlite3.connect(catalogue_of(base))) as connection:
        (sha,) = connection.execute(
            "SELECT text_sha FROM documents WHERE uri = ?", (f"{ULID}07",)
        ).fetchone()
        connection.execute("UPDATE texts SET body = x'00' WHERE sha = ?", (sha,))
        connection.commit()
    done = repaired(base)
    assert done.salvaged is not None
    assert (done.salvaged.saved, done.salvaged.lost) == (COUNT - 1, 1)
    assert done.salvaged.lost_ids == (f"{ULID}07",)
    with opened(base) as library:
        assert f"{ULID}07" not in texts(library)
        assert library.database(NAME).store.verify() == []


def test_where_nothing_can_be_saved_nothing_is_changed(base: Path) -> None:
    """An empty database would pass for one that never had documents."""
    catalogue_of(base).write_bytes(b"rubbish" * 1000)
    (epoch_of(base) / "documents.log").write_bytes(b"rubbish" * 1000)
    done = repaired(base)
    assert not done.repaired
    assert done.left
    assert catalogue_of(base).read_bytes() == b"rubbish" * 1000
    with opened(base) as library, pytest.raises(IndexCorrupt):
        texts(library)


def test_damage_in_the_journal_is_found_and_it_is_written_anew(base: Path) -> None:
    log = epoch_of(base) / "documents.log"
    whole = log.read_bytes()
    damages: list[Callable[[], object]] = [
        lambda: zero(log, 500, 100),
        lambda: os.truncate(log, 700),
        log.unlink,
    ]
    for spoil in damages:
        spoil()
        with opened(base) as library:
            (found,) = library.verified()
            assert {each.artefact for each in found.found} == {"journal"}
        assert repaired(base).repaired
        assert set(Log(log).uris) == {f"{ULID}{number:02d}" for number in range(COUNT)}
        log.write_bytes(whole)
        with opened(base) as library:  # Where the log ends is recorded anew by a writer.
            library.database(NAME).insert("one more")
            library.database(NAME).delete(
                *(each for each, text in texts(library).items() if text == "one more")
            )
        whole = log.read_bytes()


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_place_of_the_journal_costs_the_documents_in_it_alone(
    base: Path, seed: int
) -> None:
    """Seen to fail when a broken frame ended the reading of the log."""
    log = epoch_of(base) / "documents.log"
    data = bytearray(log.read_bytes())
    every = {uri: Log(log).entry(uri) for uri in Log(log).uris}
    chance = random.Random(seed)
    at, size = chance.randrange(len(data)), chance.choice((1, 30, 400))
    data[at : at + size] = chance.randbytes(len(data[at : at + size]))
    log.write_bytes(data)
    spared = {
        u for u, e in every.items() if e is not None and (e.end <= at or e.start >= at + size)
    }
    found = {uri: Log(log).entry(uri) for uri in Log(log).uris}
    assert spared <= found.keys()
    for uri, entry in found.items():
        assert entry == every[uri]


# --- the journal ------------------------------------------------------------------------------


def test_an_older_database_gets_its_journal_with_the_next_write(base: Path) -> None:
    (epoch_of(base) / "documents.log").unlink()
    with closing(sqlite3.connect(catalogue_of(base), isolation_level=None)) as connection:
        from lookfar.store.catalogue.seals import seal

        connection.execute("DELETE FROM meta WHERE key LIKE 'journal%'")
        seal(connection)
    with opened(base) as library:
        database = library.database(NAME)
        assert database.store.verify() == []
        database.insert("one more", doc_id=f"{ULID}99")
        assert database.store.verify() == []
    assert len(list(Log(epoch_of(base) / "documents.log").uris)) == COUNT + 1


def test_what_was_erased_does_not_come_back(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a death came between the two steps of erasing. Seen to fail (it was saved from
    the journal) when no frame said that it was erased."""

    def dies(*_: object) -> None:
        raise LookfarError("a death", hint="")

    with opened(base) as library, monkeypatch.context() as patched:
        patched.setattr("lookfar.store.sqlite.store.remove_traces", dies)
        with pytest.raises(LookfarError, match="a death"):
            library.database(NAME).delete(f"{ULID}05")
    zero(catalogue_of(base))
    done = repaired(base)
    assert done.salvaged is not None
    assert done.salvaged.saved == COUNT - 1
    with opened(base) as library:
        assert f"{ULID}05" not in texts(library)


def last_commit(log: Path) -> tuple[int, int]:
    """Return where the last commit of a write-ahead log begins and ends."""
    data = log.read_bytes()
    frames = range(32, len(data), 24 + 4096)
    ends = [
        at + 24 + 4096
        for at in frames
        if any(data[at + 4 : at + 8]) and data[at + 8 : at + 16] == data[16:24]
    ]
    return (ends[-2] if len(ends) > 1 else 32), ends[-1]


def test_a_commit_that_the_log_of_sqlite_lost_is_reported_and_saved(tmp_path: Path) -> None:
    """Seen to fail without the marks: the last document was missing, and nothing said so."""
    base, live = tmp_path / "crashed", tmp_path / "live"
    live.mkdir()
    with opened(live) as library:
        database = library.database(NAME)
        database.create()
        for text in ("the first text", "the second text", "the last text"):
            database.insert(f"{text} about the harbour")
        shutil.copytree(live, base)  # As a crash leaves it, with SQLite's log.
    log = catalogue_of(base).with_name("catalogue.db-wal")
    begin, end = last_commit(log)
    zero(log, begin, end - begin)
    with opened(base) as library, pytest.raises(IndexCorrupt):
        library.find_similar("harbour", database=NAME)
    with opened(base) as library, pytest.raises(IndexCorrupt):
        library.database(NAME).insert("another text")
    salvaged = repaired(base).salvaged
    assert salvaged is not None
    assert (salvaged.saved, salvaged.lost) == (3, 0)
    with opened(base) as library:
        assert "the last text about the harbour" in texts(library).values()


def test_frames_of_a_session_that_failed_do_not_count(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail (two texts were saved) when the next session did not cut them off. Of the frames
    of one session the first is overwritten in any case, and only those behind it show the cut."""

    def fails(*_: object) -> None:
        raise LookfarError("the disk", hint="")

    with opened(base) as library:
        with monkeypatch.context() as patched:
            patched.setattr("lookfar.store.sqlite.write_session.commit", fails)
            with pytest.raises(LookfarError, match="the disk"):
                library.database(NAME).import_lines(
                    json.dumps({"doc_id": f"{ULID}{number}", "text": f"never stored {number}"})
                    for number in (96, 97, 98)
                )
        library.database(NAME).insert("stored", doc_id=f"{ULID}99")
    zero(catalogue_of(base))
    done = repaired(base)
    assert done.salvaged is not None
    assert done.salvaged.saved == COUNT + 1
    with opened(base) as library:
        assert texts(library).keys() == {f"{ULID}{number:02d}" for number in (*range(COUNT), 99)}


def test_a_deleted_document_leaves_neither_journal_nor_damaged_copy(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero(catalogue_of(base))
    assert repaired(base).repaired
    monkeypatch.chdir(base / "project")
    done = CliRunner().invoke(
        cli, ["documents", "delete", f"{ULID}05", "--db", NAME, *options(base)]
    )
    assert done.exit_code == 0, done.output
    assert "damaged-epoch-1" in done.stderr
    assert not list((base / "db" / NAME).glob("damaged-*"))
    log = epoch_of(base) / "documents.log"
    assert f"{ULID}05".encode() not in log.read_bytes()
    assert not Log(log).erased
    with opened(base) as library:
        assert library.database(NAME).store.verify() == []


def test_a_repair_that_fails_leaves_everything(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At whatever point: nothing is removed before the new epoch serves."""
    zero(catalogue_of(base))
    damaged = catalogue_of(base).read_bytes()

    def fails(*_: object) -> None:
        raise DiskFull("the disk", hint="")

    with opened(base) as library, monkeypatch.context() as patched:
        patched.setattr("lookfar.store.sqlite.write_session.commit", fails)
        with pytest.raises(DiskFull):
            library.verified(repair=True)
    assert catalogue_of(base).read_bytes() == damaged
    with opened(base) as library, monkeypatch.context() as patched:
        # Between setting the damaged epoch aside and pointing at the new one.
        patched.setattr("lookfar.store.sqlite.folder.CollectionFolder.publish", fails)
        with pytest.raises(DiskFull):
            library.verified(repair=True)
    with opened(base) as library:
        library.verified(repair=True)
        assert len(texts(library)) == COUNT


def test_a_read_only_process_reports_and_changes_nothing(base: Path) -> None:
    zero(catalogue_of(base))
    damaged = catalogue_of(base).read_bytes()
    with opened(base, **{"store.read_only": True}) as library, pytest.raises(IndexCorrupt):
        library.find_similar("harbour", database=NAME)
    assert catalogue_of(base).read_bytes() == damaged


def test_rows_are_checked_when_they_are_shown_where_there_are_too_many_for_all(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail (other metadata was given and found) without ``check_version``."""
    monkeypatch.setattr("lookfar.store.health.check._MOST_CHECKED", 10)
    with closing(sqlite3.connect(catalogue_of(base))) as connection:
        connection.execute("UPDATE documents SET metadata = '{\"metadata\":{}}' WHERE id = 8")
        connection.commit()
    with opened(base) as library:
        database: Documents = library.database(NAME)
        assert database.metadata_of_all([f"{ULID}03"]) == {f"{ULID}03": {"n": 3}}
        with pytest.raises(IndexCorrupt):
            database.metadata_of_all([f"{ULID}07"])
        with pytest.raises(IndexCorrupt):
            library.find_similar("document 7", database=NAME, top_k=3)


def test_the_journal_is_written_by_sessions_and_not_for_folders(tmp_path: Path) -> None:
    with opened(tmp_path) as library:
        (tmp_path / "project" / "a.md").write_text("# A\n\nharbour\n")
        library.index()
        assert not list((tmp_path / "index").rglob(journal.JOURNAL))


# --- earlier copies of files --------------------------------------------------------------------


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("count", [0, 1, 11, 21])
def test_an_earlier_catalogue_is_reported_and_costs_nothing(
    tmp_path: Path, count: int, marked: bool
) -> None:
    """A partial restore, or a tool that synchronises files. Seen to fail before the journal was
    compared with the catalogue: ``export`` succeeded with the documents of the copy, and the next
    insert cut the journal to them.

    Version 0.2 rewrote a journal without a mark: beside the catalogue of an empty database, seen to
    fail (nothing was saved) when that one fitted any journal."""
    wanted = [f"{ULID}{number:02d}" for number in range(21)]
    earlier = tmp_path / "earlier.db"
    with opened(tmp_path) as library:
        library.database(NAME).create()
    for number in range(22):
        if number == count:
            shutil.copyfile(catalogue_of(tmp_path), earlier)
        with opened(tmp_path) as library:
            if number < 21:
                library.database(NAME).insert(f"harbour {number}", doc_id=wanted[number])
            else:
                library.database(NAME).delete(wanted.pop(5))
    shutil.copyfile(earlier, catalogue_of(tmp_path))
    log = epoch_of(tmp_path) / "documents.log"
    if not marked:
        first = Log(log).entry(wanted[0])
        assert first is not None
        log.write_bytes(log.read_bytes()[first.start :])
    before = log.read_bytes()
    exported = CliRunner().invoke(
        cli, ["documents", "export", "--db", NAME, *options(tmp_path)], catch_exceptions=False
    )
    assert exported.exit_code != 0
    with opened(tmp_path) as library, pytest.raises(IndexCorrupt):
        library.database(NAME).insert("one more")
    assert log.read_bytes() == before
    done = repaired(tmp_path)
    assert done.salvaged is not None
    assert (done.salvaged.saved, done.salvaged.lost) == (20, 0)
    with opened(tmp_path) as library:
        assert sorted(texts(library)) == wanted


def test_an_earlier_journal_is_replaced_and_revives_nothing(base: Path) -> None:
    """Seen to fail (the deleted document was saved) when every frame of a journal counted that
    begins otherwise than the catalogue has recorded."""
    log = epoch_of(base) / "documents.log"
    earlier = log.read_bytes()
    with opened(base) as library:
        library.database(NAME).delete(f"{ULID}05")
        library.database(NAME).insert("one more", doc_id=f"{ULID}99")
    wanted = {*(f"{ULID}{number:02d}" for number in range(COUNT)), f"{ULID}99"} - {f"{ULID}05"}
    log.write_bytes(earlier)
    with opened(base) as library:
        assert texts(library).keys() == wanted
        assert {each.artefact for each in library.database(NAME).store.verify()} == {"journal"}
    with closing(sqlite3.connect(catalogue_of(base))) as connection:
        connection.execute("UPDATE documents SET metadata = '{}' WHERE id = 8")
        connection.commit()
    done = repaired(base)
    assert done.salvaged is not None
    assert (done.salvaged.saved, done.salvaged.lost) == (COUNT, 0)
    with opened(base) as library:
        assert texts(library).keys() == wanted


def test_an_earlier_pointer_is_moved_to_the_newest_epoch(base: Path) -> None:
    """Seen to fail when only the epoch that the pointer names was looked at: the document was
    missing, and the next insert removed the epoch that had it."""
    earlier = base / "earlier"
    shutil.copytree(base / "db" / NAME, earlier)
    with opened(base) as library:
        library.database(NAME).index(rebuild=True)
        library.database(NAME).insert("one more", doc_id=f"{ULID}99")
    shutil.copytree(earlier, base / "db" / NAME, dirs_exist_ok=True)
    with opened(base) as library:
        library.database(NAME).insert("another")
        assert len(texts(library)) == COUNT + 2
        assert library.database(NAME).store.verify() == []
