"""End a process at the first SIGINT or SIGTERM, whatever its threads are waiting for."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

_CLOSE_SECONDS: Final = 1.0
"""How long closing may take. The index is consistent on disk at every moment, so that nothing is
lost if it takes longer."""
_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def exit_on_signals(close: Callable[[], None]) -> Iterator[None]:
    """Call ``close`` and end the process when it is interrupted or terminated.

    Must be used in the main thread. Another thread calls ``close``: Python runs signal handlers in
    the main thread, which would miss a signal that arrives just before it begins to wait.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    threading.Thread(target=_exit_at_signal, args=(reader, close), daemon=True).start()
    before = {number: signal.signal(number, _ignore) for number in _NUMBERS}
    former = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(former)
        for number, handler in before.items():
            signal.signal(number, handler)
        writer.close()  # Ends the thread.


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Do nothing; with a handler, Python writes the number of the signal to the wakeup socket."""


def _exit_at_signal(reader: socket.socket, close: Callable[[], None]) -> None:
    with reader:
        while received := reader.recv(1):
            if received[0] in _NUMBERS:
                closing = threading.Thread(target=close, daemon=True)
                closing.start()
                closing.join(_CLOSE_SECONDS)
                with suppress(OSError, ValueError):
                    sys.stderr.flush()
                os._exit(128 + received[0])
