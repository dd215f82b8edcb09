"""A PostgreSQL server: connections, what they have in common with SQLite's, and typed errors.

Takes: addresses without passwords, as the settings have them. Gives: connections for reading,
pooled, each inside a snapshot of its own; one for each writer; and errors with a next step.
Refuses: roles that row-level security does not bind, because statements rely on it.

A connection that is lost while somebody reads is replaced once, if the collection is still what
it was; the answer does not show it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore, Lock, local
from typing import Any, Final, NamedTuple

from lookfar.errors import (
    DiskFull,
    IndexBusy,
    IndexCorrupt,
    IndexReadOnly,
    InvalidConfig,
    IOFailed,
    LookfarError,
    ModelUnavailable,
    NotIndexed,
    StoreUnavailable,
)
from lookfar.store.postgres import schema

try:
    import psycopg
    from psycopg import errors
    from psycopg.adapt import Dumper
    from psycopg.pq import Format
    from psycopg.types import TypeInfo
except ImportError as missing:
    raise InvalidConfig(
        "store.url names a PostgreSQL server, and its driver is not installed.",
        hint='Install it: pip install "lookfar[postgres]".',
        developer=str(missing),
    ) from missing

_CONNECT_SECONDS: Final = 10
_BORROW_SECONDS: Final = 30.0
_MANY: Final = 4
"""Rows from which one statement for all of them is worth its making."""
_LONGEST_REMEMBERED: Final = 2000
"""Characters of a statement whose translation is kept."""
_MARK = re.compile(r"%|\?|(?<![:\w]):([a-z_]\w*)")
_INSERT = re.compile(r"INSERT INTO (\w+)(?: \(([\w, ]+)\))? VALUES \(([?, NUL]+)\)")


class Halfvec(bytes):
    """A vector as float16 in the order of this machine, as it goes into a column."""


class _HalfvecDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Halfvec) -> bytes:
        import numpy as np

        swapped = np.frombuffer(obj, dtype="<f2").astype(">f2").tobytes()
        return (len(obj) // 2).to_bytes(2, "big") + b"\0\0" + swapped


def _plain(value: Any) -> Any:
    """A value as SQLite would have it: flags are 0 and 1. PostgreSQL has no text with a zero."""
    if value is True or value is False:
        return int(value)
    if isinstance(value, str) and "\0" in value:
        return value.replace("\0", "\ufffd")
    return value


def translated(statement: str) -> str:
    """A shared statement as psycopg wants it: ``%s`` and ``%(name)s`` for marks."""
    # One that lists numbers is not asked again, and may be megabytes long.
    return (_remembered if len(statement) <= _LONGEST_REMEMBERED else _translated)(statement)


def _translated(statement: str) -> str:
    def mark(found: re.Match[str]) -> str:
        if found[0] == "%":
            return "%%"
        return f"%({found[1]})s" if found[1] else "%s"

    return _MARK.sub(mark, statement)


_remembered = lru_cache(maxsize=1024)(_translated)


class ServerConnection:
    """A connection that the catalogue's shared statements can be asked through."""

    def __init__(self, raw: psycopg.Connection[Any], place: str) -> None:
        self.raw = raw
        self.place = place
        """What is damaged where something is; see
        :func:`lookfar.store.catalogue.migrations.locate`."""

    def execute(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = (), /
    ) -> psycopg.Cursor[Any]:
        return self.ask(translated(sql), parameters)

    def ask(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()
    ) -> psycopg.Cursor[Any]:
        """The same for what is written for this server alone."""
        values: Sequence[Any] | Mapping[str, Any]
        if isinstance(parameters, Mapping):
            values = {name: _plain(value) for name, value in parameters.items()}
        else:
            values = [*map(_plain, parameters)]
        return self.raw.execute(sql, values, binary=True)

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> None:
        rows = list(parameters)
        found = _INSERT.fullmatch(sql)
        if len(rows) < _MANY or found is None:
            with self.raw.cursor() as cursor:
                cursor.executemany(translated(sql), [[*map(_plain, row)] for row in rows])
            return
        table, named, values = found.groups()
        columns = schema.TYPES[table]
        if named:
            types = dict(columns)
            columns = [(name.strip(), types[name.strip()]) for name in named.split(",")]
        given = [
            column
            for column, value in zip(columns, values.split(","), strict=False)
            if value.strip() == "?"
        ]
        self.insert(table, given, rows)

    def insert(
        self, table: str, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Many rows by one statement: COPY would be refused where rows have security."""
        names = ", ".join(f'"{name}"' for name, _ in columns)
        arrays = ", ".join(f"{'%s' if kind == 'text' else '%b'}::{kind}[]" for _, kind in columns)
        self.raw.execute(
            f"INSERT INTO {table} ({names}) SELECT * FROM unnest({arrays})",
            [[*map(_plain, column)] for column in zip(*rows, strict=True)],
        )


class Reading(ServerConnection):
    """A connection in a snapshot, which is replaced once where it is lost."""

    def __init__(
        self,
        raw: psycopg.Connection[Any],
        place: str,
        again: Callable[[], psycopg.Connection[Any] | None],
    ) -> None:
        super().__init__(raw, place)
        self._again: Callable[[], psycopg.Connection[Any] | None] | None = again

    def ask(
        self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()
    ) -> psycopg.Cursor[Any]:
        try:
            return super().ask(sql, parameters)
        except (psycopg.OperationalError, psycopg.InterfaceError):
            again, self._again = self._again, None
            if not self.raw.broken or again is None:
                raise
            found = again()
            if found is None:
                raise
            self.raw = found
            return super().ask(sql, parameters)


class Serving(NamedTuple):
    """The collection that serves under a name, at one moment."""

    collection: int
    fingerprint: str
    dimensions: int
    model: str
    generation: int
    commit: str = ""
    """Of the words, as it is kept: what was pruned left with one, and the generation stayed."""


_SERVING = (
    "SELECT collection, fingerprint, dimensions, model FROM collections WHERE name = %s AND serving"
)


class Server:
    """One server as one or two addresses: where to write, and where to read."""

    def __init__(self, url: str, read_url: str = "", most: int = 16) -> None:
        """``most`` questions are asked at once, each with a connection for each collection."""
        self.url = url
        """Without a password: settings have none."""
        self._read_url = read_url or url
        self._idle: SimpleQueue[psycopg.Connection[Any]] = SimpleQueue()
        self._most = most
        self._room = BoundedSemaphore(most)
        self._mine = local()

    # -- opening ---------------------------------------------------------------

    def writing(self) -> psycopg.Connection[Any]:
        """A connection of the caller's own, to the primary, with its tables up to date."""
        with typed_errors():
            raw = self._connect(self.url)
        try:
            with typed_errors():
                schema.migrate(raw)
                _know_vectors(raw)
        except BaseException:
            raw.close()
            raise
        return raw

    def _connect(self, url: str) -> psycopg.Connection[Any]:
        raw: psycopg.Connection[Any] = psycopg.connect(
            url,
            autocommit=True,
            connect_timeout=_CONNECT_SECONDS,
            application_name="lookfar",
            options=f"-c search_path={schema.SCHEMA},public",
        )
        try:
            _refuse_unbound(raw)
            _know_vectors(raw)
        except BaseException:
            raw.close()
            raise
        return raw

    # -- reading ---------------------------------------------------------------

    @contextmanager
    def reading(self, name: str, place: str) -> Iterator[tuple[Reading, Serving | None]]:
        """A connection inside a snapshot, and the collection that serves under ``name`` in it;
        ``None`` where none does."""
        # Who has one gets more: a question asks several collections at once, and two that each
        # waited for the other's would wait for ever.
        first = not getattr(self._mine, "count", 0)
        if first and not self._room.acquire(timeout=_BORROW_SECONDS):
            raise IndexBusy(
                "All connections to the store's server are in use.",
                hint="Try again in a moment, or raise store.connections.",
            )
        self._mine.count = getattr(self._mine, "count", 0) + 1
        lent: list[psycopg.Connection[Any]] = []
        sound = False
        try:
            with typed_errors():
                raw, state = self._begun(name)
                lent.append(raw)

                def again() -> psycopg.Connection[Any] | None:
                    other, now = self._begun(name)
                    lent.append(other)
                    return other if now == state else None

                yield Reading(raw, place, again), state
                lent[-1].execute("COMMIT")
            sound = True
        finally:
            self._mine.count -= 1
            if first:
                self._room.release()
            kept = lent[-1:] if sound and self._idle.qsize() < self._most else []
            for each in lent:
                if each in kept:
                    self._idle.put(each)
                else:
                    with suppress(psycopg.Error):
                        each.close()

    def names(self) -> list[str]:
        """The collections of this role that serve."""
        with self.reading("", "") as (connection, _):
            (there,) = connection.ask("SELECT to_regclass('lookfar.collections')").fetchone() or (
                None,
            )
            if there is None:
                return []
            rows = connection.ask("SELECT name FROM collections WHERE serving ORDER BY name")
            return [str(name) for (name,) in rows]

    def _begun(self, name: str) -> tuple[psycopg.Connection[Any], Serving | None]:
        """A connection in a snapshot; one that was lost while it was idle is replaced."""
        while True:
            try:
                raw, idle = self._idle.get_nowait(), True
            except Empty:
                raw, idle = self._connect(self._read_url), False
            try:
                return raw, _begin(raw, name)
            except psycopg.OperationalError:
                lost = raw.broken or raw.closed
                raw.close()
                if not (lost and idle):
                    raise
            except BaseException:
                raw.close()
                raise

    def close(self) -> None:
        """Let go of idle connections; whoever asks later opens new ones."""
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                return


def _begin(raw: psycopg.Connection[Any], name: str) -> Serving | None:
    raw.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        row = raw.execute(_SERVING, (name,)).fetchone()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        raw.execute("ROLLBACK")
        raw.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        schema.version_of(raw)
        return None
    if row is None:
        return None
    collection, fingerprint, dimensions, model = row
    name_locally(raw, collection)
    known = "SELECT key, value FROM meta WHERE key IN ('active', 'keywords_stamp')"
    told = dict(raw.execute(known).fetchall())
    active, commit = int(told.get("active", 0)), told.get("keywords_stamp", "")
    return Serving(collection, fingerprint, dimensions, model, active, commit)


def name_locally(raw: psycopg.Connection[Any], collection: int) -> None:
    """This transaction sees one collection: said as a cluster passes it on to its workers."""
    raw.execute(f"SET LOCAL lookfar.collection = {collection:d}")


def _know_vectors(raw: psycopg.Connection[Any]) -> None:
    """Teach a connection how vectors are sent, where the server has them."""
    info = TypeInfo.fetch(raw, "halfvec")
    if info is not None:
        info.register(raw)
        dumper = type("_ThisHalfvec", (_HalfvecDumper,), {"oid": info.oid})
        raw.adapters.register_dumper(Halfvec, dumper)


def _refuse_unbound(raw: psycopg.Connection[Any]) -> None:
    row = raw.execute(
        "SELECT rolname, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
    ).fetchone()
    if row is None or row[1]:
        raise InvalidConfig(
            f"The role {row[0] if row else '?'} is not bound by row-level security, which keeps"
            " collections and tenants apart.",
            hint="Make a role of its own: CREATE ROLE lookfar LOGIN; and name it in store.url.",
        )


# -- errors ------------------------------------------------------------------


@contextmanager
def typed_errors() -> Iterator[None]:
    """Name what the server complains about; a mistake of our own stays what it is."""
    try:
        yield
    except errors.Error as error:
        typed = _typed(error)
        if typed is None:
            raise
        raise typed from None


def _typed(error: psycopg.Error) -> LookfarError | None:
    # Never the text of a connection error: it may quote the address it was given.
    developer = f"{type(error).__name__} {error.sqlstate or ''}".strip()
    if isinstance(error, errors.DiskFull):
        return DiskFull(
            "The disk of the store's server is full.",
            hint="Free some space there and try again; the last finished index is intact.",
            developer=developer,
        )
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return IndexReadOnly(
            "The store's server takes no writes: it may be a replica.",
            hint="Name the primary in store.url, and replicas in store.read_url.",
            developer=developer,
        )
    if isinstance(error, errors.DataCorrupted | errors.IndexCorrupted):
        return IndexCorrupt(
            "The store's server found damaged data.",
            hint="Rebuild the index from the sources: lookfar index PATH --rebuild.",
            developer=developer,
        )
    if isinstance(error, errors.UndefinedFile | errors.FeatureNotSupported) or (
        isinstance(error, errors.InsufficientPrivilege) and "extension" in str(error)
    ):
        return ModelUnavailable(
            "The store's server has no vectors (the extension pgvector).",
            hint="Install pgvector there, and let a superuser run in this database:"
            " CREATE EXTENSION vector;",
            developer=developer,
        )
    if isinstance(error, errors.InsufficientPrivilege):
        return InvalidConfig(
            "The role in store.url may not do that on the server.",
            hint="It needs to own the schema lookfar: GRANT CREATE ON DATABASE ... TO the role.",
            developer=f"{developer}: {error.diag.message_primary}",
        )
    if isinstance(error, errors.ProgramLimitExceeded):
        # An operational error like a lost connection, but it comes again each time.
        return IOFailed(
            "Something that is to be indexed is too long for the store's server.",
            hint="It keeps addresses and tags of up to about 2,600 bytes: shorten the longest, or"
            " leave that file out.",
            developer=f"{developer}: {error.diag.message_primary}",
        )
    if isinstance(error, errors.DeadlockDetected | errors.LockNotAvailable):
        return IndexBusy(
            "Another process is using this index and did not let go in time.",
            hint="Try again in a moment.",
            developer=developer,
        )
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreUnavailable(
            "The store's server cannot be reached, or the connection to it was lost.",
            hint="Check that it runs and that store.url is right, and try again: what was"
            " activated before is intact.",
            developer=developer,
            details={"retry": True},
        )
    return None


def not_indexed(place: str) -> NotIndexed:
    return NotIndexed(
        "This folder has not been indexed yet.",
        hint="Run: lookfar index PATH",
        developer=f"nothing serves as {place}",
    )


_servers: dict[tuple[str, str, int], Server] = {}
_opening = Lock()


def server_at(url: str, read_url: str = "", most: int = 16) -> Server:
    """The server of these addresses; all collections of a process share its connections."""
    with _opening:
        return _servers.setdefault((url, read_url, most), Server(url, read_url, most))
