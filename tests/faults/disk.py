"""A simulated disk that loses what was not synced, driven by the system calls of a process.

It replays the calls that `strace` recorded and yields the states in which a power failure at any
moment may leave the files. A call whose effect is unknown is an error.

All writes are seen: those of `store/ground/files.py`, and those of SQLite, which syncs on its own.
The assumptions about the disk are:

- the bytes of a file are safe once it was synced after they were written; what was written since
  is there, or lost, or there in part, or reads as zeros or as something else, and a file that
  grew may have any length in between;
- a name is safe once its folder was synced after it was made, changed or removed; of what was
  done to a folder since, a first part of it is there, and folders know nothing of each other;
- syncing a file does not make its name safe.

Bytes that were synced and not written over are never touched, a rename is there or not, and less
than a sector is not written in part.
SQLite's `-shm` file is ignored: the first process that opens the log creates it again.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

MARK = "/lookfar-mark/"
"""A path that does not exist; looking it up leaves a mark in the recorded calls."""
CALLS = (
    "open", "openat", "creat", "close", "dup", "dup2", "dup3", "lseek",
    "write", "pwrite64", "writev", "pwritev", "pwritev2", "sendfile", "copy_file_range",
    "truncate", "ftruncate", "fallocate", "fsync", "fdatasync", "sync_file_range", "sync",
    "rename", "renameat", "renameat2", "unlink", "unlinkat", "link", "linkat", "symlink",
    "symlinkat", "mkdir", "mkdirat", "rmdir", "access", "faccessat", "faccessat2",
)  # fmt: skip
_SECTOR = 512
_LINE = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+)")
_BEGUN = re.compile(r"(\d+) +(\w+)\((.*) <unfinished \.\.\.>$")
_ENDED = re.compile(r"(\d+) +<\.\.\. \w+ resumed>(.*)\) += (-?\d+)")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


@dataclass(frozen=True)
class Call:
    """One system call that succeeded."""

    thread: int
    name: str
    arguments: list[str]
    strings: list[bytes]
    result: int
    begun: int
    """How many calls had ended when it began."""


def calls_in(lines: Iterable[str]) -> Iterator[Call]:
    """What strace wrote down, in the order in which the calls ended."""
    begun: dict[str, tuple[str, str, int]] = {}
    number = 0
    for line in lines:
        if found := _BEGUN.match(line):
            thread, name, first = found.groups()
            begun[thread] = (name, first, number)
            if name == "close":  # Its number may be another's before it is said to have ended.
                number += 1
                yield _call(thread, name, first, 0, number)
            continue
        if found := _ENDED.match(line):
            thread, rest, result = found.groups()
            name, first, since = begun.pop(thread)
            if name == "close":
                continue
            arguments = first + rest
        elif found := _LINE.match(line):
            thread, name, arguments, result = found.groups()
            since = number
        else:
            continue
        if int(result) >= 0 or "access" in name:
            number += 1
            yield _call(thread, name, arguments, int(result), since)


def _call(thread: str, name: str, arguments: str, result: int, begun: int) -> Call:
    strings = [bytes.fromhex(each.replace("\\x", "")) for each in _STRING.findall(arguments)]
    bare = [each.strip() for each in _STRING.sub("$", arguments).split(",")]
    return Call(int(thread), name, bare, strings, result, begun)


# -- the disk ------------------------------------------------------------------


@dataclass
class Bytes:
    """A file: what is safe, and what was done since."""

    safe: bytes = b""
    since: list[tuple[int, int, bytes | None]] = field(default_factory=list)
    """Number of the call, offset, and what was written there; None cuts the file off."""

    def now(self) -> bytes:
        return _applied(self.safe, self.since)

    def sync(self, begun: int) -> None:
        done = [each for each in self.since if each[0] <= begun]
        self.safe = _applied(self.safe, done)
        self.since = [each for each in self.since if each[0] > begun]


def _applied(data: bytes, changes: Iterable[tuple[int, int, bytes | None]]) -> bytes:
    result = bytearray(data)
    for _, offset, written in changes:
        if written is None:
            del result[offset:]
            result.extend(bytes(offset - len(result)))
        else:
            result.extend(bytes(max(0, offset - len(result))))
            result[offset : offset + len(written)] = written
    return bytes(result)


Node = "Bytes | Names"


@dataclass
class Names:
    """A folder: what is safe, and what was done since."""

    safe: dict[str, Bytes | Names] = field(default_factory=dict)
    since: list[tuple[int, tuple[tuple[str, Bytes | Names | None], ...]]] = field(
        default_factory=list
    )
    """Number of the call, and which names it gave to what, or to nothing; all of them at once."""

    def now(self) -> dict[str, Bytes | Names]:
        return self.after(len(self.since))

    def after(self, changes: int) -> dict[str, Bytes | Names]:
        result = dict(self.safe)
        for _, given in self.since[:changes]:
            for name, node in given:
                if node is None:
                    result.pop(name, None)
                else:
                    result[name] = node
        return result

    def sync(self, begun: int) -> None:
        done = sum(1 for each in self.since if each[0] <= begun)
        self.safe = self.after(done)
        del self.since[:done]


@dataclass(frozen=True)
class Lost:
    """How a loss of power treats what is not safe."""

    chance: random.Random
    data: str = ""
    """One way for all files, or empty: by chance."""
    names: str = ""
    most: frozenset[int] = frozenset()
    """Files and folders, by ``id``, that lose all that is not safe."""

    def way(self, node: Bytes | Names, chosen: str, ways: tuple[str, ...]) -> str:
        return "none" if id(node) in self.most else chosen or self.chance.choice(ways)


class Disk:
    """The folder ``top``, which is safe and empty when it begins."""

    def __init__(self, top: Path, without: frozenset[str] = frozenset()) -> None:
        self._top = os.path.abspath(top)
        self.root = Names()
        self._open: dict[int, tuple[str, int, bool]] = {}
        self._held: dict[int, Bytes | Names | None] = {}
        self._number = 0
        self._without = without
        self._site: dict[int, str] = {}
        self.sites: dict[str, int] = {}
        """Where the product syncs, and how often it was seen to."""
        self.spared: list[Bytes | Names] = []
        """What was not synced because its sync is disabled."""

    def run(self, call: Call) -> str:
        """Replay one call; return the name of a mark, or an empty string."""
        self._number += 1
        name, strings = call.name, call.strings
        if "access" in name:
            path = strings[0].decode()
            if not path.startswith(MARK):
                return ""
            word = path.removeprefix(MARK)
            if word.startswith("sync:"):
                self._site[call.thread] = word.removeprefix("sync:")
            elif word == "settled":
                self.settle()
            return word
        if name in ("open", "openat", "creat"):
            self._opened(call)
        elif name == "close":
            self._open.pop(_number(call.arguments[0]), None)
        elif name in ("dup", "dup2", "dup3"):
            known = self._open.get(_number(call.arguments[0]))
            if known is not None:
                self._open[call.result] = known
        elif name == "lseek":
            self._seek(_number(call.arguments[0]), call.result)
        elif name in ("write", "pwrite64"):
            self._write(call)
        elif name in ("fsync", "fdatasync"):
            self._sync(call)
        elif name in ("truncate", "ftruncate"):
            self._cut(call)
        else:
            self._rename(call)
        return ""

    def settle(self) -> None:
        """All that was done is safe."""
        for node in self._nodes(self.root):
            node.sync(self._number)

    def _nodes(self, folder: Names) -> Iterator[Bytes | Names]:
        yield folder
        for node in folder.now().values():
            if isinstance(node, Names):
                yield from self._nodes(node)
            else:
                yield node

    # -- calls ------------------------------------------------------------------

    def _path(self, call: Call, which: int) -> str:
        """The ``which``-th path of a call, below the top or empty."""
        places = [at for at, each in enumerate(call.arguments) if each == "$"]
        given = os.fsdecode(call.strings[which])
        at = places[which] - 1
        if not os.path.isabs(given) and at >= 0 and call.arguments[at].isdigit():
            given = os.path.join(self._open.get(int(call.arguments[at]), ("", 0, False))[0], given)
        return given

    def _inside(self, path: str) -> list[str] | None:
        """The names on the way from the top, or None for what lies elsewhere."""
        path = os.path.normpath(path)
        if path == self._top:
            return []
        start = self._top + os.sep
        return path.removeprefix(start).split(os.sep) if path.startswith(start) else None

    def _folder(self, path: str) -> tuple[Names, str] | None:
        parts = self._inside(path)
        if not parts:
            return None
        folder = self.root
        for part in parts[:-1]:
            folder = folder.now()[part]  # type: ignore[assignment]
        return folder, parts[-1]

    def _node(self, path: str) -> Bytes | Names | None:
        found = self._folder(path)
        if found is None:
            return self.root if self._inside(path) == [] else None
        return found[0].now().get(found[1])

    def _opened(self, call: Call) -> None:
        path = self._path(call, 0)
        flags = next(each for each in call.arguments if each.startswith("O_"))
        self._open[call.result] = (path, 0, "O_APPEND" in flags)
        self._held.pop(call.result, None)
        found = self._folder(path)
        if found is None:
            return
        folder, name = found
        if "O_CREAT" in flags and name not in folder.now():
            folder.since.append((self._number, ((name, Bytes()),)))
        if "O_TRUNC" in flags:
            node = folder.now()[name]
            assert isinstance(node, Bytes)
            if node.now():
                node.since.append((self._number, 0, None))
        self._held[call.result] = folder.now().get(name)

    def _file(self, descriptor: int) -> Bytes | None:
        if descriptor not in self._open or self._inside(self._open[descriptor][0]) is None:
            return None
        node = self._held.get(descriptor)
        return node if isinstance(node, Bytes) else None

    def _seek(self, descriptor: int, offset: int) -> None:
        if descriptor in self._open:
            path, _, append = self._open[descriptor]
            self._open[descriptor] = (path, offset, append)

    def _write(self, call: Call) -> None:
        descriptor = _number(call.arguments[0])
        file = self._file(descriptor)
        if file is None:
            return
        path, offset, append = self._open[descriptor]
        data = call.strings[0][: call.result]
        if call.name == "pwrite64":
            at = _number(call.arguments[-1])
        else:
            at = len(file.now()) if append else offset
            self._open[descriptor] = (path, at + len(data), append)
        if not path.endswith("-shm"):
            file.since.append((self._number, at, data))

    def _cut(self, call: Call) -> None:
        if call.name == "ftruncate":
            file = self._file(_number(call.arguments[0]))
        else:
            found = self._node(self._path(call, 0))
            file = found if isinstance(found, Bytes) else None
        if file is not None:
            file.since.append((self._number, _number(call.arguments[-1]), None))

    def _sync(self, call: Call) -> None:
        # Taken even where it is of no concern: it must not name the next one.
        site = self._site.pop(call.thread, "")
        descriptor = _number(call.arguments[0])
        if descriptor not in self._open:
            return
        path = self._open[descriptor][0]
        if self._inside(path) is None:
            return
        node: Bytes | Names | None = self._file(descriptor) or self._node(path)
        assert node is not None, path
        if site:
            self.sites[site] = self.sites.get(site, 0) + 1
        if site and site in self._without:
            self.spared.append(node)
            return
        node.sync(call.begun)

    def _rename(self, call: Call) -> None:
        name = call.name
        paths = [self._path(call, at) for at in range(len(call.strings))]
        folders = [self._folder(path) for path in paths]
        if not any(folders):
            if name in ("sendfile", "copy_file_range", "writev", "pwritev", "pwritev2"):
                descriptors = [_number(each) for each in call.arguments if each.isdigit()]
                assert all(self._file(each) is None for each in descriptors[:3]), call
            return
        assert name not in ("sync_file_range", "fallocate", "symlink", "symlinkat"), call
        if name in ("rename", "renameat", "renameat2"):
            (source, old), (target, new) = (each for each in folders if each is not None)
            assert source is target, "a rename from one folder into another"
            node = source.now()[old]
            source.since.append((self._number, ((old, None), (new, node))))
            return
        folder, last = next(each for each in reversed(folders) if each is not None)
        if name in ("link", "linkat"):
            node = self._node(paths[0])  # type: ignore[assignment]
            folder.since.append((self._number, ((last, node),)))
        elif name in ("mkdir", "mkdirat"):
            folder.since.append((self._number, ((last, Names()),)))
        elif name in ("unlink", "unlinkat", "rmdir"):
            folder.since.append((self._number, ((last, None),)))
        else:
            raise AssertionError(call)

    # -- after a loss of power ----------------------------------------------------

    def left(self, lost: Lost) -> dict[str, bytes | None]:
        """Return the files and folders (None) that remain after a power failure, by path."""
        return dict(self._left(self.root, "", lost, {}))

    def _left(
        self, folder: Names, above: str, lost: Lost, made: dict[int, bytes]
    ) -> Iterator[tuple[str, bytes | None]]:
        way = lost.way(folder, lost.names, ("all", "none", "some"))
        most = len(folder.since)
        kept = {"all": most, "none": 0}.get(way, lost.chance.randint(0, most))
        for name, node in sorted(folder.after(kept).items()):
            path = f"{above}{name}"
            if isinstance(node, Names):
                yield path, None
                yield from self._left(node, f"{path}/", lost, made)
            elif not name.endswith("-shm"):
                # One file may have two names, and has one content all the same.
                if id(node) not in made:
                    made[id(node)] = spoilt(node, lost)
                yield path, made[id(node)]


WAYS = ("all", "none", "first", "some", "zeros", "cut", "flipped")


def spoilt(file: Bytes, lost: Lost) -> bytes:
    """What is left of a file."""
    chance, since = lost.chance, file.since
    way = lost.way(file, lost.data, WAYS)
    if not since or way == "none":
        return file.safe
    if way == "first":
        return _applied(file.safe, since[: chance.randint(0, len(since))])
    if way == "some":
        return _applied(file.safe, [each for each in since if chance.random() < 0.5])
    if way == "zeros":
        blank = [(n, at, data and bytes(len(data))) for n, at, data in since]
        return _applied(file.safe, blank)
    data = file.now()
    if way == "cut":
        cuts = [at for _, at, written in since if written is None]
        shortest = min(len(file.safe), len(data), *cuts)
        return data[: chance.randint(shortest, len(data))]
    if way == "flipped":
        result = bytearray(data)
        for _, at, written in since:
            if written and len(written) >= _SECTOR:
                for _ in range(1 + len(written) // _SECTOR):
                    place = at + chance.randrange(len(written))
                    if place < len(result):
                        result[place] ^= 1 << chance.randrange(8)
        return bytes(result)
    return data


def lay_down(top: Path, left: dict[str, bytes | None]) -> None:
    """Make it so."""
    for path, data in left.items():
        if data is None:
            (top / path).mkdir()
        else:
            (top / path).write_bytes(data)


def _number(argument: str) -> int:
    return int(argument) if argument.lstrip("-").isdigit() else -1
