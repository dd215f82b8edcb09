"""Open SQLite catalogues, and raise SQLite errors as typed errors."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from lookfar.errors import (
    DiskFull,
    IndexBusy,
    IndexCorrupt,
    IndexReadOnly,
    IOFailed,
    LookfarError,
    from_os_error,
)
from lookfar.store.ground import files
from lookfar.store.ground.sqlite_log import describe_log_damage, has_log, log_path

CATALOGUE = "catalogue.db"
"""The file in the folder of an epoch."""
_OLDER_LOG = "it is of an earlier time than the database"
_BUSY_SECONDS = 5.0
_OPEN_TRIES = 5

SQLITE_VERSION = sqlite3.sqlite_version_info
OLDEST_SQLITE = (3, 35, 0)
"""The oldest version with every feature that a catalogue needs."""


@contextmanager
def typed_errors(path: Path) -> Iterator[None]:
    """Raise SQLite errors as typed errors, except programming errors."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.Error as error:
        raise _type_error(error, path) from error
    except UnicodeDecodeError as error:
        # Python cannot decode an error message that quotes a damaged name.
        raise corrupt_error(path, f"{path.name}: {error}") from error


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """Open a catalogue; retry while another process recovers the log."""
    _refuse_broken_log(path)
    mode = "rwc" if write else "rw"
    for attempt in range(1, _OPEN_TRIES + 1):
        try:
            return _open(path, f"mode={mode}")
        except sqlite3.Error as error:
            kind = _kind(error)
            cannot_write = kind in _CANNOT_WRITE or _code(error) in _NO_ROOM
            if cannot_write and not write and path.exists():
                return _connect_read_only(path, error)
            # Log recovery by another process is reported as "locked" despite the busy timeout.
            if kind not in _BUSY or attempt == _OPEN_TRIES:
                raise _type_error(error, path) from error
            time.sleep(0.05 * attempt)
        except UnicodeDecodeError as error:
            raise corrupt_error(path, f"{path.name}: {error}") from error
    raise AssertionError("unreachable")


_checked_logs: dict[Path, bytes] = {}
"""The header of each log that this process has checked; it changes when SQLite restarts the log."""


def _refuse_broken_log(path: Path) -> None:
    """Raise an error for a log that is damaged, which SQLite would drop silently, or older than the
    database, whose newer pages SQLite would overwrite."""
    log = log_path(path)
    try:
        with log.open("rb") as file:
            header = file.read(32)
    except OSError:
        return
    if header and _checked_logs.get(log) != header:
        why = describe_log_damage(log) or (_OLDER_LOG if _is_log_older(path) else "")
        if why:
            raise corrupt_error(log, f"{log.name}: {why}")
        _checked_logs[log] = header


def _is_log_older(path: Path) -> bool:
    """Return whether the database is of a later generation than its log, or only readable without.

    A connection for reading only does not copy the log into the database when it is closed.
    """
    serving = "SELECT value FROM meta WHERE key = 'active'"
    logged = -1
    with ExitStack() as stack:
        try:
            both = stack.enter_context(closing(_open(path, "mode=ro")))
            both.execute("BEGIN")  # Until it ends, the database gets nothing that is not seen here.
            logged = int(both.execute(serving).fetchone()[0])
        except (sqlite3.Error, TypeError, ValueError) as error:
            if not isinstance(error, sqlite3.Error) or _kind(error) != sqlite3.SQLITE_CORRUPT:
                return False
        with suppress(sqlite3.Error, TypeError, ValueError):
            alone = stack.enter_context(closing(_open(path, "mode=ro&immutable=1")))
            return int(alone.execute(serving).fetchone()[0]) > logged
    return False


_descriptors: dict[tuple[int, int], int] = {}
_descriptors_lock = threading.Lock()


def read_beginning(path: Path, size: int) -> bytes:
    """Read the first bytes of a database that this process may have open.

    The descriptor stays open. Under POSIX, closing any descriptor of a file drops all locks that
    the process has on it, including SQLite's. Another process would then believe that it is the
    last one, and remove the log that our readers use.
    """
    if sys.platform == "win32":
        with path.open("rb") as file:
            return file.read(size)
    with _descriptors_lock:
        for key, descriptor in list(_descriptors.items()):
            if not os.fstat(descriptor).st_nlink:  # Removed: no other process can open it.
                os.close(_descriptors.pop(key))
        info = path.stat()
        known = _descriptors.get((info.st_dev, info.st_ino))
        if known is None:
            known = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            opened = os.fstat(known)
            _descriptors[opened.st_dev, opened.st_ino] = known
        return os.pread(known, size, 0)


def commit(connection: sqlite3.Connection) -> None:
    """Commit a transaction; its changes are on disk when this returns."""
    files.fault_point("commit", CATALOGUE)
    connection.execute("COMMIT")


class ImmutableConnection(sqlite3.Connection):
    """A connection that does not notice changes of the file; used once and closed."""

    opened_at: _State | None = None
    """The state of the file when the connection was opened."""


_State = tuple[int, int, int]


def _read_state(path: Path) -> _State | None:
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_ino, info.st_size, info.st_mtime_ns


