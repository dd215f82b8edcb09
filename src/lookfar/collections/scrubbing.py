"""Check a followed collection's index in the background once a day, and repair it.

A query notices only the damage in what it reads.
"""

from __future__ import annotations

import logging
import time
from threading import Thread
from typing import TYPE_CHECKING, Final

from lookfar.collections.passes import Closing, Passes
from lookfar.errors import LookfarError

if TYPE_CHECKING:
    from lookfar.collections.healing import Healing

_log = logging.getLogger(__name__)

FIRST_SECONDS: Final = 900.0
"""Seconds between opening a collection and its first check."""
_PAUSE_SECONDS: Final = 86_400.0
_STOP_SECONDS: Final = 2.0


class Scrubber:
    def __init__(self, healing: Healing, passes: Passes, label: str) -> None:
        """``label`` names the collection in the log."""
        self._healing = healing
        self._passes = passes
        self._label = label
        self._due = time.monotonic() + FIRST_SECONDS
        self._thread: Thread | None = None

    def start_if_due(self) -> None:
        """Start a check if one is due and none is running."""
        running = self._thread is not None and self._thread.is_alive()
        if running or self._passes.closing or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _PAUSE_SECONDS
        self._thread = Thread(target=self._check, name="lookfar-scrub", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Wait briefly for a running check, which stops once the collection is closing."""
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def _check(self) -> None:
        try:
            result = self._healing.verify(repair=True, on_step=self._passes.stop_if_closing)
        except Closing:
            return
        except LookfarError as error:
            _log.warning("the index of %s could not be checked: %s", self._label, error)
            return
        outcome = "repaired" if result.repaired else "damaged"
        for damage in result.found:
            _log.warning("%s: %s: %s: %s", self._label, outcome, damage.artefact, damage.detail)
