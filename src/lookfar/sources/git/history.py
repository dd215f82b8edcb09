"""Run git: read branches, tags and commits. All access to git objects is in this module.

Nothing in a repository is trusted. Git runs in an empty repository of ours, created for one call,
and gets only the objects of the other: none of its configuration, hooks, attributes, references
or index. References are read by ``metadata.py``, and git is asked for objects by hash on its
standard input. It cannot use the network, and its time, memory and output are limited.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from threading import Event, Thread
from traceback import clear_frames
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from lookfar.common.programs import find_program
from lookfar.config import child_environment
from lookfar.errors import InvalidArgument, IOFailed, RepositoryRefused
from lookfar.sources.confine import Refused
from lookfar.sources.git.metadata import (
    HASH,
    PLACES,
    SETTLING_NS,
    Objects,
    is_promisor,
    open_git_folder,
    open_objects,
    peek_line,
    read_config,
    read_references,
    read_shallow,
    read_tables,
)
from lookfar.sources.git.repositories import Repository, refusal_error
from lookfar.sources.globs import GlobSet

if TYPE_CHECKING:
    import subprocess

_SECONDS: Final = 60.0
"""How long git may be silent."""
_SEARCH_SECONDS: Final = 900.0
"""How long git may be silent while it searches the diffs of a whole history."""
_MOST_ANSWER_BYTES: Final = 64_000_000
_PIECE: Final = 1 << 16
_PIPE_BYTES: Final = 1 << 20
"""Requested size of the output pipe, which lets git run ahead of the reader."""
_PIPE_HOLDS: Final = 1 << 14
"""What fits into a new pipe on every system before it is read."""
_KEPT_BYTES: Final = 2_000_000
"""Limit for one commit's record; lines beyond it are only counted."""
_MOST_RECORD_BYTES: Final = 256 << 20
"""Git is stopped at a commit with a larger record."""
_MOST_ERROR_BYTES: Final = 1 << 20
_MOST_OVERWHELMED: Final = 200
"""After this many commits that git could not show, diffs are no longer requested; after as many
again, paths neither."""
_MOST_FOLDERS: Final = 2_000
_MOST_ENTRIES: Final = 200_000
_LEAST_MEMORY: Final = 192 << 20
_MEMORY_PER_BYTE: Final = 4
"""Git's memory limit grows with the size of the repository on disk."""
_PROMISED: Final = re.compile(r"(?im)^\s*(?:partialclone|promisor)\s*=")
_SHA256: Final = re.compile(r"(?im)^\s*objectformat\s*=\s*\"?sha256\b")
_SETTLING_NS: Final = SETTLING_NS
_LONGEST_LINE: Final = 400
_NO_MEMORY: Final = b"ut of memory"
_KEPT_VARIABLES: Final = frozenset(
    (*("PATH", "SYSTEMROOT", "WINDIR", "TMPDIR", "TEMP", "TMP"), *("LD_LIBRARY_PATH", "PATHEXT"))
)
_ENVIRONMENT: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    # Objects that a partial clone lacks stay missing.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C.UTF-8",
}
_CONFIG: Final = """[core]
\trepositoryformatversion = 1
\tbare = true
\tquotePath = false
\tbigFileThreshold = 16m
\tdeltaBaseCacheLimit = 32m
\tattributesFile = /dev/null
\thooksPath = /dev/null
\t# It names packs by their path, and so might lead to those of others.
\tmultiPackIndex = false
[diff]
\trenameLimit = 400
[protocol]
\tallow = never
[gc]
\tauto = 0
[extensions]
"""
"""The whole configuration for git."""
_SHOWN: Final = (
    *("--no-ext-diff", "--no-textconv", "--no-color", "--no-notes", "--no-decorate"),
    *("--no-show-signature", "--no-mailmap", "--submodule=short", "-O/dev/null", "--no-relative"),
    *("--encoding=UTF-8", "--root", "--find-renames", "--no-abbrev", "-z"),
)
_FIELDS: Final = ("%H", "%P", "%an <%ae>", "%at", "%cn <%ce>", "%ct", "%B")


