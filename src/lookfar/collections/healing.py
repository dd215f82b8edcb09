"""Detect damage to a collection's index, and repair or rebuild it from the source.

A query that finds the index damaged repairs it and asks again, once. Where only part of an index
is damaged, that part is rebuilt in place; otherwise the index is set aside and built from the
source. A query that comes in between waits for the new index. The exact damage is in the error's
developer message.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from collections.abc import Collection as Several
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from lookfar.collections.passes import PATIENCE, Closing, Passes
from lookfar.collections.reader_role import require_writer
from lookfar.common.turns import TURNS
from lookfar.errors import IndexBusy, IndexCorrupt, IOFailed, LookfarError, being_rebuilt
from lookfar.model import Damage, Incomplete, IndexReport, Salvaged, Verified

if TYPE_CHECKING:
    from lookfar.collections.following import Following
    from lookfar.config import Settings
    from lookfar.ports import Maker, Store

_log = logging.getLogger(__name__)

FIRST_SECONDS: Final = 900.0
"""Seconds between opening a collection and its first check."""
_PAUSE_SECONDS: Final = 86_400.0
_STOP_SECONDS: Final = 2.0
REBUILD_PATIENCE: Final = 10.0
"""Seconds that a query waits for a rebuild in another thread before it raises ``IndexBusy``."""
_MAX_REPORT: Final = 2_000
"""Characters of a damage report that are kept."""

T = TypeVar("T")


class Healable(Protocol):
    """What healing needs of a collection."""

    name: str
    settings: Settings
    store: Store
    passes: Passes

    @property
    def source_path(self) -> str: ...

    @property
    def held(self) -> int | None: ...

    def index(
        self,
        *,
        rebuild: bool = False,
        only: Several[str] | None = None,
        wait_seconds: float = 0.0,
    ) -> IndexReport: ...

    def make_maker(self) -> Maker | None: ...


class Healing:
    """Repairs of one collection's index."""

    def __init__(self, collection: Healable) -> None:
        self._collection = collection

    def run(self, ask: Callable[[], T]) -> T:
        """Call ``ask``; if the index turns out to be damaged, heal it and ask once more."""
        try:
            return self.run_when_ready(ask)
        except IndexCorrupt as damage:
            self.heal(damage)
        except (LookfarError, Closing, MemoryError):
            raise
        except Exception as error:
            cause = self.find_damage(error)
            if cause is None:
                raise
            self.heal(cause)
        return self.run_when_ready(ask)

    def run_when_ready(self, ask: Callable[[], T]) -> T:
        """Call ``ask``; if the index was set aside as damaged, wait for the new one and ask again.

        Another thread or process may set it aside at any moment, also while ``ask`` runs.
        """
        deadline = time.monotonic() + REBUILD_PATIENCE
        try:
            return ask()
        except IndexBusy as busy:
            remaining = deadline - time.monotonic()
            if not busy.details.get("rebuilding") or remaining <= 0:
                raise
        self.wait_until_ready(remaining)
        return ask()

    @property
    def rebuilding(self) -> bool:
        """Whether a damaged index was set aside and its replacement is not finished."""
        store = self._collection.store
        return not store.exists and bool(store.damage())

    def heal(self, damage: IndexCorrupt) -> Incomplete:
        """Repair or rebuild a damaged index, and return the note for the answer."""
        collection = self._collection
        if collection.settings.store.read_only:
            raise damage
        _log.warning(
            "the index of %s is damaged: %s", collection.name, damage.developer, exc_info=damage
        )
        try:
            dropped = self.repair_in_place(damage)
            if dropped is not None:
                suffix = self._read_again(dropped) if dropped else ""
                detail = f"the damaged part of the index was repaired{suffix}: {damage.developer}"
                return Incomplete("healed", detail, tuple(dropped[:100]))
            collection.store.set_aside(damage.developer, wait_seconds=PATIENCE)
        except IOFailed:
            # Nothing can be written here, so nothing can be healed.
            raise damage from None
        outcome = self._rebuild()
        return Incomplete("healed", f"the index was damaged and {outcome}: {damage.developer}")

    def repair_in_place(self, damage: IndexCorrupt) -> list[str] | None:
        """Repair the index and keep its generations.

        Return the documents that had to be dropped, or None if it cannot be repaired in place.
        """
        require_writer(f"the index is damaged: {damage.developer}")
        maker = self._collection.make_maker()
        if maker is None:
            return None
        repair = partial(self._collection.store.repair, maker, damage.developer)
        return self._collection.passes.retry_while_busy(repair, PATIENCE)

    def _rebuild(self) -> str:
        """Build the index that was set aside, and return how that went."""
        self._collection.index(wait_seconds=PATIENCE)
        return "has been rebuilt"

    def _read_again(self, dropped: list[str]) -> str:
        """Index the documents that a repair skipped, and say so for the user."""
        if self._collection.held is not None:
            return f"; {len(dropped):,} documents are missing until it is indexed again"
        self._collection.index(only=dropped, wait_seconds=PATIENCE)
        return f", and {len(dropped):,} documents were read again"

    def wait_until_ready(self, patience: float) -> None:
        """Wait until an index that was set aside is rebuilt, or rebuild it if no thread does.

        After ``patience`` seconds of waiting for another thread, raise ``IndexBusy``.
        """
        if self._collection.settings.store.read_only:
            return  # Another process rebuilds it, and the query says so.
        passes = self._collection.passes
        deadline = time.monotonic() + patience
        while self.rebuilding:
            self._wait_for_start()
            if not passes.lock.locked():
                # Another process builds it, or it failed: then the error is raised here.
                self._collection.index(wait_seconds=PATIENCE)
                return
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise being_rebuilt(passes.describe_progress(), passes.began)
            if passes.wait_for(passes.lock, remaining):
                passes.lock.release()
                TURNS.settle()

    def _wait_for_start(self) -> None:
        """Wait for a thread that set the index aside and is about to start the rebuild."""

    def contains(self, damage: IndexCorrupt) -> bool:
        """Return whether the damaged file belongs to this collection."""
        damaged = Path(damage.details.get("path", ""))
        return damaged.is_relative_to(self._collection.store.folder)

    def find_damage(self, error: Exception) -> IndexCorrupt | None:
        """Return the damage that may have caused an unexpected exception.

        Rows that contradict each other can raise almost anything. None means that everything
        stored is as it was written, so the exception is a bug.
        """
        require_writer(f"{type(error).__name__}: {error}")
        store = self._collection.store
        try:
            damage = store.verify() if store.exists else []
        except LookfarError:
            return None
        if not damage:
            return None
        first = f"{damage[0].artefact}: {damage[0].detail}"
        return self._corrupt(f"{type(error).__name__}: {error}; {first}")

    def verify(
        self,
        *,
        repair: bool = False,
        collection: str = "",
        on_step: Callable[[str], None] | None = None,
    ) -> Verified:
        """Check every stored row, text, span, vector and file; with ``repair``, fix the damage."""
        store = self._collection.store
        damage = tuple(store.verify(on_step))
        remaining, salvaged = damage, None
        if repair and damage:
            with suppress(IndexCorrupt):  # Beyond repair: the second check says what remains.
                salvaged = self._repair(damage)
            remaining = tuple(store.verify(on_step))
        repaired = bool(damage) and not remaining
        return Verified(
            collection or self._collection.name,
            str(store.folder),
            damage,
            repaired,
            remaining,
            salvaged,
        )

    def _repair(self, damage: Sequence[Damage]) -> Salvaged | None:
        """Repair all damage; return what was salvaged if documents had no other source."""
        inside = [entry for entry in damage if entry.artefact != "beside"]
        if inside:
            report = "; ".join(f"{entry.artefact}: {entry.detail}" for entry in inside)
            self.heal(self._corrupt(report))
            self.wait_until_ready(PATIENCE)
        about = {"root": self._collection.source_path, "collection": self._collection.name}
        self._collection.store.mend_beside(about, wait_seconds=PATIENCE)
        return None

    def _corrupt(self, report: str) -> IndexCorrupt:
        return IndexCorrupt(
            "The index is damaged.",
            hint="Rebuild it from the sources: lookfar index PATH --rebuild.",
            developer=report[:_MAX_REPORT],
            details={"path": str(self._collection.store.folder)},
        )


