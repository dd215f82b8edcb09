"""What only a server can go through: it is killed, loses connections, has a replica and tenants."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from threading import Event, Thread

import psycopg
import pytest

from lookfar.errors import (
    IndexBusy,
    IndexReadOnly,
    IndexTooNew,
    InvalidConfig,
    LookfarError,
    StoreUnavailable,
)
from lookfar.model import Filters
from lookfar.serve.cli.doctor.findings import Subject
from lookfar.serve.cli.doctor.run_checks import run_checks
from lookfar.store.postgres import schema, server
from lookfar.store.postgres.server import Server
from lookfar.store.postgres.store import PostgresStore
from store.contract.pgserver import PgServer, ready, short_folder
from store.shelf import Shelf, words
from waiting import DEADLINE, wait_for

_numbers = count(1)
Made = Callable[..., Shelf]


@pytest.fixture
def name() -> str:
    return f"server-{next(_numbers)}"


@pytest.fixture
def made(pg: PgServer, name: str, tmp_path: Path) -> Made:
    """A front end of the test's collection, each with a copy of its own."""

    def make(role: str = "lookfar", read: str = "", called: str = name) -> Shelf:
        copies = tmp_path / f"copies-{next(_numbers)}"
        return Shelf(PostgresStore(Server(pg.url(role), read), called, tmp_path, copies))

    return make


@pytest.fixture
def own() -> Iterator[PgServer]:
    """A server that a test may kill."""
    with short_folder() as folder:
        server = PgServer(folder / "own")
        server.create()
        try:
            yield ready(server)
        finally:
            server.stop()


def state(number: int) -> dict[str, str | None]:
    return {f"{n}.md": f"# D{n}\n\nround{number}x common words\n" for n in range(5)}


# -- death -------------------------------------------------------------------------


def test_a_server_killed_during_a_write_has_the_previous_generation(
    own: PgServer, tmp_path: Path
) -> None:
    shelf = Shelf(PostgresStore(Server(own.url()), "killed", tmp_path, tmp_path / "copies"))
    shelf.write(state(1))

    def die(rebuild: bool) -> None:
        with shelf.session(rebuild=rebuild) as session:
            shelf.fill(session, state(2))
            if rebuild:
                session.checkpoint()
            own.kill()
            session.activate({})

    for rebuild in (False, True):
        with pytest.raises(StoreUnavailable) as raised:
            die(rebuild)
        assert raised.value.code == "STORE_UNAVAILABLE"
        assert shelf.everything() == state(1), "from its copy"
        assert "cannot be reached" in shelf.store.outdated
        own.start()
        assert shelf.everything() == state(1), "the same front end goes on"
        assert shelf.store.outdated == ""
        assert shelf.store.verify() == []
    assert shelf.write(state(2)) == 2
    assert shelf.everything() == state(2)
    assert len(shelf.found("common")) == 5
    assert shelf.store.verify() == []


def test_an_activated_generation_survives_a_kill(own: PgServer, tmp_path: Path) -> None:
    shelf = Shelf(PostgresStore(Server(own.url()), "kept", tmp_path, tmp_path / "copies"))
    for number in range(1, 4):
        shelf.write(state(number))
        own.kill()
        own.start()
        assert shelf.everything() == state(number)


# -- lost connections --------------------------------------------------------------------


def lose(pg: PgServer, besides: str = "") -> int:
    rows = pg.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'lookfar'"
        f" AND application_name = 'lookfar' {besides}"
    )
    return len(rows)


def test_a_reader_that_loses_its_connections_continues(pg: PgServer, made: Made) -> None:
    """Seen to fail when lost connections were not replaced."""
    shelf = made()
    shelf.write(state(1))
    assert shelf.everything() == state(1)
    assert lose(pg) > 0
    assert shelf.everything() == state(1), "one that was idle is replaced"
    assert shelf.store.outdated == ""
    with shelf.store.snapshot() as snapshot:
        assert lose(pg) > 0
        assert len(words(snapshot, "words")) == 5, "a snapshot needs none"
    assert shelf.everything() == state(1)