class _Overwhelmed(Exception):
    """Raised if git exceeds its output or memory limit."""


class Ref(NamedTuple):
    """A branch or tag, and its commit."""

    name: str
    commit: str


class Touched(NamedTuple):
    """A path that a commit changed."""

    status: str
    """One letter: ``A``, ``M``, ``D``, ``R``, ``C`` or ``T``."""
    path: str
    before: str = ""
    """The old path if it was renamed or copied."""


@dataclass(frozen=True, slots=True)
class Commit:
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
    """Its first lines; empty if it was not requested or there is none."""
    omitted: int
    """How many lines of the diff are omitted."""


# --- references ---------------------------------------------------------------------------------


def compute_stamp(repository: Repository) -> tuple[str, bool]:
    """Return a value that changes whenever a branch, a tag or HEAD moves, without running git.

    The second value is False if something moved so recently that another move might not show.
    """
    shared = Path(repository.git_dir)
    state_hash = sha256(peek_line(repository.git_dir, "HEAD").encode())
    newest = 0
    names = ("packed-refs", "reftable/tables.list", "shallow", "HEAD")
    for path in (*(str(shared / name) for name in names), *_ref_folders(str(shared / "refs"))):
        try:
            info = os.lstat(path)
        except (OSError, ValueError):
            continue
        newest = max(newest, info.st_mtime_ns, info.st_ctime_ns)
        state = (path, info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino)
        state_hash.update(repr(state).encode("utf-8", "surrogateescape"))
    return state_hash.hexdigest()[:32], newest + _SETTLING_NS <= time.time_ns()


def _ref_folders(top: str) -> Iterator[str]:
    """Yield the folders of references; replacing a reference changes its folder's timestamps."""
    pending = [top] if not os.path.islink(top) else []
    left = _MOST_ENTRIES
    for _ in range(_MOST_FOLDERS):
        if not pending:
            return
        folder = pending.pop()
        yield folder
        try:
            with os.scandir(folder) as entries:
                for entry in islice(entries, left):
                    left -= 1
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            continue


def list_refs(repository: Repository, branches: Sequence[str] = ()) -> list[Ref]:
    """Return branches, tags and HEAD by name; with ``branches``, only those that match a glob."""
    wanted = GlobSet([check_branch(name) for name in branches]) if branches else None

    def is_wanted(name: str) -> bool:
        if wanted is None:
            return True
        names = (name.split("/", 2)[-1], name)
        return name != "HEAD" and any(map(wanted.match, names))

    with _raise_refusals(repository):
        folder = open_git_folder(repository.git_dir)
        tables = read_tables(folder)
        references = _read_tables(repository, tables) if tables else read_references(folder)
    chosen = [(name, value) for name, value in references if is_wanted(name)]
    commits = _peel(repository, {value for _, value in chosen})
    return [Ref(name, commits[value]) for name, value in chosen if value in commits]


def _read_tables(repository: Repository, tables: Mapping[str, bytes]) -> list[tuple[str, str]]:
    """Return the references of a reftable store, which only git can read, from a copy."""
    command = ("for-each-ref", "--format=%(refname) %(objectname)", *PLACES)
    answer = _ask(repository, command, tables=tables).decode("utf-8", "replace")
    head = ("rev-parse", "--verify", "--quiet", "--end-of-options", "HEAD")
    current = _ask(repository, head, tables=tables, refusable=True).decode("ascii", "replace")
    lines = [line.rpartition(" ") for line in (*answer.split("\n"), f"HEAD {current.strip()}")]
    return [(name, value) for name, _, value in lines if HASH.fullmatch(value)]


