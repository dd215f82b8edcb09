"""Compare a collection of files with the disk when a query is asked, and index a few changes.

Usually the inventory of the last full pass answers: a stat call per file, and the store is asked
only about files that differ. Without a valid inventory the folder is walked. A large folder is
compared for a limited time, and what was not compared becomes a note in the answer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

from lookfar.common.turns import TURNS
from lookfar.errors import IndexBusy, IOFailed, ModelUnavailable
from lookfar.freshness import compare as freshness
from lookfar.freshness.inventory import (
    Anchor,
    DiskRecord,
    hash_admission,
    make_anchor,
    take_inventory,
)
from lookfar.index.recipe import epoch_fingerprint
from lookfar.model import Incomplete
from lookfar.sources.folder.walk import OutOfTime, load_outer_rules

if TYPE_CHECKING:
    from lookfar.collections.following import FolderFollowing
    from lookfar.collections.passes import Passes
    from lookfar.config import Settings
    from lookfar.freshness.changes import Work
    from lookfar.index.build import Build
    from lookfar.model import IndexReport
    from lookfar.ports import CollectionSnapshot, Embedder, Store
    from lookfar.sources.confine import Root
    from lookfar.sources.folder.policy import Policy
    from lookfar.sources.folder.walk import Walk

_MOST_NARROWED: Final = 1_000
"""Files that a pass may name; for more of them, a walk takes no longer."""
_PASS_PATIENCE: Final = 3.0
"""Seconds that a query waits for the running pass, so that what was just saved is found."""


class Compared(Protocol):
    """What the comparison needs of a collection of files."""

    root: Root
    settings: Settings
    store: Store
    passes: Passes
    last_walk: Walk | None

    @property
    def following(self) -> FolderFollowing: ...

    @property
    def policy(self) -> Policy: ...

    @property
    def embedder(self) -> Embedder | None: ...

    def run_pass(self, before: Walk | None, **options: Any) -> IndexReport: ...


class DiskCheck:
    """The comparison of one collection with the disk. May be shared by threads."""

    def __init__(self, files: Compared) -> None:
        self._files = files
        self._record = DiskRecord(files.store.folder)
        self._searches = count()
        self._first = True

    def run(self) -> list[Incomplete]:
        """Bring a few changed files up to date, and return notes on the rest."""
        files = self._files
        index = files.settings.index
        with files.store.snapshot() as snapshot:
            if next(self._searches) % index.check_every_searches:
                return [freshness.NOT_THIS_TIME]
            # The recorded number: counting takes a millisecond for 15,000 documents.
            documents = snapshot.manifest().get("documents", 0)
            # A user who lets a query index more files than usual also wants them compared.
            most = index.max_auto_files if index.max_auto_files > freshness.FEW_FILES else 0
            large = documents > max(freshness.MOST_CHECKED, most)
            deadline = time.monotonic() + freshness.BUDGET_SECONDS if large else math.inf
            outcome = self.look(snapshot, deadline)
        if outcome is None:
            return self._walk(large, deadline)
        notes: list[Incomplete] = []
        if outcome.stale:
            # With the strategy git, uncommitted changes are reported but not indexed.
            most = 0 if files.following.waits_for_commits else index.max_auto_files
            if freshness.is_few(outcome.stale, outcome.size, most):
                notes = self._hold_pass(lambda: self._index_or_report(outcome.stale))
            else:
                notes = freshness.stale_notes(outcome.stale)
        if outcome.unexamined and files.following.keeper is not None:
            notes.append(files.following.unchecked_note())
        elif outcome.unexamined:
            detail = f"{outcome.unexamined:,} files and folders were not compared with the disk"
            notes.append(Incomplete("unchecked", f"{detail} in time; run: lookfar index"))
        return notes

    def _index_or_report(self, stale: tuple[str, ...]) -> list[Incomplete]:
        """Index these files; if that is not possible now, note that the answer is without them."""
        try:
            self._files.run_pass(self._files.last_walk, only=frozenset(stale), let_go=False)
        except (IndexBusy, IOFailed, ModelUnavailable):
            return freshness.stale_notes(stale)
        return []

    def look(
        self, snapshot: CollectionSnapshot, deadline: float = math.inf
    ) -> freshness.Outcome | None:
        """Compare by the inventory; None if there is none that the snapshot agrees with."""
        files = self._files
        policy = files.policy
        outer = load_outer_rules(files.root, policy)
        rules = hash_admission(files.root, policy, outer)
        record = self._record.load(self._anchor(snapshot), rules)
        if record is None:
            return None
        inventory, changed = record
        return freshness.look_for_changes(
            files.root, policy, inventory, outer, changed, snapshot, deadline
        )

    def _anchor(self, snapshot: CollectionSnapshot) -> Anchor:
        fingerprint = self._files.store.fingerprint()
        return make_anchor(fingerprint, snapshot.generation, snapshot.manifest())

    def _walk(self, large: bool, deadline: float) -> list[Incomplete]:
        """Compare by a walk, and keep its inventory."""
        files = self._files
        if large and files.following.keeper is not None:
            return [files.following.unchecked_note()]  # The keeper is walking.

        def compare() -> list[Incomplete]:
            with files.store.snapshot() as snapshot:
                known, left_out = snapshot.known(), snapshot.left_out()
                anchor = self._anchor(snapshot)
            policy = files.policy
            try:
                result = freshness.ensure(
                    files.root,
                    policy,
                    known,
                    left_out,
                    lambda walked: files.run_pass(walked, let_go=False),
                    files.last_walk,
                    0 if files.following.waits_for_commits else files.settings.index.max_auto_files,
                    deadline,
                )
            except OutOfTime:
                return [freshness.UNCHECKED]
            if not result.indexed:
                files.last_walk = result.walk
                if not result.stale:
                    self._keep(result.walk, anchor)
            return result.notes()

        return self._hold_pass(compare)

    def _hold_pass(self, run: Callable[[], list[Incomplete]]) -> list[Incomplete]:
        """Run something while no pass is running; note where one takes too long."""
        passes = self._files.passes
        most = self._files.settings.index.max_auto_files
        if not passes.wait_for(passes.lock, freshness.patience(_PASS_PATIENCE, most)):
            progress = passes.describe_progress()
            detail = f"the index is being updated{progress}; the previous state answers"
            return [Incomplete("rebuilding", detail)]
        try:
            return run()
        finally:
            passes.lock.release()
            TURNS.settle()

    def narrow(self, work: Work) -> Work:
        """Return what the first pass of this process has to look at, if not everything.

        Later passes over everything walk, so that nothing depends on the inventory for long.
        """
        files = self._files
        first, self._first = self._first, False
        if not first or work.only is not None or not files.store.exists:
            return work
        if files.store.fingerprint() != epoch_fingerprint(files.settings, files.embedder):
            return work
        with files.store.snapshot() as snapshot:
            outcome = self.look(snapshot)
            if outcome is None:
                return work
            only = frozenset((*outcome.stale, *snapshot.unsettled()))
            return replace(work, only=only) if len(only) <= _MOST_NARROWED else work

    # -- the inventory -----------------------------------------------------------

    def note_pass(self, build: Build, report: IndexReport, walked: Walk | None) -> None:
        """Keep the inventory of a full pass, or add the documents of a small one to the record."""
        if build.examined is not None and report.generation == build.base:
            return
        # Not from a snapshot, which would open the keyword index.
        active, generations = self._files.store.history()
        manifests = {generation.number: generation.manifest for generation in generations}
        if active != report.generation or active not in manifests:
            return  # Another process has written since.
        anchor = make_anchor(self._files.store.fingerprint(), active, manifests[active])
        if build.examined is not None:
            self._record.add_changes(build.base, anchor, build.examined)
        elif walked is not None:
            self._keep(walked, anchor)

    def _keep(self, walked: Walk, anchor: Anchor) -> None:
        inventory = take_inventory(walked, self._files.root)
        if inventory is not None:
            self._record.save(inventory, anchor)

    def list_folders(self) -> list[str] | None:
        """Return the folders of the inventory, if one was used by this process."""
        inventory = self._record.loaded
        return inventory.folders.uris if inventory is not None else None

    def rest(self) -> None:
        """Release the memory of the inventory."""
        self._record.forget()
