"""Opening SQLite the way this store needs it.

Takes: the path of a catalogue. Gives: connections, one per borrower, and SQLite
errors as typed ones. Refuses: files that are not a catalogue of this format.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
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
from lookfar.store.ground.sqlite_log import broken_log, has_log, log_of

CATALOGUE = "catalogue.db"
"""In the folder of an epoch."""
_BUSY_SECONDS = 5.0
_OPEN_TRIES = 5

SQLITE_VERSION = sqlite3.sqlite_version_info
OLDEST_SQLITE = (3, 35, 0)
"""The first that can do all that a catalogue needs."""


@contextmanager
def typed_errors(path: Path) -> Iterator[None]:
    """Name what SQLite complains about; a mistake of our own stays what it is."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.Error as error:
        raise _typed(error, path) from error
    except UnicodeDecodeError as error:
        # Python fails to read what SQLite says where that repeats a damaged name.
        raise damaged(path, f"{path.name}: {error}") from error


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """Open a catalogue; a cold start of many processes may need a second try."""
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
            # WAL recovery by another process shows as "locked" despite the busy time-out.
            if kind not in _BUSY or attempt == _OPEN_TRIES:
                raise _typed(error, path) from error
            time.sleep(0.05 * attempt)
        except UnicodeDecodeError as error:
            raise damaged(path, f"{path.name}: {error}") from error
    raise AssertionError("unreachable")


_sound_logs: dict[Path, bytes] = {}
"""Logs that were looked at in this process, and how each began: it begins otherwise when SQLite
starts it over."""


def _refuse_broken_log(path: Path) -> None:
    """SQLite would leave out what a broken log holds, and then remove the log."""
    log = log_of(path)
    try:
        with log.open("rb") as file:
            beginning = file.read(32)
    except OSError:
        return
    if beginning and _sound_logs.get(log) != beginning:
        why = broken_log(log)
        if why:
            raise damaged(log, f"{log.name}: {why}")
        _sound_logs[log] = beginning


_held: dict[tuple[int, int], int] = {}
_holding = threading.Lock()


def beginning_of(path: Path, size: int) -> bytes:
    """The first bytes of a database that connections of this process may have open.

    The descriptor is kept. By the rules of POSIX, to close any descriptor of a file gives up all
    locks that the process has on it, SQLite's too; another process then takes itself for the
    last one, and takes the log away from under our readers.
    """
    if sys.platform == "win32":
        with path.open("rb") as file:
            return file.read(size)
    with _holding:
        for known, descriptor in list(_held.items()):
            if not os.fstat(descriptor).st_nlink:  # Removed: no other process can open it.
                os.close(_held.pop(known))
        there = path.stat()
        kept = _held.get((there.st_dev, there.st_ino))
        if kept is None:
            kept = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            opened = os.fstat(kept)
            _held[opened.st_dev, opened.st_ino] = kept
        return os.pread(kept, size, 0)


def commit(connection: sqlite3.Connection) -> None:
    """End a transaction that wrote something: what it wrote is on the disk when this returns."""
    files.point("commit", CATALOGUE)
    connection.execute("COMMIT")


class Frozen(sqlite3.Connection):
    """A connection that would not notice if the file changed: for one use only."""

    opened_at: _State | None = None
    """The file as it was when this was opened."""


_State = tuple[int, int, int]


def _state_of(path: Path) -> _State | None:
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


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
        # Said, because Apple's SQLite takes less for enough in a write-ahead log.
        connection.execute("PRAGMA synchronous=FULL")
        if sys.platform == "darwin":
            connection.execute("PRAGMA fullfsync=1")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_read_only(path: Path, cause: sqlite3.Error) -> sqlite3.Connection:
    """Read where SQLite can neither find nor make the ``-wal`` and ``-shm`` files it wants.

    On a read-only disk, and on a full one. Where they are absent or empty, the last writer left
    nothing in them, and the file may be taken as it stands.
    """
    with typed_errors(path):
        opened_at = _state_of(path)
        if has_log(path):
            raise cause
        connection = connect_without_log(path)
        connection.opened_at = opened_at
        return connection


def connect_without_log(path: Path) -> Frozen:
    """A catalogue as it was before its log, which is neither read nor removed: to save what is
    left of a damaged one."""
    with typed_errors(path):
        connection = _open(path, "mode=ro&immutable=1", Frozen)
        assert isinstance(connection, Frozen)
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
"""What a reader hears where the files that it wants beside the catalogue may not grow."""


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)


def _kind(error: sqlite3.Error) -> int:
    """The primary result code."""
    return _code(error) & 0xFF


def _typed(error: sqlite3.Error, path: Path) -> LookfarError:
    kind = _kind(error)
    developer = f"sqlite {getattr(error, 'sqlite_errorname', '?')}: {error} ({path.name})"
    if kind in _BUSY:
        return IndexBusy(
            "Another process is using this index and did not let go in time.",
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
            files.try_write(path.parent)
        except OSError as cause:
            named = from_os_error(cause, "using the index")
            named.developer = f"{developer}; {named.developer}"
            return named
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
    return damaged(path, developer)


def damaged(path: Path, developer: str) -> IndexCorrupt:
    """What every sign of damage in a catalogue comes out as."""
    return IndexCorrupt(
        "The index is damaged or is not a Lookfar index.",
        hint="Rebuild it from the sources: lookfar index PATH --rebuild.",
        developer=developer,
        details={"path": str(path)},
    )


def without_log(folder: Path) -> str:
    """Why a write-ahead log does not work in a folder; empty where it does."""
    path = folder / "try.db"
    try:
        with closing(sqlite3.connect(path)) as writer, closing(sqlite3.connect(path)) as reader:
            (mode,) = writer.execute("PRAGMA journal_mode=WAL").fetchone()
            writer.execute("CREATE TABLE tried (n INTEGER)")
            writer.execute("INSERT INTO tried VALUES (7)")
            writer.commit()
            (found,) = reader.execute("SELECT n FROM tried").fetchone()
    except sqlite3.Error as error:
        return str(error)
    return "" if (mode, found) == ("wal", 7) else f"it keeps a {mode} instead"


class Readers:
    """Connections for reading, borrowed one at a time, each inside its own snapshot."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        self._closed = False

    @contextmanager
    def borrow(self) -> Iterator[sqlite3.Connection]:
        """A connection in a read transaction: all it reads is one committed state."""
        try:
            connection = self._idle.get_nowait()
        except Empty:
            connection = connect(self._path, write=False)
        sound = False
        try:
            with typed_errors(self._path):
                connection.execute("BEGIN")
                yield connection
                connection.execute("COMMIT")
            sound = True
        except IndexCorrupt as error:
            self._refuse_changed(connection, error)
            raise
        else:
            self._refuse_changed(connection)
        finally:
            # After an error nobody knows what state it is in; a new one is cheap.
            if sound and not isinstance(connection, Frozen):
                self._idle.put(connection)
                if self._closed:  # Asked after it was given back: nobody else will close it.
                    self.close()
            else:
                connection.close()

    def _refuse_changed(
        self, connection: sqlite3.Connection, cause: IndexCorrupt | None = None
    ) -> None:
        """Refuse what was read of a file that a writer changed meanwhile: it may be a mix."""
        if isinstance(connection, Frozen) and connection.opened_at != _state_of(self._path):
            raise IndexBusy(
                "The index was changed while it was read without SQLite's shared memory.",
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
