"""Changes as a watcher reports them, for tests of the watcher alone."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lookfar.freshness.changed_names import Changes


class Reported(NamedTuple):
    uris: frozenset[str]
    everything: bool
    git: bool


class Reports(Changes):
    """Changes that are taken as soon as they are reported."""

    def __init__(self) -> None:
        super().__init__(Path("nowhere"), any_text=True)
        self.git = False

    def report(self, uri: str = "", *, everything: bool = False) -> bool:
        self.git |= not uri and not everything
        return super().report(uri, everything=everything)

    def collect(self) -> Reported:
        """Return what was reported since the last call."""
        git, self.git = self.git, False
        self.settle()
        work = self.take()
        self.done()
        everything = work is not None and work.only is None
        return Reported((work and work.only) or frozenset(), everything, git)