def _peel(repository: Repository, hashes: set[str]) -> dict[str, str]:
    """Map the hashes of commits and tags to commits; a tag may point to something else."""
    names = sorted(hashes)
    if not names:
        return {}
    lines = [f"{name}^{{commit}}" for name in names]
    form = "--batch-check=%(objectname) %(objecttype)"
    answers = _ask(repository, ("cat-file", form), given=lines).decode("ascii", "replace")
    commits: dict[str, str] = {}
    missing = []
    for name, answer in zip(names, answers.split("\n"), strict=False):
        value, _, kind = answer.partition(" ")
        if kind == "commit":
            commits[name] = value
        else:
            missing.append(name)
    # A tag may point to a file, but a missing object means damage.
    if len(find_present(repository, missing, "")) < len(missing):
        raise _failed(repository, ("cat-file",), "a reference leads to an object that is missing")
    return commits


def find_refusal(repository: Repository) -> RepositoryRefused | None:
    """Return why a repository would not be read now, without running git; None if it would."""
    try:
        with _raise_refusals(repository), open_objects(repository.git_dir, repository.allows):
            folder = open_git_folder(repository.git_dir)
            read_shallow(folder)
            read_config(folder)
            read_references(folder)
    except RepositoryRefused as refusal:
        return refusal
    return None


def check_branch(name: str) -> str:
    """Return a branch name or glob; ``InvalidArgument`` if it could be read as an option."""
    if not name or name.startswith("-") or "\0" in name or "\n" in name:
        raise InvalidArgument(
            f"{name[:100]!r} is not a valid branch name or pattern.",
            hint="Use a branch name such as main, or a pattern such as release/*.",
        )
    return name


def shallow_stamp(repository: Repository) -> str:
    """Return a value that changes when a shallow clone is deepened; empty for a full clone."""
    with _raise_refusals(repository):
        commits = read_shallow(open_git_folder(repository.git_dir))
    return sha256("\n".join(commits).encode()).hexdigest()[:32] if commits else ""


def is_partial(repository: Repository) -> bool:
    """Whether it is a partial clone. Missing contents are not fetched, so it has no diffs."""
    with _raise_refusals(repository):
        folder = open_git_folder(repository.git_dir)
        return _PROMISED.search(read_config(folder)) is not None or is_promisor(folder)


def list_commits(
    repository: Repository, tips: Iterable[str], but: Iterable[str] = (), most: int = 0
) -> list[str]:
    """Return the commits reachable from ``tips`` and not from ``but``, newest first."""
    revisions = [_check_hash(tip) for tip in tips]
    if not revisions:
        return []
    revisions += (f"^{_check_hash(tip)}" for tip in but)
    command = ["rev-list", "--stdin", "--date-order"]
    if most:
        command.append(f"--max-count={most}")
    if repository.below:
        command += ["--full-history", "--", repository.below]
    answer = _ask(repository, command, given=revisions)
    return [line for line in answer.decode("ascii", "replace").split("\n") if HASH.fullmatch(line)]


def find_present(repository: Repository, objects: Iterable[str], kind: str = "commit") -> set[str]:
    """Return those of ``objects`` that exist with type ``kind``, or with any type if empty."""
    names = [_check_hash(name) for name in objects]
    if not names:
        return set()
    answer = _ask(repository, ("cat-file", "--batch-check"), given=names).decode("ascii", "replace")
    lines = (line.split() for line in answer.split("\n"))
    return {line[0] for line in lines if len(line) == 3 and line[1] == (kind or line[1])}


def _check_hash(text: str) -> str:
    if HASH.fullmatch(text) is None:
        raise InvalidArgument(f"{text[:100]!r} is not a commit hash.", hint="Give the full hash.")
    return text


# --- commits ------------------------------------------------------------------------------------


