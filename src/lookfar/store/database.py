"""Opening SQLite the way this store needs it.

Takes: the path of a catalogue. Gives: connections, one per borrower, and SQLite
errors as typed ones. Refuses: files that are not a catalogue of this format.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue

from lookfar.errors import DiskFull, IndexBusy, IndexCorrupt, IndexReadOnly, LookfarError

_BUSY_SECONDS = 5.0
_OPEN_TRIES = 5


@contextmanager
def typed_errors(path: Path) -> Iterator[None]:
    """Name what SQLite complains about."""
    try:
        yield
    except sqlite3.Error as error:
        raise _typed(error, path) from error


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """Open a catalogue; a cold start of many processes may need a second try."""
    mode = "rwc" if write else "rw"
    for attempt in range(_OPEN_TRIES):
        try:
            return _connect(path, mode)
        except sqlite3.OperationalError as error:
            # WAL recovery by another process shows as "locked" despite the busy time-out.
            if "readonly" in str(error) or "unable to open" in str(error):
                return _connect_read_only(path, error)
            if attempt == _OPEN_TRIES - 1 or "locked" not in str(error):
                raise _typed(error, path) from error
            time.sleep(0.05 * (attempt + 1))
        except sqlite3.DatabaseError as error:
            raise _typed(error, path) from error
    raise AssertionError("unreachable")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA cache_size=-16384")
    connection.execute("PRAGMA mmap_size=1073741824")
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return connection


def _connect_read_only(path: Path, cause: sqlite3.OperationalError) -> sqlite3.Connection:
    """On a read-only disk nobody can be writing, so the file may be taken as it stands."""
    if not path.exists():
        raise _typed(cause, path) from cause
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro&immutable=1",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        raise _typed(error, path) from error
    return connection


def _typed(error: sqlite3.Error, path: Path) -> LookfarError:
    text = str(error)
    developer = f"sqlite {getattr(error, 'sqlite_errorname', '?')}: {text} ({path.name})"
    if "locked" in text or "busy" in text:
        return IndexBusy(
            "Another process is using this index and did not let go in time.",
            hint="Try again in a moment.",
            developer=developer,
        )
    if "full" in text:
        return DiskFull(
            "There is no disk space left while writing the index.",
            hint="Free some space and run the same command again; the last finished index is intact.",
            developer=developer,
        )
    if "readonly" in text or "read-only" in text:
        return IndexReadOnly(
            "The index cannot be written.",
            hint="Check the permissions of the index folder, or choose another with --index-dir.",
            developer=developer,
        )
    return IndexCorrupt(
        "The index is damaged or is not a Lookfar index.",
        hint="Rebuild it from the sources: lookfar index PATH --rebuild.",
        developer=developer,
        details={"path": str(path)},
    )


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
        with typed_errors(self._path):
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")
                if self._closed:
                    connection.close()
                else:
                    self._idle.put(connection)

    def close(self) -> None:
        self._closed = True
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                return
