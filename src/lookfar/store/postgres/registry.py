"""A collection on a server: which of its numbers serves, who may write, how another takes over.

Takes: a server and the name that all its front ends know the collection by. Gives: snapshots of
what serves and write sessions, like the embedded store. Refuses: to read what was never indexed,
and a second writer.

The writer is elected by an advisory lock of the server, which a lost connection gives back.
A collection that is built anew is filled under another number and takes over in one commit.
Rows of numbers that do not serve are unfinished: the next writer goes on with them, or removes
them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg

from lookfar.errors import IndexBusy, IndexCorrupt
from lookfar.model import Damage
from lookfar.store.catalogue import generations
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.diff import diff
from lookfar.store.catalogue.erasing import (
    TRACES,
    UNSETTLED,
    MakeTerms,
    StoredDocument,
    stored_documents,
)
from lookfar.store.catalogue.generation_changes import Changing
from lookfar.store.ground import files as disk
from lookfar.store.health.check import refuse_miscount
from lookfar.store.health.salvage import Digest, Rescue
from lookfar.store.health.verify import OnStep
from lookfar.store.postgres import schema
from lookfar.store.postgres.checks import verify
from lookfar.store.postgres.server import (
    Reading,
    Server,
    ServerConnection,
    Serving,
    name_locally,
    not_indexed,
    typed_errors,
)
from lookfar.store.postgres.snapshot import PostgresEpoch, PostgresSnapshot
from lookfar.store.postgres.vector_search import (
    CARE,
    EXACT_BELOW,
    LINKS,
    MOST_DIMENSIONS,
    index_name,
)
from lookfar.store.postgres.write_session import PostgresWriter, bury_words, erase_vectors

if TYPE_CHECKING:
    from lookfar.model import GenerationDiff
    from lookfar.store.catalogue.generations import Generation
    from lookfar.store.health.repair import Maker

_POLL: Final = 0.05
_DATABASES: Final = "documents/"
"""Begins the names of collections that are the only copy of their documents."""
_DAMAGED: Final = "damaged/"
"""Begins the names of what a repair has kept aside."""
_MAKE_SECONDS: Final = 60
"""That making an index waits for whoever reads."""
_DROP_SECONDS: Final = 5
"""The same for dropping one: what is left of it has no rows, and costs nothing."""
_ERASED: Final = -2
"""The checksum of a vector that is no more."""
_WORTH_ANALYSING: Final = 100
"""Documents from which the planner is told what came."""

T = TypeVar("T")


class PostgresStore(Changing):
    """The store of one collection on a server."""

    def __init__(self, server: Server, name: str, folder: Path) -> None:
        """``folder`` is for what belongs to this machine: it need not exist."""
        self.folder = folder
        self.name = name
        self._only_copy = name.startswith(_DATABASES)
        self._server = server
        self._epoch: PostgresEpoch | None = None
        self._seen: int | None = None
        """The number that was last read or written here: what is damaged where something is."""

    # -- reading ---------------------------------------------------------------

    @property
    def place(self) -> str:
        """Where it lies, for people."""
        return f"{self._server.url}#{self.name}"

    @property
    def present(self) -> bool:
        """Whether there is anything of it that serves."""
        return self.exists

    @property
    def exists(self) -> bool:
        """Whether there is a finished index to read."""
        with self._server.reading(self.name, str(self.folder)) as (_, serving):
            return serving is not None

    @contextmanager
    def _reading(self) -> Iterator[tuple[Reading, Serving]]:
        with self._server.reading(self.name, str(self.folder)) as (connection, serving):
            if serving is None:
                raise not_indexed(self.name)
            self._seen = serving.collection
            yield connection, serving

    def _ask(self, ask: Callable[[Reading], T]) -> T:
        with self._reading() as (connection, _):
            return ask(connection)

    def fingerprint(self) -> str:
        with self._reading() as (_, serving):
            return serving.fingerprint

    @contextmanager
    def snapshot(self, generation: int | None = None) -> Iterator[PostgresSnapshot]:
        with self._reading() as (connection, serving):
            wanted = generations.resolve(connection, generation)
            yield PostgresSnapshot(self._remembered(serving), connection, wanted)

    def _remembered(self, serving: Serving) -> PostgresEpoch:
        epoch = self._epoch
        if epoch is None or epoch.collection != serving.collection:
            epoch = self._epoch = PostgresEpoch(serving)
        return epoch

    def generations(self) -> list[Generation]:
        return self._ask(generations.list_generations)

    def history(self) -> tuple[int, list[Generation]]:
        """The active number and every kept generation, of one moment."""
        return self._ask(
            lambda asked: (generations.active(asked), generations.list_generations(asked))
        )

    def held(self) -> int | None:
        """The generation that a roll-back holds the collection at; writing lets go of it."""
        return self._ask(generations.held_generation)

    def diff(self, older: int, newer: int) -> GenerationDiff:
        """What changed from one kept generation to another."""
        return self._ask(
            lambda asked: diff(asked, *(generations.resolve(asked, n) for n in (older, newer)))
        )

    def verify(self, on_step: OnStep | None = None) -> list[Damage]:
        """Everything stored that is not as it was written."""
        try:
            return self._ask(lambda asked: verify(asked, on_step))
        except IndexCorrupt as error:
            return [Damage("index", error.developer)]

    def written(self) -> Iterator[StoredDocument]:
        """Every live document, straight from the catalogue. ``IndexCorrupt`` where one is not as
        it was written, or not all are there."""
        with self._reading() as (connection, _):
            refuse_miscount(connection)
            yield from stored_documents(connection)

    def about(self) -> dict[str, Any]:
        with self._server.reading(self.name, str(self.folder)) as (connection, serving):
            if serving is None:
                return {}
            (told,) = connection.ask(
                "SELECT about FROM collections WHERE collection = own_collection()"
            ).fetchone() or ("{}",)
        made = json.loads(told)
        return made if isinstance(made, dict) else {}

    def disk_bytes(self) -> int:
        """About what it takes of the server's disk: texts, terms, lists and vectors."""

        def weigh(connection: Reading) -> int:
            (size,) = connection.ask(
                "SELECT (SELECT coalesce(sum(octet_length(body)), 0) FROM texts)"
                " + (SELECT coalesce(sum(octet_length(data)), 0) FROM postings)"
                " + (SELECT count(*) * 40 + coalesce(sum(vector_dims(vector)), 0) * 2"
                "    FROM embeddings)"
            ).fetchone() or (0,)
            return int(size)

        return self._ask(weigh)

    @contextmanager
    def _changing(self, wait_seconds: float) -> Iterator[ServerConnection]:
        """One transaction on what serves, for the holder of the writer lock."""
        if not self.exists:
            raise not_indexed(self.name)
        with self._locked(wait_seconds) as connection:
            serving = self._serving(connection)
            if serving is None:
                raise not_indexed(self.name)
            with connection.raw.transaction():
                name_locally(connection.raw, serving.collection)
                yield connection
                bury_words(connection)

    # -- the writer ----------------------------------------------------------------

    @contextmanager
    def _locked(self, wait_seconds: float = 0.0) -> Iterator[ServerConnection]:
        """A connection that holds the writer lock as long as it lives."""
        raw = self._server.writing()
        with closing(raw), typed_errors():
            deadline = time.monotonic() + wait_seconds
            while not _try_lock(raw, self.name):
                if time.monotonic() >= deadline:
                    raise IndexBusy(
                        "Another process is updating this index.",
                        hint="Wait for it to finish and try again; searching works meanwhile.",
                        developer=f"advisory lock held: {self.name}",
                    )
                time.sleep(_POLL)
            yield ServerConnection(raw, str(self.folder))

    def _serving(self, connection: ServerConnection) -> Serving | None:
        """What serves now, and from now on named by the session."""
        row = connection.ask(
            "SELECT collection, fingerprint, dimensions, model FROM collections"
            " WHERE name = %s AND serving",
            (self.name,),
        ).fetchone()
        if row is None:
            return None
        _name(connection, row[0])
        collection, fingerprint, dimensions, model = row
        self._seen = int(collection)
        active = generations.active(connection)
        return Serving(collection, fingerprint, dimensions, model, active)

    @contextmanager
    def writer(
        self,
        fingerprint: str,
        dimensions: int,
        *,
        model: str = "",
        about: Mapping[str, Any],
        retain: int,
        rebuild: bool = False,
        wait_seconds: float = 0.0,
        let_go: bool = True,
    ) -> Iterator[PostgresWriter]:
        """A session on what serves if it has ``fingerprint``, else under another number;
        see the embedded store."""
        with self._locked(wait_seconds) as connection:
            serving = self._serving(connection)
            if serving is not None and not let_go:
                generations.require_not_held(connection)
            self._clear(connection, fingerprint, dimensions, model, rebuild)
            if serving is not None and serving.fingerprint == fingerprint and not rebuild:
                yield from self._write(connection, serving.collection, dimensions, retain)
                return
            after = 0
            if serving is not None:
                _name(connection, serving.collection)
                after = generations.highest(connection)
            number = None if rebuild else self._unfinished(connection, after)
            resumed = number is not None
            if number is None:
                number = self._create(connection, fingerprint, dimensions, model, after)
            _name(connection, number)
            told = {"name": self.name, "about": json.dumps(about, sort_keys=True)}
            worth_it = False
            try:
                yield from self._write(
                    connection, number, dimensions, retain, told, resumed=resumed
                )
                worth_it = True
            except IndexCorrupt:
                raise
            except BaseException:
                with suppress(psycopg.Error):
                    worth_it = catalog.highest_numbers(connection).document > 0
                raise
            finally:
                # Of a build that failed before its first checkpoint nothing is left.
                with suppress(psycopg.Error):
                    if not worth_it:
                        _remove(connection, [number])
            if serving is not None and self._serving_number(connection) == number:
                _remove(connection, [serving.collection])

    def _write(
        self,
        connection: ServerConnection,
        number: int,
        dimensions: int,
        retain: int,
        told: Mapping[str, str] | None = None,
        *,
        resumed: bool = False,
    ) -> Iterator[PostgresWriter]:
        session = PostgresWriter(
            connection,
            number,
            dimensions,
            retain,
            fresh=told is not None,
            resumed=resumed,
            publish=told,
        )
        with closing(session):
            yield session
        if session.activated:
            self._seen = number
            self._settle(connection, number, dimensions, session.changes)

    def _settle(
        self, connection: ServerConnection, number: int, dimensions: int, changes: int
    ) -> None:
        """After a commit: what makes reading quick, and what must not be in a transaction."""
        if changes >= _WORTH_ANALYSING:
            for table in schema.TABLES:
                connection.ask(f"ANALYZE {table}")
        many = catalog.vector_rows(connection) >= EXACT_BELOW
        if many and 1 < dimensions <= MOST_DIMENSIONS:
            _make_index(connection, number, dimensions)

    def _serving_number(self, connection: ServerConnection) -> int | None:
        row = connection.ask(
            "SELECT collection FROM collections WHERE name = %s AND serving", (self.name,)
        ).fetchone()
        return None if row is None else int(row[0])

    def _create(
        self,
        connection: ServerConnection,
        fingerprint: str,
        dimensions: int,
        model: str,
        after: int,
    ) -> int:
        with connection.raw.transaction():
            (number,) = connection.ask(
                "INSERT INTO collections (name, fingerprint, dimensions, model)"
                " VALUES (%s, %s, %s, %s) RETURNING collection",
                (self.name, fingerprint, dimensions, model),
            ).fetchone() or (0,)
            _name(connection, number)
            name_locally(connection.raw, number)
            connection.executemany(
                "INSERT INTO meta VALUES (?, ?)",
                [
                    ("fingerprint", fingerprint),
                    ("dimensions", str(dimensions)),
                    (catalog.MODEL, model),
                    (generations.ACTIVE, str(after)),
                ],
            )
        return int(number)

    def _unfinished(self, connection: ServerConnection, after: int) -> int | None:
        """What an interrupted build of the same recipe left, if it follows what serves."""
        rows = connection.ask(
            "SELECT collection FROM collections WHERE name = %s AND NOT serving", (self.name,)
        ).fetchall()
        for (number,) in rows:
            _name(connection, number)
            if generations.never_served(connection, after):
                return int(number)
        return None

    def _clear(
        self,
        connection: ServerConnection,
        fingerprint: str,
        dimensions: int,
        model: str,
        rebuild: bool,
    ) -> None:
        """Remove what does not serve and cannot be gone on with."""
        rows = connection.ask(
            "SELECT collection, fingerprint, dimensions, model FROM collections"
            " WHERE name = %s AND NOT serving ORDER BY collection DESC",
            (self.name,),
        ).fetchall()
        fitting = [row[0] for row in rows if (*row[1:],) == (fingerprint, dimensions, model)]
        spared = set() if rebuild else set(fitting[:1])
        _remove(connection, [row[0] for row in rows if row[0] not in spared])
        serving = self._serving_number(connection)
        if serving is not None:
            _name(connection, serving)

    def refuse_busy(self) -> None:
        """``IndexBusy`` where somebody writes at this moment."""
        with self._locked():
            pass

    # -- removing ------------------------------------------------------------------

    def erase(
        self, uris: Sequence[str], again: MakeTerms, manifest: Mapping[str, Any], *,
        retain: int, wait_seconds: float = 0.0,
    ) -> int:  # fmt: skip
        """Remove documents and every trace of them from all tables; gives how many chunks went.

        The words of what stays need not be made ``again``: each term's list is changed by itself.
        """
        del again
        if not self.exists:
            raise not_indexed(self.name)
        with self._locked(wait_seconds) as connection:
            serving = self._serving(connection)
            if serving is None:
                raise not_indexed(self.name)
            self._clear(connection, "", 0, "", rebuild=True)
            aside = connection.ask(
                "SELECT collection FROM collections WHERE name = %s", (f"{_DAMAGED}{self.name}",)
            ).fetchall()
            _remove(connection, [number for (number,) in aside])
            _name(connection, serving.collection)
            session = PostgresWriter(
                connection,
                serving.collection,
                serving.dimensions,
                retain,
                fresh=False,
                resumed=False,
                publish=None,
            )
            with closing(session):
                chunks = session.erase(uris)
                session.activate(manifest)
            _remove_traces(connection, serving.collection)
        return chunks

    def finish_erasing(self, again: MakeTerms, *, wait_seconds: float = 0.0) -> None:
        """Remove the traces that an interrupted erasing left; where there are none, do nothing."""
        del again
        with self._server.reading(self.name, str(self.folder)) as (reader, serving):
            if serving is None or not catalog.read_number(reader, TRACES):
                return
        with self._locked(wait_seconds) as connection:
            now = self._serving(connection)
            if now is not None:
                _remove_traces(connection, now.collection)

    def repair(self, maker: Maker, why: str, wait_seconds: float = 0.0) -> None:
        """Nothing is derived here that the server does not keep with the rows."""
        del maker, why, wait_seconds

    @contextmanager
    def salvage(
        self, fingerprint: str, dimensions: int, digest: Digest, *, about: Mapping[str, Any],
        retain: int, why: str, wait_seconds: float = 0.0,
    ) -> Iterator[tuple[PostgresWriter, Rescue]]:  # fmt: skip
        """A session under another number, and the documents to fill it with: those that fit their
        hashes. The damaged rows stay, under a name that nobody asks for."""
        with self._locked(wait_seconds) as connection, self._reading() as (reader, serving):
            self._note(connection, why)
            rescue = _ServerRescue(reader, digest)
            number = self._create(connection, fingerprint, dimensions, "", rescue.highest)
            _name(connection, number)
            told = {"name": self.name, "about": json.dumps(about, sort_keys=True)}
            done = False
            try:
                for session in self._write(connection, number, dimensions, retain, told):
                    yield session, rescue
                    done = session.activated
            finally:
                with suppress(psycopg.Error):
                    if not done:
                        _remove(connection, [number])
            connection.ask(
                "UPDATE collections SET name = %s WHERE collection = %s",
                (f"{_DAMAGED}{self.name}", serving.collection),
            )

    @property
    def kept_aside(self) -> list[str]:
        """The damaged rows that were taken out of service."""
        with self._server.reading(self.name, str(self.folder)) as (connection, _):
            rows = connection.ask(
                "SELECT collection FROM collections WHERE name = %s ORDER BY collection",
                (f"{_DAMAGED}{self.name}",),
            )
            return [f"{self._server.url}#{_DAMAGED}{self.name}, {number}" for (number,) in rows]

    def set_aside(self, why: str, wait_seconds: float = 0.0) -> None:
        """Take a damaged index out of service; its rows are removed, unless they are the only
        copy of inserted documents: those are left as they are.

        Nothing happens when another front end has replaced it meanwhile.
        """
        if self._only_copy:
            raise catalog.corrupt_place_error(str(self.folder), why)
        damaged = self._seen
        if damaged is None:
            with closing(self._server.writing()) as raw, typed_errors():
                damaged = self._serving_number(ServerConnection(raw, str(self.folder)))
        with self._locked(wait_seconds) as connection:
            serving = self._serving_number(connection)
            if serving is not None and serving != damaged:
                return
            self._note(connection, why)
            self._remove_all(connection)

    def _note(self, connection: ServerConnection, why: str) -> None:
        """Write down what was found damaged, and when."""
        record = f"{datetime.now(UTC).isoformat(timespec='seconds')}: {why}"
        connection.ask("DELETE FROM damage WHERE name = %s", (self.name,))
        connection.ask("INSERT INTO damage (name, told) VALUES (%s, %s)", (self.name, record))

    def damage(self) -> str:
        """What was last found damaged and set aside; empty if nothing ever was."""
        with self._server.reading(self.name, str(self.folder)) as (connection, _):
            (there,) = connection.ask("SELECT to_regclass('lookfar.damage')").fetchone() or (None,)
            if there is None:
                return ""
            row = connection.ask("SELECT told FROM damage WHERE name = %s", (self.name,)).fetchone()
        return str(row[0]) if row else ""

    def mend_beside(self, about: Mapping[str, Any], wait_seconds: float = 0.0) -> None:
        """Say anew what this is an index of; nothing else lies beside it here."""
        with self._locked(wait_seconds) as connection:
            connection.ask(
                "UPDATE collections SET about = %s WHERE name = %s",
                (json.dumps(about, sort_keys=True), self.name),
            )

    def delete(self, besides: Collection[str] = (), wait_seconds: float = 0.0) -> None:
        """Remove the index, and the files ``besides`` that others keep on this machine for it."""
        with self._locked(wait_seconds) as connection:
            self._remove_all(connection)
            connection.ask("DELETE FROM damage WHERE name = %s", (self.name,))
        self._epoch = None
        for name in besides:
            disk.remove(self.folder / name)
        with suppress(OSError):
            self.folder.rmdir()

    def _remove_all(self, connection: ServerConnection) -> None:
        rows = connection.ask(
            "SELECT collection FROM collections WHERE name = %s OR name = %s",
            (self.name, f"{_DAMAGED}{self.name}"),
        ).fetchall()
        # First the pointer: without it nobody takes what is left for an index.
        connection.ask("UPDATE collections SET serving = false WHERE name = %s", (self.name,))
        _remove(connection, [number for (number,) in rows])

    def close(self) -> None:
        self._epoch = None