class Rebuildable(Healable, Protocol):
    """A collection that can be indexed in the background."""

    @property
    def following(self) -> Following: ...

    def start_index(self, *, only: Several[str] | None = None) -> None: ...


class BackgroundHealing(Healing):
    """Repairs that run in the background while the collection is followed.

    A server goes on answering: a large folder takes minutes to rebuild.
    """

    def __init__(self, collection: Rebuildable) -> None:
        super().__init__(collection)
        self._folder = collection
        self._lock = Lock()

    def heal(self, damage: IndexCorrupt) -> Incomplete:
        """Heal one damage at a time: a second call finds it repaired, or being repaired."""
        with self._folder.passes.hold(self._lock):
            if self.rebuilding:
                return Incomplete("healed", f"the index was damaged: {damage.developer}")
            return super().heal(damage)

    def _rebuild(self) -> str:
        if self._folder.following.keeper is None:
            return super()._rebuild()
        with suppress(IndexBusy):  # It is being built already.
            self._folder.start_index()
        return "is being rebuilt"

    def _read_again(self, dropped: list[str]) -> str:
        if self._folder.following.keeper is None or self._folder.held is not None:
            return super()._read_again(dropped)
        with suppress(IndexBusy):  # The running pass reads them, or the next one.
            self._folder.start_index(only=dropped)
        return f"; {len(dropped):,} damaged documents are missing while they are being read again"

    def _wait_for_start(self) -> None:
        with self._folder.passes.hold(self._lock):
            pass


class Scrubber:
    """Checks the index of a followed collection once a day, in the background, and repairs it."""

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
            with self._passes.until_closing():
                result = self._healing.verify(repair=True)
        except Closing:
            return
        except LookfarError as error:
            _log.warning("the index of %s could not be checked: %s", self._label, error)
            return
        outcome = "repaired" if result.repaired else "damaged"
        for damage in result.found:
            _log.warning("%s: %s: %s: %s", self._label, outcome, damage.artefact, damage.detail)
