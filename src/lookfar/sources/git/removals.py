"""What the history of a repository says about things that are gone.

Which commit removed a line with a word, which paths were deleted or moved, and when each line of a
file was last changed.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from lookfar.sources.git.history import list_refs, read_blame, stream_log
from lookfar.sources.git.metadata import HASH, peek_line
from lookfar.sources.git.repositories import Repository

_WORD: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_LINE: Final = 2_000
_HEADER: Final = re.compile(r"([0-9a-f]{40,64}) \d+ \d+(?: \d+)?$")


class RemovedLine(NamedTuple):
    """A line with one of the words that a commit removed."""

    commit: str
    time: int
    """Seconds since 1970."""
    path: str
    text: str


class LostPath(NamedTuple):
    """A path that a commit deleted or moved."""

    commit: str
    time: int
    moved_to: str
    """Empty if it was deleted."""


class BlamedLine(NamedTuple):
    """A line of a file, and when it was last changed."""

    time: int
    text: str


def find_head(repository: Repository) -> str:
    """Return the commit that is checked out; empty in a repository without commits."""
    commits = {ref.name: ref.commit for ref in list_refs(repository)}
    # A worktree has a HEAD of its own.
    head = peek_line(repository.own, "HEAD") if repository.own else ""
    if HASH.fullmatch(head):
        return head
    return commits.get(head.removeprefix("ref: ").strip()) or commits.get("HEAD", "")


def find_removed_lines(
    repository: Repository, tip: str, words: Collection[str], endings: Iterable[str]
) -> Iterator[RemovedLine]:
    """Yield the removed lines that contain one of the words, newest commit first.

    Only files with one of the endings are read. Git prints all their changes and the words are
    looked up here, because git needs minutes to search for a few hundred words.
    """
    wanted = frozenset(word.encode() for word in words)
    mark = secrets.token_hex(16)
    options = ["--patch", "--unified=0", "--no-renames", "--diff-filter=MDT"]
    with stream_log(repository, [*options, f"--format={mark} %H %ct"], tip, endings) as pieces:
        yield from _parse_patches(_split_lines(pieces), mark.encode(), wanted)


def _parse_patches(
    lines: Iterable[bytes], mark: bytes, wanted: frozenset[bytes]
) -> Iterator[RemovedLine]:
    commit, time, path, in_hunk = "", 0, "", False
    for line in lines:
        first = line[:1]
        if first == b"+" and in_hunk:
            continue
        if first == b"-" and in_hunk:
            if path and not wanted.isdisjoint(_WORD.findall(line)):
                yield RemovedLine(commit, time, path, line[1:].decode("utf-8", "replace"))
        elif line.startswith(mark):
            _, commit, seconds = line.decode("ascii").split()
            time, path, in_hunk = int(seconds), "", False
        elif line.startswith(b"diff --git "):
            in_hunk = False
        elif line.startswith(b"@@ "):
            in_hunk = True
        elif line.startswith(b"--- "):
            path = line[6:].decode("utf-8", "replace") if line.startswith(b"--- a/") else ""


def find_lost_paths(repository: Repository, tip: str) -> dict[str, LostPath]:
    """Return every path that was deleted or moved, with the newest commit that did so."""
    mark = secrets.token_hex(16)
    options = ["--name-status", "--find-renames", "--diff-filter=DR", f"--format={mark} %H %ct"]
    lost: dict[str, LostPath] = {}
    commit, time = "", 0
    with stream_log(repository, options, tip) as pieces:
        for line in (line.decode("utf-8", "replace") for line in _split_lines(pieces)):
            if line.startswith(mark):
                _, commit, seconds = line.split()
                time = int(seconds)
            elif "\t" in line:
                status, path, *new = line.split("\t")
                moved_to = new[0] if status.startswith("R") and new else ""
                lost.setdefault(path, LostPath(commit, time, moved_to))
    return lost


def blame_lines(repository: Repository, tip: str, path: str) -> list[BlamedLine]:
    """Return the lines of a file with the times of their last changes."""
    output = read_blame(repository, tip, path).decode("utf-8", "replace")
    times: dict[str, int] = {}
    lines: list[BlamedLine] = []
    commit = ""
    for line in output.split("\n"):
        if line.startswith("\t"):
            lines.append(BlamedLine(times.get(commit, 0), line[1:]))
        elif line.startswith("committer-time "):
            times[commit] = int(line.split()[1])
        elif (header := _HEADER.match(line)) is not None:
            commit = header[1]
    return lines


def _split_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a stream, shortened."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line[:_LONGEST_LINE]
        if len(rest) > 64 * _LONGEST_LINE:
            # The rest of an endless line is of no use.
            rest = rest[:_LONGEST_LINE]
    if rest:
        yield rest[:_LONGEST_LINE]