class _ServerRescue(Rescue):
    """The documents of a damaged collection that fit their hashes."""

    def __init__(self, connection: Reading, digest: Digest) -> None:
        super().__init__(digest)
        self._connection = connection
        number = generations.active(connection)
        self.highest = generations.highest(connection)
        self.expected = int(generations.manifest(connection, number).get("documents", 0))

    def documents(self) -> Iterator[StoredDocument]:
        """Those that have not died, whatever the pointer says."""
        rows = self._connection.execute(
            "SELECT d.uri, d.metadata, d.raw_sha, d.text_sha, t.body FROM documents d"
            " LEFT JOIN texts t ON t.sha = d.text_sha WHERE d.died IS NULL ORDER BY d.uri"
        )
        for uri, metadata, raw_sha, text_sha, body in rows:
            try:
                found = StoredDocument(
                    uri, metadata, catalog.decompress_text(text_sha, body).decode("utf-8")
                )
            except ValueError:
                self.lost.add(uri)
                continue
            if self.fits(found, raw_sha):
                self.saved += 1
                yield found
            else:
                self.lost.add(uri)


def _try_lock(raw: psycopg.Connection[Any], name: str) -> bool:
    row = raw.execute(
        "SELECT pg_try_advisory_lock(hashtextextended(current_user || '/' || %s, 0))", (name,)
    ).fetchone()
    return bool(row and row[0])


