"""Keep the index of a collection up to date in the background: watch, collect, index, repeat.

One thread runs all passes; other threads only post requests and wait. A pass that fails is
retried later, with growing pauses, and its error is part of the state.

============  ==============================================================
``realtime``  indexes a change as soon as no more writes follow
``lazy``      collects, and indexes before a query is answered
``git``       collects, and indexes when a commit or checkout moves the head
============  ==============================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Condition, Thread, current_thread
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from lookfar.errors import InvalidArgument, LookfarError, as_out_of_memory
from lookfar.freshness.changed_names import Changes, Work
from lookfar.model import Watching

if TYPE_CHECKING:
    from lookfar.freshness.watch import FolderWatcher

Strategy = Literal["realtime", "lazy", "git"]
Occasion = Literal["change", "start", "reconcile", "search", "commit", "request"]

STRATEGIES: Final[tuple[Strategy, ...]] = get_args(Strategy)
DEBOUNCE_MS: Final = (250, 30_000)

DUE: Final[Mapping[Strategy, frozenset[Occasion]]] = {
    "realtime": frozenset(get_args(Occasion)),
    "lazy": frozenset(("search", "request")),
    "git": frozenset(("commit", "request")),
}
"""The occasions on which each strategy indexes the collected changes."""

_TEND_HEALTHY: Final = 5.0
_TEND_UNHEALTHY: Final = 0.5
_CHECK_HEAD: Final = 1.0
"""Seconds between checks of git's head, which may be in a folder that is not watched."""
_FENCE: Final = 0.25
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 60.0


def checked_strategy(name: str) -> Strategy:
    if name not in STRATEGIES:
        raise InvalidArgument(
            f"Unknown indexing strategy: {name!r}.",
            hint=f"Choose one of: {', '.join(STRATEGIES)}.",
        )
    return name


def checked_debounce(milliseconds: int) -> int:
    low, high = DEBOUNCE_MS
    if not low <= milliseconds <= high:
        raise InvalidArgument(
            f"debounce_ms is {milliseconds}.",
            hint=f"Give a number of milliseconds from {low} to {high}.",
        )
    return milliseconds


@dataclass(frozen=True, slots=True)
class Pass:
    """One attempt to index what changed."""

    work: Work
    seconds: float
    result: Any = None
    error: str = ""


