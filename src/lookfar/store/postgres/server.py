"""Connections to a PostgreSQL server, and its errors as Lookfar's own.

Readers share a pool; each writer has a connection of its own, which holds the lock of its
collection. Roles that bypass row-level security are refused, because statements rely on it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore, Lock
from typing import Any, Final, NamedTuple

from lookfar.errors import (
    DiskFull,
    IndexBusy,
    IndexCorrupt,
    IndexReadOnly,
    InvalidConfig,
    IOFailed,
    LookfarError,
    StoreUnavailable,
)
from lookfar.store.postgres import schema

try:
    import psycopg
    from psycopg import errors
    from psycopg.pq import Conninfo
except ImportError as missing:
    raise InvalidConfig(
        "store.url names a PostgreSQL server, but its driver is not installed.",
        hint='Install it: pip install "lookfar[postgres]".',
        developer=str(missing),
    ) from missing

_CONNECT_SECONDS: Final = 10
_BORROW_SECONDS: Final = 30.0
_POLL: Final = 0.05
_MANY_COPIED: Final = 200
"""Rows from which they are copied into a temporary table first."""
_SLOW: Final = 1.0
"""Seconds after which a failed attempt to connect is not repeated for ``_PAUSE`` seconds."""
_PAUSE: Final = 10.0


_OLDER: Final = "older_tables"


class Serving(NamedTuple):
    """The collection that serves under a name, at one moment."""

    collection: int
    revision: int
    mark: str
    quality: int
    """The number of the last vector of the second model."""
    fingerprint: str
    dimensions: int
    model: str
    about: Mapping[str, Any]


_SERVING: Final = (
    "SELECT collection, revision, mark, quality, fingerprint, dimensions, model, about"
    " FROM collections WHERE name = %s AND serving"
)


def find_serving(raw: psycopg.Connection[Any], name: str) -> Serving | None:
    """Return what serves under a name; None where the server has no tables yet."""
    try:
        row = raw.execute(_SERVING, (name,)).fetchone()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return None
    except errors.UndefinedColumn:
        raise StoreUnavailable(
            "The tables of the store's server were made by an older Lookfar.",
            hint="Wait until another process has changed them, and try again.",
            details={"retry": True, _OLDER: True},
        ) from None
    if row is None:
        return None
    *known, about = row
    return Serving._make((*known, json.loads(about)))


class Server:
    """One server, with an address for writing and perhaps another for reading."""

    def __init__(self, url: str, read_url: str = "", most: int = 16) -> None:
        """At most ``most`` requests read at once."""
        self.url = url
        """Without a password: settings contain none."""
        self.reads_replica = bool(read_url)
        self._read_url = read_url or url
        self._idle: SimpleQueue[psycopg.Connection[Any]] = SimpleQueue()
        self._most = most
        self._room = BoundedSemaphore(most)
        self._paused_until = 0.0

    @property
    def key(self) -> str:
        """A name for this server, database and role."""
        options = {o.keyword: o.val for o in Conninfo.get_defaults()}
        options |= {o.keyword: o.val for o in Conninfo.parse(self.url.encode()) if o.val}
        named = (b"host", b"hostaddr", b"port", b"dbname", b"user")
        return sha256(repr([options.get(name) for name in named]).encode()).hexdigest()[:16]

    # -- opening ---------------------------------------------------------------

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
        except BaseException:
            raw.close()
            raise
        return raw

    @contextmanager
    def writing(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend a connection of its own to the primary, whose tables are migrated first."""
        with typed_errors(), closing(self._connect(self.url)) as raw:
            schema.migrate(raw)
            yield raw

    @contextmanager
    def locked(self, name: str, wait_seconds: float) -> Iterator[psycopg.Connection[Any]]:
        """Lend a connection that holds the writer lock of a collection as long as it lives."""
        with self.writing() as raw:
            deadline = time.monotonic() + wait_seconds
            while not _try_lock(raw, name):
                if time.monotonic() >= deadline:
                    raise IndexBusy(
                        "Another process is updating this index.",
                        hint="Wait for it to finish and try again; searching works meanwhile.",
                        developer=f"advisory lock held: {name}",
                    )
                time.sleep(_POLL)
            try:
                yield raw
            finally:
                # The server notices the end of a connection late, and the next writer may be quick.
                with suppress(psycopg.Error):
                    raw.rollback()
                    raw.execute("SELECT pg_advisory_unlock_all()")

    # -- reading ---------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend a connection of the pool, which may have been lost while it was idle."""
        if not self._room.acquire(timeout=_BORROW_SECONDS):
            raise IndexBusy(
                "All connections to the store's server are in use.",
                hint="Try again in a moment, or raise store.connections.",
            )
        try:
            with typed_errors():
                try:
                    raw = self._idle.get_nowait()
                except Empty:
                    raw = self._connect_to_read()
                try:
                    yield raw
                except BaseException:
                    raw.close()
                    raise
                self._idle.put(raw)
        finally:
            self._room.release()

    def _connect_to_read(self) -> psycopg.Connection[Any]:
        began = time.monotonic()
        if began < self._paused_until:
            raise _make_unavailable(psycopg.OperationalError(), "it did not answer a moment ago")
        try:
            return self._connect(self._read_url)
        except psycopg.OperationalError:
            # Otherwise each question would wait for an address that does not answer.
            if time.monotonic() > began + _SLOW:
                self._paused_until = time.monotonic() + _PAUSE
            raise

    def serving(self, name: str) -> Serving | None:
        """Return what serves under a name, in one round trip; older tables are migrated first."""
        migrated = False
        while True:
            pooled = not self._idle.empty()
            try:
                with self.reading() as raw:
                    return find_serving(raw, name)
            except StoreUnavailable as error:
                if error.details.get(_OLDER) and not migrated:
                    with self.writing():
                        migrated = True
                elif not pooled:
                    raise

    def names(self) -> list[str]:
        """Return the names of the serving collections of this role."""
        with self.reading() as raw:
            try:
                rows = raw.execute("SELECT name FROM collections WHERE serving ORDER BY name")
            except (errors.UndefinedTable, errors.InvalidSchemaName):
                return []
            return [str(name) for (name,) in rows]

    def close(self) -> None:
        """Close idle connections; later requests open new ones."""
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                return