def test_a_front_end_sets_aside_only_what_it_read(made: Made) -> None:
    """Seen to fail while it set aside whatever served at that moment."""
    one, other = made(), made()
    one.write(state(1))
    for front in (one, other):
        assert front.everything() == state(1)
    one.store.set_aside("both found it damaged")
    one.write(state(2))
    other.store.set_aside("both found it damaged, and this one is late")
    assert one.everything() == state(2)
    assert "late" not in one.store.damage()
    assert other.everything() == state(2)
    other.store.set_aside("this, too, is damaged")
    assert not one.store.exists
    assert "too" in one.store.damage()


def test_a_writer_that_loses_its_connection_loses_its_lock(pg: PgServer, made: Made) -> None:
    shelf, other = made(), made()
    shelf.write(state(1))

    def lost() -> None:
        with shelf.session() as session:
            shelf.fill(session, state(2))
            lose(pg)
            other.write(state(3))
            session.activate({})

    with pytest.raises(StoreUnavailable):
        lost()
    assert shelf.everything() == state(3)
    assert shelf.write(state(4)) > 2


def test_connections_are_bounded(
    pg: PgServer, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_BORROW_SECONDS", 0.3)
    shared = Server(pg.url(), most=1)
    shelf = Shelf(PostgresStore(shared, name, tmp_path, tmp_path / "copies"))
    shelf.write(state(1))
    with shared.reading(), pytest.raises(IndexBusy):
        shelf.everything()
    with shelf.store.snapshot() as snapshot:
        assert shelf.everything() == state(1), "a snapshot needs no connection"
        assert len(snapshot.uris()) == 5
    assert shared._idle.qsize() == 1


def test_a_refused_login_is_told_from_an_unreachable_server(
    own: PgServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail with one text for both."""
    own.execute("CREATE ROLE somebody LOGIN PASSWORD 'right'")
    rules = own.data / "pg_hba.conf"
    rules.write_text(f"local all somebody scram-sha-256\n{rules.read_text()}")
    own.execute("SELECT pg_reload_conf()")
    store = PostgresStore(Server(own.url("somebody")), "x", tmp_path, tmp_path / "copies")

    def read() -> dict[str, object]:
        with pytest.raises(StoreUnavailable) as raised:
            store.generations()
        assert raised.value.__cause__ is None, "its text may quote the address"
        return raised.value.as_dict()

    told = []
    for password in ("hunter2secret", None):
        monkeypatch.delenv("PGPASSWORD", raising=False)
        if password:
            monkeypatch.setenv("PGPASSWORD", password)
        told.append(read())
        assert "PGPASSFILE" in str(told[-1]["hint"])
        assert "hunter2secret" not in str(told)
        assert "somebody" not in str(told)
    own.stop()
    assert read()["message"] != told[0]["message"] == told[1]["message"]


def test_a_dump_by_a_role_that_bypasses_row_security_restores_everything(
    own: PgServer, tmp_path: Path
) -> None:
    """As the guide says it. Lookfar's own role can dump nothing: row-level security hides it."""
    shelf = Shelf(PostgresStore(Server(own.url()), "dumped", tmp_path, tmp_path / "copies"))
    shelf.write(state(1))
    own.execute("CREATE ROLE backup LOGIN BYPASSRLS IN ROLE pg_read_all_data")
    dump = own.folder / "lookfar.dump"
    with pytest.raises(AssertionError, match="row-level security"):
        own.run("pg_dump", "-Fc", "-f", dump, "-d", own.url())
    own.run("pg_dump", "--enable-row-security", "-f", f"{dump}.sql", "-d", own.url())
    assert "0.md" not in Path(f"{dump}.sql").read_text(), "it hides rows without a word"
    own.run("pg_dump", "-f", f"{dump}.sql", "-d", own.url("backup"))
    assert "0.md" in Path(f"{dump}.sql").read_text()
    own.run("pg_dump", "-Fc", "-f", dump, "-d", own.url("backup"))
    own.execute("CREATE DATABASE again OWNER lookfar")
    own.run("pg_restore", "--exit-on-error", "-d", own.url("postgres", "again"), dump)
    again = Shelf(
        PostgresStore(Server(own.url(database="again")), "dumped", tmp_path, tmp_path / "copies")
    )
    assert again.everything() == state(1)
    assert again.store.verify() == []
    assert again.write(state(2)) == 2


def test_doctor_has_a_line_about_the_server(
    own: PgServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when only the files of an index on this machine were checked."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "docs").mkdir()

    def check() -> tuple[str, str]:
        subject = Subject(
            str(tmp_path / "docs"), None, {"embed.provider": "hash", "store.url": own.url()}
        )
        found = {finding.check: finding for finding in run_checks(subject, deep=False, fix=False)}
        return found["store"].state, found["store"].message

    assert check() == ("ok", "The PostgreSQL server in store.url answers.")
    own.stop()
    state, message = check()
    assert state == "error"
    assert "cannot be reached" in message


def test_an_unreachable_server_is_reported_without_its_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "hunter2secret")
    store = PostgresStore(
        Server(f"postgresql://somebody@/db?host={tmp_path}/nowhere"), "x", tmp_path, tmp_path
    )
    with caplog.at_level(logging.DEBUG), pytest.raises(StoreUnavailable) as raised:
        store.generations()
    told = f"{raised.value.as_dict()} {caplog.text}"
    assert "hunter2secret" not in told
    assert "somebody" not in told
    assert raised.value.__cause__ is None, "its text may quote the address"
    assert raised.value.hint


# -- two front ends and a writer -----------------------------------------------------------


def test_two_front_ends_and_a_writer_never_mix_generations(made: Made) -> None:
    writer = made()
    writer.write(state(0))
    stop, seen = Event(), set()
    wrong: list[object] = []

    def serve() -> None:
        front = made()
        try:
            while not stop.is_set():
                with front.store.snapshot() as snapshot:
                    said = {
                        re.findall(r"round(\d+)x", snapshot.text(uri) or "")[0]
                        for uri in snapshot.uris()
                    }
                    found = words(snapshot, "common")
                    near = snapshot.vector_search(
                        front.embedder.embed_query("common words"), 50, Filters()
                    )
                    if len(said) != 1 or len(found) != 5 or len(near) != 5:
                        wrong.append((said, len(found), len(near)))
                    seen.update(said)
        except BaseException as error:
            wrong.append(error)

    threads = [Thread(target=serve) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(1, 21):
        writer.write(state(number), rebuild=number % 9 == 0)
        wait_for(lambda: len(seen) > 3 or str(number) in seen or wrong, "they follow")  # noqa: B023
    stop.set()
    for thread in threads:
        thread.join(DEADLINE)
    assert wrong == []
    assert len(seen) > 3, "they followed"


# -- a replica -------------------------------------------------------------------------------


def test_a_replica_serves_reads_and_refuses_writes(own: PgServer, tmp_path: Path) -> None:
    primary = Shelf(PostgresStore(Server(own.url()), "copied", tmp_path, tmp_path / "copies"))
    primary.write(state(1))
    with short_folder() as folder:
        replica = PgServer(folder / "replica")
        replica.copy_of(own)
        replica.start()
        try:
            front = Shelf(
                PostgresStore(
                    Server(own.url(), replica.url()), "copied", tmp_path, tmp_path / "front"
                )
            )
            assert front.everything() == state(1)
            primary.write(state(2))
            wait_for(lambda: front.everything() == state(2))
            assert len(front.found("common")) == 5
            assert front.write(state(3)) == 3, "it writes to the primary"
            alone = Shelf(
                PostgresStore(Server(replica.url()), "copied", tmp_path, tmp_path / "copies")
            )
            with pytest.raises(IndexReadOnly):
                alone.write(state(4))
            own.kill()
            wait_for(lambda: front.everything() == state(3))  # What was on its way arrives.
        finally:
            replica.stop()


# -- tenants ------------------------------------------------------------------------------------


def test_collections_and_tenants_see_only_their_own_rows(pg: PgServer, made: Made) -> None:
    pg.execute(
        "DROP ROLE IF EXISTS tenant_two",
        "CREATE ROLE tenant_two LOGIN",
    )
    mine, beside = made(), made(called="beside")
    mine.write(state(1))
    beside.write({"b.md": "# Beside\n\ncommon\n"})
    pg.execute(
        "GRANT USAGE ON SCHEMA lookfar TO tenant_two",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA lookfar TO tenant_two",
    )
    try:
        assert mine.everything() == state(1)
        assert beside.found("common") == ["b.md"]
        theirs = made("tenant_two")
        assert not theirs.store.exists, "under the same name there is nothing of theirs"
        assert theirs.write({"t.md": "# T\n\ncommon\n"}) == 1
        assert theirs.everything() == {"t.md": "# T\n\ncommon\n"}
        assert mine.everything() == state(1)
        with psycopg.connect(pg.url("tenant_two"), autocommit=True) as raw:
            raw.execute("SET search_path = lookfar, public")
            own_rows = raw.execute("SELECT count(*) FROM collections").fetchone()
            assert own_rows == (1,)
            for number in range(1, 200):  # Whatever number they name.
                raw.execute("SELECT set_config('lookfar.collection', %s, false)", (str(number),))
                found = raw.execute("SELECT uri FROM documents").fetchall()
                assert found in ([], [("t.md",)])
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                raw.execute("INSERT INTO tags (document, collection) VALUES (1, 1)")
    finally:
        pg.execute("DROP OWNED BY tenant_two", "DROP ROLE tenant_two")


@pytest.mark.parametrize("right", ["SUPERUSER", "BYPASSRLS"])
def test_a_role_that_bypasses_row_level_security_is_refused(
    pg: PgServer, made: Made, right: str
) -> None:
    pg.execute("DROP ROLE IF EXISTS unbound", f"CREATE ROLE unbound LOGIN {right}")
    try:
        calls: list[Callable[[], object]] = [
            lambda: made("unbound").store.exists,
            lambda: made("unbound").write(state(1)),
        ]
        for call in calls:
            with pytest.raises(InvalidConfig) as raised:
                call()
            assert "CREATE ROLE" in raised.value.hint
    finally:
        pg.execute("DROP ROLE unbound")


# -- the tables ------------------------------------------------------------------------------------


def test_every_growing_table_can_be_distributed_by_collection(pg: PgServer, made: Made) -> None:
    """The rules of Citus: the distribution column is in each unique key, and here comes first."""
    made().write(state(1))
    keys = pg.execute(
        "SELECT t.relname, i.relname, a.attname FROM pg_index x"
        " JOIN pg_class t ON t.oid = x.indrelid JOIN pg_class i ON i.oid = x.indexrelid"
        " JOIN pg_namespace n ON n.oid = t.relnamespace"
        " JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = x.indkey[0]"
        " WHERE n.nspname = 'lookfar' AND x.indisunique"
    )
    by_table: dict[object, list[object]] = {}
    for table, _, first in keys:
        by_table.setdefault(table, []).append(first)
    small = {"collections", "damage", "versions"}
    assert set(by_table) == set(schema.TABLES) | small
    for table in schema.TABLES:
        assert set(by_table[table]) == {"collection"}, table
    guarded = pg.execute(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = 'lookfar' AND c.relkind = 'r' AND c.relrowsecurity"
        " AND c.relforcerowsecurity AND EXISTS (SELECT 1 FROM pg_policy p WHERE p.polrelid = c.oid)"
    )
    assert {table for (table,) in guarded} == {*schema.TABLES, "collections", "damage"}
    foreign = pg.execute(
        "SELECT conname FROM pg_constraint WHERE contype = 'f'"
        " AND connamespace = 'lookfar'::regnamespace"
    )
    assert foreign == [], "what belongs together lies in one shard without being told"
    generated = pg.execute(
        "SELECT table_name FROM information_schema.columns WHERE table_schema = 'lookfar'"
        " AND (is_identity = 'YES' OR column_default LIKE 'nextval%')"
    )
    assert {table for (table,) in generated} == {"collections"}


def test_tables_of_a_newer_version_are_refused(pg: PgServer, made: Made) -> None:
    shelf = made()
    shelf.write(state(1))
    pg.execute(f"INSERT INTO lookfar.versions VALUES ({schema.VERSION + 1})")
    try:
        with pytest.raises(IndexTooNew):
            made().write(state(2))
    finally:
        pg.execute(f"DELETE FROM lookfar.versions WHERE version > {schema.VERSION}")
    assert made().write(state(2)) == 2


def test_a_deleted_collection_leaves_no_row(pg: PgServer, made: Made, name: str) -> None:
    shelf = made()
    shelf.write(state(1))
    shelf.write(state(2), rebuild=True)
    numbers = pg.execute(f"SELECT collection FROM lookfar.collections WHERE name = '{name}'")
    assert len(numbers) == 1, "the one before went when this took over"
    shelf.store.delete()
    for table in (*schema.TABLES, "collections"):
        (left,) = pg.execute(
            f"SELECT count(*) FROM lookfar.{table} WHERE collection = {numbers[0][0]}"
        )[0:1]
        assert left == (0,), table


# -- damage --------------------------------------------------------------------------------------


def test_damage_on_the_server_is_found(made: Made, pg: PgServer, name: str) -> None:
    shelf = made()
    shelf.write(state(1))
    number = pg.execute(f"SELECT collection FROM lookfar.collections WHERE name = '{name}'")[0][0]
    for table, change, artefact in (
        ("texts", "body = substring(body FROM 3)", "texts"),
        ("chunks", "start = start + 1", "catalogue"),
        ("embeddings", "checksum = checksum + 1", "vectors"),
        ("entries", "key = key + 1000", "keywords"),
    ):
        pg.execute(
            f"CREATE TABLE saved AS SELECT * FROM lookfar.{table} WHERE collection = {number}",
            f"UPDATE lookfar.{table} SET {change} WHERE collection = {number}",
        )
        found = {each.artefact for each in shelf.store.verify()}
        pg.execute(
            f"DELETE FROM lookfar.{table} WHERE collection = {number}",
            f"INSERT INTO lookfar.{table} SELECT * FROM saved",
            "DROP TABLE saved",
        )
        assert artefact in found, table
        assert shelf.everything() == state(1), "a sound copy is not replaced by a damaged one"
    assert shelf.store.verify() == []


def test_a_long_path_is_stored(made: Made) -> None:
    """Seen to fail while the server had an index on paths, whose entries are limited."""
    shelf, chance = made(), random.Random(3)
    folder = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=6000))
    shelf.write({f"{folder}/a.md": "# A\n"})
    assert made().everything() == {f"{folder}/a.md": "# A\n"}


def test_server_errors_are_typed() -> None:
    for raised, code in (
        (psycopg.errors.DiskFull(), "DISK_FULL"),
        (psycopg.errors.DataCorrupted(), "INDEX_CORRUPT"),
        (psycopg.errors.DeadlockDetected(), "INDEX_BUSY"),
        (psycopg.errors.AdminShutdown(), "STORE_UNAVAILABLE"),
        (psycopg.errors.TooManyConnections(), "STORE_UNAVAILABLE"),
        (psycopg.errors.ProgramLimitExceeded(), "IO_ERROR"),
    ):

        def fail(error: psycopg.Error = raised) -> None:
            with server.typed_errors():
                raise error

        with pytest.raises(LookfarError) as typed:
            fail()
        assert typed.value.code == code
    with pytest.raises(psycopg.errors.SyntaxError), server.typed_errors():
        raise psycopg.errors.SyntaxError
