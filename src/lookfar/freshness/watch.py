"""Watch a folder and report hints: names to look at, which say nothing about their state.

Changed URIs are reported (folders end in ``/``), or "everything" if events were lost, rules
changed or the root was replaced. Files that policy or ignore files exclude are not reported, and
the watcher is not healthy if events may be missing. The reader of a hint checks the disk, so a
wrong event costs one check.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, Final, Protocol

from lookfar.config import FOREIGN_FILES, PROJECT_FILE
from lookfar.errors import LookfarError, OutsideRoot
from lookfar.freshness.changed_names import Changes
from lookfar.sources.confine import Root, components
from lookfar.sources.folder.build_output import (
    find_evidence,
    is_build_file,
    is_mark_rule,
    is_output_mark,
    list_outputs,
    output_name,
)
from lookfar.sources.folder.ignore import IGNORE_FILES, Ignores, load_outer_ignores
from lookfar.sources.folder.policy import Policy, Verdict
from lookfar.sources.folder.walk import load_folder_rules

ROOT_GONE: Final = "the folder is gone"
_LIMIT: Final = "the system's limit of watched folders is reached (fs.inotify.max_user_watches)"
_INSTANCES: Final = "the system's limit of watchers is reached (fs.inotify.max_user_instances)"
_RETRY_SECONDS: Final = 10.0
_LIMIT_SECONDS: Final = 60.0
"""Pause before checking whether the limit was raised, which examines every folder."""
_STORE: Final = re.compile(r".*-[0-9a-f]{16}", re.DOTALL)
"""The name of an index folder."""
_FOREIGN_FOLDERS: Final = frozenset(file.rpartition("/")[0] for file in FOREIGN_FILES) - {""}
MOUNTS: Final = Path("/proc/self/mounts")
REMOTE: Final = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre"),
        *("fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.glusterfs", "davfs", "virtiofs"),
    )
)
"""Remote file systems: other machines can change files without an event here."""

_GIT: Final = ".git"
_GIT_REFS: Final = ("HEAD", "packed-refs", "refs", "logs")


class FolderWatcher:
    """Watches one root, with watchdog."""

    def __init__(
        self,
        root: Root,
        policy: Policy,
        changes: Changes,
        *,
        apart: str = "",
        exact: bool = True,
    ) -> None:
        """Report to ``changes``, which wait for a pause.

        ``apart`` is the real path of the index folder. If it is inside the root, changes of
        indexes are ignored, but not of other files in it, such as memories.

        Without ``exact``, or on a system without inotify, there are no fences.
        """
        below = f"{root.path.rstrip(os.sep)}{os.sep}"
        self._apart = apart if f"{apart}{os.sep}".startswith(below) else ""
        self._retry_at = 0.0
        self._refusals = 0
        """How often the limit of watched folders was reached."""
        self._root = root
        self._policy = policy
        self._exact = exact
        self._changes = changes
        self._wake: Callable[[], None] = lambda: None
        self._changing = RLock()
        self._watch: _Observing | None = None
        self._wanted = False
        self._identity: tuple[int, int] | None = None
        self._problem = "not started"
        self._ruling = RLock()
        self._rules: dict[str, tuple[Ignores | None, Verdict | None]] = {}
        self._far = False
        """Whether other machines may change files without an event, so fences prove nothing."""
        self._outer_rules: Ignores | None = None
        """Ignore rules from outside the root, as last read."""
        self._may_widen = False
        """Whether more folders than before may have to be watched."""

    # -- start and stop ------------------------------------------------------

    @property
    def healthy(self) -> bool:
        return not self.reason

    @property
    def reason(self) -> str:
        if not self._problem and self._watch is not None and not self._watch.alive:
            return "the watching thread ended"
        return self._problem

    def start(self, wake: Callable[[], None]) -> None:
        with self._changing:
            self._wake = wake
            if not self._wanted:
                self._wanted = True
                self._begin()

    def stop(self) -> None:
        with self._changing:
            self._wanted = False
            self._end("not started")

    def tend(self) -> None:
        with self._changing:
            if not self._wanted:
                return
            now = _identity(self._root.path)
            if now is None:
                if self._watch is not None or self._problem != ROOT_GONE:
                    self._end(ROOT_GONE)
            elif now != self._identity or self._problem == ROOT_GONE or self._should_retry():
                # A root that was away between two checks may be the same folder again, but its
                # watch has missed events.
                self._end("")
                self._begin()
                if self._watch is not None:
                    self._everything()
            elif self._problem == _LIMIT and time.monotonic() >= self._retry_at:
                self._retry_limit()
            if self._watch is not None:
                self._check_outer_rules()

    def _check_outer_rules(self) -> None:
        """Compare the rules from outside the root, which have no events."""
        if not self._policy.respect_ignore_files:
            return
        rules = load_outer_ignores(self._root.path)
        with self._ruling:
            before, self._outer_rules = self._outer_rules, rules
        if rules is not before:
            self._everything()

    def _retry_limit(self) -> None:
        """Watch the folders beyond the limit, if it was raised."""
        watch, before = self._watch, self._refusals
        self._retry_at = time.monotonic() + _LIMIT_SECONDS
        if watch is not None:
            watch.extend()
            if self._refusals == before:
                self._everything()  # Changes in them were not reported until now.
                self._problem = ""

    def _should_retry(self) -> bool:
        """Whether to start a missing watch again."""
        if self._watch is not None:
            return not self._watch.alive
        return time.monotonic() >= self._retry_at

    def _begin(self) -> None:
        with self._ruling:
            self._rules.clear()
        self._identity = _identity(self._root.path)
        if self._identity is None:
            self._problem = ROOT_GONE
            return
        self._problem = ""
        self._far = is_remote(self._root.path)
        self._outer_rules = load_outer_ignores(self._root.path)
        try:
            self._watch = self._observe()
        except OSError as error:
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            self._problem = {errno.ENOSPC: _LIMIT, errno.EMFILE: _INSTANCES}.get(
                error.errno or 0, f"the folder cannot be watched: {error.strerror or error}"
            )

    def _observe(self) -> _Observing:
        if self._exact:
            # Not on this system, or watchdog has other private classes.
            with suppress(ImportError, AttributeError, TypeError):
                from lookfar.freshness.inotify import Tree

                return Tree(self._root.path, self._on_change, self._on_trouble, self._wants)
        return _Observer(self._root.path, self._on_change)

    def _end(self, why: str) -> None:
        watch, self._watch = self._watch, None
        self._problem = why
        if watch is not None:
            watch.close()

    # -- hints ----------------------------------------------------------------

    def extend(self) -> None:
        """Watch the folders that became wanted since, before everything is compared."""
        watch, widen, self._may_widen = self._watch, self._may_widen, False
        if watch is not None and widen:
            watch.extend()

    def fence(self, timeout: float) -> bool:
        watch = self._watch
        if watch is None or self._far:
            return False
        self._check_outer_rules()
        return self.healthy and watch.fence(timeout) and self.healthy

    # -- called by the watching thread ------------------------------------------

    def _on_change(self, path: str, is_dir: bool) -> None:
        uri = self._uri(path)
        if not uri or self._is_apart(path):
            return
        try:
            components(uri)
        except OutsideRoot:  # A name that is not valid text; walks skip it, too.
            return
        parent, _, name = uri.rpartition("/")
        if uri == _GIT or uri.startswith(f"{_GIT}/"):
            if uri == _GIT or (_is_ref(uri) and not name.endswith(".lock")):
                self._add()
        elif uri == PROJECT_FILE or uri in FOREIGN_FILES or uri in _FOREIGN_FOLDERS:
            # A new folder may have got its file before it was watched.
            self._everything()
        elif name in IGNORE_FILES:
            if self._admits(parent):
                self._everything()
        elif self._moves_output(parent, name):
            self._everything()
        elif self._admitted(uri, parent, name, is_dir):
            if is_dir:
                self._forget_rules(uri)
            self._add(f"{uri}/" if is_dir else uri)

    def _moves_output(self, parent: str, name: str) -> bool:
        """Whether a build file came or went that changes which folders are build output."""
        folders: list[str] = []
        if is_output_mark(name) and output_name(parent.rpartition("/")[2]):
            folders.append(parent)
        if is_build_file(name) and self._admits(parent):
            folders += list_outputs(self._root, parent)
        for folder in folders:
            with self._ruling:
                before = self._rules.pop(folder, None)
                if before is None or self._rules_in(folder)[1] != before[1]:
                    return True
        return False

    def _forget_rules(self, folder: str) -> None:
        """Forget cached rules: it may be another folder with the same name."""
        with self._ruling:
            if self._rules.pop(folder, None) is not None:
                below = f"{folder}/"
                for known in [uri for uri in self._rules if uri.startswith(below)]:
                    del self._rules[known]

    def _on_trouble(self, trouble: str) -> None:
        if trouble == "root":
            self._problem = ROOT_GONE
            self._wake()
        elif trouble == "limit":
            self._refusals += 1
            if self._problem == _LIMIT:
                return  # Already reported; examining everything leads here again.
            self._problem = _LIMIT
            self._retry_at = time.monotonic() + _LIMIT_SECONDS
        self._everything()

    def _everything(self) -> None:
        with self._ruling:
            self._rules.clear()
        self._may_widen = True
        self._add(everything=True)

    def _add(self, uri: str = "", *, everything: bool = False) -> None:
        if self._changes.report(uri, everything=everything):
            self._wake()

    def _wants(self, path: str) -> bool:
        uri = self._uri(path)
        if self._is_apart(path):
            return False
        if uri == _GIT or uri.startswith(f"{_GIT}/"):
            return uri == _GIT or _is_ref(uri)
        if uri in _FOREIGN_FOLDERS:
            return True
        verdict = self._rules_in(uri)[1]
        # A folder that a file in it marks as build output is watched, because the file may go.
        if verdict is None:
            return True
        parent, _, name = uri.rpartition("/")
        return is_mark_rule(verdict.rule) and bool(output_name(name)) and self._admits(parent)

    def _uri(self, path: str) -> str:
        """Return the URI of a path; empty for the root itself."""
        below = path.removeprefix(self._root.path).replace(os.sep, "/")
        return below.strip("/")

    def _is_apart(self, path: str) -> bool:
        apart = self._apart
        if not apart or not path.startswith(apart + os.sep):
            return False
        return _STORE.fullmatch(path[len(apart) + 1 :].partition(os.sep)[0]) is not None

    def _admitted(self, uri: str, parent: str, name: str, is_dir: bool) -> bool:
        if not self._admits(parent):
            return False
        evidence = partial(find_evidence, self._root)
        return self._policy.judge(uri, name, is_dir, self._rules_in(parent)[0], evidence) is None

    def _admits(self, folder: str) -> bool:
        return self._rules_in(folder)[1] is None

    def _rules_in(self, folder: str) -> tuple[Ignores | None, Verdict | None]:
        """Return the rules of a folder, cached because every folder is checked at the start."""
        # Locked, so that rules read before a change are not cached after it.
        with self._ruling:
            known = self._rules.get(folder)
            if known is None:
                known = self._rules[folder] = self._read_rules(folder)
            return known

    def _read_rules(self, folder: str) -> tuple[Ignores | None, Verdict | None]:
        outer: Ignores | None = None
        if folder:
            outer, verdict = self._rules_in(folder.rpartition("/")[0])
            if verdict is not None:
                return None, verdict
        at = os.path.join(self._root.path, folder)
        names = tuple(name for name in IGNORE_FILES if os.path.lexists(os.path.join(at, name)))
        try:
            return load_folder_rules(self._root, self._policy, folder, outer, names)
        except (LookfarError, OSError):  # An invalid name, or the root is gone.
            return None, None


def _is_ref(uri: str) -> bool:
    return uri.removeprefix(f"{_GIT}/").partition("/")[0] in _GIT_REFS


def _identity(path: str) -> tuple[int, int] | None:
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return (info.st_dev, info.st_ino) if os.path.isdir(path) else None


def file_system_type(path: Path, mounts: Path = MOUNTS) -> str:
    """Return the kernel's name for the file system of a path; empty if unknown."""
    real = Path(os.path.realpath(path))
    best, kind = -1, ""
    for line in mounts.read_text("utf-8", "surrogateescape").splitlines():
        with suppress(IndexError):
            _, where, name, *_ = line.split(" ")
            point = Path(where.encode().decode("unicode_escape"))
            if (point == real or point in real.parents) and len(point.parts) >= best:
                best, kind = len(point.parts), name
    return kind


