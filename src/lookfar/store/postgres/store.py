"""The store of one collection on a server: snapshots of what serves, and its one writer.

The writer is chosen by an advisory lock of the server, which is released with its connection.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import psycopg

from lookfar.errors import IndexBusy, IndexCorrupt, LookfarError, being_rebuilt
from lookfar.model import Damage
from lookfar.ports import Digest, Maker, OnStep, StoredDocument
from lookfar.store.catalogue import generations
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.erasing import has_traces, stored_documents
from lookfar.store.ground import files as disk
from lookfar.store.health.check import refuse_miscount
from lookfar.store.health.salvage import Rescue
from lookfar.store.postgres import registry
from lookfar.store.postgres.checks import verify
from lookfar.store.postgres.server import (
    Reading,
    Server,
    ServerConnection,
    Serving,
    not_indexed,
    select_in_transaction,
    typed_errors,
)
from lookfar.store.postgres.snapshot import PostgresEpoch, PostgresSnapshot
from lookfar.store.postgres.vector_memory import VECTOR_BYTES, VectorMemory
from lookfar.store.postgres.vector_search import tune
from lookfar.store.postgres.write_session import PostgresWriter, remove_purged_terms, remove_traces
from lookfar.store.shared.stored_generations import StoredGenerations

_POLL: Final = 0.05
_DATABASES: Final = "documents/"
"""Prefix of the names of collections that are the only copy of their documents."""

T = TypeVar("T")


class PostgresStore(StoredGenerations):
    def __init__(
        self, server: Server, name: str, folder: Path, vector_bytes: int = VECTOR_BYTES
    ) -> None:
        """``folder`` is for what belongs to this machine alone; it need not exist. Vectors of at
        most ``vector_bytes`` are compared by the front ends, more by the server."""
        self.folder = folder
        self.name = name
        self._only_copy = name.startswith(_DATABASES)
        self._server = server
        self._vector_bytes = vector_bytes
        self._epoch: PostgresEpoch | None = None
        self._seen: int | None = None
        """The number last read or written here: if damage is found, it is in this one."""

    # -- reading -------------------------------------------------------------------

    @property
    def place(self) -> str:
        return f"{self._server.url}#{self.name}"

    @property
    def file(self) -> Path | None:
        """None: there is no file on this machine."""
        return None

    @property
    def present(self) -> bool:
        return self.exists

    @property
    def exists(self) -> bool:
        with self._server.reading(self.name, str(self.folder)) as (_, serving):
            return serving is not None

    @contextmanager
    def _reading(self) -> Iterator[tuple[Reading, Serving]]:
        with self._server.reading(self.name, str(self.folder)) as (connection, serving):
            if serving is None:
                raise self._explain_missing(registry.last_damage(connection, self.name))
            self._seen = serving.collection
            yield connection, serving

    def _explain_missing(self, damage: str) -> LookfarError:
        return being_rebuilt() if damage and not self._only_copy else not_indexed(self.name)

    def _read(self, ask: Callable[[Reading], T]) -> T:
        with self._reading() as (connection, _):
            return ask(connection)

    def fingerprint(self) -> str:
        with self._reading() as (_, serving):
            return serving.fingerprint

    @contextmanager
    def snapshot(self, generation: int | None = None) -> Iterator[PostgresSnapshot]:
        with self._reading() as (connection, serving):
            wanted = generations.resolve(connection, generation)
            epoch = self._epoch
            if epoch is None or epoch.collection != serving.collection:
                epoch = self._epoch = PostgresEpoch(serving, self._fill, self._vector_bytes)
            yield PostgresSnapshot(epoch, connection, serving, wanted)

    def _fill(self, memory: VectorMemory) -> None:
        """Copy the serving vectors into a memory, if that is the one of the serving collection."""
        with self._reading() as (connection, serving):
            epoch = self._epoch
            if (
                epoch is not None
                and epoch.vectors is memory
                and epoch.collection == serving.collection
            ):
                memory.extend(connection, serving)
                epoch.ranges.extend(connection, catalog.last_document(connection))

    def verify(self, on_step: OnStep | None = None) -> list[Damage]:
        try:
            return self._read(lambda connection: verify(connection, on_step))
        except IndexCorrupt as error:
            return [Damage("index", error.developer)]

    def written(self) -> Iterator[StoredDocument]:
        with self._reading() as (connection, _):
            refuse_miscount(connection)
            yield from stored_documents(connection)

    def has_quality(self, model: str, dimensions: int) -> bool:  # noqa: ARG002
        """Return False: the vectors of a second model are for the embedded store only."""
        return False

    @contextmanager
    def quality_writer(self, model: str, dimensions: int) -> Iterator[None]:  # noqa: ARG002
        yield None

    def about(self) -> dict[str, Any]:
        with self._server.reading(self.name, str(self.folder)) as (connection, serving):
            if serving is None:
                return {}
            (text,) = connection.ask(
                "SELECT about FROM collections WHERE collection = own_collection()"
            ).fetchone() or ("{}",)
        about = json.loads(text)
        return about if isinstance(about, dict) else {}

    def disk_bytes(self) -> int:
        """Estimate the space on the server: texts, terms, posting lists and vectors."""
        with self._reading() as (connection, _):
            (size,) = connection.ask(
                "SELECT (SELECT coalesce(sum(octet_length(body)), 0) FROM texts)"
                " + (SELECT coalesce(sum(octet_length(data)), 0) FROM postings)"
                " + (SELECT count(*) * 40 + coalesce(sum(vector_dims(vector)), 0) * 2"
                "    FROM embeddings)"
            ).fetchone() or (0,)
            return int(size)

    def close(self) -> None:
        self._epoch = None

    # -- writing -------------------------------------------------------------------

    @contextmanager
    def _locked(self, wait_seconds: float = 0.0) -> Iterator[ServerConnection]:
        """Open a connection that holds the writer lock as long as it lives."""
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
            try:
                yield ServerConnection(raw, str(self.folder))
            finally:
                # The server notices the end of a connection late, and the next writer may be quick.
                with suppress(psycopg.Error):
                    raw.rollback()
                    raw.execute("SELECT pg_advisory_unlock_all()")

    def _find_serving(self, connection: ServerConnection) -> Serving | None:
        serving = registry.find_serving(connection, self.name)
        if serving is not None:
            self._seen = int(serving.collection)
        return serving

    @contextmanager
    def _serving_locked(self, wait_seconds: float) -> Iterator[tuple[ServerConnection, Serving]]:
        with self._reading():
            pass  # Creates nothing: what was never indexed has no lock either.
        with self._locked(wait_seconds) as connection:
            serving = self._find_serving(connection)
            if serving is None:
                raise self._explain_missing(self.damage())
            yield connection, serving

    @contextmanager
    def _changing(self, wait_seconds: float) -> Iterator[ServerConnection]:
        with (
            self._serving_locked(wait_seconds) as (connection, serving),
            connection.raw.transaction(),
        ):
            select_in_transaction(connection.raw, serving.collection)
            yield connection
            remove_purged_terms(connection)

    def refuse_busy(self) -> None:
        with self._locked():
            pass

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
        with self._locked(wait_seconds) as connection:
            serving = self._find_serving(connection)
            if serving is not None and not let_go:
                generations.require_not_held(connection)
            registry.remove_unfinished(
                connection, self.name, fingerprint, dimensions, model, rebuild
            )
            if serving is not None and serving.fingerprint == fingerprint and not rebuild:
                yield from self._write(connection, serving.collection, dimensions, retain)
                return
            after = 0
            if serving is not None:
                registry.select_collection(connection, serving.collection)
                after = generations.require_replaceable(connection)
            unfinished = None
            if not rebuild:
                unfinished = registry.find_unfinished(connection, self.name, after)
            number = unfinished
            if number is None:
                number = registry.create_collection(
                    connection, self.name, fingerprint, dimensions, model, after
                )
            registry.select_collection(connection, number)
            with _discard_unfinished(connection, number):
                yield from self._write(
                    connection,
                    number,
                    dimensions,
                    retain,
                    self._publication(about),
                    resumed=unfinished is not None,
                )
            if serving is not None and registry.serving_number(connection, self.name) == number:
                registry.remove_collections(connection, [serving.collection])

    def _publication(self, about: Mapping[str, Any]) -> dict[str, str]:
        return {"name": self.name, "about": json.dumps(about, sort_keys=True)}

    def _write(
        self,
        connection: ServerConnection,
        number: int,
        dimensions: int,
        retain: int,
        publish: Mapping[str, str] | None = None,
        *,
        resumed: bool = False,
    ) -> Iterator[PostgresWriter]:
        session = PostgresWriter(
            connection,
            number,
            dimensions,
            retain,
            fresh=publish is not None,
            resumed=resumed,
            publish=publish,
        )
        with closing(session):
            yield session
        if session.activated:
            self._seen = number
            tune(connection, number, dimensions, session.changes, self._vector_bytes)

    # -- removing ------------------------------------------------------------------

    def erase(
        self, uris: Sequence[str], manifest: Mapping[str, Any], *,
        retain: int, wait_seconds: float = 0.0,
    ) -> int:  # fmt: skip
        """Remove documents and every trace of them from all tables; return how many chunks went.

        The terms of other documents need not be made again: each posting list is edited in place.
        """
        with self._serving_locked(wait_seconds) as (connection, serving):
            registry.remove_unfinished(connection, self.name, "", 0, "", rebuild=True)
            registry.remove_collections(connection, registry.list_set_aside(connection, self.name))
            registry.select_collection(connection, serving.collection)
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
            remove_traces(connection, serving.collection)
        return chunks

    def finish_erasing(self, *, wait_seconds: float = 0.0) -> None:
        with self._server.reading(self.name, str(self.folder)) as (reader, serving):
            if serving is None or not has_traces(reader):
                return
        with self._locked(wait_seconds) as connection:
            now = self._find_serving(connection)
            if now is not None:
                remove_traces(connection, now.collection)

    def delete(self, besides: Collection[str] = (), wait_seconds: float = 0.0) -> None:
        """Remove the index, and the files ``besides`` that others keep on this machine for it."""
        with self._locked(wait_seconds) as connection:
            registry.remove_all(connection, self.name)
            connection.ask("DELETE FROM damage WHERE name = %s", (self.name,))
        self._epoch = None
        for name in besides:
            disk.remove(self.folder / name)
        with suppress(OSError):
            self.folder.rmdir()

    # -- damage --------------------------------------------------------------------

    def damage(self) -> str:
        with self._server.reading(self.name, str(self.folder)) as (connection, _):
            return registry.last_damage(connection, self.name)

    @property
    def kept_aside(self) -> list[str]:
        with self._server.reading(self.name, str(self.folder)) as (connection, _):
            return [
                f"{self._server.url}#{registry.DAMAGED}{self.name}, {number}"
                for number in registry.list_set_aside(connection, self.name)
            ]

    def mend_beside(self, about: Mapping[str, Any], wait_seconds: float = 0.0) -> None:
        """Rewrite what this is an index of; nothing else is stored beside a collection here."""
        with self._locked(wait_seconds) as connection:
            connection.ask(
                "UPDATE collections SET about = %s WHERE name = %s",
                (json.dumps(about, sort_keys=True), self.name),
            )

    def repair(self, maker: Maker, why: str, wait_seconds: float = 0.0) -> None:
        """Do nothing: everything derived is in the server's own tables."""
        del maker, why, wait_seconds

    def set_aside(self, why: str, wait_seconds: float = 0.0) -> None:
        """Remove a damaged index; refused where it is the only copy of inserted documents.

        Does nothing if another process has replaced it meanwhile.
        """
        if self._only_copy:
            raise catalog.corrupt_place_error(str(self.folder), why)
        damaged = self._seen
        if damaged is None:
            with closing(self._server.writing()) as raw, typed_errors():
                connection = ServerConnection(raw, str(self.folder))
                damaged = registry.serving_number(connection, self.name)
        with self._locked(wait_seconds) as connection:
            serving = registry.serving_number(connection, self.name)
            if serving is not None and serving != damaged:
                return
            registry.record_damage(connection, self.name, why)
            registry.remove_all(connection, self.name)

    @contextmanager
    def salvage(
        self, fingerprint: str, dimensions: int, digest: Digest, *, about: Mapping[str, Any],
        retain: int, why: str, wait_seconds: float = 0.0,
    ) -> Iterator[tuple[PostgresWriter, Rescue]]:  # fmt: skip
        """Open a session on a new number, with the intact documents of the damaged one to fill it.

        The damaged rows stay, under a name that no reader asks for.
        """
        with self._locked(wait_seconds) as connection, self._reading() as (reader, serving):
            registry.record_damage(connection, self.name, why)
            rescue = ServerRescue(reader, digest)
            number = registry.create_collection(
                connection, self.name, fingerprint, dimensions, "", rescue.highest
            )
            publish = self._publication(about)
            done = False
            try:
                for session in self._write(connection, number, dimensions, retain, publish):
                    yield session, rescue
                    done = session.activated
            finally:
                with suppress(psycopg.Error):
                    if not done:
                        registry.remove_collections(connection, [number])
            registry.set_aside(connection, self.name, serving.collection)


