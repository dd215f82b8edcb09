"""One pass over a root: which files are there, and what stayed out and why.

Takes: a root, a policy and, where there is one, the walk before. Gives: admitted
files in URI order with their fingerprints, counts of what was skipped, and the
places that could not be seen. Refuses: to follow links, and to take a folder it
cannot list for an empty one: nothing under ``Walk.unreadable`` may be thought
deleted.

The walk is also the freshness check of every query, so it remembers. A folder
whose own timestamps have not moved still has the same entries; then only its
files are examined again, which is half the work. That trusts the file system to
stamp a folder when an entry comes or goes, as all local ones do; a walk without
``before`` trusts nothing.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from lookfar.errors import LookfarError
from lookfar.model import Fingerprint, Skipped, SourceFile
from lookfar.sources.confine import (
    ON_WINDOWS,
    Handle,
    Refused,
    Root,
    close_folder,
    components,
    lstat_in,
    open_child,
    refused_as_path,
)
from lookfar.sources.fingerprints import SETTLING_NS, fingerprint_of, settled
from lookfar.sources.folder.ignore import IGNORE_FILES, MAX_BYTES, IgnoreFile, Ignores
from lookfar.sources.folder.outer_ignore import ignores_around
from lookfar.sources.folder.policy import Policy, Verdict

_LONG: Final = 1_000
"""Characters of a URI that may be too many bytes for a path."""
MAX_SKIPPED: Final = 1_000
"""How many skipped entries are named; the rest are counted."""

_NOWHERE: Final = (0, 0, 0, 0)
_NAME: Final = attrgetter("name")
_URI: Final = attrgetter("uri")
_VANISHED: Final = frozenset((errno.ENOENT, errno.ENOTDIR))


@dataclass(slots=True)
class _Folder:
    """What one folder held, kept for the next walk."""

    stamp: tuple[int, int, int, int]
    """What tells that no entry came or went: ctime, mtime, inode and device."""
    listed_at: int
    outer: Ignores | None
    ignores: Ignores | None = None
    ignore_files: tuple[tuple[str, Fingerprint | None], ...] = ()
    files: dict[str, SourceFile | None] = field(default_factory=dict)
    """By name; None for a file that was too large or hard-linked."""
    folders: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    """What stays out by its name or kind, whatever happens inside it."""
    counts: dict[str, int] = field(default_factory=dict)

    def skip(self, uri: str, reason: str, detail: str = "") -> None:
        self.counts[reason] = self.counts.get(reason, 0) + 1
        if len(self.skipped) < MAX_SKIPPED:
            self.skipped.append(Skipped(uri, reason, detail))


@dataclass(frozen=True, slots=True)
class _Memory:
    path: str
    allow_hard_links: bool
    policy: Policy
    folders: Mapping[str, _Folder]


@dataclass(frozen=True, slots=True)
class Walk:
    """What a walk found."""

    files: tuple[SourceFile, ...]
    """Admitted files, sorted by URI."""
    skipped: tuple[Skipped, ...]
    """The first ``MAX_SKIPPED`` entries that stayed out, sorted by URI."""
    skipped_counts: Mapping[str, int]
    unreadable: tuple[str, ...]
    """URIs that could not be examined (folders, rarely files; empty for the root itself)."""
    over_limit: bool
    """More files than ``Policy.max_files`` were admitted; all of them are listed."""
    memory: _Memory = field(repr=False, compare=False)
    """For the next walk; of no use to anyone else."""

    def unseen(self, uri: str) -> bool:
        """True when the walk could not look at ``uri``, so its absence means nothing."""
        return any(not at or uri == at or uri.startswith(f"{at}/") for at in self.unreadable)


def walk(root: Root, policy: Policy, *, before: Walk | None = None) -> Walk:
    """Examine the whole root; ``before`` (the last walk) makes it about twice as fast.

    ``RootNotFound`` when the root is gone; other failures are in ``unreadable``.
    """
    known: Mapping[str, _Folder] = {}
    if before is not None:
        memory = before.memory
        if (memory.path, memory.allow_hard_links) == (root.path, root.allow_hard_links):
            known = memory.folders if memory.policy == policy else {}
    walker = _Walker(root, policy, known)
    walker.run()
    walker.files.sort(key=_URI)
    return Walk(
        files=tuple(walker.files),
        skipped=tuple(sorted(walker.skipped, key=_URI)),
        skipped_counts=dict(sorted(walker.counts.items())),
        unreadable=tuple(sorted(walker.unreadable)),
        over_limit=len(walker.files) > policy.max_files,
        memory=_Memory(root.path, root.allow_hard_links, policy, walker.folders),
    )


def glance(root: Root, policy: Policy, uris: Collection[str]) -> Walk:
    """What a walk would find at these URIs alone, without looking at anything else."""
    files: list[SourceFile] = []
    skipped: list[Skipped] = []
    unreadable: list[str] = []
    for uri in sorted(uris):
        why = refused_as_path(uri)
        if why:
            skipped.append(Skipped(_printable(uri), "bad_name", why))
            continue
        try:
            verdict = verdict_on(root, policy, uri)
            disk = root.stat(uri) if verdict is None else None
        except LookfarError:
            unreadable.append(uri)
            continue
        if verdict is not None:
            skipped.append(Skipped(uri, verdict.reason, verdict.rule))
        elif disk is not None and disk.size > policy.max_file_bytes:
            skipped.append(Skipped(uri, "too_large", f"{disk.size} bytes"))
        elif disk is not None:
            files.append(SourceFile(uri, disk))
    return Walk(
        files=tuple(files),
        skipped=tuple(skipped),
        skipped_counts=dict(Counter(each.reason for each in skipped)),
        unreadable=tuple(unreadable),
        over_limit=False,
        memory=_Memory(root.path, root.allow_hard_links, policy, {}),
    )


def verdict_on(root: Root, policy: Policy, uri: str) -> Verdict | None:
    """Decide one file as a walk would, by reading the ignore files on its way."""
    *folders, name = components(uri)
    ignores, found = rules_in(root, policy, "/".join(folders))
    return found or policy.judge(uri, name, False, ignores)


def rules_in(root: Root, policy: Policy, folder: str) -> tuple[Ignores | None, Verdict | None]:
    """The ignore rules in force in a folder, or the verdict that keeps all of it out."""
    parts = components(folder) if folder else []
    ignores, found = rules_of(root, policy, "", _around(root, policy))
    for depth in range(1, len(parts) + 1):
        if found is None:
            ignores, found = rules_of(root, policy, "/".join(parts[:depth]), ignores)
    return ignores, found


def rules_of(
    root: Root,
    policy: Policy,
    folder: str,
    outer: Ignores | None,
    names: tuple[str, ...] = IGNORE_FILES,
) -> tuple[Ignores | None, Verdict | None]:
    """The same for a folder of which the rules above it are known, and its ignore files."""
    if folder:
        if folder.count("/") >= policy.max_depth:
            return None, Verdict("too_deep", f"limit {policy.max_depth}")
        found = policy.judge(folder, folder.rpartition("/")[2], True, outer)
        if found is not None:
            return None, found
    if not policy.respect_ignore_files or not names:
        return outer, None
    walker = _Walker(root, policy, {})
    return walker.load_ignores(_Folder(_NOWHERE, 0, outer), folder, names), None


def _around(root: Root, policy: Policy) -> Ignores | None:
    """The rules that hold before the first of the root's own ignore files is read."""
    return ignores_around(root.path) if policy.respect_ignore_files else None


