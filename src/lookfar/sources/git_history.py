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
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from lookfar.config import child_environment
from lookfar.errors import InvalidArgument, IOFailed
from lookfar.sources.globs import GlobSet

if TYPE_CHECKING:
    import subprocess

_SECONDS: Final = 60.0
"""That git may take to answer, or to say the next thing of a long answer."""
_MOST_REFS_BYTES: Final = 64_000_000
_PIECE: Final = 1 << 16
_PIPE_BYTES: Final = 1 << 20
"""That git may be ahead of whoever reads, where the system lets it."""
_KEPT_BYTES: Final = 2_000_000
"""Of one commit's record; what is behind is counted, not kept."""
_LINE_BYTES: Final = 4096
_MOST_FOLDERS: Final = 2_000
_MOST_CONFIG_BYTES: Final = 1 << 20
_PROMISED: Final = re.compile(rb"(?im)^\s*(?:partialclone|promisor)\s*=")
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
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "core.pager=cat"),
    *("core.sshCommand=false", "core.alternateRefsCommand=false", "core.askPass=false"),
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


def is_there(repository: Repository) -> bool:
    """Whether a repository that was found below a folder is still the one there."""
    return _repository_at(Path(repository.top)) == repository.git_dir


def _bare(folder: Path) -> Repository | None:
    if _is_git_dir(folder):
        real = os.path.realpath(folder)
        return Repository(real, real)
    return None


def _is_git_dir(folder: Path) -> bool:
    try:
        return all(
            stat.S_ISDIR(os.lstat(folder / name).st_mode) for name in ("objects", "refs")
        ) and bool(line_of(folder / "HEAD"))
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
    line = line_of(entry)
    if not line.startswith("gitdir: "):
        return None
    own = Path(os.path.realpath(folder / line.removeprefix("gitdir: ")))
    if not line_of(own / "HEAD") or not _points_back(own, entry):
        return None
    shared = Path(os.path.realpath(own / (line_of(own / "commondir") or ".")))
    return str(shared) if _is_git_dir(shared) else None


def _points_back(own: Path, entry: Path) -> bool:
    """Whether what a ``.git`` file names knows of it: such a file may come from anybody."""
    back = line_of(own / "gitdir")
    if back:
        return os.path.realpath(own / back) == os.path.realpath(entry)
    # A submodule's lies in the repository that its checkout stands in.
    holder = next((each.parent for each in own.parents if each.name == ".git"), None)
    return holder is not None and Path(os.path.realpath(entry)).is_relative_to(holder)


def line_of(path: Path) -> str:
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


def stamp_of(repository: Repository) -> tuple[str, bool]:
    """What changes whenever a branch, a tag or the head moves, without asking git.

    And whether it can be relied on: not where something moved so lately that one more move
    might not show.
    """
    shared = Path(repository.git_dir)
    seen = sha256(line_of(shared / "HEAD").encode())
    newest = 0
    names = ("packed-refs", "reftable/tables.list", "shallow", "HEAD")
    for path in (*(str(shared / name) for name in names), *_ref_folders(str(shared / "refs"))):
        try:
            info = os.lstat(path)
        except (OSError, ValueError):
            continue
        newest = max(newest, info.st_mtime_ns, info.st_ctime_ns)
        told = (path, info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino)
        seen.update(repr(told).encode("utf-8", "surrogateescape"))
    return seen.hexdigest()[:32], newest + _SETTLING_NS <= time.time_ns()


def _ref_folders(top: str) -> Iterator[str]:
    """A ref is replaced by renaming, which stamps the folder that it lies in."""
    waiting = [top]
    for _ in range(_MOST_FOLDERS):
        if not waiting:
            return
        folder = waiting.pop()
        yield folder
        try:
            with os.scandir(folder) as entries:
                waiting += (each.path for each in entries if each.is_dir(follow_symlinks=False))
        except OSError:
            continue