def read_commits(
    repository: Repository,
    commits: Sequence[str],
    *,
    diff_lines: int,
    hidden: Callable[[str], bool] = lambda _: False,
    mask: Callable[[str], str] = lambda text: text,
) -> Iterator[Commit]:
    """Yield these commits in their order, each with the first ``diff_lines`` lines of its diff.

    Diffs of ``hidden`` paths are omitted; messages and other diffs pass through ``mask``. In a
    partial clone there are no diffs, and a rename is a deletion and an addition, because git
    stops at the first missing content.
    """
    screen = _Screen(hidden, mask)
    pending = [_check_hash(name) for name in commits]
    if not pending:
        return
    partial = is_partial(repository)
    how = _Detail(0 if partial else diff_lines, renames=not partial)
    failures = 0
    while pending:
        done = 0
        try:
            for commit in _stream(repository, pending, how, screen):
                done = pending.index(commit.hash, done) + 1
                yield commit
            return
        except _Overwhelmed:
            pending = pending[done:]
            if not pending:
                raise
        yield _read_less(repository, pending.pop(0), how, screen)
        failures += 1
        if failures >= _MOST_OVERWHELMED:
            how = replace(how, lines=0, paths=failures < 2 * _MOST_OVERWHELMED)


@contextmanager
def stream_log(
    repository: Repository, options: Sequence[str], tip: str, endings: Iterable[str] = ()
) -> Iterator[Iterator[bytes]]:
    """Yield the output of ``git log`` with these options, from a commit backwards.

    With ``endings``, only files whose paths end in one of them are shown.
    """
    below = repository.below
    paths = [below] if below else []
    if endings:
        folder = re.sub(r"([*?\[\\])", r"\\\1", f"{below}/") if below else ""
        paths = [f"{folder}*{ending}" for ending in endings]
    command = ["log", "--stdin", "--no-ext-diff", "--no-textconv", "--no-color", *options]
    command += ["--", *paths] if paths else []
    if endings:
        command.insert(0, "--no-literal-pathspecs")
    try:
        with _run_git(repository, command, [_check_hash(tip)], patience=_SEARCH_SECONDS) as pieces:
            yield pieces
    except _Overwhelmed as error:
        raise _failed(repository, command, "it needs too much memory") from error


def list_paths(repository: Repository, tip: str) -> frozenset[str]:
    """Return the path of every file in a commit."""
    command = ("ls-tree", "-r", "-z", "--name-only", "--full-tree", _check_hash(tip))
    return frozenset(_ask(repository, command).decode("utf-8", "replace").split("\0")) - {""}


def read_blame(repository: Repository, tip: str, path: str) -> bytes:
    """Return the commit of each line of a file, as ``git blame --porcelain`` prints it.

    The result is empty if the commit does not contain the file.
    """
    command = ("blame", "--porcelain", _check_hash(tip), "--", path)
    return _ask(repository, command, refusable=True)


def _read_less(repository: Repository, commit: str, how: _Detail, screen: _Screen) -> Commit:
    """Return one commit with as much of its diff and paths as the limits allow."""
    for less in (how, replace(how, lines=0), replace(how, lines=0, paths=False)):
        with suppress(_Overwhelmed):
            return next(_stream(repository, [commit], less, screen))
    raise _failed(repository, ("log",), f"{commit} exceeds the limits")


@dataclass(frozen=True, slots=True)
class _Detail:
    """How much to read of each commit."""

    lines: int
    renames: bool = True
    paths: bool = True


class _Screen(NamedTuple):
    """What to hide in a commit."""

    hidden: Callable[[str], bool]
    mask: Callable[[str], str]


def _stream(
    repository: Repository, commits: Sequence[str], how: _Detail, screen: _Screen
) -> Iterator[Commit]:
    """Yield commits from ``git log``; the last one only after git has succeeded."""
    import secrets

    # A random mark, so that no commit can contain text that looks like the start of another.
    mark = secrets.token_hex(16)
    command = [
        *("log", "--no-walk=unsorted", "--stdin", *_SHOWN),
        f"--format={mark}{'%x00'.join(_FIELDS)}%x00",
        "--raw" if how.paths else "--no-patch",
        *([] if how.renames else ["--no-renames"]),
        *(["--patch", "--unified=3"] if how.lines else []),
        *(["--", repository.below] if repository.below else []),
    ]
    last: Commit | None = None
    with _run_git(repository, command, commits) as pieces:
        for record, omitted in _records(pieces, mark.encode()):
            if last is not None:
                yield last
            last = _parse_commit(record, omitted, how.lines, screen)
    if last is not None:
        yield last


