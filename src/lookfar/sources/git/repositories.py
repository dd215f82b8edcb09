"""Find the git repositories at, above and below a folder, and decide which may be read.

As in git, a repository of another user is not read. Neither is a ``.git`` that is a link, nor a
``.git`` file or ``commondir`` that leads to a repository which does not point back: an archive can
contain any ``.git`` file, and only the repository it names can confirm that the working tree is
its own, by ``worktrees/NAME/gitdir`` for a worktree or ``core.worktree`` for a submodule.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from lookfar import config
from lookfar.errors import LookfarError, RepositoryRefused
from lookfar.sources.confine import Refused, Root
from lookfar.sources.git.metadata import (
    open_git_folder,
    peek_line,
    read_config,
    read_file,
    read_line,
)

_GITFILE: Final = "gitdir: "
_WORKTREE: Final = re.compile(r"(?im)^[ \t]*worktree[ \t]*=[ \t]*(.*?)[ \t]*$")
_ESCAPED: Final = re.compile(r"\\(.)")
_ROOT_USER: Final = 0
_REF_TABLES: Final = "reftable/tables.list"
_NO_HEAD: Final = "none"
_REASONS: Final = {
    "symlink": "{entry} is a link, or its path leads through one",
    "not_a_file": "{entry} is not what git would write there ({detail})",
    "too_large": "{entry} is too large ({detail})",
    "too_many": "{entry} has too many entries ({detail})",
    "too_deep": "{entry} is nested too deeply ({detail})",
    "changing": "{entry} is being written",
    "gone": "{entry} is gone",
    "outside": "{entry} leads outside ({detail})",
    "owner": "{entry} belongs to another user ({detail})",
}
_TRUST: Final = "If you trust it, add the folder to git.trusted in your own settings."
_HINTS: Final = {
    "owner": _TRUST,
    "outside": _TRUST,
    "changing": "Try again when git has finished.",
}
_HINT: Final = "Clone it again with git, or turn history off: git.history = false."


class Refusal(NamedTuple):
    """Why a repository is not read."""

    reason: str
    """One word, as in ``confine.Refused``, or ``outside`` or ``owner``."""
    entry: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository, identified by the git folder that its worktrees share."""

    git_dir: str
    """Empty if it was rejected before that folder was known."""
    top: str
    """Its working tree, or the repository itself if it is bare."""
    below: str = ""
    """The folder in it that may be shown, if the root is inside it; empty for all of it."""
    within: str = ""
    """The folder that alternates must be in; empty if the user trusts the repository."""
    own: str = ""
    """The git folder of this worktree, which has its HEAD; else ``git_dir``."""
    refused: Refusal | None = None

    def allows(self, path: str) -> bool:
        """Whether a real path may be read for this repository."""
        places = (self.within, self.top, self.git_dir)
        return not self.within or any(Path(path).is_relative_to(place) for place in places)


def refusal_error(repository: Repository, refusal: Refusal | Refused) -> RepositoryRefused:
    """Build the error that says why a repository is not read."""
    entry = refusal.entry if isinstance(refusal, Refusal) else refusal.uri
    why = _REASONS.get(refusal.reason, "{entry}: {detail}")
    why = why.format(entry=entry or repository.top, detail=refusal.detail).replace(" ()", "")
    return RepositoryRefused(
        f"The history of {repository.top!r} is not read: {why}.",
        hint=_HINTS.get(refusal.reason, _HINT),
        details={"path": repository.top, "reason": refusal.reason, "entry": entry},
    )


# --- finding ------------------------------------------------------------------------------------


def find_repository(path: str, trusted: Sequence[str] = ()) -> Repository | None:
    """Return the repository at a folder or around it.

    As in git, the search stays on one file system; it ends at the user's home folder.
    """
    start = Path(path)
    bare = _examine(start, start, trusted, bare=True)
    if bare is not None:
        return bare
    home = os.path.expanduser("~")
    for folder in (start, *start.parents):
        repository = _repository_at(folder, str(folder), trusted)
        if repository is not None:
            below = start.relative_to(folder).as_posix()
            return replace(repository, below="" if below == "." else below)
        if str(folder) == home or os.path.ismount(folder):
            return None
    return None


def list_repositories(
    path: str, folders: Iterable[str], trusted: Sequence[str] = ()
) -> list[tuple[str, Repository]]:
    """Return the repositories among admitted folders by URI, without nested ones."""
    repositories: list[tuple[str, Repository]] = []
    known: set[str] = set()
    for uri in sorted(uri for uri in folders if uri):
        if repositories and uri.startswith(f"{repositories[-1][0]}/"):
            continue
        repository = _repository_at(Path(path, uri), path, trusted)
        if repository is not None and (not repository.git_dir or repository.git_dir not in known):
            known.add(repository.git_dir)
            repositories.append((uri, repository))
    return repositories


def is_unchanged(repository: Repository, path: str, trusted: Sequence[str] = ()) -> bool:
    """Whether a repository found below the folder ``path`` is still the same."""
    return _repository_at(Path(repository.top), path, trusted) == repository


def _repository_at(folder: Path, within: str, trusted: Sequence[str]) -> Repository | None:
    """Return the repository checked out in a folder; ``within`` limits what is read for it."""
    entry = folder / ".git"
    try:
        mode = os.lstat(entry).st_mode
    except (OSError, ValueError):
        return None
    top = str(folder)
    trust = is_trusted(top, trusted)
    if stat.S_ISDIR(mode) or (stat.S_ISLNK(mode) and trust):
        repository = _examine(Path(os.path.realpath(entry)), folder, trusted)
    elif stat.S_ISLNK(mode):
        return Repository("", top, refused=Refusal("symlink", ".git"))
    elif stat.S_ISREG(mode):
        repository = _resolve_gitfile(entry, trust, trusted)
    else:
        return None
    if repository is None or not repository.within:
        return repository
    return replace(repository, within=within)


