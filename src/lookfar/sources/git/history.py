"""The one door to git: where repositories stand, and what their commits say.

Takes: repositories as ``repositories.py`` finds them. Gives: the tips of branches and tags, the
commits that one set of tips has and another has not, and commits as a stream with the paths they
touch and the beginning of their diff. Refuses: to run anything but git, to let a repository
choose what git runs or reads, to reach for the network, to wait for ever, and to hold a diff
that does not fit.

A repository comes with whatever was cloned or unpacked, so nothing in it is trusted. Git runs in
an empty repository of ours, made for one question, and is given the other's objects and nothing
else: no configuration, hook, attribute, reference or index of it. References are read by
``git_metadata.py``, and git is asked for objects, by their hash, on its standard input.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import count, islice
from pathlib import Path
from threading import Event, Thread
from traceback import clear_frames
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from lookfar.config import child_environment
from lookfar.errors import InvalidArgument, IOFailed, RepositoryRefused
from lookfar.sources.confine import Refused
from lookfar.sources.git.metadata import (
    HASH,
    PLACES,
    SETTLING_NS,
    Objects,
    checked_objects,
    has_promises,
    line_of,
    open_git_folder,
    read_config,
    read_references,
    read_shallow,
    read_tables,
)
from lookfar.sources.git.repositories import Repository, refuse
from lookfar.sources.globs import GlobSet

if TYPE_CHECKING:
    import subprocess

_SECONDS: Final = 60.0
"""That git may take to answer, or to say the next thing of a long answer."""
_MOST_ANSWER_BYTES: Final = 64_000_000
_PIECE: Final = 1 << 16
_PIPE_BYTES: Final = 1 << 20
"""That git may be ahead of whoever reads, where the system lets it."""
_PIPE_HOLDS: Final = 1 << 14
"""That can be written to a new pipe on every system before anybody reads it."""
_KEPT_BYTES: Final = 2_000_000
"""Of one commit's record; what is behind is counted, not kept."""
_MOST_RECORD_BYTES: Final = 256 << 20
"""Of one commit's record that are waited for."""
_MOST_ERROR_BYTES: Final = 1 << 20
_MOST_OVERWHELMED: Final = 200
"""Commits that git could not show, after which no further diffs are asked for."""
_MOST_FOLDERS: Final = 2_000
_MOST_ENTRIES: Final = 200_000
_LEAST_MEMORY: Final = 192 << 20
_MEMORY_PER_BYTE: Final = 4
"""What git may hold: more for a repository that takes more room on the disk."""
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
"""All the configuration that git gets."""
_SHOWN: Final = (
    *("--no-ext-diff", "--no-textconv", "--no-color", "--no-notes", "--no-decorate"),
    *("--no-show-signature", "--no-mailmap", "--submodule=short", "-O/dev/null", "--no-relative"),
    *("--encoding=UTF-8", "--root", "--find-renames", "--no-abbrev", "-z"),
)
_FIELDS: Final = ("%H", "%P", "%an <%ae>", "%at", "%cn <%ce>", "%ct", "%B")


class _Overwhelmed(Exception):
    """Raised where git has more to say, or needs more memory, than it is allowed."""


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


# --- where a repository stands ------------------------------------------------------------------


def stamp_of(repository: Repository) -> tuple[str, bool]:
    """What changes whenever a branch, a tag or the head moves, without asking git.

    And whether it can be relied on: not where something moved so lately that one more move
    might not show.
    """
    shared = Path(repository.git_dir)
    seen = sha256(line_of(repository.git_dir, "HEAD").encode())
    newest = 0
    names = ("packed-refs", "reftable/tables.list", "shallow", "HEAD")
    for path in (*(str(shared / name) for name in names), *_ref_folders(str(shared / "refs"))):
        try:
            info = os.lstat(path)
        except (OSError, ValueError):
            continue
        newest = max(newest, info.st_mtime_ns, info.st_ctime_ns)
        state = (path, info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino)
        seen.update(repr(state).encode("utf-8", "surrogateescape"))
    return seen.hexdigest()[:32], newest + _SETTLING_NS <= time.time_ns()


def _ref_folders(top: str) -> Iterator[str]:
    """A ref is replaced by renaming, which stamps the folder that it is in."""
    waiting = [top] if not os.path.islink(top) else []
    left = _MOST_ENTRIES
    for _ in range(_MOST_FOLDERS):
        if not waiting:
            return
        folder = waiting.pop()
        yield folder
        try:
            with os.scandir(folder) as entries:
                for entry in islice(entries, left):
                    left -= 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue


def refs_of(repository: Repository, branches: Sequence[str] = ()) -> list[Ref]:
    """Branches, tags and the head, by name; with ``branches`` only those that match a glob."""
    wanted = GlobSet([checked_branch(name) for name in branches]) if branches else None

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
    """The references in a store of tables, which only git can read: it is given a copy."""
    command = ("for-each-ref", "--format=%(refname) %(objectname)", *PLACES)
    answer = _ask(repository, command, tables=tables).decode("utf-8", "replace")
    head = ("rev-parse", "--verify", "--quiet", "--end-of-options", "HEAD")
    current = _ask(repository, head, tables=tables, refusable=True).decode("ascii", "replace")
    lines = [line.rpartition(" ") for line in (*answer.split("\n"), f"HEAD {current.strip()}")]
    return [(name, value) for name, _, value in lines if HASH.fullmatch(value)]


def _peel(repository: Repository, hashes: set[str]) -> dict[str, str]:
    """The commit that each hash of a commit or tag means; what a tag means may be no commit."""
    asked = sorted(hashes)
    if not asked:
        return {}
    lines = [f"{name}^{{commit}}" for name in asked]
    form = "--batch-check=%(objectname) %(objecttype)"
    answers = _ask(repository, ("cat-file", form), given=lines).decode("ascii", "replace")
    commits: dict[str, str] = {}
    missing = []
    for name, answer in zip(asked, answers.split("\n"), strict=False):
        value, _, kind = answer.partition(" ")
        if kind == "commit":
            commits[name] = value
        else:
            missing.append(name)
    # A tag of a file means no commit; but an object that is not there is damage.
    if len(present(repository, missing, "")) < len(missing):
        raise _failed(repository, ("cat-file",), "a reference leads to an object that is missing")
    return commits


def refusal_of(repository: Repository) -> RepositoryRefused | None:
    """Why a repository would not be read now, without asking git; None where it would be."""
    try:
        with _raise_refusals(repository), checked_objects(repository.git_dir, repository.allows):
            folder = open_git_folder(repository.git_dir)
            read_shallow(folder)
            read_config(folder)
            read_references(folder)
    except RepositoryRefused as refusal:
        return refusal
    return None


def checked_branch(name: str) -> str:
    """A name or glob of a branch; one that reads like an option is nobody's branch."""
    if not name or name.startswith("-") or "\0" in name or "\n" in name:
        raise InvalidArgument(
            f"{name[:100]!r} cannot be a branch.", hint="Name a branch, like main or release/*."
        )
    return name


def shallow_of(repository: Repository) -> str:
    """Where a shallow clone ends; changes when it is deepened. Empty for a whole one."""
    with _raise_refusals(repository):
        commits = read_shallow(open_git_folder(repository.git_dir))
    return sha256("\n".join(commits).encode()).hexdigest()[:32] if commits else ""


def is_partial(repository: Repository) -> bool:
    """Whether it is a clone that lacks contents until somebody needs them: what changed between
    two of them cannot be told, and they are not fetched for it."""
    with _raise_refusals(repository):
        folder = open_git_folder(repository.git_dir)
        return _PROMISED.search(read_config(folder)) is not None or has_promises(folder)


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
    return [line for line in answer.decode("ascii", "replace").split("\n") if HASH.fullmatch(line)]


def present(repository: Repository, objects: Iterable[str], kind: str = "commit") -> set[str]:
    """Those of ``objects`` that the repository has; without ``kind`` also those of others."""
    asked = [_checked_hash(name) for name in objects]
    if not asked:
        return set()
    answer = _ask(repository, ("cat-file", "--batch-check"), given=asked).decode("ascii", "replace")
    lines = (line.split() for line in answer.split("\n"))
    return {line[0] for line in lines if len(line) == 3 and line[1] == (kind or line[1])}


