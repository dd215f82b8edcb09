"""Walk over a root: find the files that may be indexed, and record what was skipped and why.

Links are not followed. A folder that cannot be listed is not treated as empty: nothing below
``Walk.unreadable`` may be considered deleted.

Every query walks to check whether the index is up to date, so a walk reuses the one before it. A
folder whose timestamps are unchanged has the same entries, and only its files are examined again,
which is half the work. That relies on the file system to update a folder's timestamps when an
entry is added or removed, as all local ones do; without ``before`` nothing is assumed.
"""

from __future__ import annotations

import errno
import math
import os
import stat
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
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
    path_problem,
)
from lookfar.sources.fingerprints import SETTLING_NS, is_settled, make_fingerprint
from lookfar.sources.folder.build_output import (
    find_evidence,
    find_mark,
    gather_evidence,
    output_name,
)
from lookfar.sources.folder.ignore import (
    IGNORE_FILES,
    MAX_BYTES,
    IgnoreFile,
    Ignores,
    load_outer_ignores,
)
from lookfar.sources.folder.policy import Policy, Verdict

_LONG: Final = 1_000
"""A longer URI may have too many bytes for a path."""
MAX_SKIPPED: Final = 1_000
"""How many skipped entries are listed; the rest are only counted."""

_NOWHERE: Final = (0, 0, 0, 0)
_NAME: Final = attrgetter("name")
_URI: Final = attrgetter("uri")
VANISHED: Final = frozenset((errno.ENOENT, errno.ENOTDIR))


@dataclass(slots=True)
class FolderListing:
    """The entries of one folder, for the next walk."""

    stamp: tuple[int, int, int, int]
    """Unchanged if no entry was added or removed: ctime, mtime, inode and device."""
    listed_at: int
    outer: Ignores | None
    ignores: Ignores | None = None
    ignore_files: tuple[tuple[str, Fingerprint | None], ...] = ()
    files: dict[str, SourceFile | None] = field(default_factory=dict)
    """By name; None for a file that was hard-linked."""
    refused: dict[str, Fingerprint] = field(default_factory=dict)
    """The fingerprints of the files that are None in ``files``, if they could be examined."""
    folders: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    """Entries skipped by their name or type, whatever their content."""
    counts: dict[str, int] = field(default_factory=dict)
    marks: dict[str, str] = field(default_factory=dict)
    """For each folder that may be build output: which file inside it says so, or empty."""
    most_skipped: int = MAX_SKIPPED

    def skip(self, uri: str, reason: str, detail: str = "") -> None:
        self.counts[reason] = self.counts.get(reason, 0) + 1
        if len(self.skipped) < self.most_skipped:
            self.skipped.append(Skipped(uri, reason, detail))


@dataclass(frozen=True, slots=True)
class Memory:
    path: str
    allow_hard_links: bool
    policy: Policy
    folders: Mapping[str, FolderListing]


@dataclass(frozen=True, slots=True)
class Walk:
    files: tuple[SourceFile, ...]
    """Admitted files, sorted by URI."""
    skipped: tuple[Skipped, ...]
    """The first ``MAX_SKIPPED`` skipped entries, sorted by URI."""
    skipped_counts: Mapping[str, int]
    unreadable: tuple[str, ...]
    """URIs that could not be examined (folders, rarely files; empty for the root itself)."""
    memory: Memory = field(repr=False, compare=False)
    """Internal state for the next walk."""

    def unseen(self, uri: str) -> bool:
        """Whether ``uri`` could not be examined, so it may exist although it is not listed."""
        return any(not at or uri == at or uri.startswith(f"{at}/") for at in self.unreadable)


class OutOfTime(Exception):
    """Raised by a walk that did not end before its deadline."""


