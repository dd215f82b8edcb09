"""Follow a collection's source in the background, through a keeper."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol

from lookfar.freshness import compare as freshness
from lookfar.index.recipe import policy_from

if TYPE_CHECKING:
    from lookfar.config import Settings
    from lookfar.freshness.changes import Work
    from lookfar.freshness.keeper import Keeper, Pass
    from lookfar.model import Incomplete, IndexReport, Watching
    from lookfar.ports import Store
    from lookfar.sources.confine import Root

_DRAIN_SECONDS: Final = 5.0
"""Seconds that a query waits for the keeper to index what just changed."""


class Following:
    """The keeper of one collection, if it is followed. May be shared by threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.keeper: Keeper | None = None

    def start(self, make_keeper: Callable[[], Keeper]) -> None:
        with self._lock:
            if self.keeper is None:
                self.keeper = make_keeper()
                self.keeper.start()

    def stop(self) -> None:
        """Stop following, after the running pass."""
        with self._lock:
            self._stop_keeper()

    def _stop_keeper(self) -> None:
        keeper, self.keeper = self.keeper, None
        if keeper is not None:
            keeper.stop()

    def drain(self, timeout: float) -> bool:
        """Index what changed so far; return False if that failed or took too long."""
        keeper = self.keeper
        return keeper is not None and keeper.drain(timeout)

    def state(self) -> Watching | None:
        keeper = self.keeper
        return keeper.state() if keeper is not None else None


class Followed(Protocol):
    """What following needs of a collection of files."""

    root: Root
    settings: Settings
    store: Store

    def catch_up(self, work: Work) -> IndexReport: ...


class FolderFollowing(Following):
    """The keeper of a folder, with the options it was started with."""

    def __init__(self, folder: Followed) -> None:
        super().__init__()
        self._folder = folder
        self._options: tuple[Any, ...] | None = None
        self._restart = False
        self.wanted: bool | None = None
        """Whether the caller asked to follow the folder, or not to; None if it did not say."""

    def watch(
        self,
        strategy: str | None,
        debounce_ms: int | None,
        on_pass: Callable[[Pass], None] | None,
    ) -> None:
        """Follow the folder, or switch the strategy of the running keeper."""
        keeper = self.keeper
        if keeper is not None and debounce_ms is None and on_pass is None:
            from lookfar.freshness.keeper import checked_strategy

            chosen = self._folder.settings.watch.strategy if strategy is None else strategy
            keeper.switch(checked_strategy(chosen))
            return
        self._start_keeper(strategy, debounce_ms, on_pass)

    def _start_keeper(
        self,
        strategy: str | None,
        debounce_ms: int | None,
        on_pass: Callable[[Pass], None] | None,
    ) -> None:
        from lookfar.freshness.changes import Changes
        from lookfar.freshness.keeper import Keeper, checked_debounce, checked_strategy
        from lookfar.freshness.watch import FolderWatcher
        from lookfar.sources.git.repositories import read_head

        folder, chosen = self._folder, self._folder.settings.watch
        name = checked_strategy(chosen.strategy if strategy is None else strategy)
        pause = checked_debounce(chosen.debounce_ms if debounce_ms is None else debounce_ms)
        changes = Changes(
            folder.store.folder, any_text=folder.settings.sources.any_text, quiet=pause / 1000
        )
        with self._lock:
            self.wanted = True
            self._options = (strategy, debounce_ms, on_pass)
            self._stop_keeper()
            self.keeper = Keeper(
                FolderWatcher(
                    folder.root,
                    policy_from(folder.settings, folder.root.path),
                    changes,
                    apart=str(Path(folder.settings.index.dir).resolve()),
                ),
                changes,
                folder.catch_up,
                strategy=name,
                head=partial(read_head, folder.root),
                reconcile_seconds=chosen.reconcile_seconds,
                on_pass=on_pass,
            )
            self.keeper.start()

    def stop(self) -> None:
        """Stop following, after the running pass, and remember that this was asked for."""
        with self._lock:
            self.wanted = False
            self._options = None
            self._stop_keeper()

    def forget_stop(self) -> None:
        """Forget that following was turned off, so that it may begin again."""
        if self.wanted is False:
            self.wanted = None

    def request_restart(self) -> None:
        """Have the next query restart the keeper, because the settings changed.

        Not at once: this may be the keeper's own thread.
        """
        self._restart = self._options is not None

    def restart_if_requested(self) -> None:
        """Restart the keeper with the settings as they are now."""
        if self._restart and self._options is not None:
            self._restart = False
            self._start_keeper(*self._options)

    @property
    def waits_for_commits(self) -> bool:
        """Whether changes are indexed only when git's head moves."""
        keeper = self.keeper
        return keeper is not None and keeper.strategy == "git"

    def notes(self) -> list[Incomplete] | None:
        """Return the notes on files that are not indexed yet; None if the keeper cannot tell."""
        keeper = self.keeper
        if keeper is None:
            return None
        dirty = keeper.pending()
        most = self._folder.settings.index.max_auto_files
        few = dirty is not None and len(dirty) <= most
        waits = keeper.strategy == "lazy" or (keeper.strategy == "realtime" and few)
        if waits and dirty != frozenset():
            keeper.drain(freshness.patience(_DRAIN_SECONDS, most), "search")
            pending = keeper.pending()
            # Changes made after the query was asked do not count.
            dirty = pending if pending is None or dirty is None else _still_in(pending, dirty)
        return None if dirty is None else freshness.stale_notes(sorted(dirty))

    def unchecked_note(self) -> Incomplete:
        """Return the note for a folder that is too large to compare with the disk."""
        state = self.state()
        if state is None or not state.healthy:
            return freshness.UNCHECKED
        # Without fences, as on macOS and on network drives, an empty queue proves nothing.
        return freshness.FOLLOWING if state.everything or state.queued else freshness.UNPROVED


def _still_in(pending: frozenset[str], names: frozenset[str]) -> frozenset[str]:
    """Return the names that are pending, themselves or with a folder above them."""
    folders = tuple(name for name in pending if name.endswith("/"))
    return frozenset(name for name in names if name in pending or name.startswith(folders))
