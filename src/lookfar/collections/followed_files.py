"""The files below one root as far as their index is kept up to date: passes, and what changed.

:mod:`lookfar.freshness` says what changed and when to index it; here it is indexed.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable
from collections.abc import Collection as Several
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final

from lookfar.collections.collection import (
    Collection,
    OpenModel,
)
from lookfar.collections.generations import describe_loss
from lookfar.collections.healing import REBUILD_PATIENCE
from lookfar.collections.passes import (
    CHECK_SECONDS,
    KEEPER_PATIENCE,
    PATIENCE,
    Closing,
    find_notes,
    timestamp,
)
from lookfar.collections.variants import Variants, place_index
from lookfar.common.caller import called_by
from lookfar.common.turns import TURNS
from lookfar.errors import (
    IndexBusy,
    IndexCorrupt,
    IndexHeld,
    IndexReadOnly,
    IOFailed,
    LookfarError,
    ModelUnavailable,
    as_out_of_memory,
    how_many,
)
from lookfar.freshness import disk
from lookfar.freshness.disk import Disk
from lookfar.index.recipe import epoch_fingerprint, policy_from
from lookfar.model import Incomplete, IndexReport, Lane
from lookfar.sources.confine import Root
from lookfar.sources.folder.walk import OutOfTime
from lookfar.store.opening import open_store

if TYPE_CHECKING:
    from lookfar.common.caller import OnProgress
    from lookfar.config import Settings
    from lookfar.freshness.changed_names import Work
    from lookfar.freshness.keeper import Keeper, Pass
    from lookfar.ports import VectorSource
    from lookfar.sources.folder.policy import Policy
    from lookfar.sources.folder.walk import Walk

_RENEW_PAUSE: Final = 60.0
"""Seconds between attempts to rebuild an index in the background for changed settings."""
FIRST_BYTES: Final = 2_000_000
"""Bytes that the first generation of a large folder has, which takes about a second; each further
one has eight times as many, until all files are indexed."""
_MOST_NARROWED: Final = 1_000
"""Files that a pass may name; for more of them, a walk takes no longer."""
_PASS_PATIENCE: Final = 3.0
"""Seconds that a query waits for the running pass, so that what was just saved is found."""


class FollowedFiles(Collection):
    def __init__(
        self,
        root: Root,
        settings: Settings,
        load_settings: Callable[[], Settings] | None = None,
        settings_files: tuple[Path, ...] = (),
        lane: Lane | None = None,
        open_model: OpenModel | None = None,
        name: str = "",
    ) -> None:
        """``load_settings`` is called again when one of ``settings_files`` was edited.

        ``lane`` is the kind of all documents; by default the format of each file decides.
        """
        name = name or Path(root.path).name or "root"
        source = f"{lane}\0{root.path}" if lane else root.path
        place = place_index(name, source, settings)
        super().__init__(name, settings, open_store(place, settings), open_model=open_model)
        self.variants = Variants(place, settings)
        self.root = root
        self.disk = Disk(root, self.store)
        self.background: Thread | None = None
        """The last pass that was started in the background."""
        self._searches = count()
        self._may_narrow = True
        """Whether the next pass over everything may look by the inventory instead."""
        self._complete = False
        """Whether it is known that the first index has reached every file."""
        self._lane = lane
        self._load_settings = load_settings or (lambda: settings)
        self._settings_files = settings_files
        self._stamps = _stamp_files(settings_files)
        self.settings_lock = Lock()
        self._renew_at = 0.0

    @property
    def source_path(self) -> str:
        return self.root.path

    @property
    def policy(self) -> Policy:
        return policy_from(self.settings, self.root.path)

    def settle(self) -> None:
        """Apply settings that were edited since; the place of the index does not change."""
        stamps = _stamp_files(self._settings_files)
        if stamps == self._stamps:
            return
        with self.settings_lock:
            before, after = self.settings, self._load_settings()
            self._stamps = stamps
            after = replace(after, index=replace(after.index, dir=before.index.dir))
            if after != before:
                self._apply(after, other_model=after.embed != before.embed)

    def _apply(self, settings: Settings, *, other_model: bool) -> None:
        if other_model:
            self.forget_model()
        self.settings, self.disk.walk = settings, None
        self.following.request_restart()

    @property
    def sealed(self) -> bool:
        """Whether queries are answered from the store alone, without the files."""
        return self.settings.store.read_only

    def refuse_sealed(self) -> None:
        """Raise ``IndexReadOnly`` where this process may only read the store."""
        if self.sealed:
            raise IndexReadOnly(
                "This process only answers from the store (store.read_only).",
                hint="Index and edit on the machine that has the folder; this one then shows it.",
            )

    @abstractmethod
    def recover_edits(self) -> None:
        """Finish or undo an edit that a crash interrupted, before anything is read."""

    # -- passes ------------------------------------------------------------------

    def index(
        self,
        *,
        rebuild: bool = False,
        only: Several[str] | None = None,
        wait_seconds: float = 0.0,
        many: bool = False,
    ) -> IndexReport:
        """Read what changed on the disk, or everything with ``rebuild``.

        ``only`` names the documents to look at. Raises ``IndexBusy`` if another process is still
        writing after ``wait_seconds``. A damaged index is set aside and rebuilt. ``many`` admits
        more files than ``sources.max_files``.
        """
        self.refuse_sealed()
        with self.passes.hold():
            return self._index(
                rebuild=rebuild,
                only=only,
                wait_seconds=wait_seconds,
                many=many,
            )

    def _index(self, *, wait_seconds: float, **options: Any) -> IndexReport:
        before = None if options["rebuild"] else self.disk.walk
        run = partial(self.run_pass, before, wait_seconds=wait_seconds, **options)
        try:
            return run()
        except IndexCorrupt as damage:
            if self.repair_in_place(damage) is None:
                self.store.set_aside(damage.developer, wait_seconds=wait_seconds)
            return run()

    def start_index(
        self,
        *,
        rebuild: bool = False,
        only: Several[str] | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Index in the background; raises ``IndexBusy`` if a pass is running in any process."""
        self.refuse_sealed()
        self.passes.acquire_or_refuse()
        try:
            self.store.refuse_busy()
            self.passes.began = timestamp()
            options = {"rebuild": rebuild, "only": only, "on_progress": on_progress}
            self.background = Thread(
                target=self._index_in_background,
                kwargs=options,
                name="lookfar-index",
                daemon=True,
            )
            self.background.start()
        except BaseException:
            self.passes.began = ""
            self.passes.lock.release()
            raise

    def _index_in_background(self, on_progress: OnProgress | None, **options: Any) -> None:
        passes = self.passes
        try:
            with passes.until_closing(), called_by(on_progress=on_progress):
                self._index(wait_seconds=PATIENCE, **options)
        except Closing:
            pass  # The next build resumes from the last checkpoint.
        except Exception as error:
            passes.failure = _describe_failure(error)
        finally:
            passes.began = ""
            passes.lock.release()

    def run_pass(
        self,
        before: Walk | None,
        *,
        wait_seconds: float = 0.0,
        **options: Any,
    ) -> IndexReport:
        """Run one pass; the caller holds the lock on passes."""
        from lookfar.index.build import Build

        self.recover_edits()
        self._complete = self._complete and self.store.exists

        def write(wait: float) -> IndexReport:
            build = Build(
                self.root,
                self.name,
                self.store,
                self.settings,
                self.embedder,
                self._lane,
                self.find_given_vectors(),
            )
            report, walked = build.run(before=before, wait_seconds=wait, **options)
            if build.missing:
                self.disk.walk = walked
            else:
                self.disk.note_pass(build, report, walked)
            return report

        return self.passes.run(write, wait_seconds)

    def find_given_vectors(self) -> VectorSource | None:
        """Return vectors of these documents that were made elsewhere; usually there are none."""
        return None

    def catch_up(self, work: Work) -> IndexReport:
        """Index what the keeper found changed, unless a roll-back holds the index."""
        self.settle()

        def run() -> IndexReport:
            with self.passes.hold():
                only = self._narrow(work.only)
                if only is not None and not only:  # Then no writer has to be opened.
                    with self.store.snapshot() as snapshot:
                        return IndexReport(self.name, self.root.path, snapshot.generation)
                return self.run_pass(
                    self.disk.walk,
                    only=only,
                    let_go=False,
                    wait_seconds=KEEPER_PATIENCE,
                    most_bytes=most_bytes,
                )

        with self.passes.until_closing():
            most_bytes = 0 if self.store.exists else FIRST_BYTES
            report = self.run_healed(run)
            while most_bytes and self._count_missing():
                most_bytes *= 8
                report = self.run_healed(run)
        self.verify_if_due()
        return report

    def _narrow(self, only: frozenset[str] | None) -> frozenset[str] | None:
        """Return what the first pass of this process has to look at, None for everything.

        Later passes over everything walk, so that nothing depends on the inventory for long.
        """
        may_narrow, self._may_narrow = self._may_narrow, False
        if not may_narrow or only is not None or not self.store.exists:
            return only
        if self.store.fingerprint() != epoch_fingerprint(self.settings, self.embedder):
            return None
        with self.store.snapshot() as snapshot:
            outcome = self.disk.look(self.policy, snapshot)
            if outcome is None:
                return None
            changed = frozenset((*outcome.stale, *snapshot.unsettled()))
            return changed if len(changed) <= _MOST_NARROWED else None

    def index_again(self, only: Several[str] | None = None) -> bool:
        """Index what a repair dropped: in the background while the folder is followed.

        A server goes on answering: a large folder takes minutes to rebuild.
        """
        if self.following.keeper is None:
            return super().index_again(only)
        with suppress(IndexBusy):  # The running pass reads it, or the next one.
            self.start_index(only=only)
        return False

    # -- queries -----------------------------------------------------------------

    def freshen(self) -> list[Incomplete]:
        """Build a missing index, bring a few changed files up to date, and note the rest."""
        self.settle()
        if (notes := find_notes(self.place)) is not None:
            return notes
        if self.sealed:
            return []
        self.recover_edits()
        self.following.restart_if_requested()
        if not self.store.exists:
            if self.rebuilding:
                self.wait_until_ready(REBUILD_PATIENCE)
            elif not self._keeper_indexes:
                self.index(wait_seconds=PATIENCE)
                return []
            else:
                self._make_first_generation()
        if self.store.held() is not None:
            return []
        if self.store.fingerprint() != epoch_fingerprint(self.settings, self.embedder):
            return self._renew()
        if not self._complete and (missing := self._count_missing()):
            if self._keeper_indexes:
                detail = f"{how_many(missing, 'file')} of this folder are not indexed yet"
                return [Incomplete("rebuilding", f"{detail}; those near its top came first")]
            self.index(wait_seconds=PATIENCE)  # A first index that was interrupted.
            return []
        notes = self.following.bring_up_to_date(self.settings.index.max_auto_files)
        return self._compare_with_disk() if notes is None else notes

    @property
    def _keeper_indexes(self) -> bool:
        """Whether the keeper indexes what it finds without being asked."""
        keeper = self.following.keeper
        return keeper is not None and keeper.strategy != "lazy"

    def _make_first_generation(self) -> None:
        """Index the first files, unless a running pass does; the keeper indexes the others."""
        passes = self.passes
        while not self.store.exists:
            if passes.wait_for(passes.lock, CHECK_SECONDS):
                try:
                    if not self.store.exists:
                        self.run_pass(None, wait_seconds=PATIENCE, most_bytes=FIRST_BYTES)
                finally:
                    passes.lock.release()
                    TURNS.settle()

    def _count_missing(self) -> int:
        """Return how many files a first index has not reached."""
        with self.store.snapshot() as snapshot:
            missing: int = snapshot.manifest().get("missing", 0)
        self._complete = not missing
        return missing

    def _compare_with_disk(self) -> list[Incomplete]:
        """Bring a few changed files up to date, and return notes on the rest."""
        index, keeper = self.settings.index, self.following.keeper
        with self.store.snapshot() as snapshot:
            if next(self._searches) % index.check_every_searches:
                return [disk.NOT_THIS_TIME]
            # The recorded number: counting takes a millisecond for 15,000 documents.
            documents = snapshot.manifest().get("documents", 0)
            # A user who lets a query index more files than usual also wants them compared.
            most = index.max_auto_files if index.max_auto_files > disk.FEW_FILES else 0
            large = documents > max(disk.MOST_CHECKED, most)
            deadline = time.monotonic() + disk.BUDGET_SECONDS if large else math.inf
            outcome = self.disk.look(self.policy, snapshot, deadline)
        if outcome is None and large and keeper is not None:
            return [self.following.unchecked_note()]  # The keeper is walking.
        # With the strategy git, uncommitted changes are reported but not indexed.
        most = 0 if keeper is not None and keeper.strategy == "git" else index.max_auto_files
        if outcome is None or disk.is_few(outcome.stale, outcome.size, most):
            notes = self._index_few(outcome, most, deadline)
        else:
            notes = disk.stale_notes(outcome.stale)
        if outcome is not None and outcome.unexamined and keeper is not None:
            notes.append(self.following.unchecked_note())
        elif outcome is not None and outcome.unexamined:
            detail = f"{outcome.unexamined:,} files and folders were not compared with the disk"
            notes.append(Incomplete("unchecked", f"{detail} in time; run: lookfar index"))
        return notes

    def _index_few(
        self, outcome: disk.Outcome | None, most: int, deadline: float
    ) -> list[Incomplete]:
        """Index the changed files if they are few, and note the others.

        Without an outcome, a walk finds them. If a pass is running for too long, or the index
        cannot be updated now, it answers as it is, with a note.
        """
        passes = self.passes
        patience = disk.patience(_PASS_PATIENCE, self.settings.index.max_auto_files)
        if not passes.wait_for(passes.lock, patience):
            progress = passes.describe_progress()
            detail = f"the index is being updated{progress}; the previous state answers"
            return [Incomplete("rebuilding", detail)]
        try:
            outcome = outcome or self.disk.compare(self.policy, deadline)
            if disk.is_few(outcome.stale, outcome.size, most):
                only = None if outcome.walked else frozenset(outcome.stale)
                with suppress(IndexBusy, IOFailed, ModelUnavailable):
                    self.run_pass(self.disk.walk, only=only, let_go=False)
                    return []
            return disk.stale_notes(outcome.stale)
        except OutOfTime:
            return [disk.UNCHECKED]
        finally:
            passes.lock.release()
            TURNS.settle()

    def _renew(self) -> list[Incomplete]:
        """Rebuild the index because the settings ask for another one, such as another model.

        While the folder is followed this happens in the background, and the old index answers.
        """
        passes, loss = self.passes, self.describe_rebuild()
        try:
            if self.following.keeper is None and not passes.began:
                self.index()
                rebuilt = f"the index was rebuilt for another version or other settings{loss}"
                return [Incomplete("rebuilding", rebuilt)] if loss else []
            if not passes.began and time.monotonic() >= self._renew_at:
                self._renew_at = time.monotonic() + _RENEW_PAUSE
                self.start_index()
        except IndexHeld:
            raise
        except IndexBusy:
            pass  # Another process is rebuilding it.
        except ModelUnavailable as error:
            return [Incomplete("no_model", f"{error.message} Words only, from the older index.")]
        failure = passes.failure if not passes.began else None
        state = f" (it failed: {failure.message})" if failure else passes.describe_progress()
        detail = f"the index is being rebuilt for other settings{loss}{state}"
        return [Incomplete("rebuilding", f"{detail}; the older one answers")]

    def describe_rebuild(self, *, wanted: bool = False) -> str:
        """Say which generations the next pass drops because it builds another index, as ``wanted``
        or for another version or other settings; empty if it drops none."""
        with suppress(LookfarError):
            asked = epoch_fingerprint(self.settings, self.embedder)
            if self.store.exists and (wanted or self.store.fingerprint() != asked):
                return describe_loss([kept.number for kept in self.store.generations()])
        return ""

    # -- following the disk ------------------------------------------------------

    @property
    def watch_wanted(self) -> bool | None:
        return self.following.wanted

    def watch(
        self,
        strategy: str | None = None,
        debounce_ms: int | None = None,
        on_pass: Callable[[Pass], None] | None = None,
    ) -> None:
        """Follow the files in the background; call again to change strategy or pause.

        Defaults come from the settings. Closing the collection ends it.
        """
        if self.sealed:
            return
        keeper = self.following.keeper
        if keeper is not None and debounce_ms is None and on_pass is None:
            from lookfar.freshness.keeper import checked_strategy

            chosen = self.settings.watch.strategy if strategy is None else strategy
            keeper.switch(checked_strategy(chosen))
            return
        self.following.start(
            partial(self._make_keeper, strategy, debounce_ms, on_pass), replace=True
        )

    def _make_keeper(
        self,
        strategy: str | None,
        debounce_ms: int | None,
        on_pass: Callable[[Pass], None] | None,
    ) -> Keeper:
        """Return a keeper with the settings as they are now, where the caller did not choose."""
        from lookfar.freshness.changed_names import Changes
        from lookfar.freshness.keeper import Keeper, checked_debounce, checked_strategy
        from lookfar.freshness.watch import FolderWatcher
        from lookfar.sources.git.repositories import read_head

        chosen = self.settings.watch
        name = checked_strategy(chosen.strategy if strategy is None else strategy)
        pause = checked_debounce(chosen.debounce_ms if debounce_ms is None else debounce_ms)
        any_text = self.settings.sources.any_text
        changes = Changes(self.store.folder, any_text=any_text, quiet=pause / 1000)
        apart = str(Path(self.settings.index.dir).resolve())
        return Keeper(
            FolderWatcher(self.root, self.policy, changes, apart=apart),
            changes,
            self.catch_up,
            strategy=name,
            head=partial(read_head, self.root),
            reconcile_seconds=chosen.reconcile_seconds,
            on_pass=on_pass,
        )

    def unwatch(self) -> None:
        self.following.stop()

    # -- closing -----------------------------------------------------------------

    def rest(self) -> None:
        """Release what a query can load again: the model, the walk and open index files."""
        self.disk.rest()
        super().rest()

    def close(self) -> None:
        """Stop following and building, and close the index files."""
        self.passes.closing = True
        self.unwatch()
        if self.background is not None:
            self.background.join()
        self.stop_verifying()
        self.store.close()


def _describe_failure(error: Exception) -> LookfarError:
    """Return why a pass in the background failed."""
    if isinstance(error, LookfarError):
        return error
    return as_out_of_memory(error) or LookfarError(
        "Indexing failed.",
        hint="Index the folder again.",
        developer=f"{type(error).__name__}: {error}",
    )


def _stamp_files(files: tuple[Path, ...]) -> tuple[tuple[int, int, int] | None, ...]:
    """Return time, size and inode of some files, to notice that one changed."""
    stamps: list[tuple[int, int, int] | None] = []
    for path in files:
        try:
            info = path.stat(follow_symlinks=False)
            stamps.append((info.st_mtime_ns, info.st_size, info.st_ino))
        except OSError:
            stamps.append(None)
    return tuple(stamps)
