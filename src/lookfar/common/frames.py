"""Pickled messages over a pipe between a process and its children, each with its length first."""

from __future__ import annotations

import errno
import os
import pickle
from typing import IO, Any, Final

_LENGTH: Final = 8
_SMALL: Final = 1 << 16
_MAX_PART: Final = 1 << 30
"""Bytes to ask a pipe for at once."""


def send_frame(pipe: IO[bytes], message: Any) -> None:
    """Write a message; raise ``BrokenPipeError`` if the other process has ended."""
    data = pickle.dumps(message, protocol=5)
    length = len(data).to_bytes(_LENGTH, "little")
    # One write where that needs no large copy.
    try:
        for part in (length + data,) if len(data) <= _SMALL else (length, data):
            _write(pipe, part)
        pipe.flush()
    except OSError as error:
        # Windows reports this when the other process has closed the pipe.
        if error.errno == errno.EINVAL:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from error
        raise


def receive_frame(pipe: IO[bytes]) -> Any:
    """Read a message; raise ``EOFError`` if the other process ends before it is complete."""
    length = int.from_bytes(_read(pipe, _LENGTH), "little")
    return pickle.loads(_read(pipe, length))


def _write(pipe: IO[bytes], data: bytes) -> None:
    # An unbuffered pipe may take only a part.
    rest = memoryview(data)
    while rest:
        rest = rest[pipe.write(rest) :]


def _read(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) == size:
        return data
    parts, missing = [data], size - len(data)
    while missing:
        if not parts[-1]:
            raise EOFError
        parts.append(pipe.read(min(missing, _MAX_PART)))
        missing -= len(parts[-1])
    return b"".join(parts)
