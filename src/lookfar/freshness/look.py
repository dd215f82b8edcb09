"""Find what changed below a root since an inventory was taken, within a time limit.

Nearly all of the work is one stat call per folder and file. Nothing else is done for an entry that
did not change. A folder is listed again only if its times changed, which happens when an entry is
added or removed. Editing a file does not touch its folder, so every file is examined too, the one
that changed last first.
"""

from __future__ import annotations

import math
import os
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Final

from lookfar.freshness.inventory import FIELDS, Entries, Inventory, stamp_fingerprint, wrap
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
    load_rules,
)

_BATCH: Final = 64
"""Entries that are examined between two looks at the clock."""
_MOST_LISTED: Final = 64
"""If more folders than this changed, and more than a tenth, a walk takes no longer."""
_FILE_FIELDS: Final = attrgetter("st_ctime_ns", "st_mtime_ns", "st_size", "st_ino")
_FOLDER_FIELDS: Final = attrgetter("st_ctime_ns", "st_mtime_ns", "st_ino", "st_dev")


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
