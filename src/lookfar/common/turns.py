"""Bound how many calls compute at once in this process, and share that between clients.

Waiting calls are served round-robin by client, so a client with a hundred calls delays another by
at most one call. A call gives its turn back while it waits for a lock, a pass or a user.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final


class _Turn:
    """The turn of one thread: its client, and whether it was taken out of order."""

    __slots__ = ("client", "owes")

    def __init__(self, client: Hashable) -> None:
        self.client = client
        self.owes = False


class Turns:
    """The turns of one process. A thread has at most one turn."""

    def __init__(self, most: int, beside_pass: int) -> None:
        self._most = most
        self._beside_pass = beside_pass
        self._lock = threading.Lock()
        self._computing = 0
        self._passes = 0
        self._queues: dict[Hashable, deque[threading.Event]] = {}
        """Waiting calls by client; the next client to be served comes first."""
        self._here = threading.local()

    @property
    def computing(self) -> int:
        return self._computing

    @property
    def queued(self) -> int:
        """Number of calls waiting for a turn."""
        with self._lock:
            return sum(map(len, self._queues.values()))

    @contextmanager
    def take(self, client: Hashable) -> Iterator[None]:
        """Hold a turn for a call of this client; nested calls share it."""
        if self._turn() is not None:
            yield
            return
        self._acquire(client)
        self._here.turn = _Turn(client)
        try:
            yield
        finally:
            self._here.turn = None
            self._release()

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Give the turn back while this thread waits, then queue for a new one.

        Do not use this while holding a lock that a call with a turn may wait for.
        """
        with self.step_aside():
            yield
        self.settle()

    @contextmanager
    def step_aside(self) -> Iterator[None]:
        """Give the turn back, then take one again at once, even beyond the limit.

        For a thread that acquires a lock meanwhile: if it queued for a turn, calls with a turn
        could wait for its lock forever. It calls ``settle`` after releasing the lock.
        """
        turn = self._turn()
        if turn is None:
            yield
            return
        self._here.turn = None
        self._release()
        try:
            yield
        finally:
            with self._lock:
                self._computing += 1
            turn.owes = True
            self._here.turn = turn

    def settle(self) -> None:
        """Queue for a turn if this thread took its turn out of order."""
        turn = self._turn()
        if turn is None or not turn.owes:
            return
        self._release()
        self._acquire(turn.client)
        turn.owes = False

    @contextmanager
    def index(self) -> Iterator[None]:
        """Run an indexing pass: it needs no turn, but lowers the limit for calls."""
        with self.step_aside():
            with self._lock:
                self._passes += 1
            try:
                yield
            finally:
                with self._lock:
                    self._passes -= 1
                    self._grant()

    def _turn(self) -> _Turn | None:
        return getattr(self._here, "turn", None)

    def _acquire(self, client: Hashable) -> None:
        granted = threading.Event()
        with self._lock:
            self._queues.setdefault(client, deque()).append(granted)
            self._grant()
        granted.wait()

    def _release(self) -> None:
        with self._lock:
            self._computing -= 1
            self._grant()

    def _grant(self) -> None:
        """Grant free turns, client by client. The caller holds the lock."""
        bound = self._beside_pass if self._passes else self._most
        while self._queues and self._computing < bound:
            client = next(iter(self._queues))
            queue = self._queues.pop(client)
            queue.popleft().set()
            self._computing += 1
            if queue:
                self._queues[client] = queue  # At the end.


_CORES: Final = os.cpu_count() or 1
TURNS: Final = Turns(most=2 * _CORES, beside_pass=max(1, _CORES // 2))
"""The turns of this process."""
