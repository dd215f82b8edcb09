"""Compare a folder with its index when a query is asked.

Usually the inventory of the last full pass answers: a stat call per file, and the store is asked
only about files that differ. Without a valid inventory the folder is walked. A query never waits
for more than ``index.max_auto_files`` files, usually a few; what stays stale becomes a note in the
answer.
"""

from __future__ import annotations

import math
import os
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from lookfar.errors import how_many
from lookfar.freshness.inventory import (
    FIELDS,
    Anchor,
    DiskRecord,
    Entries,
    Inventory,
    hash_admission,
    stamp_fingerprint,
    take_inventory,
    wrap,
)
from lookfar.index.reconcile import Changes, compare, find_stale
from lookfar.model import Incomplete
from lookfar.ports import CollectionSnapshot, Known, LeftOut, Store
from lookfar.sources.confine import Handle, Refused, Root, close_folder, lstat_in
from lookfar.sources.fingerprints import make_fingerprint
from lookfar.sources.folder.build_output import find_mark
from lookfar.sources.folder.ignore import Ignores
from lookfar.sources.folder.policy import Policy
from lookfar.sources.folder.walk import (
    VANISHED,
    Memory,
    OutOfTime,
    Walk,
    Walker,
    load_outer_rules,
    load_rules,
    walk,
)

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
_BATCH: Final = 64
"""Entries that are examined between two looks at the clock."""
_MOST_LISTED: Final = 64
"""If more folders than this changed, and more than a tenth, a walk takes no longer."""
_FILE_FIELDS: Final = attrgetter("st_ctime_ns", "st_mtime_ns", "st_size", "st_ino")
_FOLDER_FIELDS: Final = attrgetter("st_ctime_ns", "st_mtime_ns", "st_ino", "st_dev")

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


@dataclass(slots=True)
class Differences:
    """The entries that may differ from the inventory."""

    walk: Walk
    """The admitted files among ``names``, and what could not be examined."""
    names: frozenset[str]
    """Every URI whose stored state must be compared with the disk."""
    unexamined: int
    """Folders and files that were not examined in time."""


def look(
    root: Root,
    policy: Policy,
    inventory: Inventory,
    outer: Ignores | None = None,
    *,
    besides: Collection[str] = (),
    deadline: float = math.inf,
) -> Differences | None:
    """Compare the disk with an inventory that was taken under the same rules.

    ``outer`` are the ignore rules from above the root, and ``besides`` further URIs to examine.
    Return None where only a walk can tell: an ignore file changed, or very many folders did.
    """
    try:
        top = root.open_folder()
    except OSError:
        return None
    try:
        return _Look(root, policy, inventory, outer, top, deadline).run(besides)
    except _OtherRules:
        return None
    finally:
        close_folder(top)