def _name(connection: ServerConnection, number: int) -> None:
    """From now on the session sees this collection, and no other."""
    connection.ask("SELECT set_config('lookfar.collection', %s, false)", (str(number),))


def _remove(connection: ServerConnection, numbers: Sequence[int]) -> None:
    """Remove collections that do not serve, with all their rows."""
    for number in numbers:
        _name(connection, number)
        _drop_index(connection, number)
        with connection.raw.transaction():
            name_locally(connection.raw, number)
            for table in schema.TABLES:
                connection.ask(f"DELETE FROM {table}")
            connection.ask(
                "DELETE FROM collections WHERE collection = %s AND NOT serving", (number,)
            )


@contextmanager
def _patiently(connection: ServerConnection, seconds: int) -> Iterator[None]:
    """Changes of indexes wait for whoever reads, and not for ever: what is left is for the next."""
    connection.ask(f"SET lock_timeout = '{seconds}s'")
    try:
        with suppress(psycopg.errors.LockNotAvailable):
            yield
    finally:
        connection.ask("RESET lock_timeout")


def _drop_index(connection: ServerConnection, number: int) -> None:
    """Only the owner of the tables makes and drops indexes; tenants go without."""
    if _index_state(connection, number) is not None:
        with _patiently(connection, _DROP_SECONDS):
            connection.ask(f"DROP INDEX CONCURRENTLY IF EXISTS {index_name(number)}")