def refs_of(repository: Repository, branches: Sequence[str] = ()) -> list[Ref]:
    """Branches, tags and the head, by name; with ``branches`` only those that match a glob."""
    told_of_each = "%(objectname) %(objecttype) %(*objectname) %(*objecttype)%00%(refname)"
    places = ("refs/heads", "refs/remotes", "refs/tags")
    lines = _ask(repository, ("for-each-ref", f"--format={told_of_each}", *places)).split(b"\n")
    found: list[Ref] = []
    wanted = GlobSet([checked_branch(each) for each in branches]) if branches else None
    for line in lines:
        told, _, name = line.decode("utf-8", "replace").partition("\0")
        words = told.split()
        kinds = zip(words[::2], words[1::2], strict=True)
        commit = next((each for each, kind in kinds if kind == "commit"), "")
        short = name.split("/", 2)[-1]
        if commit and (wanted is None or wanted.match(short) or wanted.match(name)):
            found.append(Ref(name, commit))
    if wanted is None:
        head = _ask(repository, ("rev-parse", "--verify", "--quiet", "--end-of-options",
                                 "HEAD^{commit}"), refusable=True)  # fmt: skip
        if _HASH.fullmatch(head.decode("ascii", "replace").strip()):
            found.append(Ref("HEAD", head.decode("ascii").strip()))
    return found


def checked_branch(name: str) -> str:
    """A name or glob of a branch; one that reads like an option is nobody's branch."""
    if not name or name.startswith("-") or "\0" in name or "\n" in name:
        raise InvalidArgument(
            f"{name[:100]!r} cannot be a branch.", hint="Name a branch, like main or release/*."
        )
    return name


def shallow_of(repository: Repository) -> str:
    """Where a shallow clone ends; changes when it is deepened. Empty for a whole one."""
    try:
        data = (Path(repository.git_dir) / "shallow").read_bytes()[:_MOST_REFS_BYTES]
    except OSError:
        return ""
    return sha256(data).hexdigest()[:32]


def is_partial(repository: Repository) -> bool:
    """Whether it is a clone that lacks contents until somebody needs them: what changed between
    two of them cannot be told, and they are not fetched for it."""
    shared = Path(repository.git_dir)
    try:
        with os.scandir(shared / "objects" / "pack") as packs:
            if any(each.name.endswith(".promisor") for each in packs):
                return True
    except OSError:
        pass
    try:
        with open(shared / "config", "rb") as file:
            return _PROMISED.search(file.read(_MOST_CONFIG_BYTES)) is not None
    except OSError:
        return False


def commits_of(
    repository: Repository, tips: Iterable[str], but: Iterable[str] = (), most: int = 0
) -> list[str]:
    """The commits that lead to ``tips`` and not to ``but``, the newest first."""
    asked = [_checked_hash(each) for each in tips]
    if not asked:
        return []
    asked += (f"^{_checked_hash(each)}" for each in but)
    command = ["rev-list", "--stdin", "--date-order"]
    if most:
        command.append(f"--max-count={most}")
    if repository.below:
        command += ["--full-history", "--", repository.below]
    answer = _ask(repository, command, given=asked)
    return [line for line in answer.decode("ascii", "replace").split("\n") if _HASH.fullmatch(line)]


def present(repository: Repository, commits: Iterable[str]) -> set[str]:
    """Those of ``commits`` that the repository still has."""
    asked = [_checked_hash(each) for each in commits]
    if not asked:
        return set()
    answer = _ask(repository, ("cat-file", "--batch-check"), given=asked).decode("ascii", "replace")
    words = (line.split() for line in answer.split("\n"))
    return {each[0] for each in words if len(each) == 3 and each[1] == "commit"}


def _checked_hash(text: str) -> str:
    if _HASH.fullmatch(text) is None:
        raise InvalidArgument(
            f"{text[:100]!r} is not the name of a commit.", hint="Give its full hash."
        )
    return text


# --- what commits say ---------------------------------------------------------------------------


def read_commits(
    repository: Repository,
    commits: Sequence[str],
    *,
    diff_lines: int,
    hidden: Callable[[str], bool] = lambda _: False,
    mask: Callable[[str], str] = lambda text: text,
) -> Iterator[Commit]:
    """These commits, as one stream in their order; with 0 ``diff_lines`` without diffs.

    Paths that are ``hidden`` are named, and their diff is not shown; messages and other diffs are
    shown as ``mask`` leaves them. Of a partial clone there
    are no diffs, and what was renamed has come and gone: git ends at the first missing content.
    """
    if not commits:
        return
    partial = is_partial(repository)
    diff_lines = 0 if partial else diff_lines
    import secrets

    # No commit can know it, so nothing in one can be taken for the beginning of another.
    mark = secrets.token_hex(16)
    command = [
        *("log", "--no-walk=unsorted", "--stdin", *_SHOWN),
        f"--format={mark}{'%x00'.join(_FIELDS)}%x00",
        *(["--no-renames"] if partial else []),
        *(["--patch", "--unified=3"] if diff_lines else []),
        *(["--", repository.below] if repository.below else []),
    ]
    asked = [_checked_hash(each) for each in commits]
    with _running(repository, command, asked) as pieces:
        for record, lines_behind in _records(pieces, mark.encode()):
            found = _commit(record, lines_behind, diff_lines, hidden, mask)
            if found is not None:
                yield found


