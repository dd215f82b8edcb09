"""Share open folders between the sessions of one server.

However many sessions use a folder, it has one index, one model and one file watcher. A folder that
was not used for a while releases its model; one that no session has open is closed later.
The file watcher starts once there is an index; some toolsets build it when a session begins.
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
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lookfar import config
from lookfar.collections.collection import Collection, uses_second_model
from lookfar.collections.databases import Databases
from lookfar.collections.folder import Folder
from lookfar.errors import LookfarError
from lookfar.library import Library
from lookfar.retrieve.locate.address import format_address
from lookfar.serve.daemon.watch_choices import WatchChoices
from lookfar.serve.mcp.changes import Changes
from lookfar.serve.tools.tool import Readers, Session
from lookfar.serve.toolsets.startup import start_first_index

if TYPE_CHECKING:
    from lookfar.collections.embedding import BackgroundEmbedding

_log = logging.getLogger(__name__)

REST_SECONDS = 120.0
CLOSE_SECONDS = 600.0


@dataclass(slots=True, eq=False)
class _Shared:
    """An open folder with the databases that use its model, or databases alone."""

    folder: Folder | None
    databases: Databases
    key: Any
    users: int = 0
    used: float = field(default_factory=time.monotonic)
    resting: bool = False
    calls: int = 0
    listeners: list[tuple[Changes, str]] = field(default_factory=list)
    watch: WatchChoices | None = None
    """Which sessions want the folder watched; None for databases alone."""

    @property
    def busy(self) -> bool:
        """Whether a call is running, or an indexing pass that outlasts the call that began it."""
        building = (self.folder and self.folder.building_since) or self.databases.building_since
        return bool(self.calls or building)

    @property
    def awake(self) -> bool:
        """Whether a model is loaded."""
        return bool(self.folder and self.folder.awake) or self.databases.awake

    def rest(self) -> None:
        """Release the models and open index files."""
        self.databases.rest()
        if self.folder is not None:
            self.folder.rest()

    def close(self) -> None:
        self.databases.close()
        if self.folder is not None:
            self.folder.close()


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
        self._tender: threading.Thread | None = None
        self._embedding: BackgroundEmbedding | None = None

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
        index_at_start: bool = False,
        follow_at_start: bool = False,
        readers: Readers | None = None,
    ) -> Iterator[Session]:
        """Open the folders of one session, or databases alone if there are no ``paths``.

        ``changes`` is notified when documents of the folders change. With ``index_at_start``,
        folders without an index are indexed in the background; with ``follow_at_start``, folders
        are watched from the beginning if their settings allow it. ``readers`` answer questions.
        """
        used: list[_Shared] = []
        try:
            for path in paths:
                folder = Folder.open(path, index_dir=index_dir, settings=settings, environ=environ)
                self._add_folder(used, folder)
            if not paths:
                used.append(self._acquire_databases(config.load(None, settings, environ)))
            folders = [shared.folder for shared in used if shared.folder is not None]
            library = Library(folders, used[0].databases)
            listeners = [
                (shared, (changes, name))
                for name, shared in zip(library.collections, used, strict=False)
                if changes is not None
            ]
            for shared, listener in listeners:
                shared.listeners.append(listener)
            choices = [shared.watch for shared in used if shared.watch is not None]
            session = Session(
                library,
                write=write,
                call=lambda: self._call(used),
                choose_watch=lambda enabled, debounce_ms: _choose_watch(
                    choices, session, enabled, debounce_ms
                ),
                readers=readers,
            )
            for folder, choice in zip(folders, choices, strict=True):
                eager = index_at_start or (follow_at_start and _is_followed(folder))
                choice.join(session, eager=eager)
                if eager:
                    start_first_index(folder)
            try:
                yield session
            finally:
                for choice in choices:
                    choice.leave(session)
                for shared, listener in listeners:
                    shared.listeners.remove(listener)
        finally:
            for shared in used:
                self._release(shared)

    def _add_folder(self, used: list[_Shared], folder: Folder) -> None:
        shared = self._acquire_folder(folder)
        if shared in used:
            self._release(shared)
        else:
            used.append(shared)

    def _acquire_folder(self, folder: Folder) -> _Shared:
        databases = Databases(lambda: folder.settings, lambda: folder.embedder)
        # Permission to write belongs to a session, not to the folder that sessions share.
        settings = replace(folder.settings, serve=replace(folder.settings.serve, write=False))
        watch = WatchChoices(folder)
        opened = _Shared(folder, databases, (folder.root.path, settings), watch=watch)
        shared = self._acquire(opened)
        if shared.folder is folder:
            folder.passes.on_activated.append(
                lambda older, newer: self._notify(folder, shared.listeners, older, newer)
            )
            folder.passes.on_activated.append(lambda *_: watch.start_after_index())
            folder.passes.on_activated.append(lambda *_: self._wake_embedding())
        self._embed_in_background(folder.settings)
        return shared

    def _embed_in_background(self, settings: config.Settings) -> None:
        """Begin to embed passages with the second model, if there is one."""
        from lookfar.embed.providers import find_quality_model

        try:
            if not uses_second_model(settings) or find_quality_model(settings.quality) is None:
                return
        except LookfarError:
            return  # The status of a collection shows the error.
        with self._lock:
            if self._embedding is None and not self._closed.is_set():
                from lookfar.collections.embedding import BackgroundEmbedding

                self._embedding = BackgroundEmbedding(self._list_open)
        self._wake_embedding()

    def _wake_embedding(self) -> None:
        if self._embedding is not None:
            self._embedding.wake()

    def _list_open(self) -> list[Collection]:
        """List the collections that sessions have open."""
        with self._lock:
            used = [shared for shared in self._shared.values() if shared.users]
        collections: list[Collection] = []
        for shared in used:
            if shared.folder is not None:
                collections += shared.folder.list_open()
            collections += shared.databases.list_open()
        return collections

    def _acquire_databases(self, settings: config.Settings) -> _Shared:
        return self._acquire(_Shared(None, Databases(lambda: settings), ("databases", settings)))

    def _acquire(self, opened: _Shared) -> _Shared:
        """Return the folder or databases that are open under the same key, or else ``opened``."""
        with self._lock:
            shared = self._shared.setdefault(opened.key, opened)
            shared.users += 1
            shared.used = time.monotonic()
            if self._tender is None:
                self._tender = threading.Thread(
                    target=self._run_tender, name="lookfar-pool", daemon=True
                )
                self._tender.start()
        return shared

    def _release(self, shared: _Shared) -> None:
        with self._lock:
            shared.users -= 1
            shared.used = time.monotonic()

    @contextmanager
    def _call(self, used: Sequence[_Shared]) -> Iterator[None]:
        """Keep the folders of a session loaded during one of its calls."""
        with self._lock:
            for shared in used:
                shared.calls += 1
                shared.resting = False
        try:
            yield
        finally:
            with self._lock:
                for shared in used:
                    shared.calls -= 1
                    shared.used = time.monotonic()
            for shared in used:
                if shared.watch is not None:
                    shared.watch.start_if_wanted()
            self._wake_embedding()

    def _notify(
        self, folder: Folder, listeners: list[tuple[Changes, str]], older: int, newer: int
    ) -> None:
        """Notify the listeners of a folder about a new generation."""
        if not listeners:
            return
        try:
            diff = folder.store.diff(older, newer) if older else None
        except LookfarError:  # The older generation was pruned, so the changes are unknown.
            diff = None
        changed = [*diff.added, *diff.removed, *(c.uri for c in diff.changed)] if diff else []
        listed = diff is None or bool(diff.added or diff.removed)
        for changes, name in list(listeners):
            changes.notify([format_address(name, uri) for uri in changed], listed=listed)

    @property
    def busy(self) -> bool:
        """Whether any call or indexing pass is running."""
        with self._lock:
            return any(shared.busy for shared in self._shared.values())

    def _run_tender(self) -> None:
        pause = max(0.05, min(self._rest_seconds, self._close_seconds) / 4)
        while not self._closed.wait(pause):
            self.tend()

    def tend(self) -> None:
        """Release the models of idle folders, and close folders that no session has open."""
        now = time.monotonic()
        with self._lock:
            idle = [shared for shared in self._shared.values() if not shared.busy]
            leaving = [
                shared
                for shared in idle
                if not shared.users and now - shared.used >= self._close_seconds
            ]
            # The file watcher loads the model of a resting folder again when it indexes.
            awake = [
                shared
                for shared in idle
                if shared not in leaving and (not shared.resting or shared.awake)
            ]
            resting = [shared for shared in awake if now - shared.used >= self._rest_seconds]
            for shared in leaving:
                del self._shared[shared.key]
            # Inside the lock: a call that begins now waits, and then loads what it needs again.
            for shared in resting:
                shared.resting = True
                shared.rest()
        for shared in leaving:
            shared.close()
        if leaving or resting:
            _trim_memory()

    def close(self) -> None:
        self._closed.set()
        if self._embedding is not None:
            self._embedding.close()
        with self._lock:
            remaining, self._shared = list(self._shared.values()), {}
        for shared in remaining:
            shared.close()


def _is_followed(folder: Folder) -> bool:
    """Return whether the settings let this process index changes before someone searches."""
    watch = folder.settings.watch
    return watch.enabled and watch.strategy != "lazy" and not folder.sealed


def _choose_watch(
    choices: Sequence[WatchChoices], session: Session, enabled: bool, debounce_ms: int
) -> None:
    """Record for all folders of a session whether it wants them watched."""
    for choice in choices:
        choice.choose(session, enabled, debounce_ms)


def _trim_memory() -> None:
    """Return freed memory to the operating system, so that an idle process stays small."""
    gc.collect()
    if sys.platform == "linux":
        # Not every C library has malloc_trim.
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
