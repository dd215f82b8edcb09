"""The one door to git: which repositories there are, where they stand, what their commits say.

Takes: a root with the folders a walk found in it, and repositories found there. Gives: the
tips of branches and tags, the commits that one set of tips has and another has not, and
commits as a stream with the paths they touch and the beginning of their diff. Refuses: to
run anything but git, to let a repository choose what git runs, to reach for the network, to
wait for ever, and to hold a diff that does not fit.

A repository comes with whatever was cloned or unpacked, so its configuration is not
trusted: every setting by which it could name a program is overruled or has no occasion.
Names of branches never reach a command line; git is asked for objects, by their hash, on
its standard input.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event, Thread
from typing import IO, Final, NamedTuple

from lookfar.config import child_environment
from lookfar.errors import InvalidArgument, IOFailed
from lookfar.sources.globs import GlobSet

_SECONDS: Final = 60.0
"""That git may take to answer, or to say the next thing of a long answer."""
_MOST_REFS_BYTES: Final = 64_000_000
_PIECE: Final = 1 << 16
_KEPT_BYTES: Final = 2_000_000
"""Of one commit's record; what is behind is counted, not kept."""
_LINE_BYTES: Final = 4096
_MOST_FOLDERS: Final = 2_000
_SETTLING_NS: Final = 2 * 10**9
_LONGEST_LINE: Final = 400
_HASH: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_KEPT_VARIABLES: Final = frozenset(
    (*("PATH", "SYSTEMROOT", "WINDIR", "TMPDIR", "TEMP", "TMP"), *("LD_LIBRARY_PATH", "PATHEXT"))
)
_ENVIRONMENT: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    # Objects that a partial clone lacks stay missing: fetching them runs what its remote names.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C.UTF-8",
}
_OVERRULED: Final = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "core.pager=cat", "core.sshCommand=false"),
    *("core.attributesFile=/dev/null", "core.quotePath=false", "core.bigFileThreshold=32m"),
    *("diff.external=", "diff.noprefix=false", "diff.mnemonicPrefix=false", "diff.context=3"),
    *("diff.interHunkContext=0", "diff.algorithm=myers", "diff.renameLimit=400"),
    *("log.showSignature=false", "log.mailmap=false", "log.showRoot=true", "log.follow=false"),
    *("gpg.program=false", "gpg.ssh.program=false", "gpg.x509.program=false"),
    *("protocol.allow=never", "color.ui=false", "submodule.recurse=false", "gc.auto=0"),
)
_SHOWN: Final = (
    *("--no-ext-diff", "--no-textconv", "--no-color", "--no-notes", "--no-decorate"),
    *("--no-show-signature", "--no-mailmap", "--submodule=short", "-O/dev/null", "--no-relative"),
    *("--encoding=UTF-8", "--root", "--find-renames", "--raw", "--no-abbrev", "-z"),
)
_FIELDS: Final = ("%H", "%P", "%an <%ae>", "%at", "%cn <%ce>", "%ct", "%B")


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository by the folder that all its worktrees share."""

    git_dir: str
    top: str
    """The working tree that it was found by; the repository itself where it is bare."""
    below: str = ""
    """The folder in it that may be shown, where the root lies inside; empty for all of it."""


class Ref(NamedTuple):
    """A branch or tag and the commit that it means."""

    name: str
    commit: str


class Touched(NamedTuple):
    """A path that a commit changed."""

    status: str
    """One letter: ``A``, ``M``, ``D``, ``R``, ``C`` or ``T``."""
    path: str
    before: str = ""
    """For what was renamed or copied, its path before."""


@dataclass(frozen=True, slots=True)
class Commit:
    """What git says of one commit."""

    hash: str
    parents: tuple[str, ...]
    author: str
    """Name and address, as ``Ada <ada@example.org>``."""
    authored: int
    """Seconds since 1970."""
    committer: str
    committed: int
    title: str
    body: str
    files: tuple[Touched, ...]
    diff: str
    """Its first lines; empty where it was not asked for, or there is none."""
    omitted: int
    """How many lines of the diff are left out."""


# --- which repositories there are ---------------------------------------------------------------


def repository_around(path: str) -> Repository | None:
    """The repository that a folder is, or lies in.

    As git does, the search stays on one disk; and it ends at the user's home.
    """
    start = Path(path)
    bare = _bare(start)
    if bare is not None:
        return bare
    home = os.path.expanduser("~")
    for folder in (start, *start.parents):
        found = _repository_at(folder)
        if found is not None:
            below = start.relative_to(folder).as_posix()
            return Repository(found, str(folder), "" if below == "." else below)
        if str(folder) == home or os.path.ismount(folder):
            return None
    return None


def repositories_in(path: str, folders: Iterable[str]) -> list[tuple[str, Repository]]:
    """The repositories among admitted folders, by URI; what lies inside one is not searched."""
    found: list[tuple[str, Repository]] = []
    known: set[str] = set()
    for uri in sorted(each for each in folders if each):
        if found and uri.startswith(f"{found[-1][0]}/"):
            continue
        git_dir = _repository_at(Path(path, uri))
        if git_dir is not None and git_dir not in known:
            known.add(git_dir)
            found.append((uri, Repository(git_dir, str(Path(path, uri)))))
    return found


def _bare(folder: Path) -> Repository | None:
    if _is_git_dir(folder):
        real = os.path.realpath(folder)
        return Repository(real, real)
    return None


def _is_git_dir(folder: Path) -> bool:
    try:
        return all(
            stat.S_ISDIR(os.lstat(folder / name).st_mode) for name in ("objects", "refs")
        ) and bool(_line_of(folder / "HEAD"))
    except (OSError, ValueError):
        return False


def _repository_at(folder: Path) -> str | None:
    """The folder shared by all worktrees of the repository checked out here."""
    entry = folder / ".git"
    try:
        mode = os.lstat(entry).st_mode
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(mode):
        return os.path.realpath(entry) if _is_git_dir(entry) else None
    if not stat.S_ISREG(mode):
        return None
    line = _line_of(entry)
    if not line.startswith("gitdir: "):
        return None
    own = Path(os.path.realpath(folder / line.removeprefix("gitdir: ")))
    if not _line_of(own / "HEAD") or not _points_back(own, entry):
        return None
    shared = Path(os.path.realpath(own / (_line_of(own / "commondir") or ".")))
    return str(shared) if _is_git_dir(shared) else None


def _points_back(own: Path, entry: Path) -> bool:
    """Whether what a ``.git`` file names knows of it: such a file may come from anybody."""
    back = _line_of(own / "gitdir")
    if back:
        return os.path.realpath(own / back) == os.path.realpath(entry)
    # A submodule's lies in the repository that its checkout stands in.
    holder = next((each.parent for each in own.parents if each.name == ".git"), None)
    return holder is not None and Path(os.path.realpath(entry)).is_relative_to(holder)


def _line_of(path: Path) -> str:
    """The first line of a small plain file; empty where there is none to read."""
    try:
        # A pipe under that name would keep us waiting for its other end.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return ""
    try:
        plain = stat.S_ISREG(os.fstat(descriptor).st_mode)
        data = os.read(descriptor, _LINE_BYTES) if plain else b""
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return data.partition(b"\n")[0].decode("utf-8", "replace").strip()


# --- where a repository stands ------------------------------------------------------------------


def stamp_of(repository: Repository) -> str:
    """Changes whenever a branch, a tag or the head moves, without asking git.

    Empty where it moved so lately that one more move might not show.
    """
    shared = Path(repository.git_dir)
    seen = hashlib_of(_line_of(shared / "HEAD"))
    newest = 0
    names = ("packed-refs", "reftable/tables.list", "shallow", "HEAD")
    for path in (*(shared / name for name in names), *_ref_folders(shared / "refs")):
        try:
            info = os.lstat(path)
        except (OSError, ValueError):
            continue
        newest = max(newest, info.st_mtime_ns, info.st_ctime_ns)
        told = (str(path), info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino)
        seen.update(repr(told).encode("utf-8", "surrogateescape"))
    return "" if newest + _SETTLING_NS > time.time_ns() else seen.hexdigest()[:32]


def hashlib_of(text: str) -> "sha256.__class__":  # pragma: no cover - replaced below
    raise NotImplementedError
