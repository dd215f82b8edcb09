"""Repair an index from its source when a query finds it damaged.

A query that finds the index damaged repairs it and asks again, once. Where only part of an index
is damaged, that part is rebuilt in place; otherwise the index is set aside and built from the
source. A query that comes in between waits for the new index. The exact damage is in the error's
developer message.
"""

from __future__ import annotations

import logging
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from collections.abc import Collection as Several
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from traceback import walk_tb
from typing import TYPE_CHECKING, Final, TypeVar

from lookfar.collections.passes import PATIENCE, Closing, Passes, require_writer
from lookfar.common.turns import TURNS
from lookfar.errors import IndexBusy, IndexCorrupt, IOFailed, LookfarError, being_rebuilt
from lookfar.model import Damage, Incomplete, IndexReport, Salvaged, Verified
from lookfar.ports import CollectionSnapshot, Maker, Store

if TYPE_CHECKING:
    from lookfar.config import Settings

T = TypeVar("T")

FIRST_SECONDS: Final = 900.0
"""Seconds between opening a collection and its first check in the background."""
_PAUSE_SECONDS: Final = 86_400.0
_STOP_SECONDS: Final = 2.0
REBUILD_PATIENCE: Final = 10.0
"""Seconds that a query waits for a rebuild in another thread before it raises ``IndexBusy``."""
_MAX_REPORT: Final = 2_000
"""Characters of a damage report that are kept."""
_STORE: Final = re.compile(r"lookfar\.store\.")

_log = logging.getLogger(__name__)