def _try_lock(raw: psycopg.Connection[Any], name: str) -> bool:
    row = raw.execute(
        "SELECT pg_try_advisory_lock(hashtextextended(current_user || '/' || %s, 0))", (name,)
    ).fetchone()
    return bool(row and row[0])


@contextmanager
def _discard_unfinished(connection: ServerConnection, number: int) -> Iterator[None]:
    """Remove a collection whose build failed before its first checkpoint, or is damaged."""
    resumable = False
    try:
        yield
        resumable = True
    except IndexCorrupt:
        raise
    except BaseException:
        with suppress(psycopg.Error):
            resumable = catalog.highest_numbers(connection).document > 0
        raise
    finally:
        with suppress(psycopg.Error):
            if not resumable:
                registry.remove_collections(connection, [number])


class ServerRescue(Rescue):
    """Reads the intact documents of the collection that the connection sees."""

    def __init__(self, connection: Reading, digest: Digest) -> None:
        super().__init__(digest)
        self._connection = connection
        number = generations.active(connection)
        self.highest = generations.highest(connection)
        self.expected = int(generations.manifest(connection, number).get("documents", 0))

    def documents(self) -> Iterator[StoredDocument]:
        """Yield the documents that have not ended, whatever the pointer says."""
        rows = self._connection.execute(
            "SELECT d.uri, d.metadata, d.raw_sha, d.text_sha, t.body FROM documents d"
            " LEFT JOIN texts t ON t.sha = d.text_sha WHERE d.died IS NULL ORDER BY d.uri"
        )
        for uri, metadata, raw_sha, text_sha, body in rows:
            try:
                text = catalog.decompress_text(text_sha, body).decode("utf-8")
            except ValueError:
                self.lost.add(uri)
                continue
            document = StoredDocument(uri, metadata, text)
            if self.fits(document, raw_sha):
                self.saved += 1
                yield document
            else:
                self.lost.add(uri)
