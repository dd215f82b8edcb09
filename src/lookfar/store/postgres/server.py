"""Connections to a PostgreSQL server, and its errors as Lookfar's own.

Readers share a pool, and each reads inside a snapshot; each writer has a connection of its own.
Roles that bypass row-level security are refused, because statements rely on it. A connection that
is lost while reading is replaced once, if the collection has not changed meanwhile.
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
from lookfar.store.ground.sql import READ_META, Rows
from lookfar.store.postgres import schema

try:
    import psycopg
    from psycopg import errors, sql
    from psycopg.adapt import Dumper
    from psycopg.pq import Format
    from psycopg.types import TypeInfo
except ImportError as missing:
    raise InvalidConfig(
        "store.url names a PostgreSQL server, but its driver is not installed.",
        hint='Install it: pip install "lookfar[postgres]".',
        developer=str(missing),
    ) from missing

_CONNECT_SECONDS: Final = 10
_BORROW_SECONDS: Final = 30.0
_MANY: Final = 4
"""Rows from which they are inserted by one statement."""
_MANY_COPIED: Final = 200
"""Rows from which they are copied into a temporary table first."""
_LONGEST_CACHED: Final = 2000
"""The longest statement, in characters, whose translation is cached."""
_PLACEHOLDER = re.compile(r"%|\?|(?<![:\w]):([a-z_]\w*)")
_LISTED = re.compile(r"(NOT )?IN \((\d+(?:,\d+)*)\)")
_INSERT = re.compile(r"INSERT INTO (\w+)(?: \(([\w, ]+)\))? VALUES \(([?, NUL]+)\)")


class Halfvec(bytes):
    """A vector as little-endian float16, to be stored in a column."""


class _HalfvecDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Halfvec) -> bytes:
        import numpy as np

        swapped = np.frombuffer(obj, dtype="<f2").astype(">f2").tobytes()
        return (len(obj) // 2).to_bytes(2, "big") + b"\0\0" + swapped


def _plain(value: Any) -> Any:
    """Convert a value as SQLite stores it: flags to 0 and 1. NUL, which PostgreSQL refuses in text,
    becomes U+FFFD."""
    if value is True or value is False:
        return int(value)
    if isinstance(value, str) and "\0" in value:
        return value.replace("\0", "\ufffd")
    return value


def _quote_names(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f'"{name}"' for name, _ in columns)


def translate(statement: str) -> str:
    """Translate the placeholders of a shared statement for psycopg: ``%s`` and ``%(name)s``."""
    # A statement that lists numbers is used once, and may be megabytes long.
    return (_translate_cached if len(statement) <= _LONGEST_CACHED else _translate)(statement)


def as_array(numbers: Iterable[int]) -> str:
    """Return numbers as an array for the server; a text takes less time than a list to send."""
    return f"{{{','.join(map(str, numbers))}}}"


def _pass_lists(statement: str, parameters: dict[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Turn listed numbers into parameters: the server then plans the statement only once."""

    def convert(match: re.Match[str]) -> str:
        name = f"listed{len(parameters)}"
        parameters[name] = f"{{{match[2]}}}"
        return f"{'!= ALL' if match[1] else '= ANY'}(:{name}::bigint[])"

    return _LISTED.sub(convert, statement), parameters


def _translate(statement: str) -> str:
    def convert(match: re.Match[str]) -> str:
        if match[0] == "%":
            return "%%"
        return f"%({match[1]})s" if match[1] else "%s"

    return _PLACEHOLDER.sub(convert, statement)


_translate_cached = lru_cache(maxsize=1024)(_translate)


