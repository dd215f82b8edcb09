"""A collection of the files below one root: read as the disk has them, and edited."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection as Several
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from lookfar.collections.collection import (
    Kind,
    OpenModel,
)
from lookfar.collections.current_texts import CurrentTexts
from lookfar.collections.file_edits import FileEdits
from lookfar.collections.followed_files import FollowedFiles
from lookfar.collections.passes import (
    require_writer,
)
from lookfar.collections.statuses import describe_status
from lookfar.common.turns import TURNS
from lookfar.errors import (
    IndexBusy,
    IOFailed,
)
from lookfar.freshness import disk
from lookfar.index.recipe import epoch_fingerprint
from lookfar.model import Document, Lane, Status
from lookfar.sources.confine import Root

if TYPE_CHECKING:
    from lookfar.collections.drift_marks import DriftMarks
    from lookfar.collections.receipts import ReceiptBook
    from lookfar.config import Settings
    from lookfar.edit.editor import Editor
    from lookfar.index.reconcile import SkippedFiles
    from lookfar.ports import CollectionSnapshot, Maker, Snapshot
    from lookfar.sources.folder.walk import Walk


class Files(FollowedFiles):
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
        super().__init__(root, settings, load_settings, settings_files, lane, open_model, name)
        self._edits = FileEdits(root, self.store)
        self._current = CurrentTexts(root, self.store, lambda: self.settings)

    # -- the index ---------------------------------------------------------------

    def index_written(self, uris: Several[str], patience: float) -> None:
        """Index documents that were just edited, if no other pass takes longer than that."""
        if not self.passes.wait_for(self.passes.lock, patience):
            raise IndexBusy("The index is being built.", hint="Wait for it.")
        try:
            self.run_pass(self.disk.walk, only=uris, let_go=False, wait_seconds=patience)
        finally:
            self.passes.lock.release()
            TURNS.settle()

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
        self.disk.walk = None

    def first_index(self) -> None:
        """Index a folder that was never indexed, or wait for the pass that does."""
        if not self.store.exists:
            self.run_when_ready(self.freshen)

    # -- reading -----------------------------------------------------------------

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
            return disk.differences(self.walk(), known, left_out, self.policy)[1]

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
        return summarise_stored(self.store, self.disk.walk)

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

    def walk(self) -> Walk:
        from lookfar.sources.folder.walk import walk

        self.disk.walk = walk(self.root, self.policy, before=self.disk.walk)
        return self.disk.walk

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

    # -- closing -----------------------------------------------------------------

    def rest(self) -> None:
        self.receipts.close()
        super().rest()

    def close(self) -> None:
        super().close()
        self.receipts.close()
