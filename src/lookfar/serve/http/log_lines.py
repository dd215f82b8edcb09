"""The log of a server: one JSON object a line, with time, level, component and message.

Takes: records of the standard library's loggers; what they carry in ``extra`` becomes keys
of the line. Gives: lines on stderr or in a file that only its owner reads. Refuses: to make
a server wait: a reader that does not read costs lines, which the log then counts.
"""

from __future__ import annotations

import json
import logging
import queue
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

from lookfar.errors import from_os_error
from lookfar.store.ground.files import make_folder

_OWN: Final = "lookfar"
_MOST_WAITING: Final = 10_000
_LOG_BYTES: Final = 10 * 1024 * 1024
_LOG_FILES: Final = 3
_LAST_SECONDS: Final = 1.0
_USUAL: Final = frozenset(
    (*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime", "taskName")
)
"""What every record has; the rest came in ``extra``."""


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        shape: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "component": record.name.removeprefix(f"{_OWN}.").removeprefix("serve."),
            "message": record.getMessage(),
        }
        shape |= {key: value for key, value in vars(record).items() if key not in _USUAL}
        if record.exc_info:
            shape["exception"] = self.formatException(record.exc_info)
        # In ASCII, so that no terminal and no encoding can make anything else of it.
        return json.dumps(shape, default=str, separators=(",", ":"))


class _Behind(logging.Handler):
    """Hands lines to a thread that writes them, and drops them when that one cannot."""

    def __init__(self, target: logging.Handler) -> None:
        super().__init__()
        self._target = target
        self._waiting: queue.Queue[logging.LogRecord | None] = queue.Queue(_MOST_WAITING)
        self._dropped = 0
        self._thread = threading.Thread(target=self._write, name="lookfar-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._waiting.put_nowait(record)
        except queue.Full:
            self._dropped += 1

    def _write(self) -> None:
        while (record := self._waiting.get()) is not None:
            self._target.handle(record)
            if self._dropped and self._waiting.empty():
                lost, self._dropped = self._dropped, 0
                told = f"{lost} lines were dropped: they came faster than they were read"
                self._target.handle(
                    logging.LogRecord(f"{_OWN}.log", logging.WARNING, "", 0, told, (), None)
                )

    def close(self) -> None:
        with suppress(queue.Full):
            self._waiting.put_nowait(None)
        # Not for ever: whoever should read may never do so.
        self._thread.join(_LAST_SECONDS)
        super().close()


class _OwnFile(RotatingFileHandler):
    """Only its owner reads it."""

    def _open(self) -> Any:
        stream = super()._open()
        with suppress(OSError):
            Path(self.baseFilename).chmod(0o600)
        return stream


@contextmanager
def logging_to(file: str, level: str) -> Iterator[None]:
    """Log there while this lasts, from ``level`` on; of others' code only what went wrong."""
    target: logging.Handler
    if file:
        make_folder(Path(file).parent)
        try:
            target = _OwnFile(file, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, encoding="utf-8")
        except OSError as error:
            raise from_os_error(error, f"opening the log {file}") from error
    else:
        target = logging.StreamHandler(sys.stderr)
    target.setFormatter(JsonLines())
    behind = _Behind(target)
    root, own = logging.getLogger(), logging.getLogger(_OWN)
    levels = root.level, own.level
    root.addHandler(behind)
    root.setLevel(logging.WARNING)
    own.setLevel(level.upper())
    try:
        yield
    finally:
        root.removeHandler(behind)
        root.setLevel(levels[0])
        own.setLevel(levels[1])
        behind.close()


def milliseconds(began: float) -> float:
    """Since a moment of ``time.perf_counter``."""
    return round((time.perf_counter() - began) * 1000, 3)