class RepairedIndex(ABC):
    """An index that is repaired when a query finds it damaged. May be shared by threads."""

    def __init__(self, name: str, settings: Settings, store: Store) -> None:
        self.name = name
        self.settings = settings
        self.store = store
        self.passes = Passes()
        self._healing = Lock()
        """Held while damage is repaired."""
        self._verify_at = time.monotonic() + FIRST_SECONDS
        self._verifying: Thread | None = None

    @abstractmethod
    def index(
        self,
        *,
        rebuild: bool = False,
        only: Several[str] | None = None,
        wait_seconds: float = 0.0,
    ) -> IndexReport:
        """Bring the index up to date with its source."""

    @property
    @abstractmethod
    def source_path(self) -> str:
        """Where the source of this collection is."""

    def make_maker(self) -> Maker | None:
        """Return how derived data is made from stored texts; None if that is not possible."""
        return None

    @property
    def held(self) -> int | None:
        """The generation that a roll-back holds the index at; indexing releases it."""
        return self.store.held() if self.store.exists else None

    def ask(self, look: Callable[[CollectionSnapshot], T]) -> T:
        """Return what ``look`` reads in a snapshot of the index, which is healed if damaged."""

        def read() -> T:
            with self.store.snapshot() as snapshot:
                return look(snapshot)

        return self.run_healed(read)

    def run_healed(self, ask: Callable[[], T]) -> T:
        """Call ``ask``; if the index turns out to be damaged, heal it and ask once more."""
        try:
            return self.run_when_ready(ask)
        except (Closing, MemoryError):
            raise
        except Exception as error:
            damage = error if isinstance(error, IndexCorrupt) else self.find_damage(error)
            if damage is None:
                raise
            self.heal(damage)
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
        return not self.store.exists and bool(self.store.damage())

    def wait_until_ready(self, patience: float) -> None:
        """Wait until an index that was set aside is rebuilt, or rebuild it if no thread does.

        After ``patience`` seconds of waiting for another thread, raise ``IndexBusy``.
        """
        if self.settings.store.read_only:
            return  # Another process rebuilds it, and the query says so.
        passes = self.passes
        deadline = time.monotonic() + patience
        while self.rebuilding:
            with passes.hold(self._healing):
                pass  # A thread that set the index aside may be about to start the rebuild.
            if not passes.lock.locked():
                # Another process builds it, or it failed: then the error is raised here.
                self.index(wait_seconds=PATIENCE)
                return
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise being_rebuilt(passes.describe_progress(), passes.began)
            if passes.wait_for(passes.lock, remaining):
                passes.lock.release()
                TURNS.settle()

    def heal(self, damage: IndexCorrupt) -> Incomplete:
        """Repair or rebuild a damaged index, and return the note for the answer.

        One damage at a time: a second call finds it repaired, or being repaired.
        """
        if self.settings.store.read_only:
            raise damage
        with self.passes.hold(self._healing):
            if self.rebuilding:
                return Incomplete("healed", f"the index was damaged: {damage.developer}")
            _log.warning(
                "the index of %s is damaged: %s", self.name, damage.developer, exc_info=damage
            )
            try:
                dropped = self.repair_in_place(damage)
                if dropped is None:
                    self.store.set_aside(damage.developer, wait_seconds=PATIENCE)
            except IOFailed:
                # Nothing can be written here, so nothing can be healed.
                raise damage from None
            if dropped is None:
                outcome = "has been" if self.index_again() else "is being"
                detail = f"the index was damaged and {outcome} rebuilt: {damage.developer}"
                return Incomplete("healed", detail)
            number, suffix = f"{len(dropped):,}", ""
            if dropped and self.held is not None:
                suffix = f"; {number} documents are missing until it is indexed again"
            elif dropped and self.index_again(dropped):
                suffix = f", and {number} documents were read again"
            elif dropped:
                suffix = f"; {number} damaged documents are missing while they are being read again"
            detail = f"the damaged part of the index was repaired{suffix}: {damage.developer}"
            return Incomplete("healed", detail, tuple(dropped[:100]))

    def repair_in_place(self, damage: IndexCorrupt) -> list[str] | None:
        """Repair the index and keep its generations.

        Return the documents that had to be dropped, or None if it cannot be repaired in place.
        """
        require_writer(f"the index is damaged: {damage.developer}")
        maker = self.make_maker()
        if maker is None:
            return None
        repair = partial(self.store.repair, maker, damage.developer)
        return self.passes.retry_while_busy(repair, PATIENCE)

    def index_again(self, only: Several[str] | None = None) -> bool:
        """Index what a repair dropped; return whether that is done, and not in the background."""
        self.index(only=only, wait_seconds=PATIENCE)
        return True

    def find_damage(self, error: Exception) -> IndexCorrupt | None:
        """Return the damage to this collection that caused an error; None if it has none.

        Stored rows that contradict each other can raise almost anything where they are read, so
        such an error has everything stored compared with its hashes. Other errors are bugs.
        """
        if isinstance(error, IndexCorrupt):
            damaged = Path(error.details.get("path", ""))
            return error if damaged.is_relative_to(self.store.folder) else None
        frames = (frame.f_globals["__name__"] for frame, _ in walk_tb(error.__traceback__))
        if isinstance(error, LookfarError) or not any(map(_STORE.match, frames)):
            return None
        require_writer(f"{type(error).__name__}: {error}")
        try:
            damage = self.store.verify() if self.store.exists else []
        except LookfarError:
            return None
        first = f"{damage[0].artefact}: {damage[0].detail}" if damage else ""
        return self._describe_damage(f"{type(error).__name__}: {error}; {first}") if first else None

    def verify(
        self,
        *,
        repair: bool = False,
        collection: str = "",
        on_step: Callable[[str], None] | None = None,
    ) -> Verified:
        """Check every stored row, text, span, vector and file; with ``repair``, fix the damage."""
        damage = tuple(self.store.verify(on_step))
        remaining, salvaged = damage, None
        if repair and damage:
            with suppress(IndexCorrupt):  # Beyond repair: the second check says what remains.
                salvaged = self._repair(damage)
            remaining = tuple(self.store.verify(on_step))
        name, folder = collection or self.name, str(self.store.folder)
        return Verified(name, folder, damage, bool(damage) and not remaining, remaining, salvaged)

    def verify_if_due(self) -> None:
        """Check the index once a day in the background, and repair it."""
        running = self._verifying is not None and self._verifying.is_alive()
        if running or self.passes.closing or time.monotonic() < self._verify_at:
            return
        self._verify_at = time.monotonic() + _PAUSE_SECONDS
        self._verifying = Thread(target=self._verify, name="lookfar-scrub", daemon=True)
        self._verifying.start()

    def _verify(self) -> None:
        try:
            with self.passes.until_closing():
                result = self.verify(repair=True)
        except Closing:
            return
        except LookfarError as error:
            _log.warning("the index of %s could not be checked: %s", self.source_path, error)
            return
        outcome = "repaired" if result.repaired else "damaged"
        for damage in result.found:
            place = self.source_path
            _log.warning("%s: %s: %s: %s", place, outcome, damage.artefact, damage.detail)

    def stop_verifying(self) -> None:
        """Wait briefly for a running check, which stops once the collection is closing."""
        if self._verifying is not None:
            self._verifying.join(_STOP_SECONDS)

    def _repair(self, damage: Sequence[Damage]) -> Salvaged | None:
        """Repair all damage; return what was salvaged if documents had no other source."""
        inside = [entry for entry in damage if entry.artefact != "beside"]
        if inside:
            report = "; ".join(f"{entry.artefact}: {entry.detail}" for entry in inside)
            self.heal(self._describe_damage(report))
            self.wait_until_ready(PATIENCE)
        about = {"root": self.source_path, "collection": self.name}
        self.store.mend_beside(about, wait_seconds=PATIENCE)
        return None

    def _describe_damage(self, report: str) -> IndexCorrupt:
        return IndexCorrupt(
            "The index is damaged.",
            hint="Rebuild it from the sources: lookfar index PATH --rebuild.",
            developer=report[:_MAX_REPORT],
            details={"path": str(self.store.folder)},
        )
