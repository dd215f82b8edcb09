"""Who waits for the work of this thread: told how far it has come, and free to give up.

A caller is set once where a call begins, as the cancel scopes of anyio and trio are, and not
passed through every function between. A new thread has no caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pass has come."""

    files: int
    total_files: int
    bytes: int
    total_bytes: int


OnProgress = Callable[[Progress], None]
Check = Callable[[], None]
"""Raises an error once the caller has given up."""

_CHECKS: ContextVar[tuple[Check, ...]] = ContextVar("checks", default=())
_REPORTS: ContextVar[tuple[OnProgress, ...]] = ContextVar("reports", default=())


@contextmanager
def called_by(
    *, on_progress: OnProgress | None = None, check: Check | None = None
) -> Iterator[None]:
    """Work for this caller, and for those that wait already."""
    checks, reports = _CHECKS.get(), _REPORTS.get()
    checking = _CHECKS.set(checks if check is None else (*checks, check))
    reporting = _REPORTS.set(reports if on_progress is None else (*reports, on_progress))
    try:
        yield
    finally:
        _REPORTS.reset(reporting)
        _CHECKS.reset(checking)


def check_cancelled() -> None:
    """Raise an error if a caller has given up; work that takes long calls this between steps."""
    for check in _CHECKS.get():
        check()


def report_progress(progress: Progress) -> None:
    """Tell the callers how far the work has come."""
    for report in _REPORTS.get():
        report(progress)
