"""A collection of the files below one root: indexed, followed and read as the disk has them."""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Collection as Several
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, ClassVar

from lookfar.collections.collection import (
    Collection,
    Kind,
    OpenModel,
    describe_status,
)
from lookfar.collections.current_texts import CurrentTexts
from lookfar.collections.disk_check import DiskCheck
from lookfar.collections.file_edits import FileEdits
from lookfar.collections.following import FolderFollowing
from lookfar.collections.generations import describe_loss
from lookfar.collections.healing import REBUILD_PATIENCE, BackgroundHealing, Scrubber
from lookfar.collections.passes import KEEPER_PATIENCE, PATIENCE, Closing, timestamp
from lookfar.collections.reader_role import find_notes, require_writer
from lookfar.collections.variants import Variants, place_index
from lookfar.common.caller import called_by
from lookfar.errors import (
    IndexBusy,
    IndexCorrupt,
    IndexHeld,
    IndexReadOnly,
    IOFailed,
    LookfarError,
    ModelUnavailable,
    as_out_of_memory,
)
from lookfar.freshness import compare as freshness
from lookfar.index.recipe import epoch_fingerprint, policy_from
from lookfar.model import Document, Incomplete, IndexReport, Lane, Status
from lookfar.sources.confine import Root
from lookfar.store.opening import open_store

if TYPE_CHECKING:
    from lookfar.collections.drift_marks import DriftMarks
    from lookfar.collections.receipts import ReceiptBook
    from lookfar.common.caller import OnProgress
    from lookfar.config import Settings
    from lookfar.edit.editor import Editor
    from lookfar.freshness.changes import Work
    from lookfar.freshness.keeper import Pass
    from lookfar.index.reconcile import SkippedFiles
    from lookfar.ports import CollectionSnapshot, Maker, Snapshot, VectorSource
    from lookfar.sources.folder.policy import Policy
    from lookfar.sources.folder.walk import Walk

_RENEW_PAUSE = 60.0
"""Seconds between attempts to rebuild an index in the background for changed settings."""


