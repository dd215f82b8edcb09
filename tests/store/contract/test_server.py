"""What only a server can go through: it is killed, loses connections, has a replica and tenants."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count, product
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import psycopg
import pytest

from lookfar.errors import (
    IndexReadOnly,
    IndexTooNew,
    InvalidConfig,
    IOFailed,
    LookfarError,
    StoreUnavailable,
)
from lookfar.model import Filters
from lookfar.serve.cli.doctor.findings import Subject
from lookfar.serve.cli.doctor.run_checks import run_checks
from lookfar.store.keywords import postings, searcher
from lookfar.store.postgres import blocks, keywords, schema, server, vector_search
from lookfar.store.postgres.server import Halfvec, Server, translate
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
    """A front end of the test's collection, each with connections of its own."""

    def make(
        role: str = "lookfar", read: str = "", called: str = name, vector_bytes: int = 1 << 20
    ) -> Shelf:
        return Shelf(PostgresStore(Server(pg.url(role), read), called, tmp_path, vector_bytes))

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
    shelf = Shelf(PostgresStore(Server(own.url()), "killed", tmp_path))
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
        with pytest.raises(StoreUnavailable):
            shelf.everything()
        own.start()
        assert shelf.everything() == state(1), "the same front end goes on"
        assert shelf.store.verify() == []
    assert shelf.write(state(2)) == 2
    assert shelf.everything() == state(2)
    assert len(shelf.found("common")) == 5
    assert shelf.store.verify() == []


def test_an_activated_generation_survives_a_kill(own: PgServer, tmp_path: Path) -> None:
    shelf = Shelf(PostgresStore(Server(own.url()), "kept", tmp_path))
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


def test_a_reader_that_loses_its_connection_continues(pg: PgServer, made: Made) -> None:
    """Seen to fail when the lost connection was not replaced."""
    shelf = made()
    shelf.write(state(1))
    assert shelf.everything() == state(1)
    assert lose(pg) > 0
    assert shelf.everything() == state(1), "one that was idle is replaced"
    with shelf.store.snapshot() as snapshot:
        assert len(words(snapshot, "common")) == 5
        assert lose(pg) > 0
        assert len(words(snapshot, "words")) == 5, "in the middle of a snapshot, too"
        assert snapshot.text("0.md") == state(1)["0.md"]

    def twice() -> None:
        with shelf.store.snapshot() as snapshot:
            for _ in range(2):
                lose(pg)
                snapshot.uris()

    with pytest.raises(StoreUnavailable) as raised:
        twice()
    assert raised.value.details["retry"] is True
    assert shelf.everything() == state(1)


def test_a_snapshot_is_not_continued_in_another_state(pg: PgServer, made: Made) -> None:
    """Seen to fail when any new connection was accepted: generations mixed."""
    shelf, writer = made(), made()
    shelf.write(state(1))

    def mixed() -> list[str]:
        with shelf.store.snapshot() as snapshot:
            first = snapshot.text("0.md")
            writer.write(state(2))
            lose(pg)
            return [first or "", snapshot.text("1.md") or ""]

    with pytest.raises(StoreUnavailable):
        mixed()
    assert shelf.everything() == state(2)


def test_a_snapshot_is_not_continued_after_pruning(pg: PgServer, made: Made) -> None:
    """Seen to fail while a state was identified by its generation only: an old text was missing."""
    shelf, writer = made(), made()
    for number in (1, 2):
        shelf.write(state(number))

    def pruned() -> list[str | None]:
        with shelf.store.snapshot(1) as snapshot:
            first = snapshot.text("0.md")
            assert writer.store.prune(1)[0] == 1
            lose(pg)
            return [first, snapshot.text("1.md")]

    with pytest.raises(StoreUnavailable) as raised:
        pruned()
    assert raised.value.details["retry"] is True
    assert shelf.everything() == state(2)


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