def _records(pieces: Iterable[bytes], mark: bytes) -> Iterator[tuple[bytes, int]]:
    """What stands between marks, as far as it is kept, and the number of lines behind that."""
    record = bytearray()
    behind = 0
    begun = False
    rest = b""
    for piece in pieces:
        data = rest + piece
        at = 0
        while True:
            found = data.find(mark, at)
            # A mark may be cut in two: what could be its beginning waits for the next piece.
            end = found if found >= 0 else max(at, len(data) - len(mark) + 1)
            room = _KEPT_BYTES - len(record)
            record += data[at : min(end, at + room)]
            if end - at > room:
                behind += data.count(b"\n", at + room, end)
            if found < 0:
                rest = data[end:]
                break
            if begun:
                yield bytes(record), behind
            record.clear()
            begun, behind, at = True, 0, found + len(mark)
    if begun:
        record += rest[: max(0, _KEPT_BYTES - len(record))]
        yield bytes(record), behind


def _commit(
    record: bytes,
    behind: int,
    diff_lines: int,
    hidden: Callable[[str], bool],
    mask: Callable[[str], str],
) -> Commit | None:
    parts = record.split(b"\0", len(_FIELDS))
    if len(parts) < len(_FIELDS):
        return None
    told = [each.decode("utf-8", "replace") for each in parts[: len(_FIELDS)]]
    name, parents, author, authored, committer, committed, message = told
    if _HASH.fullmatch(name) is None:
        return None
    rest = parts[len(_FIELDS)] if len(parts) > len(_FIELDS) else b""
    files, at = _touched(rest)
    # What is renamed out of hiding shows in its diff what it hid.
    out = [hidden(each.path) or bool(each.before and hidden(each.before)) for each in files]
    diff, omitted = _beginning(rest, at, behind, diff_lines, out, mask)
    title, _, body = mask(message).strip("\n").partition("\n")
    return Commit(
        hash=name,
        parents=tuple(parents.split()),
        author=author,
        authored=_second(authored),
        committer=committer,
        committed=_second(committed),
        title=title.strip(),
        body=body.strip("\n"),
        files=files,
        diff=diff,
        omitted=omitted,
    )


def _second(text: str) -> int:
    """A time as git writes it, within what an index can hold; hostile ones are clamped."""
    try:
        return max(-(1 << 33), min(int(text), 1 << 33))
    except ValueError:
        return 0


def _touched(rest: bytes) -> tuple[tuple[Touched, ...], int]:
    """The raw entries behind a message, and where the diff begins."""
    files: list[Touched] = []
    at = 0
    while at < len(rest) and rest[at : at + 1] in (b"\0", b"\n"):
        at += 1
    while rest[at : at + 1] == b":":
        end = rest.find(b"\0", at)
        if end < 0:
            return tuple(files), len(rest)
        status = rest[at:end].rpartition(b" ")[2][:1].decode("ascii", "replace")
        names = []
        for _ in range(2 if status in "RC" else 1):
            start, end = end + 1, rest.find(b"\0", end + 1)
            if end < 0:
                return tuple(files), len(rest)
            names.append(rest[start:end].decode("utf-8", "replace"))
        files.append(Touched(status, names[-1], names[0] if len(names) > 1 else ""))
        at = end + 1
    while at < len(rest) and rest[at : at + 1] in (b"\0", b"\n"):
        at += 1
    return tuple(files), at


def _beginning(
    rest: bytes,
    at: int,
    behind: int,
    most: int,
    hidden: Sequence[bool],
    mask: Callable[[str], str],
) -> tuple[str, int]:
    """The first lines of a diff, and how many there are beyond them."""
    end = len(rest.rstrip(b"\0\n"))
    if not most or at >= end:
        return "", 0
    if any(hidden):
        patches = rest[at:end].split(b"\ndiff --")
        if len(patches) != len(hidden):
            return "", 0  # Which diff is whose cannot be told, so none is shown.
        shown = (each for each, out in zip(patches, hidden, strict=True) if not out)
        joined = b"\n".join(each if each.startswith(b"diff --") else b"diff --" + each
                            for each in shown)  # fmt: skip
        rest, at, end = joined, 0, len(joined)
        if not joined:
            return "", 0
    stop, lines = at, 0
    while lines < most and stop < end:
        following = rest.find(b"\n", stop, end)
        stop = end if following < 0 else following + 1
        lines += 1
    # Masked before lines are cut: what is left of a token would not be recognised.
    text = mask(rest[at:stop].decode("utf-8", "replace").replace("\0", "\ufffd"))
    kept = "\n".join(
        line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + "…"
        for line in text.removesuffix("\n").split("\n")
    )
    # The last line kept ends with the first line end behind it, or with the diff.
    return kept, rest.count(b"\n", stop, end) + (behind or stop < end)


