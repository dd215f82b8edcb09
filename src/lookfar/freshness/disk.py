"""Compare a folder with its index when a query is asked.

Usually the inventory of the last full pass answers: a stat call per file, and the store is asked
only about files that differ. Without a valid inventory the folder is walked. A query never waits
for more than ``index.max_auto_files`` files, usually a few; what stays stale becomes a note in the
answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lookfar.errors import how_many
from lookfar.freshness.inventory import (
    Anchor,
    DiskRecord,
    hash_admission,
    take_inventory,
)
from lookfar.freshness.look import look
from lookfar.index.reconcile import Changes, compare, find_stale
from lookfar.model import Incomplete
from lookfar.ports import CollectionSnapshot, Known, LeftOut, Store
from lookfar.sources.confine import Root
from lookfar.sources.folder.policy import Policy
from lookfar.sources.folder.walk import Walk, load_outer_rules, walk

if TYPE_CHECKING:
    from lookfar.index.build import Build
    from lookfar.model import IndexReport

FEW_FILES = 32
_FEW_BYTES = 2_000_000
_MOST_NAMED = 100

MOST_CHECKED = 5_000
"""Documents above which the comparison with the disk is limited in time."""
BUDGET_SECONDS = 1.0
"""How long a query compares a larger folder with the disk."""

_LONGEST_WAIT = 60.0


def patience(seconds: float, most: int) -> float:
    """Return how long a query may wait for ``most`` files to be indexed; usually ``seconds``."""
    return min(max(_LONGEST_WAIT, seconds), seconds * max(1.0, most / FEW_FILES))


UNCHECKED = Incomplete(
    "unchecked",
    "this folder is too large to compare with the disk in the time of a query; run: lookfar index",
)


NOT_THIS_TIME = Incomplete(
    "unchecked",
    "the folder was not compared with the disk for this search; see index.check_every_searches",
)
UNPROVED = Incomplete(
    "unchecked",
    "this system cannot confirm that the file watcher saw every change; to be sure, run:"
    " lookfar index",
)
FOLLOWING = Incomplete(
    "stale", "many files changed since the last indexing; they are being compared with the disk"
)


def stale_notes(uris: Sequence[str]) -> list[Incomplete]:
    if not uris:
        return []
    detail = f"{how_many(len(uris), 'file')} changed since the last indexing"
    return [Incomplete("stale", detail, tuple(uris[:_MOST_NAMED]))]


def is_few(stale: Sequence[str], size: int, most: int) -> bool:
    """Whether a query may wait until these files are indexed, ``size`` bytes in all."""
    return 0 < len(stale) <= most and size <= _FEW_BYTES * max(1, most // FEW_FILES)


def differences(
    walked: Walk, known: Mapping[str, Known], left_out: Mapping[str, LeftOut], policy: Policy
) -> tuple[Changes, tuple[str, ...]]:
    """Return the changes between disk and store, and the stale URIs."""
    changes = compare(walked, known, left_out, any_text=policy.any_text)
    return changes, tuple(find_stale(changes, walked, known, left_out))


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the disk differs from the store."""

    stale: tuple[str, ...] = ()
    size: int = 0
    """Bytes of the changed files."""
    unexamined: int = 0
    """Folders and files that were not compared in time."""
    walked: bool = False
    """Whether the folder was walked, so that a full pass has little left to do."""


class Disk:
    """What is known of the files of one folder since the last pass. May be shared by threads."""

    def __init__(self, root: Root, store: Store) -> None:
        self._root = root
        self._store = store
        self._record = DiskRecord(store.folder)
        self.walk: Walk | None = None
        """The last walk over the files, which speeds up the next one."""

    def look(
        self, policy: Policy, snapshot: CollectionSnapshot, deadline: float = math.inf
    ) -> Outcome | None:
        """Compare by the inventory; None if there is none that the snapshot agrees with."""
        root = self._root
        outer = load_outer_rules(root, policy)
        record = self._record.load(self._anchor(snapshot), hash_admission(root, policy, outer))
        if record is None:
            return None
        inventory, changed = record
        differing = look(root, policy, inventory, outer, besides=changed, deadline=deadline)
        if differing is None:
            return None
        seen = differing.walk
        if not differing.names and not seen.unreadable:
            return Outcome(unexamined=differing.unexamined)
        examined = differing.names.union(uri or "." for uri in seen.unreadable)
        known, left_out = snapshot.known(differing.names), snapshot.left_out(examined)
        changes, stale = differences(seen, known, left_out, policy)
        return Outcome(stale, changes.bytes, differing.unexamined)

    def compare(self, policy: Policy, deadline: float = math.inf) -> Outcome:
        """Compare by a walk, and keep its inventory if nothing differs.

        ``OutOfTime`` if the walk does not end before the deadline.
        """
        with self._store.snapshot() as snapshot:
            known, left_out = snapshot.known(), snapshot.left_out()
            anchor = self._anchor(snapshot)
        walked = walk(self._root, policy, before=self.walk, deadline=deadline)
        changes, stale = differences(walked, known, left_out, policy)
        self.walk = walked
        if not stale:
            self._keep(walked, anchor)
        return Outcome(stale, changes.bytes, walked=True)

    def note_pass(self, build: Build, report: IndexReport, walked: Walk | None) -> None:
        """Keep the inventory of a full pass, or add the documents of a small one to the record."""
        self.walk = walked
        if build.examined is not None and report.generation == build.base:
            return
        # Not from a snapshot, which would open the keyword index.
        active, generations = self._store.history()
        manifests = {generation.number: generation.manifest for generation in generations}
        if active != report.generation or active not in manifests:
            return  # Another process has written since.
        content = str(manifests[active].get("content", ""))
        anchor = Anchor(self._store.fingerprint(), active, content)
        if build.examined is not None:
            self._record.add_changes(build.base, anchor, build.examined)
        elif walked is not None:
            self._keep(walked, anchor)

    def _anchor(self, snapshot: CollectionSnapshot) -> Anchor:
        content = str(snapshot.manifest().get("content", ""))
        return Anchor(self._store.fingerprint(), snapshot.generation, content)

    def _keep(self, walked: Walk, anchor: Anchor) -> None:
        inventory = take_inventory(walked, self._root)
        if inventory is not None:
            self._record.save(inventory, anchor)

    def list_folders(self) -> list[str] | None:
        """Return the folders of the inventory, if one was used by this process."""
        inventory = self._record.loaded
        return inventory.folders.uris if inventory is not None else None

    def rest(self) -> None:
        """Release the memory of the last walk and of the inventory."""
        self.walk = None
        self._record.forget()