def walk(
    root: Root,
    policy: Policy,
    *,
    before: Walk | None = None,
    most_skipped: int = MAX_SKIPPED,
    deadline: float = math.inf,
) -> Walk:
    """Examine the whole root; passing the last walk as ``before`` makes it about twice as fast.

    ``RootNotFound`` if the root is gone; other failures are in ``unreadable``. At most
    ``most_skipped`` skipped entries are listed; the rest are only counted. ``OutOfTime`` if
    ``time.monotonic`` passes ``deadline`` first.
    """
    known: Mapping[str, FolderListing] = {}
    if before is not None:
        memory = before.memory
        if (memory.path, memory.allow_hard_links) == (root.path, root.allow_hard_links):
            known = memory.folders if memory.policy == policy else {}
    walker = Walker(root, policy, known, most_skipped, deadline)
    walker.run()
    walker.files.sort(key=_URI)
    return Walk(
        files=tuple(walker.files),
        skipped=tuple(sorted(walker.skipped, key=_URI)),
        skipped_counts=dict(sorted(walker.counts.items())),
        unreadable=tuple(sorted(walker.unreadable)),
        memory=Memory(root.path, root.allow_hard_links, policy, walker.folders),
    )


def examine_files(root: Root, policy: Policy, uris: Collection[str]) -> Walk:
    """Examine only these files, as a walk would."""
    files: list[SourceFile] = []
    skipped: list[Skipped] = []
    unreadable: list[str] = []
    for uri in sorted(uris):
        problem = path_problem(uri)
        if problem:
            skipped.append(Skipped(_printable(uri), "bad_name", problem))
            continue
        try:
            verdict = judge_file(root, policy, uri)
            disk = root.stat(uri) if verdict is None else None
        except LookfarError:
            unreadable.append(uri)
            continue
        if verdict is not None:
            skipped.append(Skipped(uri, verdict.reason, verdict.rule))
        elif disk is not None:
            files.append(SourceFile(uri, disk))
    return Walk(
        files=tuple(files),
        skipped=tuple(skipped),
        skipped_counts=dict(Counter(entry.reason for entry in skipped)),
        unreadable=tuple(unreadable),
        memory=Memory(root.path, root.allow_hard_links, policy, {}),
    )


def judge_file(root: Root, policy: Policy, uri: str) -> Verdict | None:
    """Judge one file as a walk would, with the ignore files of its folders."""
    *folders, name = components(uri)
    ignores, verdict = load_rules(root, policy, "/".join(folders))
    return verdict or policy.judge(uri, name, False, ignores)


def load_rules(root: Root, policy: Policy, folder: str) -> tuple[Ignores | None, Verdict | None]:
    """Return the ignore rules that apply in a folder, or the verdict that skips all of it."""
    parts = components(folder) if folder else []
    ignores, verdict = load_folder_rules(root, policy, "", load_outer_rules(root, policy))
    for depth in range(1, len(parts) + 1):
        if verdict is None:
            ignores, verdict = load_folder_rules(root, policy, "/".join(parts[:depth]), ignores)
    return ignores, verdict


def load_folder_rules(
    root: Root,
    policy: Policy,
    folder: str,
    outer: Ignores | None,
    names: tuple[str, ...] = IGNORE_FILES,
) -> tuple[Ignores | None, Verdict | None]:
    """Like ``load_rules``, with the known rules of the parent and the folder's ignore files."""
    if folder:
        if folder.count("/") >= policy.max_depth:
            return None, Verdict("too_deep", f"limit {policy.max_depth}")
        name = folder.rpartition("/")[2]
        verdict = policy.judge(folder, name, True, outer, partial(find_evidence, root))
        if verdict is not None:
            return None, verdict
    if not policy.respect_ignore_files or not names:
        return outer, None
    walker = Walker(root, policy, {})
    return walker.load_ignores(FolderListing(_NOWHERE, 0, outer), folder, names), None


def load_outer_rules(root: Root, policy: Policy) -> Ignores | None:
    return load_outer_ignores(root.path) if policy.respect_ignore_files else None