def _records(pieces: Iterable[bytes], mark: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the start of each record between marks, and the number of lines omitted from it."""
    record = bytearray()
    omitted = size = 0
    begun = False
    rest = b""
    for piece in pieces:
        data = rest + piece
        at = 0
        while True:
            mark_at = data.find(mark, at)
            # A mark may be split over two pieces, so its possible start is carried over.
            end = mark_at if mark_at >= 0 else max(at, len(data) - len(mark) + 1)
            room = _KEPT_BYTES - len(record)
            record += data[at : min(end, at + room)]
            size += end - at
            if end - at > room:
                omitted += data.count(b"\n", at + room, end)
            if size > _MOST_RECORD_BYTES:
                raise _Overwhelmed
            if mark_at < 0:
                rest = data[end:]
                break
            if begun:
                yield bytes(record), omitted
            record.clear()
            begun, omitted, size, at = True, 0, 0, mark_at + len(mark)
    if begun:
        record += rest[: max(0, _KEPT_BYTES - len(record))]
        yield bytes(record), omitted


def _parse_commit(record: bytes, omitted: int, diff_lines: int, screen: _Screen) -> Commit | None:
    parts = record.split(b"\0", len(_FIELDS))
    if len(parts) < len(_FIELDS):
        return None
    fields = [part.decode("utf-8", "replace") for part in parts[: len(_FIELDS)]]
    name, parents, author, authored, committer, committed, message = fields
    if HASH.fullmatch(name) is None:
        return None
    rest = parts[len(_FIELDS)] if len(parts) > len(_FIELDS) else b""
    files, at = _parse_files(rest)
    # The diff of a renamed file shows its old content, so the old path counts, too.
    hidden = [
        screen.hidden(file.path) or bool(file.before and screen.hidden(file.before))
        for file in files
    ]
    diff, omitted = _cut_diff(rest, at, omitted, diff_lines, hidden, screen.mask)
    title, _, body = screen.mask(message).strip("\n").partition("\n")
    return Commit(
        hash=name,
        parents=tuple(parents.split()),
        author=author,
        authored=_parse_time(authored),
        committer=committer,
        committed=_parse_time(committed),
        title=title.strip(),
        body=body.strip("\n"),
        files=files,
        diff=diff,
        omitted=omitted,
    )


def _parse_time(text: str) -> int:
    """Parse a Unix time, clamped to the range that an index can store."""
    try:
        return max(-(1 << 33), min(int(text), 1 << 33))
    except ValueError:
        return 0


def _parse_files(rest: bytes) -> tuple[tuple[Touched, ...], int]:
    """Parse the raw entries after a message; also return where the diff starts."""
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


def _cut_diff(
    rest: bytes,
    at: int,
    omitted: int,
    most: int,
    hidden: Sequence[bool],
    mask: Callable[[str], str],
) -> tuple[str, int]:
    """Return the first lines of a diff, and how many are omitted."""
    end = len(rest.rstrip(b"\0\n"))
    if not most or at >= end:
        return "", 0
    if any(hidden):
        patches = rest[at:end].split(b"\ndiff --")
        if len(patches) != len(hidden):
            return "", 0  # The diffs cannot be matched with the files, so none is shown.
        visible = (patch for patch, hide in zip(patches, hidden, strict=True) if not hide)
        joined = b"\n".join(patch if patch.startswith(b"diff --") else b"diff --" + patch
                            for patch in visible)  # fmt: skip
        rest, at, end = joined, 0, len(joined)
        if not joined:
            return "", 0
    stop, lines = at, 0
    while lines < most and stop < end:
        following = rest.find(b"\n", stop, end)
        stop = end if following < 0 else following + 1
        lines += 1
    # Mask before lines are cut: a cut token would not be recognised.
    text = mask(rest[at:stop].decode("utf-8", "replace").replace("\0", "\ufffd"))
    diff = "\n".join(
        line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + "…"
        for line in text.removesuffix("\n").split("\n")
    )
    # The last line may have no newline, so it is counted separately.
    return diff, rest.count(b"\n", stop, end) + (omitted or stop < end)


# --- running git --------------------------------------------------------------------------------


def find_git() -> str | None:
    """Return the path of git, or None if it is not installed."""
    return find_program("git", git_environment().get("PATH", ""))


def git_environment() -> dict[str, str]:
    """Return the environment for git: only the paths of programs and temporary files."""
    own = child_environment({})
    return {**{k: v for k, v in own.items() if k.upper() in _KEPT_VARIABLES}, **_ENVIRONMENT}


def git_command(arguments: Sequence[str]) -> list[str]:
    program = find_git()
    if program is None:
        raise IOFailed(
            "git is not installed, so repositories cannot be read.",
            hint="Install git, or set git.history to false.",
        )
    return [program, "--no-pager", "--literal-pathspecs", *arguments]


@contextmanager
def _raise_refusals(repository: Repository) -> Iterator[None]:
    """Convert ``Refused`` to the error that users see."""
    if repository.refused is not None:
        raise refusal_error(repository, repository.refused)
    try:
        yield
    except Refused as refusal:
        # A stored error must not keep what was read so far alive.
        clear_frames(refusal.__traceback__)
        raise refusal_error(repository, refusal) from refusal


@contextmanager
def _make_workplace(repository: Repository, tables: Mapping[str, bytes]) -> Iterator[str]:
    """Create an empty repository of the same format and with the same shallow boundary."""
    from tempfile import TemporaryDirectory

    folder = open_git_folder(repository.git_dir)
    shallow = read_shallow(folder)
    config = _CONFIG
    if _SHA256.search(read_config(folder)):
        config += "\tobjectFormat = sha256\n"
    head = "ref: refs/heads/none\n"
    if tables:
        config += "\trefStorage = reftable\n"
        head = "ref: refs/heads/.invalid\n"
    with TemporaryDirectory(prefix="lookfar-git-", ignore_cleanup_errors=True) as name:
        place = Path(name)
        (place / "refs").mkdir()
        (place / "HEAD").write_bytes(head.encode())
        (place / "config").write_bytes(config.encode())
        if shallow:
            (place / "shallow").write_bytes("".join(f"{commit}\n" for commit in shallow).encode())
        if tables:
            (place / "reftable").mkdir()
        for table, data in tables.items():
            (place / "reftable" / table).write_bytes(data)
        yield name


def _locate_objects(objects: Objects) -> tuple[str, tuple[int, ...]]:
    """Return the path of the objects for git: by the checked descriptor, if possible."""
    if isinstance(objects.handle, int) and sys.platform == "linux":
        return f"/proc/self/fd/{objects.handle}", (objects.handle,)
    return objects.path, ()


def _limit_memory(process: subprocess.Popen[bytes], objects: Objects) -> None:
    """Limit git's memory: a small object may claim to be huge."""
    if sys.platform == "linux":
        import resource

        most = _LEAST_MEMORY + _MEMORY_PER_BYTE * objects.disk_bytes
        with suppress(OSError, ValueError):  # It has already ended.
            hard = resource.prlimit(process.pid, resource.RLIMIT_DATA)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (most, most))