class ServerConnection:
    """A connection that runs the catalogue's shared statements."""

    def __init__(self, raw: psycopg.Connection[Any], place: str) -> None:
        self.raw = raw
        self.place = place
        """The place that error messages name for damage; see
        :func:`lookfar.store.catalogue.migrations.locate`."""
        self._stages: bool | None = None
        self._staged: set[str] = set()
        """The temporary tables of this connection."""

    def execute(
        self, statement: str, parameters: Sequence[Any] | Mapping[str, Any] = (), /
    ) -> Rows:
        if isinstance(parameters, Mapping) or not parameters:
            statement, parameters = _pass_lists(statement, dict(parameters))
        return self.ask(translate(statement), parameters)

    def ask(
        self, statement: str, parameters: Sequence[Any] | Mapping[str, Any] = ()
    ) -> psycopg.Cursor[Any]:
        """Run a statement that is written for PostgreSQL only."""
        values: Sequence[Any] | Mapping[str, Any]
        if isinstance(parameters, Mapping):
            values = {name: _plain(value) for name, value in parameters.items()}
        else:
            values = [*map(_plain, parameters)]
        return self.raw.execute(statement, values, binary=True)

    def executemany(self, statement: str, parameters: Iterable[Sequence[Any]], /) -> None:
        rows = list(parameters)
        insert = _INSERT.fullmatch(statement)
        if len(rows) < _MANY or insert is None:
            with self.raw.cursor() as cursor:
                cursor.executemany(translate(statement), [[*map(_plain, row)] for row in rows])
            return
        table, named, values = insert.groups()
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
        """Insert many rows by one statement."""
        names = _quote_names(columns)
        with self.offering(table, columns, rows) as (offered, values):
            self.raw.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM {offered}", values)

    @contextmanager
    def offering(
        self, table: str, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]]
    ) -> Iterator[tuple[str, list[Any]]]:
        """Send rows to the server; yield what a statement may select them from, and its values.

        COPY is the fastest way, but refuses tables with row-level security. Many rows therefore go
        through a temporary table.
        """
        if len(rows) < _MANY_COPIED or not self._may_stage():
            arrays = (f"{'%s' if kind == 'text' else '%b'}::{kind}[]" for _, kind in columns)
            values = [[*map(_plain, column)] for column in zip(*rows, strict=True)]
            yield f"unnest({', '.join(arrays)}) AS given ({_quote_names(columns)})", values
            return
        staged = self._stage(table, columns)
        texts = [at for at, (_, kind) in enumerate(columns) if kind == "text"]
        statement = f"COPY {staged} FROM STDIN (FORMAT BINARY)"
        with self.raw.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([kind for _, kind in columns])
            for row in rows:
                refused = any("\0" in row[at] for at in texts)
                copy.write_row([*map(_plain, row)] if refused else row)
        yield staged, []
        self.raw.execute(f"TRUNCATE {staged}")

    def _may_stage(self) -> bool:
        """Whether this role may create temporary tables, as every role may by default."""
        if self._stages is None:
            row = self.raw.execute(
                "SELECT has_database_privilege(current_database(), 'TEMPORARY')"
            ).fetchone()
            self._stages = bool(row and row[0])
        return self._stages

    def _stage(self, table: str, columns: Sequence[tuple[str, str]]) -> str:
        """Return the name of an empty temporary table with these columns."""
        staged = f"pg_temp.staged_{table}_{len(columns)}"
        if staged not in self._staged:
            kinds = ", ".join(f'"{name}" {kind}' for name, kind in columns)
            self.raw.execute(f"CREATE TEMPORARY TABLE {staged} ({kinds})")
            self._staged.add(staged)
        return staged


class _KnownRows:
    """Rows that were read before, as the result of a statement."""

    description = None

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def fetchone(self) -> Any:
        return self._rows[0] if self._rows else None

    def fetchall(self) -> list[Any]:
        return self._rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)