def _checked_hash(text: str) -> str:
    if HASH.fullmatch(text) is None:
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
    shown as ``mask`` leaves them. Of a partial clone there are no diffs, and what was renamed has
    come and gone: git ends at the first missing content.
    """
    screen = _Screen(hidden, mask)
    waiting = [_checked_hash(name) for name in commits]
    if not waiting:
        return
    partial = is_partial(repository)
    how = _Detail(0 if partial else diff_lines, renames=not partial)
    for failures in count(1):
        done = 0
        try:
            for commit in _stream(repository, waiting, how, screen):
                done = waiting.index(commit.hash, done) + 1
                yield commit
            return
        except _Overwhelmed:
            waiting = waiting[done:]
            if not waiting:
                raise
        yield _read_less(repository, waiting.pop(0), how, screen)
        if failures >= _MOST_OVERWHELMED:
            how = replace(how, lines=0)


def _read_less(repository: Repository, commit: str, how: _Detail, screen: _Screen) -> Commit:
    """One commit with as much of its diff and paths as git can hold."""
    for less in (how, replace(how, lines=0), replace(how, lines=0, paths=False)):
        with suppress(_Overwhelmed):
            return next(_stream(repository, [commit], less, screen))
    raise _failed(repository, ("log",), f"{commit} does not fit")


@dataclass(frozen=True, slots=True)
class _Detail:
    """How much is asked of each commit."""

    lines: int
    renames: bool = True
    paths: bool = True


class _Screen(NamedTuple):
    """What of a commit is not shown."""

    hidden: Callable[[str], bool]
    mask: Callable[[str], str]


def _stream(
    repository: Repository, commits: Sequence[str], how: _Detail, screen: _Screen
) -> Iterator[Commit]:
    """The commits as git tells of them; the last one only when git has ended well."""
    import secrets

    # No commit can know it, so nothing in one can be taken for the beginning of another.
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
    with _running(repository, command, commits) as pieces:
        for record, lines_behind in _records(pieces, mark.encode()):
            if last is not None:
                yield last
            last = _commit(record, lines_behind, how.lines, screen)
    if last is not None:
        yield last


def _records(pieces: Iterable[bytes], mark: bytes) -> Iterator[tuple[bytes, int]]:
    """What is between marks, as far as it is kept, and the number of lines behind that."""
    record = bytearray()
    behind = size = 0
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
            size += end - at
            if end - at > room:
                behind += data.count(b"\n", at + room, end)
            if size > _MOST_RECORD_BYTES:
                raise _Overwhelmed
            if found < 0:
                rest = data[end:]
                break
            if begun:
                yield bytes(record), behind
            record.clear()
            begun, behind, size, at = True, 0, 0, found + len(mark)
    if begun:
        record += rest[: max(0, _KEPT_BYTES - len(record))]
        yield bytes(record), behind


def _commit(record: bytes, behind: int, diff_lines: int, screen: _Screen) -> Commit | None:
    parts = record.split(b"\0", len(_FIELDS))
    if len(parts) < len(_FIELDS):
        return None
    told = [each.decode("utf-8", "replace") for each in parts[: len(_FIELDS)]]
    name, parents, author, authored, committer, committed, message = told
    if HASH.fullmatch(name) is None:
        return None
    rest = parts[len(_FIELDS)] if len(parts) > len(_FIELDS) else b""
    files, at = _touched(rest)
    # What is renamed out of hiding shows in its diff what it hid.
    out = [
        screen.hidden(each.path) or bool(each.before and screen.hidden(each.before))
        for each in files
    ]
    diff, omitted = _beginning(rest, at, behind, diff_lines, out, screen.mask)
    title, _, body = screen.mask(message).strip("\n").partition("\n")
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


def _command(arguments: Sequence[str]) -> list[str]:
    program = shutil.which("git", path=_environment().get("PATH"))
    if program is None:
        raise IOFailed(
            "git is not installed, so the history cannot be read.",
            hint="Install git, or set git.history to false.",
        )
    return [program, "--no-pager", "--literal-pathspecs", *arguments]


@contextmanager
def _raise_refusals(repository: Repository) -> Iterator[None]:
    """Raise the typed error for whatever of a repository must not be read."""
    if repository.refused is not None:
        raise refuse(repository, repository.refused)
    try:
        yield
    except Refused as refusal:
        # Whoever keeps the error must not keep what was read so far.
        clear_frames(refusal.__traceback__)
        raise refuse(repository, refusal) from refusal


@contextmanager
def _make_workplace(repository: Repository, tables: Mapping[str, bytes]) -> Iterator[str]:
    """An empty repository of ours, of the same format and with the same shallow boundary."""
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
        (place / "HEAD").write_text(head)
        (place / "config").write_text(config)
        if shallow:
            (place / "shallow").write_text("".join(f"{commit}\n" for commit in shallow))
        if tables:
            (place / "reftable").mkdir()
        for table, data in tables.items():
            (place / "reftable" / table).write_bytes(data)
        yield name


def _locate_objects(objects: Objects) -> tuple[str, tuple[int, ...]]:
    """How git is told where objects are: by the descriptor that was checked, where it can be."""
    if isinstance(objects.handle, int) and sys.platform == "linux":
        return f"/proc/self/fd/{objects.handle}", (objects.handle,)
    return objects.path, ()


def _limit_memory(process: subprocess.Popen[bytes], objects: Objects) -> None:
    """Bound what git may hold: a small object may say that it is a large one."""
    if sys.platform == "linux":
        import resource

        most = _LEAST_MEMORY + _MEMORY_PER_BYTE * objects.disk_bytes
        with suppress(OSError, ValueError):  # It has ended already.
            hard = resource.prlimit(process.pid, resource.RLIMIT_DATA)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (most, most))


@contextmanager
def _running(
    repository: Repository,
    arguments: Sequence[str],
    given: Sequence[str] = (),
    *,
    refusable: bool = False,
    tables: Mapping[str, bytes] | None = None,
) -> Iterator[Iterator[bytes]]:
    """What git says, piece by piece. It ends with the block, or when it says nothing for long."""
    # Here: most questions need no git, and these take longer to load than to answer some.
    import subprocess
    from tempfile import TemporaryFile

    command = _command(arguments)
    questions = "".join(f"{line}\n" for line in given).encode()
    with (
        TemporaryFile() as errors,
        _raise_refusals(repository),
        checked_objects(repository.git_dir, repository.allows) as objects,
        _make_workplace(repository, tables or {}) as place,
    ):
        database, descriptors = _locate_objects(objects)
        environment = {**_environment(), "GIT_DIR": place, "GIT_OBJECT_DIRECTORY": database}
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
        # Git reads no object before it is asked for one, so the limit comes in time.
        _limit_memory(process, objects)
        feeder = Thread(target=_feed, args=(process.stdin, questions), daemon=True)
        if len(questions) <= _PIPE_HOLDS:
            feeder.run()
        else:
            feeder.start()
        guard = _Guard(process, errors)
        try:
            yield guard.pieces(process.stdout)
            if process.wait(_SECONDS) and not refusable:
                if _NO_MEMORY in guard.last_words():
                    raise _Overwhelmed
                why = "it was silent for too long" if guard.ended else f"exit {process.returncode}"
                raise _failed(repository, arguments, why)
        finally:
            guard.leave()
            process.kill()
            process.stdout.close()
            process.wait()
            if feeder.ident is not None:
                feeder.join()


def _feed(stream: IO[bytes], questions: bytes) -> None:
    # Git may have ended before it read everything.
    with suppress(OSError), stream:
        stream.write(questions)


class _Guard:
    """Ends a process that says nothing for too long, or complains without end."""

    def __init__(self, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        self.ended = False
        self._process = process
        self._errors = errors
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
            noise = os.fstat(self._errors.fileno()).st_size
            if time.monotonic() - self._heard > _SECONDS or noise > _MOST_ERROR_BYTES:
                self.ended = True
                self._process.kill()
                return

    def last_words(self) -> bytes:
        """The end of what the process complained of."""
        size = os.fstat(self._errors.fileno()).st_size
        self._errors.seek(max(0, size - _PIECE))
        return self._errors.read(_PIECE)

    def leave(self) -> None:
        self._left.set()
        self._thread.join()


def _ask(
    repository: Repository,
    arguments: Sequence[str],
    given: Sequence[str] = (),
    *,
    refusable: bool = False,
    tables: Mapping[str, bytes] | None = None,
) -> bytes:
    """All that git says; ``refusable`` lets it say no."""
    answer = bytearray()
    try:
        with _running(repository, arguments, given, refusable=refusable, tables=tables) as pieces:
            for piece in pieces:
                answer += piece
                if len(answer) > _MOST_ANSWER_BYTES:
                    raise _Overwhelmed
    except _Overwhelmed as error:
        raise _failed(repository, arguments, "too much to hold") from error
    return bytes(answer)


def _failed(repository: Repository, arguments: Sequence[str], why: str) -> IOFailed:
    return IOFailed(
        f"git could not read the repository {repository.top!r}.",
        hint="Run git fsck there, or leave it out with git.history = false.",
        developer=f"git {arguments[0]} in {repository.git_dir}: {why}",
        details={"path": repository.git_dir},
    )