def _examine(
    git_dir: Path, folder: Path, trusted: Sequence[str], *, bare: bool = False
) -> Repository | None:
    """Return the repository whose shared git folder is ``git_dir``, or None."""
    if not all(os.path.lexists(git_dir / name) for name in ("HEAD", "objects", "refs")):
        return None
    top = os.path.realpath(folder) if bare else str(folder)
    path = os.path.realpath(git_dir) if bare else str(git_dir)
    within = "" if is_trusted(top, trusted) else top
    repository = Repository(path, top, within=within, own=path)
    try:
        root = open_git_folder(path)
        for name in ("objects", "refs"):
            if not stat.S_ISDIR(os.lstat(git_dir / name).st_mode):
                link = os.path.islink(git_dir / name)
                raise Refused(name, "symlink" if link else "not_a_file", "a file or device")
        _check_head(root)
        # A main repository has none; git would read all shared data from where it leads.
        if read_file(root, "commondir", 1 << 16) is not None:
            raise Refused("commondir", "outside", "a main repository has none")
        if within:
            _check_owners(top, path)
    except Refused as refusal:
        return replace(repository, refused=Refusal(refusal.reason, refusal.uri, refusal.detail))
    except (OSError, LookfarError):
        return None
    return repository


def _check_head(root: Root) -> None:
    """Raise unless HEAD is a file or the old form of a symbolic reference."""
    path = os.path.join(root.path, "HEAD")
    if not (os.path.islink(path) and os.readlink(path).startswith("refs/")):
        read_line(root, "HEAD")


def _resolve_gitfile(entry: Path, trust: bool, trusted: Sequence[str]) -> Repository | None:
    """Return the repository that a ``.git`` file names, if it points back."""
    line = peek_line(str(entry.parent.resolve()), ".git")
    if not line.startswith(_GITFILE) or "\0" in line:
        return None
    target = line.removeprefix(_GITFILE)
    own = Path(os.path.realpath(entry.parent / target))
    top = str(entry.parent)
    elsewhere = Refusal("outside", ".git", f"{target[:200]!r} does not point back")
    try:
        root = open_git_folder(str(own))
        back = read_line(root, "gitdir")
        if back:
            shared = Path(os.path.realpath(own / read_line(root, "commondir")))
            mutual = os.path.realpath(own / back) == os.path.realpath(entry)
            # The worktree's git folder may come with the archive, so it must be in the shared one.
            if not trust and not (mutual and own.parent == shared / "worktrees"):
                return Repository("", top, refused=elsewhere)
        else:
            shared = own
            if not trust and not _is_its_worktree(root, entry.parent):
                return Repository("", top, refused=elsewhere)
        if not trust:
            _check_owners(str(entry), str(own))
    except Refused as refusal:
        if refusal.reason == "gone":
            return None
        return Repository("", top, refused=Refusal(refusal.reason, refusal.uri, refusal.detail))
    except LookfarError:
        return None
    repository = _examine(shared, entry.parent, trusted)
    return repository and replace(repository, own=str(own))


def _is_its_worktree(git_dir: Root, folder: Path) -> bool:
    """Whether a repository's configuration names ``folder`` as its working tree."""
    values = _WORKTREE.findall(read_config(git_dir))
    if not values:
        return False
    value = _ESCAPED.sub(r"\1", values[-1].strip('"'))
    return os.path.realpath(os.path.join(git_dir.path, value)) == os.path.realpath(folder)


# --- the head -----------------------------------------------------------------------------------


def read_head(root: Root) -> str:
    """Return a hash that changes with every commit and checkout of the repository of ``root``.

    The repository may begin above the root, or be a worktree whose head is elsewhere. What is
    read there is only compared, never shown.
    """
    repository = find_repository(root.path)
    head = peek_line(repository.own, "HEAD") if repository and repository.own else ""
    if repository is None or not head:
        return _NO_HEAD
    parts = [head]
    if head.startswith("ref: "):
        name = head.removeprefix("ref: ")
        line = peek_line(repository.own, name) or peek_line(repository.git_dir, name)
        shared = Path(repository.git_dir)
        # Without a file of its own, the ref is packed or in a reftable.
        parts += (
            [line] if line else map(_stamp_file, (shared / "packed-refs", shared / _REF_TABLES))
        )
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


def _stamp_file(path: Path) -> str:
    try:
        info = path.lstat()
    except (OSError, ValueError):
        return ""
    return f"{info.st_mtime_ns} {info.st_size} {info.st_ino}"


# --- ownership ----------------------------------------------------------------------------------


def is_trusted(top: str, trusted: Sequence[str]) -> bool:
    """Whether the user's own settings name a repository: its folder, ``DIR/*`` or ``*``."""
    for entry in trusted:
        if entry == "*":
            return True
        above = entry.endswith("/*")
        named = os.path.realpath(os.path.expanduser(entry.removesuffix("/*")))
        real = os.path.realpath(top)
        if real == named or (above and Path(real).is_relative_to(named)):
            return True
    return False


def _check_owners(*paths: str) -> None:
    """Raise if another user owns a path; the user who called sudo is accepted."""
    if not hasattr(os, "geteuid"):
        return
    user = os.geteuid()
    accepted = {user}
    if user == _ROOT_USER and (asking := config.sudo_user()) is not None:
        accepted.add(asking)
    for path in paths:
        owner = os.lstat(path).st_uid
        if owner not in accepted:
            raise Refused(path, "owner", f"user {owner}, not {user}")
