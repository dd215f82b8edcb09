"""Tell when background work should wait: on battery, or while other programs need the cores."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from lookfar.common.folders import list_folder
from lookfar.errors import LookfarError

_SUPPLIES: Final = Path("/sys/class/power_supply")
_AVERAGED_SECONDS: Final = 60.0
_OFFLINE: Final = 0
"""What Windows reports while the computer runs on battery."""


def runs_on_battery(supplies: Path = _SUPPLIES) -> bool:
    """Return whether the computer runs on battery, as far as the system tells.

    ``supplies`` is the folder in which Linux describes them. On systems other than Linux and
    Windows the answer is no.
    """
    if sys.platform == "win32":
        return _runs_on_battery_windows()
    discharging = False
    try:
        folders = list_folder(supplies)
    except LookfarError:
        return False
    for folder in folders:
        kind = _read(folder / "type")
        if kind in ("Mains", "USB") and _read(folder / "online") == "1":
            return False
        # A battery of a mouse or a keyboard has the scope Device.
        if kind == "Battery" and _read(folder / "scope") != "Device":
            discharging |= _read(folder / "status") == "Discharging"
    return discharging


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""


def _runs_on_battery_windows() -> bool:
    import ctypes

    status = (ctypes.c_ubyte * 12)()
    windll = getattr(ctypes, "windll", None)
    if windll is None or not windll.kernel32.GetSystemPowerStatus(ctypes.byref(status)):
        return False
    return bool(status[0] == _OFFLINE)


class OwnLoad:
    """Estimates how much of the system's load average is background work of this process.

    The system averages over about a minute. So this work still counts a while after it has paused,
    and hardly counts when it has just begun.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._threads = 0
        self._average = 0.0
        self._since = clock()

    def set_threads(self, threads: int) -> None:
        """Record that this many threads are busy from now on."""
        self._average, self._since = self.estimate(), self._clock()
        self._threads = threads

    def estimate(self) -> float:
        """Return the part of the last minute's load average that this work caused."""
        kept = math.exp((self._since - self._clock()) / _AVERAGED_SECONDS)
        return self._threads + (self._average - self._threads) * kept


def measure_other_load(own_load: float) -> float:
    """Return the share of the cores that other work has kept busy in the last minute.

    ``own_load`` is the part of the background work itself. On systems without a load average, the
    answer is 0.
    """
    load = 0.0
    if sys.platform != "win32":
        with suppress(OSError):
            load = os.getloadavg()[0]
    return max(0.0, load - own_load) / (os.cpu_count() or 1)
