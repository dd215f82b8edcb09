"""Start reader processes, so that they share as much memory as possible.

On Linux, a process that has imported everything and opened nothing forks the readers, so they share
the imported modules. On other systems, or if that fails, each reader is started on its own.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO, Any, Final, Protocol

from lookfar.common.programs import OWN_GROUP, python_program
from lookfar.config import child_environment

# Not "-m": a child running as __main__ would pickle names of a module the parent does not have.
_READER: Final = "from lookfar.serve.daemon.reader_process import main; main()"
_NURSERY: Final = "from lookfar.serve.daemon.reader_process import fork_readers; fork_readers({})"
# Several numeric threads in each of several processes only slow each other down.
_QUIET: Final = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "0",
}
_START_SECONDS: Final = 60.0
PID_BYTES: Final = 8


class Child(Protocol):
    """A reader process and the two ends of its connection."""

    pid: int
    input: IO[bytes]
    output: IO[bytes]

    def wait(self, seconds: float) -> bool:
        """Wait at most this many seconds, and return whether the process has ended."""

    def kill(self) -> None:
        """End the process at once."""


class Launcher:
    """Starts readers. May be shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nursery: _Nursery | None = None
        self._forks = sys.platform == "linux"

    def launch(self) -> Child:
        """Start a reader; raise ``OSError`` if that fails."""
        with self._lock:
            if self._forks:
                try:
                    if self._nursery is None:
                        self._nursery = _Nursery()
                    return self._nursery.fork()
                except (OSError, EOFError):
                    self._forks = False
                    self._close_nursery()
            return _Spawned()

    def close(self) -> None:
        """End the process that forks readers; the readers keep running."""
        with self._lock:
            self._close_nursery()

    def _close_nursery(self) -> None:
        nursery, self._nursery = self._nursery, None
        if nursery is not None:
            nursery.close()


class _Spawned:
    """A reader that is a child process of this one."""

    def __init__(self) -> None:
        program, variables = python_program()
        self._process = subprocess.Popen(
            [program, "-P", "-c", _READER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=child_environment(_QUIET | variables),
            bufsize=0,
            **OWN_GROUP,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self.input: IO[bytes] = self._process.stdin
        self.output: IO[bytes] = self._process.stdout

    def wait(self, seconds: float) -> bool:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        self._process.kill()


class _Nursery:
    """The process that forks readers."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _NURSERY.format(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=child_environment(_QUIET),
                **OWN_GROUP,
            )
        self._control.settimeout(_START_SECONDS)

    def fork(self) -> Child:
        if sys.platform == "win32":
            raise NotImplementedError("Windows cannot fork.")
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [b"+"], [theirs.fileno()])
                answer = self._control.recv(PID_BYTES)
                if len(answer) < PID_BYTES:
                    raise EOFError
                return _Forked(int.from_bytes(answer, "little"), ours)
            except BaseException:
                ours.close()
                raise

    def close(self) -> None:
        self._control.close()
        self._process.kill()
        self._process.wait()


class _Forked:
    """A reader that the nursery forked: not a child of this process, so it has a handle."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self._handle = _open_handle(pid)
        with connection:
            both: Any = connection.makefile("rwb", buffering=0)
        self.input: IO[bytes] = both
        self.output: IO[bytes] = both

    def wait(self, seconds: float) -> bool:
        if sys.platform == "win32":
            raise NotImplementedError("Windows cannot fork.")
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            _signal_handle(self._handle)

    def __del__(self) -> None:
        with suppress(AttributeError, OSError):
            os.close(self._handle)


if sys.platform == "linux":

    def _open_handle(pid: int) -> int:
        return os.pidfd_open(pid)

    def _signal_handle(handle: int) -> None:
        signal.pidfd_send_signal(handle, signal.SIGKILL)

else:

    def _open_handle(pid: int) -> int:
        raise OSError(f"this system has no handle for process {pid}")

    def _signal_handle(handle: int) -> None:
        raise OSError(f"this system cannot signal the handle {handle}")