def is_remote(path: str) -> bool:
    """Whether other machines may change files there without an event on this one."""
    try:
        return file_system_type(Path(path)) in REMOTE
    except (OSError, ValueError):
        return False


class _Observing(Protocol):
    @property
    def alive(self) -> bool: ...

    def extend(self) -> None: ...

    def fence(self, timeout: float) -> bool: ...

    def close(self) -> None: ...


class _Observer:
    """watchdog's portable observer."""

    def __init__(self, path: str, report: Callable[[str, bool], None]) -> None:
        from watchdog.events import FileSystemEvent, FileSystemEventHandler
        from watchdog.observers import Observer

        class Handler(FileSystemEventHandler):
            def on_any_event(self, event: FileSystemEvent) -> None:
                if event.event_type in ("opened", "closed_no_write"):
                    return
                if event.is_directory and event.event_type == "modified":
                    return  # Its entries have events of their own.
                for changed in (event.src_path, event.dest_path):
                    if changed:
                        report(os.fsdecode(changed), event.is_directory)

        self._observer: Any = Observer()
        try:
            self._observer.schedule(Handler(), path, recursive=True)
            self._observer.start()
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        return bool(self._observer.is_alive()) and any(
            emitter.is_alive() for emitter in self._observer.emitters
        )

    def extend(self) -> None:
        """Do nothing: it already watches everything."""

    def fence(self, timeout: float) -> bool:  # noqa: ARG002
        return False

    def close(self) -> None:
        self._observer.stop()
        with suppress(RuntimeError):  # It never started.
            self._observer.join()
