"""The one who keeps a collection true while a program runs: watch, collect, index, again.

Takes: a watcher, a dirty set and the function that indexes. Gives: an index that
follows the disk, the promise that ``drain`` makes good on, and a state that says
how it goes. Refuses: to die: whatever the function raises is remembered, and the
work is tried again later, ever more patiently.

One thread does all passes. Everybody else only leaves word and waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Condition, Lock, Thread, current_thread
from typing import TYPE_CHECKING, Any, Final

from lookfar.errors import LookfarError, as_out_of_memory
from lookfar.index.strategies import (
    DUE,
    Dirty,
    Occasion,
    Strategy,
    Work,
    documents_among,
)
from lookfar.model import Watching

if TYPE_CHECKING:
    from lookfar.ports import Watcher

_LOOK_AFTER_HEALTHY: Final = 5.0
_LOOK_AFTER_SICK: Final = 0.5
_LOOK_AT_HEAD: Final = 1.0
"""Seconds between looks at git's head, which may lie where nothing is watched."""
_FENCE: Final = 0.25
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Pass:
    """One attempt to index what was dirty."""

    work: Work
    seconds: float
    result: Any = None
    error: str = ""


class Keeper:
    """The background thread of one collection."""

    def __init__(
        self,
        watcher: Watcher,
        dirty: Dirty,
        update: Callable[[Work], object],
        *,
        strategy: Strategy = "realtime",
        head: Callable[[], str] = lambda: "",
        reconcile_seconds: float = 600.0,
        on_pass: Callable[[Pass], None] | None = None,
        first_pause: float = _FIRST_PAUSE,
    ) -> None:
        """``update`` indexes the work it is given; ``head`` says where git stands."""
        self._watcher = watcher
        self._dirty = dirty
        self._update = update
        self._strategy: Strategy = strategy
        self._head = head
        self._reconcile_seconds = reconcile_seconds
        self._on_pass = on_pass or (lambda _: None)
        self._first_pause = first_pause
        self._word = Condition()
        self._handing_over = Lock()
        """Held while names go from watcher to dirty set: nobody may find them in neither."""
        self._thread: Thread | None = None
        self._stopping = False
        self._occasions: set[Occasion] = set()
        self._woken = False
        self._asked = self._answered = self._clean = 0
        """Tickets: given out, dealt with, and dealt with so that nothing was left."""
        self._failures = 0
        self._retry_at = 0.0
        self._reconcile_at = 0.0
        self._compared = False
        self._state = Watching(strategy=strategy)

    # -- its life ------------------------------------------------------------

    def start(self) -> None:
        """Begin; a keeper that runs already goes on."""
        with self._word:
            if self._thread is not None:
                return
            self._stopping = False
            self._compared = False
            self._thread = Thread(target=self._run, name="lookfar-keeper", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End after the pass that is under way, and keep what is dirty for the next time."""
        with self._word:
            thread, self._stopping = self._thread, True
            self._word.notify_all()
        if thread is None or thread is current_thread():
            return
        thread.join()
        self._watcher.stop()
        with self._word:
            self._thread = None
            self._word.notify_all()

    def switch(self, strategy: Strategy) -> None:
        """Go on with another strategy; what is dirty stays so until it is due."""
        with self._word:
            if strategy == "git" != self._strategy:
                self._dirty.head = self._head()
            self._strategy = strategy
            self._occasions.add("change")
            self._word.notify_all()

    @property
    def strategy(self) -> Strategy:
        return self._strategy

    def state(self) -> Watching:
        """How it goes."""
        with self._handing_over:
            queued = self._dirty.names() | self._watcher.peek().uris
            everything = self._dirty.everything or self._watcher.peek().everything
        with self._word:
            return replace(
                self._state,
                running=self._thread is not None and self._thread.is_alive(),
                healthy=self._watcher.healthy,
                reason=self._watcher.reason,
                strategy=self._strategy,
                queued=len(queued),
                everything=everything,
            )

    # -- for those who wait ------------------------------------------------------

    def pending(self, timeout: float = 0.25) -> frozenset[str] | None:
        """The names that are not indexed yet; None where names do not say it.

        Empty means: every write that ended before this call is indexed.
        """
        if not self._compared or not self._watcher.fence(timeout) or not self._alive():
            return None
        with self._handing_over:
            batch = self._watcher.peek()
            if batch.everything or self._dirty.everything:
                return None
            return self._dirty.names() | documents_among(batch.uris)

    def drain(self, timeout: float, occasion: Occasion = "request") -> bool:
        """Index what changed so far, now; False if that failed or took longer than ``timeout``."""
        deadline = time.monotonic() + timeout
        self._watcher.fence(timeout)
        with self._word:
            self._asked += 1
            ticket = self._asked
            self._occasions.add(occasion)
            self._word.notify_all()
            while self._answered < ticket:
                left = deadline - time.monotonic()
                if left <= 0 or not self._alive():
                    return False
                self._word.wait(left)
            return self._clean >= ticket

    def _alive(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive()

    def _wake(self) -> None:
        with self._word:
            self._woken = True
            self._word.notify_all()

    # -- the thread ----------------------------------------------------------

    def _run(self) -> None:
        self._guarded(self._begin)
        while True:
            with self._word:
                if self._stopping:
                    break
                asked, self._woken = self._asked, False
                occasions, self._occasions = self._occasions, set()
            self._guarded(lambda: self._turn(occasions, at_once=asked > self._answered))  # noqa: B023
            with self._word:
                self._answered = asked
                self._clean = self._clean if self._dirty else asked
                self._word.notify_all()
                if not self._called(asked):
                    self._word.wait(self._pause())
        with self._handing_over:
            self._dirty.add_batch(self._watcher.take())
        self._save()

    def _called(self, asked: int) -> bool:
        return bool(self._stopping or self._woken or self._asked > asked or self._occasions)

    def _begin(self) -> None:
        """What happened before is unknown: compare everything, unless git says when."""
        self._watcher.start(self._wake)
        self._reconcile_at = time.monotonic() + (self._reconcile_seconds or float("inf"))
        left = self._dirty.load()
        self._occasions.add("start")
        if self._strategy != "git" or not left or self._dirty.head != self._head():
            self._dirty.add(everything=True)
            self._occasions.add("commit")

    def _turn(self, occasions: set[Occasion], *, at_once: bool) -> None:
        """Look after the watcher, collect what is due, and index it if this is the occasion."""
        was_healthy = self._watcher.healthy
        self._watcher.tend()
        now = time.monotonic()
        if self._watcher.healthy and not was_healthy:
            self._retry_at = now
        if now >= self._reconcile_at:
            self._reconcile_at = now + self._reconcile_seconds
            if self._strategy != "git":
                self._dirty.add(everything=True)
            occasions.add("reconcile")
        moved = self._strategy == "git" and self._head() != self._dirty.head
        if moved and self._watcher.ready_in() is None and not self._watcher.fence(_FENCE):
            self._dirty.add(everything=True)  # Nobody can say what was written before it moved.
        due = self._watcher.ready_in()
        if due is not None and (at_once or due <= 0):
            with self._handing_over:
                if self._dirty.add_batch(self._watcher.take()):
                    occasions.add("change")
            due = None
        if moved and due is None:  # Else someone is still writing, and the rest is yet to come.
            occasions.add("commit")
        if "change" in occasions:
            self._save()
        if self._failures and now >= self._retry_at and self._strategy != "lazy":
            occasions.add("commit")
        if not occasions & DUE[self._strategy]:
            return
        if self._failures and not at_once and now < self._retry_at:
            return
        self._index("commit" in occasions)

    def _index(self, committed: bool) -> None:
        head = self._head() if committed or self._strategy == "git" else self._dirty.head
        work = self._dirty.take()
        if work is None:
            self._failures = 0
            if self._dirty.head != head:
                self._dirty.head = head
                self._save()
            return
        started = time.perf_counter()
        try:
            result = self._update(work)
        except Exception as error:
            self._dirty.put_back()
            self._failed(Pass(work, time.perf_counter() - started, error=_said(error)))
            return
        self._dirty.done()
        self._dirty.head = head
        self._compared |= work.only is None
        with self._word:
            self._failures = 0
            self._state = replace(
                self._state,
                last_error="",
                last_pass=datetime.now(UTC).isoformat(timespec="seconds"),
                passes=self._state.passes + 1,
            )
        self._save()
        self._on_pass(Pass(work, time.perf_counter() - started, result))

    def _failed(self, attempt: Pass) -> None:
        with self._word:
            self._failures += 1
            pause = min(_LONGEST_PAUSE, self._first_pause * 2 ** min(self._failures - 1, 20))
            self._retry_at = time.monotonic() + pause
            self._state = replace(self._state, last_error=attempt.error)
        self._on_pass(attempt)

    def _pause(self) -> float:
        """How long nothing can become due by itself."""
        now = time.monotonic()
        until = now + (_LOOK_AFTER_HEALTHY if self._watcher.healthy else _LOOK_AFTER_SICK)
        until = min(until, self._reconcile_at)
        if self._strategy == "git":
            until = min(until, now + _LOOK_AT_HEAD)
        if self._failures and self._strategy != "lazy":
            until = min(until, self._retry_at)
        due = self._watcher.ready_in()
        if due is not None:
            until = min(until, now + due)
        return max(0.0, until - now)

    def _save(self) -> None:
        """Realtime forgets nothing that its start would not find again, so it writes nothing."""
        if self._strategy != "realtime":
            self._guarded(self._dirty.save)

    def _guarded(self, step: Callable[[], object]) -> None:
        try:
            step()
        except Exception as error:
            with self._word:
                self._state = replace(self._state, last_error=_said(error))


def _said(error: Exception) -> str:
    error = as_out_of_memory(error) or error
    if isinstance(error, LookfarError):
        return f"{error.code}: {error.message}"
    text = f"{type(error).__name__}"
    with suppress(Exception):
        text = f"{text}: {error}"
    return text
