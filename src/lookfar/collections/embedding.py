"""Embed the passages of open collections with the second model, in the background.

One thread of a server goes through its collections. The work itself is done by a child process of
the lowest priority, which starts when there is something to embed and ends when there is not. It
pauses on battery and while other programs need the cores. Searches never wait for it.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lookfar.common.folders import list_folder
from lookfar.errors import IndexBusy, LookfarError, ModelUnavailable
from lookfar.index.embed_process import FOREGROUND, THREADS, EmbedProcess, run_quality_pass

if TYPE_CHECKING:
    from lookfar.collections.collection import Collection

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


_log = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 600.0
"""How often collections are looked through although nothing happened in this process."""
_RETRY_SECONDS: Final = 60.0
"""How long to leave a collection alone after a failure."""
_CALM_SECONDS: Final = 5.0
"""Pause between two looks."""
_PAUSE_SECONDS: Final = 15.0
"""How often a pause is reconsidered."""
_MOST_AT_ONCE: Final = 2048
"""Passages after which documents are listed again: some may be newer, or asked for by now."""
_HAND_OVER_SECONDS: Final = 0.5
"""Pause between two passes, in which a command that waits can take over."""
_WAIT_SECONDS: Final = 0.1
"""How often a command tries to take over."""
_PACE_OVER: Final = 0.3
"""Weight of the last batch in the average pace."""

_MOST_LOAD: Final = 0.75
"""Share of the cores that other programs may keep busy."""

FindReason = Callable[[float], str]
"""Returns why background work should wait; see :func:`find_reason_to_pause`."""


def find_reason_to_pause(own_load: float) -> str:
    """Return why background work should wait; empty if it should not.

    ``own_load`` is the part of the load average that this work itself causes.
    """
    if runs_on_battery():
        return "the computer runs on battery"
    if measure_other_load(own_load) > _MOST_LOAD:
        return "other programs keep the cores busy"
    return ""


class _Paused(Exception):
    """Raised to end a pass that should wait: nothing is locked or loaded during a pause."""


class Stopped(Exception):
    """Raised to end a pass when the process stops embedding or the collection is closed."""


class BackgroundEmbedding:
    """The thread that embeds the passages of collections, one after the other."""

    def __init__(
        self,
        list_collections: Callable[[], Iterable[Collection]],
        find_reason: FindReason = find_reason_to_pause,
    ) -> None:
        """``list_collections`` returns those that are open now; others are left alone."""
        self._list = list_collections
        self._find_reason = find_reason
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._process: EmbedProcess | None = None
        self._starting = threading.Lock()
        self._own_load = OwnLoad()
        self._failed = False
        """Whether a collection has to be tried again soon."""

    def wake(self) -> None:
        """Look for passages to embed soon, because something was indexed."""
        with self._starting:
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(
                    target=self._run, name="lookfar-embedding", daemon=True
                )
                self._thread.start()
        self._wake.set()

    def close(self) -> None:
        """End the thread at once; the batch that is being embedded is lost."""
        self._closed.set()
        self._wake.set()
        process = self._process
        if process is not None:
            process.interrupt()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        woken = True
        while not self._closed.is_set():
            self._wake.clear()
            self._failed = False
            try:
                self.run_once(load=woken)
            except Stopped:
                continue
            except Exception:  # A server must not lose its thread over one collection.
                _log.exception("Embedding passages in the background failed.")
            self._closed.wait(_CALM_SECONDS)
            woken = self._wake.wait(_RETRY_SECONDS if self._failed else _LOOK_SECONDS)

    def run_once(self, *, load: bool = True) -> int:
        """Embed the passages of open collections that lack a vector; return their number.

        With ``load``, the model is also loaded for the next question: not if nothing happened for
        long, because an idle server has released it.
        """
        done = 0
        for collection in list(self._list()):
            state = collection.embedding
            if time.monotonic() < state.retry_at:
                self._failed = True
                continue
            try:
                done += self._embed(collection, load=load)
            except IndexBusy:
                continue  # Another process is at it, or has just rebuilt the index.
            except LookfarError as error:
                if self._closed.is_set():
                    raise Stopped from error
                if isinstance(error, ModelUnavailable):
                    collection.drop_second_model("")  # It may have been upgraded.
                state.failure, self._failed = error.message, True
                state.retry_at = time.monotonic() + _RETRY_SECONDS
        return done

    def _embed(self, collection: Collection, *, load: bool) -> int:
        model, settings, state = collection.second_model, collection.settings, collection.embedding
        if model is None or not collection.indexed or settings.store.read_only:
            return 0
        with collection.store.snapshot() as snapshot:
            counts = snapshot.quality_counts(model.fingerprint, model.dimensions)
        if load and counts.embedded:
            model.load()  # Before the first question needs it.
        state.failure = ""
        if not counts.lacking:
            return 0
        self._process = process = EmbedProcess(model.folder, model.fingerprint)
        done, began = 0, time.monotonic()

        def note(passages: int) -> None:
            nonlocal done, began
            done += passages
            pace = passages / max(time.monotonic() - began, 1e-6)
            state.pace = state.pace + _PACE_OVER * (pace - state.pace) if state.pace else pace
            if self._find_reason_for(collection):
                raise _Paused
            began = time.monotonic()

        try:
            while True:
                self._wait_while_paused(collection)
                if load:
                    model.load()  # The first vector makes questions use it.
                state.working, began = True, time.monotonic()
                self._own_load.set_threads(THREADS)
                try:
                    made = run_quality_pass(
                        collection.store,
                        model,
                        encode=process.encode,
                        on_batch=note,
                        prefer=state.prefer,
                        most=_MOST_AT_ONCE,
                    )
                except _Paused:
                    process.close()
                    continue
                finally:
                    state.working = False
                    self._own_load.set_threads(0)
                if not made:
                    return done
                self._closed.wait(_HAND_OVER_SECONDS)
        finally:
            state.paused = ""
            self._process = None
            process.close()

    def _wait_while_paused(self, collection: Collection) -> None:
        while self._find_reason_for(collection):
            self._closed.wait(_PAUSE_SECONDS)

    def _find_reason_for(self, collection: Collection) -> str:
        """Return why a collection has to wait; raise ``Stopped`` if it is not open any more."""
        if self._closed.is_set() or not any(other is collection for other in self._list()):
            raise Stopped
        reason = self._find_reason(self._own_load.estimate())
        collection.embedding.paused = reason
        return reason


def embed_now(
    collection: Collection,
    on_batch: Callable[[int], None] | None = None,
    on_wait: Callable[[], None] | None = None,
) -> int:
    """Embed every passage of a collection and wait for it; return how many were embedded.

    If another process is embedding them, this one waits until it can take over, and calls
    ``on_wait`` once.
    """
    model = collection.second_model
    if model is None or not collection.indexed:
        return 0
    process = EmbedProcess(model.folder, model.fingerprint, niceness=FOREGROUND)
    done = 0

    def note(passages: int) -> None:
        nonlocal done
        done += passages
        if on_batch is not None:
            on_batch(passages)

    try:
        while True:
            try:
                run_quality_pass(collection.store, model, encode=process.encode, on_batch=note)
            except IndexBusy:
                if on_wait is not None:
                    on_wait()
                    on_wait = None
                time.sleep(_WAIT_SECONDS)
            else:
                return done
    finally:
        process.close()
