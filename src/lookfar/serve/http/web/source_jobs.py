"""Fetch sources in the background of a server, one at a time, and report the progress.

A site may take longer than a request may last, so a request only starts the work. The event stream
and the list of sources report it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final, Literal

from lookfar.errors import IndexBusy, LookfarError
from lookfar.model import SourceChange
from lookfar.serve.tools.tool import Json, Session

_log = logging.getLogger(__name__)
_KEY: Final = "web.source_job"
_LOCK: Final = threading.Lock()
_MOST_NOTES: Final = 20

Fetch = Callable[[Callable[[str, int, int], None]], Sequence[SourceChange]]


@dataclass(frozen=True, slots=True)
class Job:
    """What is fetched, or was fetched last."""

    name: str
    """What the user asked for: an address, or the names of sources."""
    state: Literal["running", "done", "failed"] = "running"
    what: str = ""
    """The page or file that is being fetched."""
    done: int = 0
    total: int = 0
    """0 if it is not known."""
    message: str = ""
    hint: str = ""
    added: int = 0
    changed: int = 0
    removed: int = 0
    notes: tuple[str, ...] = ()


class _Stopped(Exception):
    """The user stopped the fetch. Not an error of one source, after which others are fetched."""


class SourceJobs:
    """The fetches of one server. May be shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._job: Job | None = None
        self._stop = threading.Event()

    def describe(self) -> Json | None:
        job = self._job
        return asdict(job) if job is not None else None

    def start(self, session: Session, name: str, fetch: Fetch) -> Job:
        """Start to fetch; raises ``IndexBusy`` while something else is being fetched."""
        with self._lock:
            if self._job is not None and self._job.state == "running":
                raise IndexBusy(
                    f"{self._job.name} is being fetched.",
                    hint="Wait until that is done, or stop it.",
                )
            self._stop.clear()
            self._job = job = Job(name)
        thread = threading.Thread(
            target=self._run, args=(session, job, fetch), name="lookfar-fetch", daemon=True
        )
        thread.start()
        return job

    def stop(self) -> bool:
        """Stop the running fetch, also while it waits; return whether there is one."""
        self._stop.set()
        return self._job is not None and self._job.state == "running"

    def _run(self, session: Session, job: Job, fetch: Fetch) -> None:
        def report(what: str, done: int, total: int) -> None:
            if self._stop.is_set():
                raise _Stopped
            self._job = replace(job, what=what, done=done, total=total)

        try:
            with session.call():
                changes = fetch(report)
        except _Stopped:
            message, hint = "The fetch was stopped.", "The source stays as it was."
            self._job = replace(job, state="failed", message=message, hint=hint)
        except LookfarError as error:
            self._job = replace(job, state="failed", message=error.message, hint=error.hint)
        except Exception:
            _log.exception("a source could not be fetched")
            message = "The source could not be fetched because of an internal error."
            self._job = replace(job, state="failed", message=message, hint="See the server's log.")
        else:
            self._job = replace(
                job,
                state="done",
                added=sum(len(change.added) for change in changes),
                changed=sum(len(change.changed) for change in changes),
                removed=sum(len(change.removed) for change in changes),
                notes=tuple(note for change in changes for note in change.notes)[:_MOST_NOTES],
            )


def get_jobs(session: Session) -> SourceJobs:
    with _LOCK:
        jobs: SourceJobs = session.memory.setdefault(_KEY, SourceJobs())
    return jobs