@contextmanager
def _run_git(
    repository: Repository,
    arguments: Sequence[str],
    given: Sequence[str] = (),
    *,
    refusable: bool = False,
    tables: Mapping[str, bytes] | None = None,
    patience: float | None = None,
) -> Iterator[Iterator[bytes]]:
    """Run git and yield its output in pieces; kill it after the block or a long silence."""
    # Imported late: most calls need no git, and the import is slow.
    import subprocess
    from tempfile import TemporaryFile

    command, stdin = git_command(arguments), "".join(f"{line}\n" for line in given).encode()
    with (
        TemporaryFile() as errors,
        _raise_refusals(repository),
        open_objects(repository.git_dir, repository.allows) as objects,
        _make_workplace(repository, tables or {}) as place,
    ):
        database, descriptors = _locate_objects(objects)
        environment = {**git_environment(), "GIT_DIR": place, "GIT_OBJECT_DIRECTORY": database}
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                cwd=place,
                pipesize=_PIPE_BYTES,
                pass_fds=descriptors,
            )
        except OSError as error:
            raise _failed(repository, arguments, f"{type(error).__name__}: {error}") from error
        assert process.stdin is not None
        assert process.stdout is not None
        # Git reads no object before its input, so the limit is set in time.
        _limit_memory(process, objects)
        feeder = Thread(target=_feed, args=(process.stdin, stdin), daemon=True)
        if len(stdin) <= _PIPE_HOLDS:
            feeder.run()
        else:
            feeder.start()
        guard = _Guard(process, errors, _SECONDS if patience is None else patience)
        try:
            yield guard.pieces(process.stdout)
            if process.wait(_SECONDS) and not refusable:
                if _NO_MEMORY in guard.read_errors():
                    raise _Overwhelmed
                why = "it was silent too long" if guard.ended else f"exit {process.returncode}"
                raise _failed(repository, arguments, why)
        finally:
            guard.stop()
            process.kill()
            process.stdout.close()
            process.wait()
            if feeder.ident is not None:
                feeder.join()