def test_connections_are_bounded_without_deadlock(
    pg: PgServer, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when each connection counted: a search of two collections hung."""
    monkeypatch.setattr(server, "_BORROW_SECONDS", 0.3)
    shared = Server(pg.url(), most=1)
    shelves = [Shelf(PostgresStore(shared, f"{name}{n}", tmp_path)) for n in range(2)]
    for shelf in shelves:
        shelf.write(state(1))
    told: list[object] = []

    def ask() -> None:
        try:
            told.append(shelves[0].everything())
        except LookfarError as error:
            told.append(error.code)

    with shelves[0].store.snapshot() as one, shelves[1].store.snapshot() as other:
        assert one.uris() == other.uris()
        waiting = Thread(target=ask)
        waiting.start()
        waiting.join(DEADLINE)
    assert told == ["INDEX_BUSY"]
    assert shelves[0].everything() == state(1)
    assert shared._idle.qsize() == 1, "what is more than that is closed"


def test_a_refused_login_is_told_from_an_unreachable_server(
    own: PgServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail with one text for both."""
    own.execute("CREATE ROLE somebody LOGIN PASSWORD 'right'")
    rules = own.data / "pg_hba.conf"
    rules.write_text(f"local all somebody scram-sha-256\n{rules.read_text()}")
    own.execute("SELECT pg_reload_conf()")
    store = PostgresStore(Server(own.url("somebody")), "x", tmp_path)

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
    shelf = Shelf(PostgresStore(Server(own.url()), "dumped", tmp_path))
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
    again = Shelf(PostgresStore(Server(own.url(database="again")), "dumped", tmp_path))
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
        Server(f"postgresql://somebody@/db?host={tmp_path}/nowhere"), "x", tmp_path
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
    primary = Shelf(PostgresStore(Server(own.url()), "copied", tmp_path))
    primary.write(state(1))
    with short_folder() as folder:
        replica = PgServer(folder / "replica")
        replica.copy_of(own)
        replica.start()
        try:
            front = Shelf(PostgresStore(Server(own.url(), replica.url()), "copied", tmp_path))
            assert front.everything() == state(1)
            primary.write(state(2))
            wait_for(lambda: front.everything() == state(2))
            assert len(front.found("common")) == 5
            assert front.write(state(3)) == 3, "it writes to the primary"
            alone = Shelf(PostgresStore(Server(replica.url()), "copied", tmp_path))
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
                raw.execute("INSERT INTO graves (document, collection) VALUES (1, 1)")
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


# -- statements and lists ------------------------------------------------------------------------


def test_only_placeholders_are_translated() -> None:
    assert translate("SELECT a FROM t WHERE b = ? AND c LIKE '%x'") == (
        "SELECT a FROM t WHERE b = %s AND c LIKE '%%x'"
    )
    assert translate("x = :g AND y > :g_2") == "x = %(g)s AND y > %(g_2)s"
    assert translate("a::bigint") == "a::bigint"


def test_long_statements_are_translated_and_not_cached() -> None:
    """Seen to fail with every translation cached."""
    before = server._translate_cached.cache_info().currsize
    listed = ",".join(map(str, range(5000)))
    assert translate(f"SELECT ? WHERE a IN ({listed})") == f"SELECT %s WHERE a IN ({listed})"
    assert server._translate_cached.cache_info().currsize == before
    translate(f"SELECT ? -- {before} and one more")
    assert server._translate_cached.cache_info().currsize == min(before + 1, 1024)


def test_only_ascii_is_case_folded_whatever_the_locale(pg: PgServer, tmp_path: Path) -> None:
    """Seen to fail with the server's ``lower`` of what is asked for: ``Ärger.md`` was not found."""
    try:
        pg.execute(
            "DROP DATABASE IF EXISTS spoken WITH (FORCE)",
            "CREATE DATABASE spoken OWNER lookfar TEMPLATE template0 LOCALE 'C.UTF-8'",
            database="postgres",
        )
    except psycopg.errors.WrongObjectType:
        pytest.skip("this machine has no such locale")
    pg.execute("CREATE EXTENSION vector", database="spoken")
    assert pg.execute("SELECT lower('Ä')", database="spoken") == [("ä",)], "it speaks"
    connections = Server(pg.url(database="spoken"))
    try:
        shelf = Shelf(PostgresStore(connections, "spoken", tmp_path))
        code = "class Öfen:\n    def Ändern(self):\n        return 1\n"
        shelf.write({"sub/Ärger.md": "# A\n", "öl.py": code})
        with shelf.store.snapshot() as snapshot:
            for asked in ("Ärger.md", "ÄRGER.MD", "sub/Ärger"):
                found = snapshot.ending_in(asked, Filters())
                assert [each.uri for each in found] == ["sub/Ärger.md"], asked
            assert [uri for uri, _ in snapshot.defining("ÄNDERN")] == ["öl.py"]
            assert [uri for uri, _ in snapshot.defining("ÖFEN")] == ["öl.py"]
    finally:
        connections.close()
        pg.execute("DROP DATABASE spoken WITH (FORCE)", database="postgres")


def test_blocks_unpack_as_they_were_packed() -> None:
    chance = np.random.default_rng(5)
    wide, narrow = (10**10, 60_000), (20_000, 200)
    for size, (farthest, most) in product(
        (1, 7, blocks.MOST, blocks.MOST + 1, 10_000),
        (wide, narrow, (10**10, 200), (20_000, 60_000)),
    ):
        keys = np.sort(chance.choice(farthest, size, replace=False)).astype(np.int64)
        given = postings.Postings(
            keys,
            chance.integers(1, most, size).astype(np.uint16),
            chance.integers(0, 256, size).astype(np.uint8),
        )
        made = list(blocks.pack_blocks(given))
        assert sum(number for _, _, number, _ in made) == size
        assert all(number <= blocks.MOST for _, _, number, _ in made)
        if (farthest, most) == narrow:
            assert all(len(data) == 4 * number for _, _, number, data in made)
        back = blocks.join(
            [blocks.unpack_block(first, number, data) for first, _, number, data in made]
        )
        for field in postings.Postings._fields:
            assert np.array_equal(getattr(given, field), getattr(back, field))


def test_lengths_are_rounded_as_the_embedded_index_rounds_them() -> None:
    assert [postings.length_byte(n) for n in (0, 1, 39, 40, 41, 42, 55, 56, 59, 60)] == [
        0, 1, 39, 40, 40, 41, 47, 48, 48, 49,
    ]  # fmt: skip


def test_lists_of_common_terms_are_not_read_whole(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best are the same, and of lists that cannot change them only some blocks are read.

    Seen to fail when reading stopped while what was left could still bring something new.
    """
    shelf, chance = made(), random.Random(2)
    vocabulary = [f"{a}{b}" for a in "kmprst" for b in ("amber", "ember", "umber", "limber")]
    often = [1 / (rank + 1) for rank in range(len(vocabulary))]

    def said(most: int) -> str:
        return " ".join(chance.choices(vocabulary, often, k=chance.randrange(3, most)))

    shelf.write({f"{n}.md": f"# {said(5)}\n\n{said(60)}\n" for n in range(200)})
    questions = [" ".join(chance.sample(vocabulary, chance.randrange(2, 6))) for _ in range(30)]

    def best(front: Shelf) -> list[tuple[str, Any]]:
        with front.store.snapshot() as snapshot:
            return [
                (place.uri, pytest.approx(score))
                for question in questions
                for place, score in words(snapshot, question, 4)
            ]

    monkeypatch.setattr(searcher, "_SUMMED", 0)
    monkeypatch.setattr(searcher, "_FIRST_STAGE", 10**9)
    whole = best(made())
    monkeypatch.setattr(searcher, "_FIRST_STAGE", 4)
    monkeypatch.setattr(keywords, "_WHOLE", 20)
    partly: list[bool] = []
    plain = keywords.PostgresKeywords._read_blocks

    def noted(self: keywords.PostgresKeywords, wanted: object, among: object = None) -> object:
        partly.append(bool(wanted) and among is not None)
        return plain(self, wanted, among)  # type: ignore[arg-type]

    monkeypatch.setattr(keywords.PostgresKeywords, "_read_blocks", noted)
    assert best(made()) == whole
    assert any(partly), "common words were read for the best alone"


def test_many_small_blocks_are_joined(made: Made, pg: PgServer, name: str) -> None:
    shelf = made()
    for number in range(40):
        shelf.write({f"{number}.md": "# T\n\nquartz\n"})
    with closing(shelf.store._server.writing()) as raw:  # type: ignore[attr-defined]
        raw.execute(
            "SELECT set_config('lookfar.collection', collection::text, false)"
            " FROM collections WHERE name = %s AND serving",
            (name,),
        )
        stored = raw.execute("SELECT count(*) FROM postings WHERE term = 'quartz'").fetchone()
    assert stored is not None
    assert stored[0] < 60, "two fields of 40 writes each"
    assert len(shelf.found("quartz", 100)) == 40
    assert shelf.store.verify() == []


def test_the_index_of_many_vectors_finds_the_nearest(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lookfar.store.postgres.vector_search.EXACT_BELOW", 200)
    monkeypatch.setattr(vector_search, "CANDIDATES", 200)
    shelf = made(vector_bytes=0)
    shelf.write({f"{n}.md": f"# N{n}\n\nword{n} other{n % 7} third{n % 13}\n" for n in range(400)})
    vector = shelf.embedder.embed_query("other3 third5")
    with shelf.store.snapshot() as snapshot:
        # So few could be compared one by one; what matters is that the index fits the question.
        snapshot._connection.ask("SET LOCAL enable_sort = off")  # type: ignore[attr-defined]
        assert snapshot.vector_pass().method == "coarse"
        found = snapshot.vector_search(vector, 10, Filters())
        every = snapshot.vector_search(vector, 2000, Filters())
        assert len(every) == snapshot.counts().chunks, "a request for all returns all"
        least = every[9][1] - 1e-3
        assert sum(score >= least for _, score in found) >= 8, "its graph is made by chance"
        only = snapshot.vector_search(vector, 10, Filters(prefix="30"))
        wanted = [hit for hit in every if hit[0].uri.startswith("30")][:10]
        assert [score for _, score in only] == pytest.approx([s for _, s in wanted], abs=1e-3)
        plan = snapshot._connection.ask(  # type: ignore[attr-defined]
            f"EXPLAIN SELECT row FROM embeddings WHERE collection = {snapshot._epoch.collection}"  # type: ignore[attr-defined]
            f" ORDER BY vector::halfvec({len(vector)}) <#> %s LIMIT 10",
            (Halfvec(vector.astype("<f2").tobytes()),),
        )
        assert "embeddings_nearest" in "\n".join(line for (line,) in plan)
    shelf.store.delete()


def test_vectors_of_an_uncommitted_writer_do_not_displace_hits(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in the index that proposes candidates, although no reader sees them yet.

    Seen to fail while fewer candidates than wanted meant that there were no more.
    """
    monkeypatch.setattr("lookfar.store.postgres.vector_search.EXACT_BELOW", 50)
    monkeypatch.setattr(vector_search, "CANDIDATES", 20)
    shelf, writer = made(vector_bytes=0), made(vector_bytes=0)
    shelf.write({f"{n}.md": f"# N{n}\n\nword{n} common\n" for n in range(60)})
    vector = shelf.embedder.embed_query("silver birch")
    with writer.session() as session:
        near = {f"near{n}.md": f"# Silver birch\n\nsilver birch {n}\n" for n in range(150)}
        writer.fill(session, near)
        with shelf.store.snapshot() as snapshot:
            snapshot._connection.ask("SET LOCAL enable_sort = off")  # type: ignore[attr-defined]
            assert snapshot.vector_pass().method == "coarse"
            every = snapshot.vector_search(vector, 500, Filters())
            assert len(every) == snapshot.counts().chunks
            found = snapshot.vector_search(vector, 10, Filters())
            assert [score for _, score in found] == pytest.approx(
                [score for _, score in every[:10]], abs=1e-3
            )
    shelf.store.delete()


def test_damage_on_the_server_is_found(made: Made, pg: PgServer, name: str) -> None:
    shelf = made()
    shelf.write(state(1))
    number = pg.execute(f"SELECT collection FROM lookfar.collections WHERE name = '{name}'")[0][0]
    for table, change, artefact in (
        ("texts", "body = substring(body FROM 3)", "texts"),
        ("chunks", "start = start + 1", "catalogue"),
        ("embeddings", "checksum = checksum + 1", "vectors"),
        ("postings", "data = data || '\\x00'::bytea", "keywords"),
        ("terms", "entries = entries + 1", "keywords"),
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
    assert shelf.store.verify() == []


def test_a_name_that_is_too_long_for_the_server_is_reported(made: Made) -> None:
    """Seen to fail when it was reported as an unreachable server, so that clients retried
    forever."""
    shelf, chance = made(), random.Random(3)
    shelf.write(state(1))
    folder = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=6000))
    with pytest.raises(IOFailed) as raised:
        shelf.write({f"{folder}/a.md": "# A\n"})
    assert raised.value.code == "IO_ERROR"
    assert "too long" in raised.value.message
    assert "retry" not in raised.value.details
    assert shelf.everything() == state(1)


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