class Keeper:
    """The background thread of one collection."""

    def __init__(
        self,
        watcher: FolderWatcher | None,
        changes: Changes,
        update: Callable[[Work], object],
        *,
        strategy: Strategy = "realtime",
        head: Callable[[], str] = lambda: "",
        reconcile_seconds: float = 600.0,
        on_pass: Callable[[Pass], None] | None = None,
        first_pause: float = _FIRST_PAUSE,
    ) -> None:
        """``update`` indexes the work it is given; ``head`` identifies the current git commit.

        The watcher reports to ``changes``. Without one, only a move of the head is noticed.
        """
        self._watcher = watcher
        self._changes = changes
        self._update = update
        self._strategy: Strategy = strategy
        self._head = head
        self._reconcile_seconds = reconcile_seconds
        self._on_pass = on_pass or (lambda _: None)
        self._first_pause = first_pause
        self._condition = Condition()
        self._thread: Thread | None = None
        self._stopping = False
        self._occasions: set[Occasion] = set()
        self._woken = False
        self._requested = self._handled = self._clean = 0
        """Ticket numbers: issued, handled, and handled with nothing left to index."""
        self._failures = 0
        self._retry_at = 0.0
        self._reconcile_at = 0.0
        self._compared = False
        self._state = Watching(strategy=strategy)

    # -- start and stop ------------------------------------------------------

    def start(self) -> None:
        """Start the thread unless it is running."""
        with self._condition:
            if self._thread is not None:
                return
            self._stopping = False
            self._compared = False
            self._thread = Thread(target=self._run, name="lookfar-keeper", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop after the running pass, and save what is still to be indexed."""
        with self._condition:
            thread, self._stopping = self._thread, True
            self._condition.notify_all()
        if thread is None or thread is current_thread():
            return
        thread.join()
        if self._watcher is not None:
            self._watcher.stop()
        with self._condition:
            self._thread = None
            self._condition.notify_all()

    def switch(self, strategy: Strategy) -> None:
        """Change the strategy; collected changes wait until they are due under it."""
        with self._condition:
            if strategy == "git" != self._strategy:
                self._changes.head = self._head()
            self._strategy = strategy
            self._occasions.add("change")
            self._condition.notify_all()

    @property
    def strategy(self) -> Strategy:
        return self._strategy

    def state(self) -> Watching:
        reason = self._watcher.reason if self._watcher is not None else ""
        with self._condition:
            return replace(
                self._state,
                running=self._alive(),
                healthy=not reason,
                reason=reason,
                strategy=self._strategy,
                queued=len(self._changes.names()),
                everything=self._changes.everything,
            )

    # -- for waiting threads -----------------------------------------------------

    def pending(self, timeout: float = 0.25) -> frozenset[str] | None:
        """Return the names that are not indexed yet; None if they are unknown.

        Empty means that every write that ended before this call is indexed.
        """
        if not self._compared or not self._fence(timeout) or not self._alive():
            return None
        return None if self._changes.everything else self._changes.names()

    def drain(self, timeout: float, occasion: Occasion = "request") -> bool:
        """Index what changed so far; return False if that failed or took too long."""
        deadline = time.monotonic() + timeout
        self._fence(timeout)
        with self._condition:
            self._requested += 1
            ticket = self._requested
            self._occasions.add(occasion)
            self._condition.notify_all()
            while self._handled < ticket:
                left = deadline - time.monotonic()
                if left <= 0 or not self._alive():
                    return False
                self._condition.wait(left)
            return self._clean >= ticket

    def _fence(self, timeout: float) -> bool:
        """Wait until all earlier writes are noticed; False if that cannot be known."""
        return self._watcher is not None and self._watcher.fence(timeout)

    def _alive(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive()

    def _wake(self) -> None:
        with self._condition:
            self._woken = True
            self._condition.notify_all()

    # -- the thread ----------------------------------------------------------

    def _run(self) -> None:
        self._guarded(self._begin)
        while True:
            with self._condition:
                if self._stopping:
                    break
                ticket, self._woken = self._requested, False
                occasions, self._occasions = self._occasions, set()
            self._guarded(lambda: self._turn(occasions, at_once=ticket > self._handled))  # noqa: B023
            with self._condition:
                self._handled = ticket
                self._clean = self._clean if self._changes else ticket
                self._condition.notify_all()
                if not self._has_request(ticket):
                    self._condition.wait(self._pause())
        self._save()

    def _has_request(self, ticket: int) -> bool:
        return bool(self._stopping or self._woken or self._requested > ticket or self._occasions)

    def _begin(self) -> None:
        """Start the watcher, and have everything compared, because earlier changes are unknown.

        With the strategy git, everything is compared only if HEAD has moved since the last pass.
        """
        if self._watcher is not None:
            self._watcher.start(self._wake)
        self._reconcile_at = time.monotonic() + (self._reconcile_seconds or float("inf"))
        restored = self._changes.load()
        self._occasions.add("start")
        if self._strategy != "git" or not restored or self._changes.head != self._head():
            self._changes.add(everything=True)
            self._occasions.add("commit")

    def _turn(self, occasions: set[Occasion], *, at_once: bool) -> None:
        """Tend the watcher, collect changes, and index them if an occasion makes them due."""
        now = time.monotonic()
        if self._watcher is not None:
            was_healthy = self._watcher.healthy
            self._watcher.tend()
            if self._watcher.healthy and not was_healthy:
                self._retry_at = now
        if now >= self._reconcile_at:
            self._reconcile_at = now + self._reconcile_seconds
            if self._strategy != "git":
                self._changes.add(everything=True)
            occasions.add("reconcile")
        moved = self._strategy == "git" and self._head() != self._changes.head
        if moved and self._changes.ready_in() is None and not self._fence(_FENCE):
            self._changes.add(everything=True)  # The changes before the move are unknown.
        due = self._changes.ready_in()
        if due is not None and (at_once or due <= 0):
            if self._changes.settle():
                occasions.add("change")
            due = None
        if moved and due is None:  # Otherwise files are still being written.
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
        head = self._head() if committed or self._strategy == "git" else self._changes.head
        work = self._changes.take()
        if work is None:
            self._failures = 0
            if self._changes.head != head:
                self._changes.head = head
                self._save()
            return
        if work.only is None and self._watcher is not None:
            self._watcher.extend()
        started = time.perf_counter()
        try:
            result = self._update(work)
        except Exception as error:
            self._changes.put_back()
            self._record_failure(Pass(work, time.perf_counter() - started, error=_describe(error)))
            return
        self._changes.done()
        self._changes.head = head
        self._compared |= work.only is None
        with self._condition:
            self._failures = 0
            self._state = replace(
                self._state,
                last_error="",
                last_pass=datetime.now(UTC).isoformat(timespec="seconds"),
                passes=self._state.passes + 1,
            )
        self._save()
        self._on_pass(Pass(work, time.perf_counter() - started, result))

    def _record_failure(self, attempt: Pass) -> None:
        with self._condition:
            self._failures += 1
            pause = min(_LONGEST_PAUSE, self._first_pause * 2 ** min(self._failures - 1, 20))
            self._retry_at = time.monotonic() + pause
            self._state = replace(self._state, last_error=attempt.error)
        self._on_pass(attempt)

    def _pause(self) -> float:
        """Return the seconds until something may become due without a request."""
        now = time.monotonic()
        healthy = self._watcher is None or self._watcher.healthy
        until = now + (_TEND_HEALTHY if healthy else _TEND_UNHEALTHY)
        until = min(until, self._reconcile_at)
        if self._strategy == "git":
            until = min(until, now + _CHECK_HEAD)
        if self._failures and self._strategy != "lazy":
            until = min(until, self._retry_at)
        due = self._changes.ready_in()
        if due is not None:
            until = min(until, now + due)
        return max(0.0, until - now)

    def _save(self) -> None:
        """Save the changes, except for realtime, which compares everything when it starts."""
        if self._strategy != "realtime":
            self._guarded(self._changes.save)

    def _guarded(self, step: Callable[[], object]) -> None:
        try:
            step()
        except Exception as error:
            with self._condition:
                self._state = replace(self._state, last_error=_describe(error))


def _describe(error: Exception) -> str:
    error = as_out_of_memory(error) or error
    if isinstance(error, LookfarError):
        return f"{error.code}: {error.message}"
    text = f"{type(error).__name__}"
    with suppress(Exception):
        text = f"{text}: {error}"
    return text