# --- running git --------------------------------------------------------------------------------


def installed() -> bool:
    """Whether there is a git to ask."""
    return shutil.which("git", path=_environment().get("PATH")) is not None


def _environment() -> dict[str, str]:
    """Nothing of ours but where programs and temporary files are."""
    own = child_environment({})
    return {**{k: v for k, v in own.items() if k.upper() in _KEPT_VARIABLES}, **_ENVIRONMENT}


def _command(repository: Repository, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    environment = _environment()
    program = shutil.which("git", path=environment.get("PATH"))
    if program is None:
        raise IOFailed(
            "git is not installed, so the history cannot be read.",
            hint="Install git, or set git.history to false.",
        )
    overruled = [word for each in _OVERRULED for word in ("-c", each)]
    before = ["--no-pager", "--literal-pathspecs", f"--git-dir={repository.git_dir}", *overruled]
    return [program, *before, *arguments], environment


@contextmanager
def _running(
    repository: Repository,
    arguments: Sequence[str],
    given: Sequence[str] = (),
    *,
    refusable: bool = False,
) -> Iterator[Iterator[bytes]]:
    """What git says, piece by piece. It ends with the block, or when it says nothing for long."""
    # Here: most questions need no git, and these take longer to load than to answer some.
    import subprocess
    from tempfile import TemporaryFile

    command, environment = _command(repository, arguments)
    with TemporaryFile() as told:
        told.write("".join(f"{each}\n" for each in given).encode())
        told.seek(0)
        try:
            process = subprocess.Popen(
                command,
                stdin=told,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd=repository.git_dir,
                pipesize=_PIPE_BYTES,
            )
        except OSError as error:
            raise _failed(repository, arguments, f"{type(error).__name__}: {error}") from error
    assert process.stdout is not None
    guard = _Guard(process)
    try:
        yield guard.pieces(process.stdout)
        if process.wait(_SECONDS) and not refusable:
            why = "it said nothing for too long" if guard.ended else f"exit {process.returncode}"
            raise _failed(repository, arguments, why)
    finally:
        guard.leave()
        process.kill()
        process.stdout.close()
        process.wait()


class _Guard:
    """Ends a process that says nothing for too long."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.ended = False
        self._process = process
        self._heard = time.monotonic()
        self._left = Event()
        self._thread = Thread(target=self._watch, name="lookfar-git", daemon=True)
        self._thread.start()

    def pieces(self, stream: IO[bytes]) -> Iterator[bytes]:
        while piece := stream.read1(_PIECE):  # type: ignore[attr-defined]
            # While whoever reads does its part git waits: that is not its time.
            self._heard = float("inf")
            yield piece
            self._heard = time.monotonic()

    def _watch(self) -> None:
        while not self._left.wait(1.0):
            if time.monotonic() - self._heard > _SECONDS:
                self.ended = True
                self._process.kill()
                return

    def leave(self) -> None:
        self._left.set()
        self._thread.join()


def _ask(
    repository: Repository,
    arguments: Sequence[str],
    given: Sequence[str] = (),
    *,
    refusable: bool = False,
) -> bytes:
    """All that git says; ``refusable`` lets it say no."""
    told = bytearray()
    with _running(repository, arguments, given, refusable=refusable) as pieces:
        for piece in pieces:
            told += piece
            if len(told) > _MOST_REFS_BYTES:
                raise _failed(repository, arguments, "too much to hold")
    return bytes(told)


def _failed(repository: Repository, arguments: Sequence[str], why: str) -> IOFailed:
    return IOFailed(
        f"git could not read the repository {repository.top!r}.",
        hint="Run git fsck there, or leave it out with git.history = false.",
        developer=f"git {arguments[0]} in {repository.git_dir}: {why}",
        details={"path": repository.git_dir},
    )