class Walker:
    def __init__(
        self,
        root: Root,
        policy: Policy,
        known: Mapping[str, FolderListing],
        most_skipped: int = MAX_SKIPPED,
        deadline: float = math.inf,
    ) -> None:
        self.root = root
        self.deadline = deadline
        self.most_skipped = most_skipped
        self.policy = policy
        self.known = known
        self.folders: dict[str, FolderListing] = {}
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
            self.visit("", self.top, load_outer_rules(self.root, self.policy), 0)
        finally:
            close_folder(self.top)

    def visit(self, uri: str, handle: Handle, outer: Ignores | None, depth: int) -> None:
        """List an open folder and visit its entries."""
        try:
            folder = self.list_folder(uri, handle, outer)
        except OSError as error:
            self.note_failure(uri, error)
            return
        self._keep(uri, folder)
        for name in folder.folders:
            self.visit_child(uri, handle, name, folder.ignores, depth)

    def visit_child(
        self, uri: str, handle: Handle, name: str, ignores: Ignores | None, depth: int
    ) -> None:
        """Visit a subfolder of an open folder that has ``depth`` folders above it."""
        child = f"{uri}/{name}" if uri else name
        if depth >= self.policy.max_depth:
            self._skip(child, "too_deep", f"limit {self.policy.max_depth}")
            return
        if child in self.known and self._revisit(child, ignores, depth + 1):
            return
        try:
            inner = open_child(handle, name)
        except OSError as error:
            self.note_failure(child, error)
            return
        try:
            self.visit(child, inner, ignores, depth + 1)
        finally:
            close_folder(inner)

    def _revisit(self, uri: str, outer: Ignores | None, depth: int) -> bool:
        """Visit a folder by its known entries; False if it must be listed again."""
        folder = self._reuse_folder(uri, outer)
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
        """List a folder whose parent was not opened in this walk."""
        try:
            handle = self.root.open_folder(uri)
        except Refused:
            return
        except OSError as error:
            self.note_failure(uri, error)
            return
        try:
            self.visit(uri, handle, outer, depth)
        finally:
            close_folder(handle)

    def _reuse_folder(self, uri: str, outer: Ignores | None) -> FolderListing | None:
        """Return what the last walk saw of a folder, if it is certainly unchanged."""
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
        return folder if self._same_marks(uri, folder) else None

    def _same_marks(self, uri: str, folder: FolderListing) -> bool:
        """Whether the files inside subfolders that say "build output" are those of last time."""
        prefix = f"{uri}/" if uri else ""
        return all(
            find_mark(self.top, prefix + name) == mark for name, mark in folder.marks.items()
        )

    def _same_ignores(self, uri: str, folder: FolderListing) -> bool:
        prefix = f"{uri}/" if uri else ""
        for name, then in folder.ignore_files:
            if then is None or not is_settled(then, folder.listed_at):
                return False
            try:
                if make_fingerprint(lstat_in(self.top, prefix + name)) != then:
                    return False
            except OSError:
                return False
        return True

    def _reexamine(self, uri: str, folder: FolderListing) -> None:
        """Stat the files of an unchanged folder: editing a file does not touch its folder."""
        prefix = f"{uri}/" if uri else ""
        top = self.top
        files = folder.files
        for name, then in files.items():
            path = prefix + name
            try:
                info = lstat_in(top, path)
            except OSError as error:
                if error.errno not in VANISHED:
                    self.unreadable.append(path)
                files[name] = None
                folder.refused.pop(name, None)
                continue
            if then is not None:
                was = then.fingerprint
                # Compare the fields first: building a fingerprint takes as long as the stat.
                if (
                    info.st_ctime_ns == was.ctime_ns
                    and info.st_mtime_ns == was.mtime_ns
                    and info.st_size == was.size
                    and info.st_ino == was.inode
                ) or make_fingerprint(info) == was:
                    self.files.append(then)
                    continue
            self._admit_into(folder, name, path, info)

    def _admit_into(self, folder: FolderListing, name: str, uri: str, info: os.stat_result) -> None:
        file = folder.files[name] = self.admit(uri, info)
        if file is None:
            folder.refused[name] = make_fingerprint(info)
        else:
            folder.refused.pop(name, None)

    def _keep(self, uri: str, folder: FolderListing) -> None:
        if time.monotonic() > self.deadline:
            raise OutOfTime
        self.folders[uri] = folder
        if folder.counts:
            self.counts.update(folder.counts)
            self.skipped.extend(folder.skipped[: self.most_skipped - len(self.skipped)])

    def list_folder(self, uri: str, handle: Handle, outer: Ignores | None) -> FolderListing:
        """Read a folder's entries, and sort them into files, folders and skipped ones."""
        info = os.stat(handle)
        stamp = (info.st_ctime_ns, info.st_mtime_ns, info.st_ino, info.st_dev)
        folder = FolderListing(stamp, time.time_ns(), outer, most_skipped=self.most_skipped)
        # Sorted, so that the list of skipped entries does not depend on the file system.
        entries = sorted(os.scandir(handle), key=_NAME)
        folder.ignores = outer
        if self.policy.respect_ignore_files:
            present = [entry.name for entry in entries]
            names = tuple([name for name in IGNORE_FILES if name in present])
            if names:
                folder.ignores = self.load_ignores(folder, uri, names)
        prefix = f"{uri}/" if uri else ""
        judge = self.policy.judge
        ignores = folder.ignores
        evidence = gather_evidence(handle, [entry.name for entry in entries])
        for entry in entries:
            name = entry.name
            path = prefix + name
            # Only these can be invalid, and the check is slow.
            suspect = not name.isascii() or (":" in name and not uri) or len(path) > _LONG
            if suspect and (problem := path_problem(path)):
                folder.skip(_printable(path), "bad_name", problem)
                continue
            try:
                is_dir = entry.is_dir(follow_symlinks=False)
                if is_dir and output_name(name):
                    folder.marks[name] = find_mark(handle, name)
                verdict = judge(path, name, is_dir, ignores, evidence)
                if verdict is not None:
                    folder.skip(path, verdict.reason, verdict.rule)
                elif is_dir:
                    folder.folders.append(name)
                elif entry.is_file(follow_symlinks=False):
                    # The stat of a Windows directory entry lacks inode and link count.
                    info = os.lstat(entry) if ON_WINDOWS else entry.stat(follow_symlinks=False)
                    self._admit_into(folder, name, path, info)
                else:
                    folder.skip(path, "symlink" if entry.is_symlink() else "not_a_file")
            except OSError as error:
                self.note_failure(path, error)
                folder.listed_at = 0  # The next walk must list it again.
        return folder

    def load_ignores(
        self, folder: FolderListing, uri: str, names: tuple[str, ...]
    ) -> Ignores | None:
        """Return the ignore rules of a folder that contains the ignore files ``names``."""
        known = self.known.get(uri)
        if (
            known is not None
            and known.outer is folder.outer
            and tuple(name for name, _ in known.ignore_files) == names
            and self._same_ignores(uri, known)
        ):
            # The same object, so that subfolders see that nothing changed.
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

    def admit(self, uri: str, info: os.stat_result) -> SourceFile | None:
        """Add a file unless its type or hard links exclude it."""
        if not stat.S_ISREG(info.st_mode):
            self._skip(uri, "symlink" if stat.S_ISLNK(info.st_mode) else "not_a_file")
        elif info.st_nlink > 1 and not self.root.allow_hard_links:
            self._skip(uri, "hard_link", f"it has {info.st_nlink} hard links")
        else:
            file = SourceFile(uri, make_fingerprint(info))
            self.files.append(file)
            return file
        return None

    def _skip(self, uri: str, reason: str, detail: str = "") -> None:
        self.counts[reason] += 1
        if len(self.skipped) < self.most_skipped:
            self.skipped.append(Skipped(uri, reason, detail))

    def note_failure(self, uri: str, error: OSError) -> None:
        """Record a path that did not open, unless it is gone."""
        if error.errno == errno.ELOOP:
            self._skip(uri, "symlink", "became a link during the walk")
        elif error.errno not in VANISHED:
            self.unreadable.append(uri)


def _printable(uri: str) -> str:
    """Return a name as valid text even if its bytes are not UTF-8."""
    return os.fsencode(uri).decode("utf-8", "replace")
