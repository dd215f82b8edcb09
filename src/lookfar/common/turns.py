"""Bound how many calls compute at once in this process, and share that between clients.

Takes: calls of clients, and word of passes over an index. Gives: turns. At most ``most`` calls
compute at once, ``beside_pass`` while an index is built here; of the calls that wait, clients take
turns, so that one with a hundred calls delays another by one call at most. Refuses: to let a call
keep its turn while it waits for a lock, a pass or a person.

More threads than cores only contend for the interpreter's lock: a pass beside 64 searching
threads gets a sixty-fifth of the time.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final


class _Turn:
    """What one thread has: whose turn it is, and whether it was taken out of order."""

    __slots__ = ("client", "owes")

    def __init__(self, client: Hashable) -> None:
        self.client = client
        self.owes = False


class Turns:
    """The turns of one process. A thread has one turn at most."""

    def __init__(self, most: int, beside_pass: int) -> None:
        self._most = most
        self._beside_pass = beside_pass
        self._lock = threading.Lock()
        self._computing = 0
        self._passes = 0
        self._queues: dict[Hashable, deque[threading.Event]] = {}
        """Calls that wait, by client. The client whose turn is next comes first."""
        self._here = threading.local()

    @property
    def computing(self) -> int:
        """How many calls have a turn now."""
        return self._computing

    @property
    def queued(self) -> int:
        """How many calls wait for a turn now."""
        with self._lock:
            return sum(map(len, self._queues.values()))

    @contextmanager
    def take(self, client: Hashable) -> Iterator[None]:
        """Wait for a turn and keep it for a call of this client. A call within one needs none."""
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
        """Give the turn back while this thread waits, and queue for one afterwards.

        Only without a lock that a call with a turn may wait for.
        """
        with self.step_aside():
            yield
        self.settle()

    @contextmanager
    def step_aside(self) -> Iterator[None]:
        """Give the turn back, and continue afterwards at once, beyond the bound if need be.

        For a thread that has taken a lock meanwhile: if it queued, those with a turn could wait
        for its lock for ever. It calls ``settle`` when it has released that.
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
        """Queue for the turn that this thread took out of order, if it did."""
        turn = self._turn()
        if turn is None or not turn.owes:
            return
        self._release()
        self._acquire(turn.client)
        turn.owes = False

    @contextmanager
    def index(self) -> Iterator[None]:
        """A pass over an index: it has no turn, and leaves fewer of them to the others."""
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
        """Give the free turns to those who wait, client by client. The caller has the lock."""
        bound = self._beside_pass if self._passes else self._most
        while self._queues and self._computing < bound:
            client = next(iter(self._queues))
            queue = self._queues.pop(client)
            queue.popleft().set()
            self._computing += 1
            if queue:
                self._queues[client] = queue  # Behind the others.


_CORES: Final = os.cpu_count() or 1
TURNS: Final = Turns(most=2 * _CORES, beside_pass=max(1, _CORES // 2))
"""Those of this process."""