class Files(Collection):
    kind: ClassVar[Kind] = "files"

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
        self._edits = FileEdits(root, self.store)
        self._current = CurrentTexts(root, self.store, lambda: self.settings)
        self.last_walk: Walk | None = None
        """The last walk over the files, which speeds up the next one."""
        self.background: Thread | None = None
        """The last pass that was started in the background."""
        self.following: FolderFollowing = FolderFollowing(self)
        self.healing: BackgroundHealing = BackgroundHealing(self)
        self.disk_check: DiskCheck = DiskCheck(self)
        self.scrubber = Scrubber(self.healing, self.passes, root.path)
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
        self.settings, self.last_walk = settings, None
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
        before = None if options["rebuild"] else self.last_walk
        run = partial(self.run_pass, before, wait_seconds=wait_seconds, **options)
        try:
            return run()
        except IndexCorrupt as damage:
            if self.healing.repair_in_place(damage) is None:
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
            report, self.last_walk = build.run(before=before, wait_seconds=wait, **options)
            self.disk_check.note_pass(build, report, self.last_walk)
            return report

        return self.passes.run(write, wait_seconds)

    def find_given_vectors(self) -> VectorSource | None:
        """Return vectors of these documents that were made elsewhere; usually there are none."""
        return None

    def catch_up(self, work: Work) -> IndexReport:
        """Index what the keeper found changed, unless a roll-back holds the index."""
        self.settle()

        def run() -> IndexReport:
            nonlocal work
            with self.passes.hold():
                work = self.disk_check.narrow(work)
                if work.only is not None and not work.only:
                    return self._report_nothing()
                return self.run_pass(
                    self.last_walk,
                    only=work.only,
                    let_go=False,
                    wait_seconds=KEEPER_PATIENCE,
                )

        with self.passes.until_closing():
            report = self.healing.run(run)
        self.scrubber.start_if_due()
        return report

    def _report_nothing(self) -> IndexReport:
        """Return the report of a pass that had nothing to do, for which no writer was opened."""
        with self.store.snapshot() as snapshot:
            generation = snapshot.generation
        return IndexReport(
            collection=self.name,
            root=self.root.path,
            generation=generation,
            added=0,
            changed=0,
            removed=0,
            unchanged=0,
            chunks_embedded=0,
            failures=(),
            skipped={},
            skipped_examples={},
            seconds=0.0,
            text_bytes=0,
        )

    def make_maker(self) -> Maker:
        from lookfar.index.prepare import file_maker

        return file_maker(self.settings, self.embedder, self._lane)

    def delete(self, *, wait_seconds: float = 0.0) -> None:
        """Stop following the files and remove the index; the files are not touched."""
        self.refuse_sealed()
        wanted = self.following.wanted
        self.unwatch()
        # A new index may be followed, unless the caller had asked not to.
        self.following.wanted = False if wanted is False else None
        self.remove_index(wait_seconds)
        self.last_walk = None

    # -- queries -----------------------------------------------------------------

    def first_index(self) -> None:
        """Index a folder that was never indexed, or wait for the pass that does."""
        if not self.store.exists:
            self.healing.run_when_ready(partial(self.freshen))

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
            if not self.healing.rebuilding:
                self.index(wait_seconds=PATIENCE)
                return []
            self.healing.wait_until_ready(REBUILD_PATIENCE)
        if self.store.held() is not None:
            return []
        if self.store.fingerprint() != epoch_fingerprint(self.settings, self.embedder):
            return self._renew()
        pending = self.following.notes()
        return self.disk_check.run() if pending is None else pending

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

    def source(self, uri: str) -> str | None:
        return self._current.read_source(uri)

    def readable(self, uri: str) -> str | None:
        return self._current.read_for_citing(uri)

    def citation_reader(self, snapshot: Snapshot) -> Callable[[str], str | None]:
        if self.sealed:
            return snapshot.text
        return partial(self._current.read_for_citing, snapshot=snapshot)

    def read_current(self, snapshot: Snapshot, uri: str) -> tuple[Document, bool]:
        return self._current.read_document(snapshot, uri)

    def status(self, *, collection: str = "", check: bool = True) -> Status:
        def find_stale(snapshot: CollectionSnapshot) -> tuple[str, ...]:
            known, left_out = snapshot.known(), snapshot.left_out()
            return freshness.differences(self.walk(), known, left_out, self.policy)[1]

        fingerprint = epoch_fingerprint(self.settings, self.embedder)
        looks = check and not self.sealed
        state = describe_status(self, collection, fingerprint, find_stale if looks else None)
        skipped = self.summarise_skipped()
        return replace(
            state,
            receipts=self.receipts.total(),
            skipped=skipped.counts,
            skipped_examples=skipped.examples,
        )

    def summarise_skipped(self) -> SkippedFiles:
        """Return which files the last walk of this process and the last pass skipped."""
        from lookfar.index.reconcile import summarise_stored

        require_writer("the last walk is the writer's")
        return summarise_stored(self.store, self.last_walk)

    def walk(self) -> Walk:
        from lookfar.sources.folder.walk import walk

        self.last_walk = walk(self.root, self.policy, before=self.last_walk)
        return self.last_walk

    @cached_property
    def receipts(self) -> ReceiptBook:
        """How many tokens the answers from this folder took."""
        from lookfar.collections.receipts import ReceiptBook

        return ReceiptBook(self.index_dir)

    @cached_property
    def drift_marks(self) -> DriftMarks:
        """What the last drift report said about documents of this folder."""
        from lookfar.collections.drift_marks import DriftMarks

        return DriftMarks(self.index_dir)

    # -- edits -------------------------------------------------------------------

    def editor(self, collection: str = "", unsure: str = "") -> Editor:
        """Return the editor of these files; ``unsure`` says why links may be unknown."""
        return self._edits.open_editor(
            self.policy, self.settings.edit, collection or self.name, unsure
        )

    def recover_edits(self) -> None:
        """Finish or undo an edit that a crash interrupted, before anything is read."""
        if self._edits.is_interrupted:
            with suppress(IOFailed):  # Reading still works; the next edit reports the problem.
                self.editor().transactions.recover()

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
        if not self.sealed:
            self.following.watch(strategy, debounce_ms, on_pass)

    def unwatch(self) -> None:
        self.following.stop()

    # -- closing -----------------------------------------------------------------

    def rest(self) -> None:
        """Release what a query can load again: the model, the walk and open index files."""
        self.last_walk = None
        self.disk_check.rest()
        self.receipts.close()
        super().rest()

    def close(self) -> None:
        """Stop following and building, and close the index files."""
        self.passes.closing = True
        self.unwatch()
        if self.background is not None:
            self.background.join()
        self.scrubber.stop()
        self.receipts.close()
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
