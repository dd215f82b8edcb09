"""Collect the names of changed files until they are indexed.

Names are due when no more writes follow, or when they have waited long enough. The set is saved
before anything relies on it; a damaged file means "compare everything".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

from lookfar.store.ground import files
from lookfar.store.ground.records import pack_record, unpack_record
from lookfar.text.parse.formats import is_readable

DIRTY_FILE: Final = "dirty.json"
SEEN_FILE: Final = "seen.json"
"""The stamp of the branches when a pass last found nothing new."""

MOST_NAMED: Final = 1_000
"""More names than this become "everything"."""
LONGEST_WAIT: Final = 2.0
"""Seconds after which changes are due even if writes continue."""

_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Work:
    """The names that one pass compares with the disk."""

    only: frozenset[str] | None
    """URIs, and folders that end in ``/``; None for everything."""


class Changes:
    """The names of changed files that are not indexed yet. May be shared by threads."""

    def __init__(
        self,
        folder: Path,
        *,
        any_text: bool = False,
        quiet: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Use the index folder of a collection; nothing is read or written yet.

        With ``any_text``, files of unknown formats count, too. ``quiet`` are the seconds without
        a change after which the names are due.
        """
        self._any_text = any_text
        self._quiet = quiet
        self._clock = clock
        self._path = folder / DIRTY_FILE
        self._lock = Lock()
        self._uris: set[str] = set()
        self._everything = False
        self._taken: Work | None = None
        self._waiting = self._grown = False
        """Whether a pause is waited for, and whether names were new since the one before."""
        self._first = self._last = 0.0
        self.head = ""
        """The head of the repository when the set was last indexed; empty if unknown."""

    def __bool__(self) -> bool:
        return self.everything or bool(self.names())

    @property
    def everything(self) -> bool:
        """Whether anything may have changed, so that names are not enough."""
        with self._lock:
            in_progress = self._taken is not None and self._taken.only is None
            return self._everything or in_progress

    def names(self) -> frozenset[str]:
        """Return the names that wait or are being indexed."""
        with self._lock:
            taken = self._taken.only if self._taken else None
            return drop_nested(self._uris | (taken or frozenset()))

    def add(self, uris: Iterable[str] = (), *, everything: bool = False) -> None:
        """Add names of files that may be indexed, without waiting for a pause."""
        with self._lock:
            self._add(uris, everything)

    def _add(self, uris: Iterable[str], everything: bool) -> bool:
        """Add names; return whether one was new. The caller holds the lock."""
        before = (len(self._uris), self._everything)
        if not self._everything:
            self._uris.update(
                uri for uri in uris if uri.endswith("/") or is_readable(uri, self._any_text)
            )
        if everything or len(self._uris) > MOST_NAMED:
            self._everything = True
            self._uris.clear()
        return before != (len(self._uris), self._everything)

    # -- as they are noticed -----------------------------------------------------

    def report(self, uri: str = "", *, everything: bool = False) -> bool:
        """Add a name, or none for a change in git, and wait for a pause; return whether a pause
        was not waited for before."""
        with self._lock:
            self._last = self._clock()
            first, self._waiting = not self._waiting, True
            if first:
                self._first = self._last
            self._grown |= self._add((uri,) if uri else (), everything)
            return first

    def ready_in(self) -> float | None:
        """Return the seconds until what was reported is due; None if nothing was."""
        with self._lock:
            if not self._waiting:
                return None
            # At least one pause, however long it is configured.
            longest = self._first + max(LONGEST_WAIT, self._quiet)
            return max(0.0, min(self._last + self._quiet, longest) - self._clock())

    def settle(self) -> bool:
        """Stop waiting for a pause; return whether names were new."""
        with self._lock:
            grown, self._waiting, self._grown = self._grown, False, False
            return grown

    # -- as they are indexed -----------------------------------------------------

    def take(self) -> Work | None:
        """Return what to index; it stays in the set, and on disk, until ``done``."""
        with self._lock:
            if self._taken is None and (self._uris or self._everything):
                self._taken = Work(None if self._everything else drop_nested(self._uris))
                self._uris.clear()
                self._everything = False
            return self._taken

    def done(self) -> None:
        """Forget what was taken, because it is indexed."""
        with self._lock:
            self._taken = None

    def put_back(self) -> None:
        """Return what was taken to the set, because it could not be indexed."""
        with self._lock:
            # In one step, so that no reader finds the set empty in between.
            work, self._taken = self._taken, None
            if work is not None:
                self._add(work.only or (), work.only is None)

    # -- persistence -------------------------------------------------------------

    def save(self) -> None:
        state = {
            "format": _FORMAT,
            "head": self.head,
            "everything": self.everything,
            "uris": sorted(self.names()),
        }
        files.make_folder(self._path.parent)
        # Several processes may follow one folder, and none holds the writer lock here.
        files.write_shared(self._path, pack_record(state))

    def load(self) -> bool:
        """Add what an earlier process saved; return False if there is nothing.

        An unreadable file means "everything".
        """
        try:
            state = unpack_record(self._path.read_bytes())
            if state["format"] != _FORMAT or not isinstance(state["everything"], bool):
                raise ValueError("another format")
            uris = [uri for uri in state["uris"] if isinstance(uri, str)]
            head = str(state["head"])
        except FileNotFoundError:
            return False
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            self.add(everything=True)
            return True
        self.head = head
        self.add(uris, everything=state["everything"])
        return True


def drop_nested(uris: set[str] | frozenset[str]) -> frozenset[str]:
    """Drop the names below a folder that is in the set itself."""
    folders = {uri for uri in uris if uri.endswith("/")}
    if not folders:
        return frozenset(uris)

    def covered(uri: str) -> bool:
        end = uri.find("/")
        while -1 < end < len(uri) - 1:
            if uri[: end + 1] in folders:
                return True
            end = uri.find("/", end + 1)
        return False

    return frozenset(uri for uri in uris if not covered(uri))