def _make_index(connection: ServerConnection, number: int, dimensions: int) -> None:
    """An index of the collection's own vectors, beside all reading and writing."""
    state = _index_state(connection, number)
    if state is None or state is True:
        return
    with _patiently(connection, _MAKE_SECONDS):
        # One that was interrupted is there, and of no use.
        connection.ask(f"DROP INDEX CONCURRENTLY IF EXISTS {index_name(number)}")
        connection.ask(
            f"CREATE INDEX CONCURRENTLY {index_name(number)} ON embeddings"
            f" USING hnsw ((vector::halfvec({dimensions})) halfvec_ip_ops)"
            f" WITH (m = {LINKS}, ef_construction = {CARE}) WHERE collection = {number}"
        )


def _index_state(connection: ServerConnection, number: int) -> bool | None:
    """Whether the index of a collection can be used; None where that is not ours to change."""
    row = connection.ask(
        "SELECT pg_has_role(t.relowner, 'USAGE'), coalesce(i.indisvalid, false) FROM pg_class t"
        " LEFT JOIN pg_class c ON c.relname = %s AND c.relnamespace = t.relnamespace"
        " LEFT JOIN pg_index i ON i.indexrelid = c.oid"
        " WHERE t.oid = 'lookfar.embeddings'::regclass",
        (index_name(number),),
    ).fetchone()
    return bool(row[1]) if row and row[0] else None


def _remove_traces(connection: ServerConnection, number: int) -> None:
    """Vectors of what was erased go; its words went with its rows."""
    with connection.raw.transaction():
        name_locally(connection.raw, number)
        erase_vectors(connection, UNSETTLED, _ERASED)
        connection.execute("DELETE FROM meta WHERE key = ?", (TRACES,))
