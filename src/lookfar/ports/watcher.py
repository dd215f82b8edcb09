"""Watching a folder for changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Batch:
    """What changed, as far as the watcher noticed."""

    uris: frozenset[str] = frozenset()
    """Files, and folders with a trailing ``/`` that stand for everything below them."""
    everything: bool = False
    git: bool = False
    """The head or a reference of the folder's git repository may have moved."""

    def __bool__(self) -> bool:
        return bool(self.uris or self.everything or self.git)


class Watcher(Protocol):
    """Notices changes in a folder."""

    @property
    def healthy(self) -> bool:
        """Whether every change will be noticed."""

    @property
    def reason(self) -> str:
        """Why it is not healthy; empty when it is."""

    def start(self, wake: Callable[[], None]) -> None:
        """Start watching; ``wake`` is called when the first change of a batch is noticed."""

    def stop(self) -> None: ...

    def tend(self) -> None:
        """Check the watch itself: a root that reappeared is watched again."""

    def ready_in(self) -> float | None:
        """Return the seconds until the batch is due, or None if nothing changed."""

    def take(self) -> Batch:
        """Return and clear the changes noticed so far, due or not."""

    def peek(self) -> Batch:
        """Return the changes noticed so far without clearing them."""

    def fence(self, timeout: float) -> bool:
        """Wait until all earlier writes are noticed; False if that cannot be known."""