class Reading(ServerConnection):
    """A connection in a snapshot, which is replaced once if it is lost."""

    def __init__(
        self,
        raw: psycopg.Connection[Any],
        place: str,
        again: Callable[[], psycopg.Connection[Any] | None],
        meta: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(raw, place)
        self._again: Callable[[], psycopg.Connection[Any] | None] | None = again
        self._meta = meta

    def execute(
        self, statement: str, parameters: Sequence[Any] | Mapping[str, Any] = (), /
    ) -> Rows:
        if (
            statement == READ_META
            and self._meta is not None
            and not isinstance(parameters, Mapping)
        ):
            value = self._meta.get(parameters[0])
            return _KnownRows([] if value is None else [(value,)])
        return super().execute(statement, parameters)

    def ask(
        self, statement: str, parameters: Sequence[Any] | Mapping[str, Any] = ()
    ) -> psycopg.Cursor[Any]:
        try:
            return super().ask(statement, parameters)
        except (psycopg.OperationalError, psycopg.InterfaceError):
            again, self._again = self._again, None
            if not self.raw.broken or again is None:
                raise
            replacement = again()
            if replacement is None:
                raise
            self.raw = replacement
            return super().ask(statement, parameters)


class Serving(NamedTuple):
    """The collection that serves under a name, at one moment."""

    collection: int
    fingerprint: str
    dimensions: int
    model: str
    generation: int
    meta: Mapping[str, str] = {}
    """Every recorded value of the collection, the count of its commits among them: each commit of a
    writer raises it, and so does pruning, while the generation stays the same."""


_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_META: Final = "SELECT key, value FROM meta"


class Server:
    """One server, with an address for writing and perhaps another for reading."""

    def __init__(self, url: str, read_url: str = "", most: int = 16) -> None:
        """At most ``most`` requests read at once, each with a connection per collection."""
        self.url = url
        """Without a password: settings contain none."""
        self._read_url = read_url or url
        self._idle: SimpleQueue[psycopg.Connection[Any]] = SimpleQueue()
        self._most = most
        self._room = BoundedSemaphore(most)
        self._mine = local()
        self._numbers: dict[str, int] = {}
        """Which collection served under each name when it was last read."""

    # -- opening ---------------------------------------------------------------

    def writing(self) -> psycopg.Connection[Any]:
        """Open a connection to the primary for one writer, and migrate its tables."""
        with typed_errors():
            raw = self._connect(self.url)
        try:
            with typed_errors():
                schema.migrate(raw)
                _register_vectors(raw)
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
            _refuse_bypass(raw)
            _register_vectors(raw)
        except BaseException:
            raw.close()
            raise
        return raw

    # -- reading ---------------------------------------------------------------

    @contextmanager
    def reading(self, name: str, place: str) -> Iterator[tuple[Reading, Serving | None]]:
        """Yield a connection inside a snapshot, and the collection that serves under ``name``, if
        any."""
        # A thread that has a connection gets more without waiting: a request reads several
        # collections at once, and two that waited for each other would wait forever.
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
                raw, state = self._begin(name)
                lent.append(raw)

                def again() -> psycopg.Connection[Any] | None:
                    other, now = self._begin(name)
                    lent.append(other)
                    return other if now == state else None

                yield Reading(raw, place, again, state.meta if state else None), state
                lent[-1].execute("COMMIT")
            sound = True
        finally:
            self._mine.count -= 1
            if first:
                self._room.release()
            reusable = lent[-1:] if sound and self._idle.qsize() < self._most else []
            for connection in lent:
                if connection in reusable:
                    self._idle.put(connection)
                else:
                    with suppress(psycopg.Error):
                        connection.close()

    def names(self) -> list[str]:
        """Return the names of the serving collections of this role."""
        with self.reading("", "") as (connection, _):
            (table,) = connection.ask("SELECT to_regclass('lookfar.collections')").fetchone() or (
                None,
            )
            if table is None:
                return []
            rows = connection.ask("SELECT name FROM collections WHERE serving ORDER BY name")
            return [str(name) for (name,) in rows]

    def _begin(self, name: str) -> tuple[psycopg.Connection[Any], Serving | None]:
        """Begin a snapshot; replace an idle connection that was lost."""
        while True:
            try:
                raw, idle = self._idle.get_nowait(), True
            except Empty:
                raw, idle = self._connect(self._read_url), False
            try:
                state = _begin_snapshot(raw, name, self._numbers.get(name))
                if state is not None:
                    self._numbers[name] = state.collection
                return raw, state
            except psycopg.OperationalError:
                lost = raw.broken or raw.closed
                raw.close()
                if not (lost and idle):
                    raise
            except BaseException:
                raw.close()
                raise

    def close(self) -> None:
        """Close idle connections; later requests open new ones."""
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                return


def _begin_snapshot(
    raw: psycopg.Connection[Any], name: str, expected: int | None
) -> Serving | None:
    """Begin a snapshot; it takes one round trip if the expected collection still serves."""
    select = "" if expected is None else f"SET LOCAL lookfar.collection = {expected:d};"
    statement = sql.SQL(
        f"{_BEGIN}; {select} SELECT collection, fingerprint, dimensions, model FROM collections"
        f" WHERE name = {{}} AND serving; {_META}"
    ).format(sql.Literal(name))
    try:
        # Several statements in one message cannot be prepared.
        cursor = raw.execute(statement, prepare=False)
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        raw.execute("ROLLBACK")
        raw.execute(_BEGIN)
        schema.read_version(raw)
        return None
    results = [] if cursor.description is None else [cursor.fetchall()]
    while cursor.nextset():
        if cursor.description is not None:
            results.append(cursor.fetchall())
    serving, meta = results[0], dict(results[1])
    if not serving:
        return None
    collection, fingerprint, dimensions, model = serving[0]
    if collection != expected:
        select_in_transaction(raw, collection)
        meta = dict(raw.execute(_META).fetchall())
    return Serving(collection, fingerprint, dimensions, model, int(meta.get("active", 0)), meta)


def select_in_transaction(raw: psycopg.Connection[Any], collection: int) -> None:
    """Select the collection that this transaction sees, in a way that a cluster passes on to its
    workers."""
    raw.execute(f"SET LOCAL lookfar.collection = {collection:d}")


def _register_vectors(raw: psycopg.Connection[Any]) -> None:
    """Register the vector type with a connection, if the server has it."""
    info = TypeInfo.fetch(raw, "halfvec")
    if info is not None:
        info.register(raw)
        dumper = type("_ThisHalfvec", (_HalfvecDumper,), {"oid": info.oid})
        raw.adapters.register_dumper(Halfvec, dumper)


def _refuse_bypass(raw: psycopg.Connection[Any]) -> None:
    row = raw.execute(
        "SELECT rolname, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
    ).fetchone()
    if row is None or row[1]:
        raise InvalidConfig(
            f"The role {row[0] if row else '?'} bypasses row-level security, which keeps"
            " collections and tenants apart.",
            hint="Create a role for Lookfar: CREATE ROLE lookfar LOGIN; and name it in store.url.",
        )


# -- errors ------------------------------------------------------------------


@contextmanager
def typed_errors() -> Iterator[None]:
    """Turn errors of the server into Lookfar's own; programming errors pass through."""
    try:
        yield
    except errors.Error as error:
        typed = _type_error(error)
        if typed is None:
            raise
        raise typed from None


def _type_error(error: psycopg.Error) -> LookfarError | None:
    # Not the text of a connection error: it may quote the address.
    developer = f"{type(error).__name__} {error.sqlstate or ''}".strip()
    if isinstance(error, errors.DiskFull):
        return DiskFull(
            "The disk of the store's server is full.",
            hint="Free some space there and try again; the last finished index is intact.",
            developer=developer,
        )
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return IndexReadOnly(
            "The store's server is read-only; it may be a replica.",
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
            "The store's server does not have the extension pgvector.",
            hint="Install pgvector there, and have a superuser run in this database:"
            " CREATE EXTENSION vector;",
            developer=developer,
        )
    if isinstance(error, errors.InsufficientPrivilege):
        return InvalidConfig(
            "The role in store.url lacks a privilege on the server.",
            hint="It must own the schema lookfar: GRANT CREATE ON DATABASE ... TO the role.",
            developer=f"{developer}: {error.diag.message_primary}",
        )
    if isinstance(error, errors.ProgramLimitExceeded):
        # This is an operational error like a lost connection, but trying again does not help.
        return IOFailed(
            "A path or tag is too long for the store's server.",
            hint="It stores paths and tags of up to about 2,600 bytes: shorten the longest, or"
            " exclude that file.",
            developer=f"{developer}: {error.diag.message_primary}",
        )
    if isinstance(error, errors.DeadlockDetected | errors.LockNotAvailable):
        return IndexBusy(
            "Another process is using this index and did not release it in time.",
            hint="Try again in a moment.",
            developer=developer,
        )
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return _make_unavailable(error, developer)
    return None


def _make_unavailable(error: psycopg.Error, developer: str) -> StoreUnavailable:
    message = "The store's server cannot be reached, or the connection to it was lost."
    hint = "Check that it is running and that store.url is right, and try again; the last finished"
    hint += " index is intact."
    if error.pgconn and (error.pgconn.used_password or error.pgconn.needs_password):
        message = "The store's server can be reached, but it did not accept the login."
        hint = "Check the password (PGPASSWORD or PGPASSFILE), and role and database in store.url."
    return StoreUnavailable(message, hint=hint, developer=developer, details={"retry": True})


def not_indexed(place: str) -> NotIndexed:
    return NotIndexed(
        "This folder has not been indexed yet.",
        hint="Run: lookfar index PATH",
        developer=f"nothing serves as {place}",
    )


_servers: dict[tuple[str, str, int], Server] = {}
_opening = Lock()


def server_at(url: str, read_url: str = "", most: int = 16) -> Server:
    """Return the server at these addresses; all collections of a process share it."""
    with _opening:
        return _servers.setdefault((url, read_url, most), Server(url, read_url, most))