def _try_lock(raw: psycopg.Connection[Any], name: str) -> bool:
    row = raw.execute(
        "SELECT pg_try_advisory_lock(hashtextextended(current_user || '/' || %s, 0))", (name,)
    ).fetchone()
    return bool(row and row[0])


def select_in_transaction(raw: psycopg.Connection[Any], collection: int) -> None:
    """Select the collection that this transaction sees, in a way that a cluster passes on to its
    workers."""
    raw.execute(f"SET LOCAL lookfar.collection = {collection:d}")


# -- rows --------------------------------------------------------------------


def copy_out(
    raw: psycopg.Connection[Any], query: str, kinds: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query; COPY is the fastest way, and row-level security allows it."""
    with raw.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT BINARY)") as copy:
        copy.set_types(kinds)
        yield from copy.rows()


class Inserts:
    """Inserts many rows at once, over one connection."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self._raw = raw
        self._staged: set[str] = set()
        """The temporary tables of this connection."""
        row = raw.execute(
            "SELECT has_database_privilege(current_database(), 'TEMPORARY')"
        ).fetchone()
        self._may_stage = bool(row and row[0])
        """Whether this role may create temporary tables, as every role may by default."""

    def insert(self, table: str, rows: Iterable[Sequence[Any]], *, known: bool = False) -> None:
        """Insert rows that have all columns of a table; with ``known``, some may exist already.

        COPY refuses tables with row-level security. Many rows therefore go through a temporary
        table.
        """
        rows = [[*map(_plain, row)] for row in rows]
        if not rows:
            return
        columns = schema.TYPES[table]
        names = ", ".join(f'"{name}"' for name, _ in columns)
        many = len(rows) >= _MANY_COPIED and self._may_stage
        if many:
            source, values = self._stage(table, columns, rows), []
        else:
            arrays = (f"{'%s' if kind == 'text' else '%b'}::{kind}[]" for _, kind in columns)
            source = f"unnest({', '.join(arrays)}) AS given ({names})"
            values = [list(column) for column in zip(*rows, strict=True)]
        conflict = " ON CONFLICT DO NOTHING" if known else ""
        self._raw.execute(
            f"INSERT INTO {table} ({names}) SELECT {names} FROM {source}{conflict}", values
        )
        if many:
            self._raw.execute(f"TRUNCATE {source}")

    def _stage(
        self, table: str, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]]
    ) -> str:
        """Copy rows into a temporary table, and return its name."""
        staged = f"pg_temp.staged_{table}"
        if staged not in self._staged:
            kinds = ", ".join(f'"{name}" {kind}' for name, kind in columns)
            self._raw.execute(f"CREATE TEMPORARY TABLE {staged} ({kinds})")
            self._staged.add(staged)
        statement = f"COPY {staged} FROM STDIN (FORMAT BINARY)"
        with self._raw.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types([kind for _, kind in columns])
            for row in rows:
                copy.write_row(row)
        return staged


def _plain(value: Any) -> Any:
    """Replace NUL, which PostgreSQL refuses in text, by U+FFFD."""
    if isinstance(value, str) and "\0" in value:
        return value.replace("\0", "\ufffd")
    return value


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


_servers: dict[tuple[str, str, int], Server] = {}
_opening = Lock()


def server_at(url: str, read_url: str = "", most: int = 16) -> Server:
    """Return the server at these addresses; all collections of a process share it."""
    with _opening:
        return _servers.setdefault((url, read_url, most), Server(url, read_url, most))