@dataclass(slots=True)
class _Look:
    root: Root
    policy: Policy
    inventory: Inventory
    outer: Ignores | None
    top: Handle
    deadline: float
    names: set[str] = field(default_factory=set)
    unexamined: int = 0
    walker: Walker = field(init=False)

    def run(self, besides: Collection[str]) -> Differences | None:
        inventory = self.inventory
        self.walker = Walker(self.root, self.policy, {}, deadline=self.deadline)
        self.walker.top = self.top
        if any(True for _ in self._find_changed(inventory.rule_files)):
            return None
        changed = {uri for uri, _ in self._find_changed(inventory.folders)}
        changed.update(
            uri.rpartition("/")[0]
            for uri, mark in inventory.marks.items()
            if find_mark(self.top, uri) != mark
        )
        if len(changed) > max(_MOST_LISTED, len(inventory.folders.uris) // 10):
            return None
        dropped = self._list_folders(changed)
        files = list(self._find_changed(inventory.files))
        self._examine(files, dropped)
        if dropped:
            self.names.update(uri for uri in inventory.files.uris if uri.startswith(dropped))
        others = set(besides) - self.names
        self._examine(((uri, self._stat(uri)) for uri in others), dropped)
        walker = self.walker
        self.names.update(file.uri for file in walker.files)
        seen = Walk(
            files=tuple(sorted(walker.files, key=attrgetter("uri"))),
            skipped=tuple(walker.skipped),
            skipped_counts=dict(walker.counts),
            unreadable=tuple(sorted(set(walker.unreadable))),
            memory=Memory(self.root.path, self.root.allow_hard_links, self.policy, {}),
        )
        return Differences(seen, frozenset(self.names), self.unexamined)

    def _find_changed(self, entries: Entries) -> Iterator[tuple[str, os.stat_result | None]]:
        """Yield the entries with other numbers than before, and None for those that are gone."""
        top, is_folder = self.top, entries is self.inventory.folders
        fields = _FOLDER_FIELDS if is_folder else _FILE_FIELDS
        examine: Callable[[str], os.stat_result] = (
            partial(os.stat, dir_fd=top, follow_symlinks=False)
            if isinstance(top, int)
            else partial(lstat_in, top)
        )
        uris, stamps = entries.uris, entries.stamps
        for start in range(0, len(uris), _BATCH):
            if time.monotonic() > self.deadline:
                self.unexamined += len(uris) - start
                return
            batch = uris[start : start + _BATCH]
            before = stamps[start * FIELDS : (start + _BATCH) * FIELDS]
            try:
                # No loop of Python's: an entry costs little more than its system call.
                paths = [uri or "." for uri in batch]
                numbers = chain.from_iterable(map(fields, map(examine, paths)))
                if array("q", numbers) == before:
                    continue
            except (OSError, OverflowError):
                pass  # One of them is gone, or has a number of more than 64 bits.
            for at, uri in enumerate(batch):
                info = self._stat(uri)
                now: tuple[int, ...] | None = None
                if info is not None and is_folder:
                    now = tuple(map(wrap, _FOLDER_FIELDS(info)))
                elif info is not None:
                    now = stamp_fingerprint(make_fingerprint(info))
                if now != tuple(before[at * FIELDS : (at + 1) * FIELDS]):
                    yield uri, info

    def _stat(self, uri: str) -> os.stat_result | None:
        try:
            return lstat_in(self.top, uri or ".")
        except OSError as error:
            if error.errno not in VANISHED:
                self.walker.unreadable.append(uri)
            return None

    def _list_folders(self, changed: Collection[str]) -> tuple[str, ...]:
        """List changed folders; return the prefixes of folders that are gone or now skipped."""
        if not changed:
            return ()
        inner: dict[str, set[str]] = {uri: set() for uri in changed}
        for uri in self.inventory.folders.uris:
            parent, _, name = uri.rpartition("/")
            if uri and parent in inner:
                inner[parent].add(name)
        dropped: tuple[str, ...] = ()
        for number, uri in enumerate(sorted(changed)):
            if f"{uri}/".startswith(dropped):
                continue
            try:
                present = self._list_folder(uri, inner[uri])
            except OutOfTime:
                self.unexamined += len(changed) - number
                break
            dropped += tuple(f"{_prefix(uri)}{name}/" for name in inner[uri] - present)
        # Known files are examined with the others, whose folders did not change.
        known = frozenset(self.inventory.files.uris)
        self.walker.files[:] = [file for file in self.walker.files if file.uri not in known]
        return dropped

    def _list_folder(self, uri: str, known: Collection[str]) -> set[str]:
        """List a folder, and walk the subfolders that are not ``known``; return all of them."""
        walker, depth = self.walker, uri.count("/") + bool(uri)
        if time.monotonic() > self.deadline:
            raise OutOfTime
        try:
            handle = self.root.open_folder(uri)
        except Refused:
            return set()
        except OSError as error:
            walker.note_failure(uri, error)
            return set() if error.errno in VANISHED else set(known)
        try:
            outer = self.outer
            if uri:
                outer, verdict = load_rules(self.root, self.policy, uri.rpartition("/")[0])
                if verdict is not None:
                    raise _OtherRules
            folder = walker.list_folder(uri, handle, outer)
            now = {_prefix(uri) + name for name, _ in folder.ignore_files}
            rule_files = self.inventory.rule_files.uris
            if now != {file for file in rule_files if file.rpartition("/")[0] == uri}:
                raise _OtherRules
            for name in folder.folders:
                if name not in known:
                    walker.visit_child(uri, handle, name, folder.ignores, depth)
        except OSError as error:
            walker.note_failure(uri, error)
            return set(known)
        finally:
            close_folder(handle)
        return set(folder.folders)

    def _examine(
        self, entries: Iterable[tuple[str, os.stat_result | None]], dropped: tuple[str, ...]
    ) -> None:
        for uri, info in entries:
            self.names.add(uri)
            if info is not None and not uri.startswith(dropped):
                self.walker.admit(uri, info)


class _OtherRules(Exception):
    """Raised where files may be admitted now that were not, or the other way round."""


def _prefix(uri: str) -> str:
    return f"{uri}/" if uri else ""


def patience(seconds: float, most: int) -> float:
    """Return how long a query may wait for ``most`` files to be indexed; usually ``seconds``."""
    return min(max(_LONGEST_WAIT, seconds), seconds * max(1.0, most / FEW_FILES))


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
