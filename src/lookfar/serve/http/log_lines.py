"""The server's log: one JSON object per line, with the fields of ``extra`` as keys.

Logging never blocks the server: lines that are not read fast enough are dropped and counted.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from lookfar.errors import from_os_error
from lookfar.serve.daemon.process import PrivateLog
from lookfar.store.ground.files import make_folder

_OWN: Final = "lookfar"
_MAX_QUEUED: Final = 10_000
_LOG_BYTES: Final = 10 * 1024 * 1024
_LOG_FILES: Final = 3
_FLUSH_SECONDS: Final = 1.0
_STANDARD_FIELDS: Final = frozenset(
    (*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime", "taskName")
)
"""Attributes that every record has; all others came in ``extra``."""


REQUEST_ID: ContextVar[str] = ContextVar("REQUEST_ID", default="")
"""The ID of the request that is being handled; empty outside of one."""


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        shape: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "component": record.name.removeprefix(f"{_OWN}.").removeprefix("serve."),
            "message": record.getMessage(),
        }
        shape |= {key: value for key, value in vars(record).items() if key not in _STANDARD_FIELDS}
        if record.exc_info:
            shape["exception"] = self.formatException(record.exc_info)
        # ASCII, so that it is safe for every terminal and encoding.
        return json.dumps(shape, default=str, separators=(",", ":"))


class _StderrHandler(logging.Handler):
    """Writes to the descriptor of stderr, past the locks of its stream and of this handler.

    While nothing reads stderr, the writing thread blocks. It must not hold a lock then that the
    interpreter acquires at exit. Only this thread writes, so it needs no lock.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def createLock(self) -> None:  # noqa: N802
        self.lock = None

    def handle(self, record: logging.LogRecord) -> bool:
        """Write a record; since Python 3.13 the inherited method needs a lock."""
        wanted = bool(self.filter(record))
        if wanted:
            self.emit(record)
        return wanted

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{self.format(record)}\n".encode()
        with suppress(OSError):
            while line:
                line = line[os.write(self._descriptor, line) :]


class _QueueHandler(logging.Handler):
    """Writes records in a thread, and drops them when its queue is full."""

    def __init__(self, target: logging.Handler) -> None:
        super().__init__()
        self._target = target
        self._queue: queue.Queue[logging.LogRecord | None] = queue.Queue(_MAX_QUEUED)
        self._dropped = 0
        self._thread = threading.Thread(target=self._write, name="lookfar-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        # Here, because the thread that writes does not have the context of the request.
        if (request_id := REQUEST_ID.get()) and "request_id" not in vars(record):
            record.request_id = request_id
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self._dropped += 1

    def _write(self) -> None:
        while (record := self._queue.get()) is not None:
            self._target.handle(record)
            if self._dropped and self._queue.empty():
                dropped, self._dropped = self._dropped, 0
                message = f"{dropped} log lines were dropped: they were not read fast enough"
                self._target.handle(
                    logging.LogRecord(f"{_OWN}.log", logging.WARNING, "", 0, message, (), None)
                )

    def close(self) -> None:
        with suppress(queue.Full):
            self._queue.put_nowait(None)
        # With a limit, because the reader of the log may never read.
        self._thread.join(_FLUSH_SECONDS)
        super().close()


@contextmanager
def logging_to(file: str, level: str) -> Iterator[None]:
    """Log to ``file`` (stderr if empty) from ``level`` on; other packages only from warnings on."""
    target: logging.Handler
    if file:
        make_folder(Path(file).parent)
        try:
            target = PrivateLog(file, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, encoding="utf-8")
        except OSError as error:
            raise from_os_error(error, f"opening the log {file}") from error
    else:
        target = _make_stderr_handler()
    target.setFormatter(JsonLines())
    handler = _QueueHandler(target)
    root, own = logging.getLogger(), logging.getLogger(_OWN)
    levels = root.level, own.level
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    own.setLevel(level.upper())
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(levels[0])
        own.setLevel(levels[1])
        handler.close()


def _make_stderr_handler() -> logging.Handler:
    try:
        return _StderrHandler(sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):  # Other code has replaced stderr.
        return logging.StreamHandler(sys.stderr)


def milliseconds(began: float) -> float:
    """Return the milliseconds since a value of ``time.perf_counter``."""
    return round((time.perf_counter() - began) * 1000, 3)
