"""Follow a collection's source in the background, if that is wanted."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Final

from lookfar.freshness import disk

if TYPE_CHECKING:
    from lookfar.freshness.keeper import Keeper
    from lookfar.model import Incomplete, Watching

_DRAIN_SECONDS: Final = 5.0
"""Seconds that a query waits for the keeper to index what just changed."""


class Following:
    """The keeper of one collection, if it is followed. May be shared by threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.keeper: Keeper | None = None
        self._make: Callable[[], Keeper] | None = None
        self._restart = False
        self.wanted: bool | None = None
        """Whether the caller asked to follow the source, or not to; None if it did not say."""

    def start(self, make: Callable[[], Keeper], *, replace: bool = False) -> None:
        """Follow the source, unless it is followed; with ``replace``, use another keeper."""
        with self._lock:
            if self.keeper is not None and not replace:
                return
            keeper = make()
            self.wanted, self._make = True, make
            self._stop_keeper()
            self.keeper = keeper
            keeper.start()

    def stop(self) -> None:
        """Stop following, after the running pass, and remember that this was asked for."""
        with self._lock:
            self.wanted, self._make = False, None
            self._stop_keeper()

    def _stop_keeper(self) -> None:
        keeper, self.keeper = self.keeper, None
        if keeper is not None:
            keeper.stop()

    def forget_stop(self) -> None:
        """Forget that following was turned off, so that it may begin again."""
        if self.wanted is False:
            self.wanted = None

    def request_restart(self) -> None:
        """Have the next query restart the keeper, because the settings changed.

        Not at once: this may be the keeper's own thread.
        """
        self._restart = self._make is not None

    def restart_if_requested(self) -> None:
        """Restart the keeper with the settings as they are now."""
        if self._restart and self._make is not None:
            self._restart = False
            self.start(self._make, replace=True)

    def drain(self, timeout: float) -> bool:
        """Index what changed so far; return False if that failed or took too long."""
        keeper = self.keeper
        return keeper is not None and keeper.drain(timeout)

    def state(self) -> Watching | None:
        keeper = self.keeper
        return keeper.state() if keeper is not None else None

    def bring_up_to_date(self, most: int) -> list[Incomplete] | None:
        """Wait until at most ``most`` changed files are indexed; return notes on the others.

        None if no keeper can tell what changed.
        """
        keeper = self.keeper
        if keeper is None:
            return None
        changed = keeper.pending()
        few = changed is not None and len(changed) <= most
        waits = keeper.strategy == "lazy" or (keeper.strategy == "realtime" and few)
        if waits and changed != frozenset():
            keeper.drain(disk.patience(_DRAIN_SECONDS, most), "search")
            pending = keeper.pending()
            if pending is None or changed is None:
                changed = pending
            else:  # Changes made after the query was asked do not count.
                folders = tuple(name for name in pending if name.endswith("/"))
                changed = frozenset(
                    name for name in changed if name in pending or name.startswith(folders)
                )
        return None if changed is None else disk.stale_notes(sorted(changed))

    def unchecked_note(self) -> Incomplete:
        """Return the note for a folder that is too large to compare with the disk."""
        state = self.state()
        if state is None or not state.healthy:
            return disk.UNCHECKED
        # Without fences, as on macOS and on network drives, an empty queue proves nothing.
        return disk.FOLLOWING if state.everything or state.queued else disk.UNPROVED
