"""The folders that a server has open, shared by its sessions.

Takes: what each session wants open. Gives: a library over folders that other sessions may
use too: one index, one model and one watcher per folder, however many ask. Refuses:
nothing of its own; a folder that cannot be opened is the asker's error.

A folder that nobody asked for a while lets go of its model; one that no session has open
is closed after a while. One that is being indexed is neither. Following starts once there is
an index to keep true.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lookfar.collections.folder import Folder
from lookfar.errors import LookfarError
from lookfar.library import Library
from lookfar.retrieve.locate.address import format_address
from lookfar.serve.tools.tool import Session

if TYPE_CHECKING:
    from lookfar.serve.mcp.changes import Changes

_log = logging.getLogger(__name__)

REST_SECONDS = 120.0
CLOSE_SECONDS = 600.0


@dataclass(slots=True, eq=False)
class _Shared:
    """A folder and who uses it."""

    folder: Folder
    key: Any
    users: int = 0
    used: float = field(default_factory=time.monotonic)
    resting: bool = False
    busy: int = 0
    listeners: list[tuple[Changes, str]] = field(default_factory=list)

    @property
    def working(self) -> bool:
        """Whether a call is under way, or a pass that outlives the call which began it."""
        return bool(self.busy or self.folder.building_since)


class Pool:
    """Open folders by root and settings."""

    def __init__(
        self, rest_seconds: float = REST_SECONDS, close_seconds: float = CLOSE_SECONDS
    ) -> None:
        self._rest_seconds = rest_seconds
        self._close_seconds = close_seconds
        self._lock = threading.Lock()
        self._shared: dict[Any, _Shared] = {}
        self._closed = threading.Event()
        self._tending: threading.Thread | None = None

    @contextmanager
    def session(
        self,
        paths: Sequence[str],
        *,
        index_dir: str | None = None,
        settings: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
        write: bool = False,
        changes: Changes | None = None,
    ) -> Iterator[Session]:
        """What one session works with; ``changes`` is told what changes in its documents."""
        taken: list[_Shared] = []
        try:
            for path in paths:
                opened = Folder.open(path, index_dir=index_dir, settings=settings, environ=environ)
                shared = self._take(opened)
                if shared not in taken:
                    taken.append(shared)
                else:
                    self._give_back(shared)
            library = Library([each.folder for each in taken])
            listening = [
                (shared, (changes, name))
                for name, shared in zip(library.collections, taken, strict=True)
                if changes is not None
            ]
            for shared, listener in listening:
                shared.listeners.append(listener)
            try:
                yield Session(library, write=write, call=lambda: self._call(taken))
            finally:
                for shared, listener in listening:
                    shared.listeners.remove(listener)
        finally:
            for shared in taken:
                self._give_back(shared)

    def _take(self, folder: Folder) -> _Shared:
        key = (folder.root.path, folder.settings)
        with self._lock:
            shared = self._shared.get(key)
            if shared is None:
                shared = self._shared[key] = _Shared(folder, key)
                folder.on_activated.append(
                    lambda older, newer: self._activated(shared, older, newer)
                )
            shared.users += 1
            shared.used = time.monotonic()
            if self._tending is None:
                self._tending = threading.Thread(
                    target=self._tend, name="lookfar-pool", daemon=True
                )
                self._tending.start()
        self._follow(shared)
        return shared

    def _give_back(self, shared: _Shared) -> None:
        with self._lock:
            shared.users -= 1
            shared.used = time.monotonic()

    @contextmanager
    def _call(self, taken: Sequence[_Shared]) -> Iterator[None]:
        """Around each call of a session: what it uses is not put to rest meanwhile."""
        with self._lock:
            for shared in taken:
                shared.busy += 1
                shared.resting = False
        try:
            yield
        finally:
            with self._lock:
                for shared in taken:
                    shared.busy -= 1
                    shared.used = time.monotonic()
            for shared in taken:
                self._follow(shared)

    def _follow(self, shared: _Shared) -> None:
        """Keep an index true from the moment there is one, unless somebody said otherwise."""
        folder = shared.folder
        if folder.settings.watch.enabled and folder.watch_wanted is None and folder.indexed:
            try:
                folder.watch()
            except LookfarError:
                _log.exception("cannot follow %s", folder.root.path)

    def _activated(self, shared: _Shared, older: int, newer: int) -> None:
        if not shared.listeners:
            return
        try:
            found = shared.folder.diff(older, newer) if older else None
        except LookfarError:  # The older one is pruned: what differs cannot be told any more.
            found = None
        changed = [*found.added, *found.removed, *(c.uri for c in found.changed)] if found else []
        listed = found is None or bool(found.added or found.removed)
        for changes, name in list(shared.listeners):
            changes.tell([format_address(name, uri) for uri in changed], listed=listed)

    @property
    def busy(self) -> bool:
        """Whether some call or pass is under way."""
        with self._lock:
            return any(shared.working for shared in self._shared.values())

    def _tend(self) -> None:
        pause = max(0.05, min(self._rest_seconds, self._close_seconds) / 4)
        while not self._closed.wait(pause):
            self.tend()

    def tend(self) -> None:
        """Put to rest what nobody asks, and close what nobody has open."""
        now = time.monotonic()
        with self._lock:
            idle = [each for each in self._shared.values() if not each.working]
            leaving = [
                each for each in idle
                if not each.users and now - each.used >= self._close_seconds
            ]  # fmt: skip
            # A pass of the keeper wakes a folder that nobody asked.
            awake = [
                each for each in idle
                if each not in leaving and (not each.resting or each.folder.awake)
            ]  # fmt: skip
            resting = [each for each in awake if now - each.used >= self._rest_seconds]
            for each in leaving:
                del self._shared[each.key]
            # Inside the lock: a call that begins now waits, and then loads what it needs again.
            for each in resting:
                each.resting = True
                each.folder.rest()
        for each in leaving:
            each.folder.close()
        if leaving or resting:
            _give_memory_back()

    def close(self) -> None:
        """Close every folder; sessions that still have one find it closed."""
        self._closed.set()
        with self._lock:
            shared, self._shared = list(self._shared.values()), {}
        for each in shared:
            each.folder.close()


def _give_memory_back() -> None:
    """What was let go of to the system: a process that only waits should be small."""
    gc.collect()
    if sys.platform == "linux":
        # Where the C library has no such call, it does without it.
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
