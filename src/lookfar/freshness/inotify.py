"""Watch a folder tree on Linux: every event in order, and no lost event goes unnoticed.

Reports each changed path, the loss of the root, lost events and the limit of watched folders. A
fence tells that every write before it was reported. Only wanted folders are watched, because
their number is limited.

Builds on watchdog's private inotify reader. The public classes above it delay events by half a
second to pair moves, hide overflows and limits, and have no fence. The version of watchdog is
bounded for this reason.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Final, Literal

from watchdog.observers.inotify import InotifyWatchGroup
from watchdog.observers.inotify_c import (
    CallbackId,
    InotifyConstants,
    InotifyEvent,
    InotifyFD,
    Mask,
    WatchCallback,
    WatchDescriptor,
    inotify_rm_watch,
)

Trouble = Literal["root", "overflow", "limit"]

_MASK: Final = Mask(
    InotifyConstants.IN_MODIFY
    | InotifyConstants.IN_ATTRIB
    | InotifyConstants.IN_CLOSE_WRITE
    | InotifyConstants.IN_CREATE
    | InotifyConstants.IN_DELETE
    | InotifyConstants.IN_MOVE
    | InotifyConstants.IN_DELETE_SELF
    | InotifyConstants.IN_MOVE_SELF
    | InotifyConstants.IN_ONLYDIR
)
_LEFT: Final = (
    InotifyConstants.IN_DELETE_SELF | InotifyConstants.IN_MOVE_SELF | InotifyConstants.IN_UNMOUNT
)


class _Reader(InotifyFD):
    """Reads the events of one inotify instance."""

    def _add_callback(
        self, path: bytes, mask: Mask, callback: WatchCallback, id_: CallbackId
    ) -> WatchDescriptor:
        # Without watchdog's warning: a folder that was moved is watched already.
        watch = self._get_or_create_watch(path, mask)
        watch.callbacks[id_] = callback
        return watch.wd


@dataclass
class _Tree(InotifyWatchGroup):
    """The watches below one root, updated as folders are added, removed and moved.

    The kernel gives a folder the same watch under every path, so adding a watch for a path tells
    which folder is there now. Events are late: a walk may find a folder at its new path before the
    event of its move arrives, and another folder at its old path. A path on record may therefore
    be wrong for a while, but only until the last event that names it: then the disk is walked again
    from there.
    """

    report: Callable[[str, bool], None] = lambda _path, _is_dir: None
    report_trouble: Callable[[Trouble], None] = lambda _: None
    wanted: Callable[[str], bool] = lambda _: True
    _leaving: tuple[int, bytes] | None = None
    """A moved folder, until the next event gives its new path."""
    _refused: set[bytes] = field(default_factory=set)
    """Unreadable folders; a change of their attributes may make them readable."""

    def on_event(self, event: InotifyEvent) -> None:
        with self._lock:
            if not self.is_active:
                return
            path = self._build_event_source_path(event)
            if path is None:
                return
            self._follow(event, path)
        if path == self.path and event.mask & _LEFT:
            self.report_trouble("root")
        else:
            self.report(os.fsdecode(path), event.is_directory or not event.name)

    def _follow(self, event: InotifyEvent, path: bytes) -> None:
        """Update the watches before the event is reported, so that no later write is lost."""
        leaving, self._leaving = self._leaving, None
        moved_from = b""
        if leaving is not None and event.is_moved_to and leaving[0] == event.cookie:
            moved_from = leaving[1]
        elif leaving is not None:
            self._forget(leaving[1])
        if event.is_directory and event.is_moved_from:
            self._leaving = event.cookie, path
        elif event.is_directory and (event.is_create or event.is_moved_to):
            self._add_all_callbacks(path)
            if moved_from:
                # Folders that are not wanted at the new path. If another folder is at the old
                # path by now, an event that follows adds it again.
                self._forget(moved_from)
        elif event.is_directory and event.is_attrib and self._was_refused(path):
            with suppress(OSError):  # The loss of the root has its own event.
                self._add_all_callbacks(path)

    def _was_refused(self, path: bytes) -> bool:
        below = path + b"/"
        return any(folder == path or folder.startswith(below) for folder in self._refused)

    def _forget(self, path: bytes) -> None:
        below = path + b"/"
        known = self._active_callbacks_by_watch.items()
        self._remove_callbacks([wd for wd, at in known if at == path or at.startswith(below)])

    def _add_all_callbacks(self, path: bytes) -> None:
        if path != self.path and not self.wanted(os.fsdecode(path)):
            return
        self._add_callback(path)
        for folder, names, _ in os.walk(path):
            names[:] = [
                name
                for name in names
                if not os.path.islink(inner := os.path.join(folder, name))
                and self.wanted(os.fsdecode(inner))
            ]
            for name in names:
                self._add_callback(os.path.join(folder, name))

    def _add_callback(self, path: bytes) -> None:
        try:
            wd = self._inotify_fd.add_callback(path, self.event_mask, self, self._id)
            if wd < 0:  # watchdog's sign for a folder that cannot be read.
                self._inotify_fd.remove_callbacks([(wd, self._id)])
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            if path == self.path:
                raise
            if error.errno == errno.EACCES:
                self._refused.add(path)
            if error.errno in (errno.ENOSPC, errno.ENOMEM):
                self.report_trouble("limit")
            return
        self._refused.discard(path)
        self._remove_watch_internally(wd)  # Its path, if it was moved here.
        self._active_callbacks_by_path[path] = wd
        self._active_callbacks_by_watch[wd] = path

    def _remove_watch_internally(self, wd: WatchDescriptor) -> None:
        path = self._active_callbacks_by_watch.pop(wd, None)
        if path is not None and self._active_callbacks_by_path.get(path) == wd:
            del self._active_callbacks_by_path[path]

    def extend(self) -> None:
        """Watch folders that are wanted now and were not before."""
        # The loss of the root has its own event.
        with self._lock, suppress(OSError):
            if self.is_active:
                self._add_all_callbacks(self.path)

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        with self._lock:
            self._remove_watch_internally(wd)

    def on_queue_overflow(self) -> None:
        with self._lock:
            self._leaving = None  # The event with its new path may be lost.
        super().on_queue_overflow()
        self.report_trouble("overflow")


class _Fence(WatchCallback):
    """A watch that is removed at once: the kernel reports that after all earlier events."""

    def __init__(self) -> None:
        self.passed = Event()

    def on_event(self, event: InotifyEvent) -> None:
        pass

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:  # noqa: ARG002
        self.passed.set()

    def on_queue_overflow(self) -> None:
        pass


class Tree:
    """A watched folder tree, with one thread and one inotify instance until ``close``."""

    def __init__(
        self,
        path: str,
        report: Callable[[str, bool], None],
        report_trouble: Callable[[Trouble], None],
        wanted: Callable[[str], bool],
    ) -> None:
        """Raises ``OSError`` if the root cannot be watched."""
        self._reader = _Reader()
        self._reader.name = "lookfar-watch"
        self._reader.start()
        try:
            self._tree = _Tree(
                self._reader,
                os.fsencode(path),
                _MASK,
                True,
                report=report,
                report_trouble=report_trouble,
                wanted=wanted,
            )
        except BaseException:
            self._stop_reader()
            raise

    @property
    def alive(self) -> bool:
        return self._reader.is_alive()

    def extend(self) -> None:
        """Watch folders that are wanted now and were not before."""
        self._tree.extend()

    def fence(self, timeout: float) -> bool:
        """Wait until everything written before this call was reported."""
        fence = _Fence()
        try:
            descriptor = self._reader.add_callback(
                os.fsencode(os.devnull),
                InotifyConstants.IN_DELETE_SELF,
                fence,
                CallbackId(id(fence)),
            )
        except OSError:
            return False
        inotify_rm_watch(self._reader._inotify_fd, descriptor)
        return fence.passed.wait(timeout)

    def close(self) -> None:
        self._tree.deactivate()
        self._stop_reader()

    def _stop_reader(self) -> None:
        self._reader.stop()
        self._reader.join()