def _feed(stream: IO[bytes], data: bytes) -> None:
    # Git may end before it has read everything.
    with suppress(OSError), stream:
        stream.write(data)


class _Guard:
    """Kills a process that is silent too long or writes too many errors."""

    def __init__(
        self, process: subprocess.Popen[bytes], errors: IO[bytes], patience: float
    ) -> None:
        self.ended = False
        self._patience = patience
        self._process = process
        self._errors = errors
        self._last_output = time.monotonic()
        self._stopped = Event()
        self._thread = Thread(target=self._watch, name="lookfar-git", daemon=True)
        self._thread.start()

    def pieces(self, stream: IO[bytes]) -> Iterator[bytes]:
        while piece := stream.read1(_PIECE):  # type: ignore[attr-defined]
            # Git waits while the caller handles a piece, which does not count as silence.
            self._last_output = float("inf")
            yield piece
            self._last_output = time.monotonic()

    def _watch(self) -> None:
        while not self._stopped.wait(1.0):
            error_bytes = os.fstat(self._errors.fileno()).st_size
            if (
                time.monotonic() - self._last_output > self._patience
                or error_bytes > _MOST_ERROR_BYTES
            ):
                self.ended = True
                self._process.kill()
                return

    def read_errors(self) -> bytes:
        """Return the end of the process's error output."""
        size = os.fstat(self._errors.fileno()).st_size
        self._errors.seek(max(0, size - _PIECE))
        return self._errors.read(_PIECE)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


def _ask(
    repository: Repository,
    arguments: Sequence[str],
    given: Sequence[str] = (),
    *,
    refusable: bool = False,
    tables: Mapping[str, bytes] | None = None,
) -> bytes:
    """Return the whole output of git; ``refusable`` allows it to fail."""
    answer = bytearray()
    try:
        with _run_git(repository, arguments, given, refusable=refusable, tables=tables) as pieces:
            for piece in pieces:
                answer += piece
                if len(answer) > _MOST_ANSWER_BYTES:
                    raise _Overwhelmed
    except _Overwhelmed as error:
        raise _failed(repository, arguments, "its output is too large") from error
    return bytes(answer)


def _failed(repository: Repository, arguments: Sequence[str], why: str) -> IOFailed:
    return IOFailed(
        f"git could not read the repository {repository.top!r}.",
        hint="Run git fsck there, or turn history off: git.history = false.",
        developer=f"git {arguments[0]} in {repository.git_dir}: {why}",
        details={"path": repository.git_dir},
    )