class _Walker:
    """The state of one pass."""

    def __init__(self, root: Root, policy: Policy, known: Mapping[str, _Folder]) -> None:
        self.root = root
        self.policy = policy
        self.known = known
        self.folders: dict[str, _Folder] = {}
        self.files: list[SourceFile] = []
        self.skipped: list[Skipped] = []
        self.counts: Counter[str] = Counter()
        self.unreadable: list[str] = []
        self.top: Handle = ""

    def run(self) -> None:
        try:
            self.top = self.root.open_folder()
        except OSError:
            self.unreadable.append("")
            return
        try:
            self._visit("", self.top, _around(self.root, self.policy), 0)
        finally:
            close_folder(self.top)

    def _visit(self, uri: str, handle: Handle, outer: Ignores | None, depth: int) -> None:
        """List an open folder and go through what it holds."""
        try:
            folder = self._list(uri, handle, outer)
        except OSError as error:
            self._unlisted(uri, error)
            return
        self._keep(uri, folder)
        prefix = f"{uri}/" if uri else ""
        for name in folder.folders:
            child = prefix + name
            if depth >= self.policy.max_depth:
                self._skip(child, "too_deep", f"limit {self.policy.max_depth}")
                continue
            if child in self.known and self._revisit(child, folder.ignores, depth + 1):
                continue
            try:
                inner = open_child(handle, name)
            except OSError as error:
                self._unlisted(child, error)
                continue
            try:
                self._visit(child, inner, folder.ignores, depth + 1)
            finally:
                close_folder(inner)

    def _revisit(self, uri: str, outer: Ignores | None, depth: int) -> bool:
        """Go through a folder by what is known of it; False when it must be listed."""
        folder = self._still(uri, outer)
        if folder is None:
            return False
        self._reexamine(uri, folder)
        self._keep(uri, folder)
        prefix = f"{uri}/" if uri else ""
        for name in folder.folders:
            child = prefix + name
            if depth >= self.policy.max_depth:
                self._skip(child, "too_deep", f"limit {self.policy.max_depth}")
            elif child not in self.known or not self._revisit(child, folder.ignores, depth + 1):
                self._reopen(child, folder.ignores, depth + 1)
        return True

    def _reopen(self, uri: str, outer: Ignores | None, depth: int) -> None:
        """List a folder whose parents were not opened in this walk."""
        try:
            handle = self.root.open_folder(uri)
        except Refused:
            return
        except OSError as error:
            self._unlisted(uri, error)
            return
        try:
            self._visit(uri, handle, outer, depth)
        finally:
            close_folder(handle)

    def _still(self, uri: str, outer: Ignores | None) -> _Folder | None:
        """What is known of a folder, if that is certainly still so."""
        folder = self.known[uri]
        if folder.outer is not outer:
            return None
        try:
            info = lstat_in(self.top, uri)
        except OSError:
            return None
        stamp = (info.st_ctime_ns, info.st_mtime_ns, info.st_ino, info.st_dev)
        if stamp != folder.stamp or max(stamp[:2]) + SETTLING_NS > folder.listed_at:
            return None
        if not stat.S_ISDIR(info.st_mode) or not self._same_ignores(uri, folder):
            return None
        return folder

    def _same_ignores(self, uri: str, folder: _Folder) -> bool:
        prefix = f"{uri}/" if uri else ""
        for name, then in folder.ignore_files:
            if then is None or not settled(then, folder.listed_at):
                return False
            try:
                if fingerprint_of(lstat_in(self.top, prefix + name)) != then:
                    return False
            except OSError:
                return False
        return True

    def _reexamine(self, uri: str, folder: _Folder) -> None:
        """Stat the files of a folder whose entries are known; edits leave the folder unstamped."""
        prefix = f"{uri}/" if uri else ""
        top = self.top
        files = folder.files
        for name, then in files.items():
            path = prefix + name
            try:
                info = lstat_in(top, path)
            except OSError as error:
                if error.errno not in _VANISHED:
                    self.unreadable.append(path)
                files[name] = None
                continue
            if then is not None:
                was = then.fingerprint
                # By hand first: to make a fingerprint takes as long as to ask the disk.
                if (
                    info.st_ctime_ns == was.ctime_ns
                    and info.st_mtime_ns == was.mtime_ns
                    and info.st_size == was.size
                    and info.st_ino == was.inode
                ) or fingerprint_of(info) == was:
                    self.files.append(then)
                    continue
            files[name] = self._weigh(path, info)

    def _keep(self, uri: str, folder: _Folder) -> None:
        self.folders[uri] = folder
        if folder.counts:
            self.counts.update(folder.counts)
            self.skipped.extend(folder.skipped[: MAX_SKIPPED - len(self.skipped)])

    def _list(self, uri: str, handle: Handle, outer: Ignores | None) -> _Folder:
        """Read a folder's entries and sort them into files, folders and the rest."""
        info = os.stat(handle)
        stamp = (info.st_ctime_ns, info.st_mtime_ns, info.st_ino, info.st_dev)
        folder = _Folder(stamp, time.time_ns(), outer)
        # Sorted, so that which entries are named among the skipped does not depend on the disk.
        entries = sorted(os.scandir(handle), key=_NAME)
        folder.ignores = outer
        if self.policy.respect_ignore_files:
            present = [entry.name for entry in entries]
            names = tuple([each for each in IGNORE_FILES if each in present])
            if names:
                folder.ignores = self.load_ignores(folder, uri, names)
        prefix = f"{uri}/" if uri else ""
        judge = self.policy.judge
        ignores = folder.ignores
        for entry in entries:
            name = entry.name
            path = prefix + name
            # Asked of few: the rest is a plain path whatever it is called.
            suspect = not name.isascii() or (":" in name and not uri) or len(path) > _LONG
            if suspect and (why := refused_as_path(path)):
                folder.skip(_printable(path), "bad_name", why)
                continue
            try:
                is_dir = entry.is_dir(follow_symlinks=False)
                verdict = judge(path, name, is_dir, ignores)
                if verdict is not None:
                    folder.skip(path, verdict.reason, verdict.rule)
                elif is_dir:
                    folder.folders.append(name)
                elif entry.is_file(follow_symlinks=False):
                    # The stat of a Windows directory entry lacks inode and link count.
                    found = os.lstat(entry) if ON_WINDOWS else entry.stat(follow_symlinks=False)
                    folder.files[name] = self._weigh(path, found)
                else:
                    folder.skip(path, "symlink" if entry.is_symlink() else "not_a_file")
            except OSError as error:
                self._unlisted(path, error)
                folder.listed_at = 0  # never trusted: the next walk has to look again
        return folder

    def load_ignores(self, folder: _Folder, uri: str, names: tuple[str, ...]) -> Ignores | None:
        """The ignore rules in force in a folder that holds the ignore files ``names``."""
        known = self.known.get(uri)
        if (
            known is not None
            and known.outer is folder.outer
            and tuple(name for name, _ in known.ignore_files) == names
            and self._same_ignores(uri, known)
        ):
            # The same object, so that the folders below see that nothing changed.
            folder.ignore_files = known.ignore_files
            return known.ignores
        ignores = folder.outer
        prefix = f"{uri}/" if uri else ""
        seen: list[tuple[str, Fingerprint | None]] = []
        for name in names:
            path = prefix + name
            try:
                data, fingerprint = self.root.read(path, MAX_BYTES)
            except Refused as refusal:
                if refusal.reason != "gone":
                    folder.skip(path, "ignore_file", f"not applied: {refusal.reason}")
                seen.append((name, None))
                continue
            except LookfarError as error:
                folder.skip(path, "ignore_file", f"not applied: {error.message}")
                seen.append((name, None))
                continue
            rules = IgnoreFile(path, data)
            for problem in rules.problems:
                folder.skip(path, "ignore_file", problem)
            ignores = Ignores(prefix, rules, ignores) if len(rules) else ignores
            seen.append((name, fingerprint))
        folder.ignore_files = tuple(seen)
        return ignores

    def _weigh(self, uri: str, info: os.stat_result) -> SourceFile | None:
        """Admit a file that its name admits, unless its size or links forbid it."""
        if not stat.S_ISREG(info.st_mode):
            self._skip(uri, "symlink" if stat.S_ISLNK(info.st_mode) else "not_a_file")
        elif info.st_nlink > 1 and not self.root.allow_hard_links:
            self._skip(uri, "hard_link", f"{info.st_nlink} names lead to it")
        elif info.st_size > self.policy.max_file_bytes:
            limit = self.policy.max_file_bytes
            self._skip(uri, "too_large", f"{info.st_size} bytes, limit {limit}")
        else:
            file = SourceFile(uri, fingerprint_of(info))
            self.files.append(file)
            return file
        return None

    def _skip(self, uri: str, reason: str, detail: str = "") -> None:
        self.counts[reason] += 1
        if len(self.skipped) < MAX_SKIPPED:
            self.skipped.append(Skipped(uri, reason, detail))

    def _unlisted(self, uri: str, error: OSError) -> None:
        """A place that did not open: gone or turned into a link is a fact, the rest is unknown."""
        if error.errno == errno.ELOOP:
            self._skip(uri, "symlink", "became a link during the walk")
        elif error.errno not in _VANISHED:
            self.unreadable.append(uri)


def _printable(uri: str) -> str:
    """A name whose bytes may not be UTF-8, as text."""
    return os.fsencode(uri).decode("utf-8", "replace")
