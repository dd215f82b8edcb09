"""Record what a walk saw in compact arrays, so that a later process can look for changes quickly.

An inventory is made from a walk, and written as bytes. It only says what was on the disk; whether
the index agrees with it is for the caller to know. A damaged inventory raises ``ValueError``.
"""

from __future__ import annotations

import json
import sys
import zlib
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any, Final

from lookfar.model import Fingerprint
from lookfar.sources.fingerprints import SETTLING_NS, is_settled
from lookfar.sources.folder.ignore import Ignores
from lookfar.sources.folder.policy import Policy
from lookfar.sources.folder.walk import FolderListing, Walk

FIELDS: Final = 4
"""Numbers per entry: of a file ctime, mtime, size and inode; of a folder ctime, mtime, inode and
device."""

_MAGIC: Final = b"lookfar inventory 1\n"
_UNKNOWN: Final = (0, 0, 0, 0)
"""Differs from every entry on disk, so that the entry is always examined."""
_HALF: Final = 1 << 63
_SEPARATOR: Final = "\0"
_SECTIONS: Final = ("folders", "files", "rule_files")

Stamp = tuple[int, int, int, int]


def wrap(number: int) -> int:
    """Return a number as a signed integer of 64 bits; device numbers may be larger on Windows."""
    return (number + _HALF) % (2 * _HALF) - _HALF


@dataclass(frozen=True, slots=True)
class Entries:
    """Paths with the numbers that change when the entry changes, the newest first."""

    uris: list[str]
    stamps: array[int]

    @classmethod
    def sort(cls, stamps: Mapping[str, Stamp]) -> Entries:
        """Put entries in the order in which they most likely changed."""
        uris = sorted(stamps, key=lambda uri: stamps[uri][:2], reverse=True)
        return cls(uris, array("q", (wrap(number) for uri in uris for number in stamps[uri])))


@dataclass(frozen=True, slots=True)
class Inventory:
    """The folders and files of one walk."""

    rules: str
    """A hash of the rules by which files were admitted."""
    made_at: int
    """Nanoseconds since 1970."""
    folders: Entries
    files: Entries
    rule_files: Entries
    """The ignore files below the root: if one changes, everything must be judged again."""
    marks: Mapping[str, str]
    """For each folder that may be build output: which file inside it says so, or empty."""

    def to_bytes(self) -> bytes:
        header = {
            "rules": self.rules,
            "made_at": self.made_at,
            "marks": dict(self.marks),
            "byteorder": sys.byteorder,
        }
        parts = []
        for name in _SECTIONS:
            entries: Entries = getattr(self, name)
            names = _SEPARATOR.join(entries.uris).encode("utf-8")
            header[name] = [len(entries.uris), len(names)]
            parts += [names, entries.stamps.tobytes()]
        head = json.dumps(header, sort_keys=True).encode("utf-8")
        body = b"".join((head, b"\n", *parts))
        return b"".join((_MAGIC, zlib.crc32(body).to_bytes(4, "big"), body))

    @classmethod
    def from_bytes(cls, data: bytes) -> Inventory:
        body = memoryview(data)[len(_MAGIC) + 4 :]
        checksum = int.from_bytes(data[len(_MAGIC) : len(_MAGIC) + 4], "big")
        if not data.startswith(_MAGIC) or zlib.crc32(body) != checksum:
            raise ValueError("not an inventory, or damaged")
        at = data.index(b"\n", len(_MAGIC) + 4) + 1
        header = json.loads(data[len(_MAGIC) + 4 : at])
        if header["byteorder"] != sys.byteorder:
            raise ValueError("written on another kind of machine")
        sections: dict[str, Entries] = {}
        for name in _SECTIONS:
            count, length = header[name]
            text = data[at : at + length].decode("utf-8")
            at += length
            stamps = array("q")
            stamps.frombytes(data[at : at + count * FIELDS * stamps.itemsize])
            at += count * FIELDS * stamps.itemsize
            sections[name] = Entries(text.split(_SEPARATOR) if count else [], stamps)
        return cls(header["rules"], header["made_at"], marks=header["marks"], **sections)


def take_inventory(
    walk: Walk, rules: str, made_at: int, is_wanted: Callable[[str], bool]
) -> Inventory:
    """Make the inventory of a walk; ``is_wanted`` tells the files whose changes matter."""
    folders: dict[str, Stamp] = {}
    files: dict[str, Stamp] = {}
    rule_files: dict[str, Stamp] = {}
    marks: dict[str, str] = {}
    for uri, folder in walk.memory.folders.items():
        prefix = f"{uri}/" if uri else ""
        folders[uri] = folder.stamp if _is_folder_settled(folder) else _UNKNOWN
        for name in folder.files:
            if is_wanted(name):
                files[prefix + name] = _stamp_file(folder, name)
        for name, fingerprint in folder.ignore_files:
            settled = fingerprint is not None and is_settled(fingerprint, folder.listed_at)
            rule_files[prefix + name] = stamp_fingerprint(fingerprint) if settled else _UNKNOWN
        marks.update((prefix + name, mark) for name, mark in folder.marks.items())
    for uri in walk.unreadable:
        # Listing the parent again tries again to open what could not be opened.
        folders[uri.rpartition("/")[0]] = _UNKNOWN
    return Inventory(
        rules=rules,
        made_at=made_at,
        folders=Entries.sort(folders),
        files=Entries.sort(files),
        rule_files=Entries.sort(rule_files),
        marks=marks,
    )


def _is_folder_settled(folder: FolderListing) -> bool:
    """Whether any entry that was added after the listing changes the folder's times."""
    return max(folder.stamp[:2]) + SETTLING_NS <= folder.listed_at


def _stamp_file(folder: FolderListing, name: str) -> Stamp:
    file = folder.files[name]
    return stamp_fingerprint(file.fingerprint if file is not None else folder.refused.get(name))


def stamp_fingerprint(fingerprint: Fingerprint | None) -> Stamp:
    """Return the numbers of a fingerprint in the order of ``FIELDS``."""
    if fingerprint is None:
        return _UNKNOWN
    return (fingerprint.ctime_ns, fingerprint.mtime_ns, fingerprint.size, fingerprint.inode)


def hash_rules(policy: Policy, outer: Ignores | None, extra: Iterable[Any]) -> str:
    """Return a hash that is equal while the same names are admitted.

    ``outer`` are the ignore rules from above the root, and ``extra`` is what else decides.
    """
    above = []
    while outer is not None:
        above.append((outer.base, outer.above, outer.file.uri, outer.file.digest))
        outer = outer.outer
    values = [getattr(policy, field.name) for field in fields(policy) if field.repr]
    # The order of a set differs between processes.
    parts = [sorted(value) if isinstance(value, frozenset) else value for value in values]
    return sha256(repr([*parts, above, *extra]).encode("utf-8", "surrogatepass")).hexdigest()
