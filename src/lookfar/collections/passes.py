"""Run one indexing pass at a time over a collection, in processes that may write.

A process that only answers questions for a writer raises :class:`WriterNeeded` where it would write
or index. Before each question the writer brings the collections up to date and says which notes
belong to them.

Waiting calls get its progress, and give up when their caller was cancelled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from threading import Lock
from typing import Final, TypeVar

from lookfar.common.caller import Progress, called_by, check_cancelled, report_progress
from lookfar.common.turns import TURNS
from lookfar.errors import IndexBusy, IndexHeld, LookfarError
from lookfar.model import Incomplete, IndexReport

PATIENCE: Final = 600.0
"""Seconds that a query waits for another process to build the index it needs."""

KEEPER_PATIENCE: Final = 5.0
"""Seconds that the keeper waits for another writer before it tries again later."""

CHECK_SECONDS: Final = 0.1
"""How often a waiting call checks whether it was cancelled."""

T = TypeVar("T")


class Closing(Exception):
    """Raised to stop a background pass when the collection is closing."""


class Passes:
    """The passes of one collection. May be shared by threads."""

    def __init__(self) -> None:
        self.lock = Lock()
        """Held while the index is built or compared with its source."""
        self.began = ""
        """When the running pass began, in ISO format; empty when none is running."""
        self.progress: Progress | None = None
        self.failure: LookfarError | None = None
        """Why the last pass failed; None once one succeeded."""
        self.generation = 0
        """The generation that the last pass of this process made; 0 when there was none."""
        self.on_activated: list[Callable[[int, int], None]] = []
        """Called after each pass that made a generation, with the previous number (0 when it is
        unknown) and the new one."""
        self.closing = False

    def run(
        self,
        write: Callable[[float], IndexReport],
        wait_seconds: float = 0.0,
    ) -> IndexReport:
        """Run a pass and record its outcome. The caller holds ``lock``.

        ``write`` gets the seconds that it may wait for writers in other processes.
        """
        self.began = timestamp()
        try:
            with TURNS.index(), called_by(on_progress=self._note_progress):
                report = self.retry_while_busy(write, wait_seconds)
        except LookfarError as error:
            if not isinstance(error, IndexBusy):
                self.failure = error
            raise
        finally:
            self.began, self.progress = "", None
        self.failure = None
        previous, self.generation = self.generation, report.generation
        if report.generation != previous:
            for notify in self.on_activated:
                notify(previous, report.generation)
        return report

    def retry_while_busy(self, write: Callable[[float], T], wait_seconds: float) -> T:
        """Call ``write`` until no other process is writing, for at most ``wait_seconds``.

        It waits in small steps, so that a cancelled caller gives up soon.
        """
        deadline = time.monotonic() + wait_seconds
        while True:
            remaining = max(0.0, deadline - time.monotonic())
            try:
                return write(min(remaining, CHECK_SECONDS))
            except IndexBusy as busy:
                started = self.progress is not None
                if started or not remaining or isinstance(busy, IndexHeld):
                    raise
            self._tell_waiting()

    def _note_progress(self, progress: Progress) -> None:
        self.progress = progress

    def acquire_or_refuse(self) -> None:
        """Acquire the lock, or raise ``IndexBusy`` while a pass is running.

        A thread that only compares files with the index holds the lock briefly: wait for it.
        """
        with TURNS.step_aside():
            while not self.lock.acquire(timeout=0.05):
                if self.began:
                    raise IndexBusy(
                        "This index is being built.",
                        hint="Wait for it to finish and try again; searching works meanwhile.",
                        developer=f"a pass began at {self.began}",
                        details={"since": self.began},
                    )

    @contextmanager
    def hold(self, lock: Lock | None = None) -> Iterator[None]:
        """Hold a lock, by default the one on passes; waiting stops when the call is cancelled."""
        lock = lock or self.lock
        self.wait_for(lock)
        try:
            yield
        finally:
            lock.release()
            TURNS.settle()

    def wait_for(self, lock: Lock, patience: float = float("inf")) -> bool:
        """Acquire a lock within ``patience`` seconds; return whether that succeeded.

        A call that waits gives its turn back; the caller settles that after releasing the lock.
        """
        if lock.acquire(blocking=False):
            return True
        deadline = time.monotonic() + patience
        with TURNS.step_aside():
            while not (acquired := lock.acquire(timeout=CHECK_SECONDS)):
                if time.monotonic() >= deadline:
                    break
                self._tell_waiting()
        if not acquired:
            TURNS.settle()
        return acquired

    def _tell_waiting(self) -> None:
        """Tell a waiting caller how far the running pass is, unless it has given up.

        A pass may take minutes, and an abandoned call must not keep its thread for so long.
        """
        check_cancelled()
        if self.progress is not None:
            report_progress(self.progress)

    def until_closing(self) -> AbstractContextManager[None]:
        """Work in the background, which stops at its next step once the collection is closing."""

        def check() -> None:
            if self.closing:
                raise Closing

        return called_by(check=check)

    def describe_progress(self) -> str:
        """Return how far the running pass is, in brackets; empty when that is unknown."""
        progress = self.progress
        return f" ({progress.files:,} of {progress.total_files:,} files)" if progress else ""


def timestamp() -> str:
    """Return the time now in UTC, in ISO format to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


Notes = Mapping[str, Sequence[Incomplete]]
"""What may be missing from each collection that the writer brought up to date, by its place."""

_NOTES: ContextVar[Notes | None] = ContextVar("NOTES", default=None)


class WriterNeeded(Closing):
    """Raised in a reader where only the writer can answer."""


@contextmanager
def read_only(notes: Notes) -> Iterator[None]:
    """Answer as a reader, from collections that the writer has brought up to date."""
    token = _NOTES.set(notes)
    try:
        yield
    finally:
        _NOTES.reset(token)


def find_notes(place: str) -> list[Incomplete] | None:
    """Return the writer's notes on the collection at ``place``; None outside of a reader."""
    notes = _NOTES.get()
    if notes is None:
        return None
    if place not in notes:
        raise WriterNeeded(f"the writer did not bring {place} up to date")
    return list(notes[place])


def require_writer(reason: str) -> None:
    """Raise ``WriterNeeded`` in a reader; do nothing elsewhere."""
    if _NOTES.get() is not None:
        raise WriterNeeded(reason)
