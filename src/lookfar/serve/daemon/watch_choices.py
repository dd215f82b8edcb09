"""Decide whether a folder that several sessions share is watched.

The settings decide for each session, unless it turned watching on or off for itself. The folder is
watched while one of its sessions wants that; without sessions, the settings decide. A session's
choice ends with the session.
"""

from __future__ import annotations

import logging
from threading import Lock
from typing import TYPE_CHECKING

from lookfar.errors import LookfarError

if TYPE_CHECKING:
    from lookfar.collections.folder import Folder

_log = logging.getLogger(__name__)


class WatchChoices:
    """The sessions of one folder, and whether each wants it watched. May be shared by threads."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._lock = Lock()
        self._sessions: list[object] = []
        self._choices: dict[object, bool] = {}
        self._stopped = False
        """Whether a choice stopped the watcher."""
        self._eager = False

    def join(self, session: object, *, eager: bool = False) -> None:
        """Add a session; for an ``eager`` one, watching starts without waiting for a first call."""
        with self._lock:
            self._eager |= eager
            self._sessions.append(session)
            self._start_if_wanted()

    def leave(self, session: object) -> None:
        """Remove a session and its choice, and start or stop the watcher accordingly."""
        with self._lock:
            self._sessions.remove(session)
            choice = self._choices.pop(session, None)
            if choice and self._is_wanted():
                self._watch(self._folder.settings.watch.debounce_ms)
            self._stop_if_unwanted()
            self._start_if_wanted()

    def choose(self, session: object, enabled: bool, debounce_ms: int) -> None:
        """Turn watching on or off for one session."""
        with self._lock:
            self._choices[session] = enabled
            if enabled:
                self._folder.watch(debounce_ms=debounce_ms)
                self._stopped = False
            else:
                self._stop_if_unwanted()

    def start_after_index(self) -> None:
        """Start the watcher after a pass if a session is eager for it."""
        if self._eager:
            self.start_if_wanted()

    def start_if_wanted(self) -> None:
        """Start the watcher once there is an index, unless watching was turned off.

        Does nothing while another thread decides, which may wait for the pass that calls this.
        """
        if self._lock.acquire(blocking=False):
            try:
                self._start_if_wanted()
            finally:
                self._lock.release()

    def _start_if_wanted(self) -> None:
        if not self._is_wanted():
            return
        if self._stopped:
            self._stopped = False
            self._folder.following.forget_stop()
        if self._folder.watch_wanted is None and self._folder.indexed:
            self._watch()

    def _is_wanted(self) -> bool:
        default = self._folder.settings.watch.enabled
        if not self._sessions:
            return default
        return any(self._choices.get(session, default) for session in self._sessions)

    def _stop_if_unwanted(self) -> None:
        if self._folder.watching() is not None and not self._is_wanted():
            self._folder.unwatch()
            self._stopped = True

    def _watch(self, debounce_ms: int | None = None) -> None:
        try:
            self._folder.watch(debounce_ms=debounce_ms)
        except LookfarError:
            _log.exception("cannot watch %s", self._folder.root.path)