def _open(
    path: Path, options: str, factory: type[sqlite3.Connection] = sqlite3.Connection
) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        factory=factory,
    )
    try:
        connection.execute("PRAGMA cache_size=-16384")
        connection.execute("PRAGMA mmap_size=1073741824")
        # Set explicitly, because Apple's SQLite syncs less by default with a write-ahead log.
        connection.execute("PRAGMA synchronous=FULL")
        if sys.platform == "darwin":
            connection.execute("PRAGMA fullfsync=1")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_read_only(path: Path, cause: sqlite3.Error) -> sqlite3.Connection:
    """Open a catalogue where SQLite cannot create its ``-wal`` and ``-shm`` files.

    That is so on a read-only or full disk. If the log is missing or empty, the database file
    alone is complete.
    """
    with typed_errors(path):
        opened_at = _read_state(path)
        if has_log(path):
            raise cause
        connection = connect_ignoring_log(path)
        connection.opened_at = opened_at
        return connection


def connect_ignoring_log(path: Path) -> ImmutableConnection:
    """Open a catalogue without its log, which is neither read nor removed, to recover its data."""
    with typed_errors(path):
        connection = _open(path, "mode=ro&immutable=1", ImmutableConnection)
        assert isinstance(connection, ImmutableConnection)
        return connection


_BUSY = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED))
_CANNOT_WRITE = frozenset((sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM))
_NO_ROOM = frozenset(
    (
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR_SHMOPEN,
        sqlite3.SQLITE_IOERR_SHMSIZE,
        sqlite3.SQLITE_IOERR_SHMMAP,
        sqlite3.SQLITE_IOERR_WRITE,
    )
)
"""Errors of a reader when SQLite's files next to the catalogue cannot grow."""


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)


def _kind(error: sqlite3.Error) -> int:
    return _code(error) & 0xFF


def _type_error(error: sqlite3.Error, path: Path) -> LookfarError:
    kind = _kind(error)
    developer = f"sqlite {getattr(error, 'sqlite_errorname', '?')}: {error} ({path.name})"
    if kind in _BUSY:
        return IndexBusy(
            "Another process is using this index and did not release it in time.",
            hint="Try again in a moment.",
            developer=developer,
        )
    if kind == sqlite3.SQLITE_FULL:
        return DiskFull(
            "There is no disk space left while writing the index.",
            hint="Free some space and run the command again; the last finished index is intact.",
            developer=developer,
        )
    if kind == sqlite3.SQLITE_IOERR:
        try:
            files.probe_write(path.parent)
        except OSError as cause:
            typed = from_os_error(cause, "using the index")
            typed.developer = f"{developer}; {typed.developer}"
            return typed
        return IOFailed(
            "The disk failed while the index was being read or written.",
            hint="Check the disk and run the command again; the last finished index is intact.",
            developer=developer,
            details={"path": str(path)},
        )
    if kind in _CANNOT_WRITE and path.exists():
        return IndexReadOnly(
            "The index cannot be written.",
            hint="Check the permissions of the index folder, or choose another with --index-dir.",
            developer=developer,
        )
    return corrupt_error(path, developer)


def corrupt_error(path: Path, developer: str) -> IndexCorrupt:
    return IndexCorrupt(
        "The index is damaged or is not a Lookfar index.",
        hint="Rebuild it from the sources: lookfar index PATH --rebuild.",
        developer=developer,
        details={"path": str(path)},
    )


def wal_problem(folder: Path) -> str:
    """Say why a write-ahead log does not work in a folder; empty if it works."""
    path = folder / "try.db"
    try:
        with closing(sqlite3.connect(path)) as writer, closing(sqlite3.connect(path)) as reader:
            (mode,) = writer.execute("PRAGMA journal_mode=WAL").fetchone()
            writer.execute("CREATE TABLE tried (n INTEGER)")
            writer.execute("INSERT INTO tried VALUES (7)")
            writer.commit()
            (value,) = reader.execute("SELECT n FROM tried").fetchone()
    except sqlite3.Error as error:
        return str(error)
    return "" if (mode, value) == ("wal", 7) else f"SQLite uses journal mode {mode} instead"


class Readers:
    """A pool of read connections, each borrowed inside its own read transaction."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        self._closed = False

    @contextmanager
    def borrow(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection in a read transaction: everything it reads is one committed state."""
        try:
            connection = self._idle.get_nowait()
        except Empty:
            connection = connect(self._path, write=False)
        succeeded = False
        try:
            with typed_errors(self._path):
                connection.execute("BEGIN")
                yield connection
                connection.execute("COMMIT")
            succeeded = True
        except IndexCorrupt as error:
            self._refuse_changed(connection, error)
            raise
        else:
            self._refuse_changed(connection)
        finally:
            # After an error the state of the connection is unknown, and a new one is cheap.
            if succeeded and not isinstance(connection, ImmutableConnection):
                self._idle.put(connection)
                if self._closed:  # Checked after the return: nothing else would close it.
                    self.close()
            else:
                connection.close()

    def _refuse_changed(
        self, connection: sqlite3.Connection, cause: IndexCorrupt | None = None
    ) -> None:
        """Raise ``IndexBusy`` if a writer changed the file meanwhile: the data may be mixed."""
        if isinstance(connection, ImmutableConnection) and connection.opened_at != _read_state(
            self._path
        ):
            raise IndexBusy(
                "The index changed while it was being read from a read-only or full disk.",
                hint="Try again.",
                developer=f"{self._path.name} changed under an immutable connection",
            ) from cause

    def close(self) -> None:
        self._closed = True
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                return
