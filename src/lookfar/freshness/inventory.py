"""Keep what the last full pass saw in compact arrays, so that a query can look for changes by stat.

Two files: the inventory, and a small record of which generation agrees with it except for some
documents, those that later passes over single files indexed. Both can be made again by a walk. What
is damaged, too old, made under other rules or not of the serving generation is not used.
"""

from __future__ import annotations

import json
import os
import sys
import time
import zlib
from array import array
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from lookfar.errors import IOFailed
from lookfar.model import Fingerprint
from lookfar.sources.confine import Root
from lookfar.sources.fingerprints import SETTLING_NS, is_settled
from lookfar.sources.folder.ignore import Ignores
from lookfar.sources.folder.policy import VERSION as ADMISSION
from lookfar.sources.folder.policy import Policy
from lookfar.sources.folder.walk import FolderListing, Walk
from lookfar.sources.secrets.screen import VERSION as SECRETS
from lookfar.store.ground import files
from lookfar.store.ground.records import pack_record, unpack_record
from lookfar.text.extract.formats import EXTRACTORS, version_of
from lookfar.text.parse.formats import is_readable

INVENTORY_FILE: Final = "inventory.bin"
AGREEMENT_FILE: Final = "inventory.state"

FIELDS: Final = 4
"""Numbers per entry: of a file ctime, mtime, size and inode; of a folder ctime, mtime, inode and
device."""

_MAGIC: Final = b"lookfar inventory 1\n"
_UNKNOWN: Final = (0, 0, 0, 0)
"""Differs from every entry on disk, so that the entry is always examined."""
_HALF: Final = 1 << 63
_SEPARATOR: Final = "\0"
_SECTIONS: Final = ("folders", "files", "rule_files")
_FORMAT: Final = 1
_LONGEST_USE_NS: Final = 24 * 3600 * 10**9
"""After a day a walk looks at everything, in case a folder did not show a change by its times."""
_MOST_CHANGED: Final = 500

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


def take_inventory(walk: Walk, root: Root) -> Inventory | None:
    """Make the inventory of a full walk; None if the root itself could not be listed."""
    policy, top = walk.memory.policy, walk.memory.folders.get("")
    if top is None:
        return None
    folders: dict[str, Stamp] = {}
    documents: dict[str, Stamp] = {}
    rule_files: dict[str, Stamp] = {}
    marks: dict[str, str] = {}
    for uri, folder in walk.memory.folders.items():
        prefix = f"{uri}/" if uri else ""
        folders[uri] = folder.stamp if _is_folder_settled(folder) else _UNKNOWN
        for name in folder.files:
            if is_readable(name, policy.any_text):
                documents[prefix + name] = _stamp_file(folder, name)
        for name, fingerprint in folder.ignore_files:
            settled = fingerprint is not None and is_settled(fingerprint, folder.listed_at)
            rule_files[prefix + name] = stamp_fingerprint(fingerprint) if settled else _UNKNOWN
        marks.update((prefix + name, mark) for name, mark in folder.marks.items())
    for uri in walk.unreadable:
        # Listing the parent again tries again to open what could not be opened.
        folders[uri.rpartition("/")[0]] = _UNKNOWN
    return Inventory(
        rules=hash_admission(root, policy, top.outer),
        made_at=time.time_ns(),
        folders=Entries.sort(folders),
        files=Entries.sort(documents),
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


def hash_admission(root: Root, policy: Policy, outer: Ignores | None) -> str:
    """Return a hash that is equal while the same files below ``root`` are admitted and extracted.

    ``outer`` are the ignore rules from above the root.
    """
    extractors = [(row.extensions[0], version_of(row)) for row in EXTRACTORS]
    own = (ADMISSION, SECRETS, root.path, root.allow_hard_links, extractors)
    above = []
    while outer is not None:
        above.append((outer.base, outer.above, outer.file.uri, outer.file.digest))
        outer = outer.outer
    values = [getattr(policy, field.name) for field in fields(policy) if field.repr]
    # The order of a set differs between processes.
    parts = [sorted(value) if isinstance(value, frozenset) else value for value in values]
    return sha256(repr([*parts, above, *own]).encode("utf-8", "surrogatepass")).hexdigest()


# -- on disk -------------------------------------------------------------------------


class Anchor(NamedTuple):
    """Identifies one generation of one store."""

    fingerprint: str
    generation: int
    content: str
    """The hash of its documents. A server may count from 1 again in another collection."""


class DiskRecord:
    """The files of one collection. May be shared by threads and processes."""

    def __init__(self, folder: Path) -> None:
        """Use the index folder of a collection; nothing is read or written yet."""
        self._inventory_path = folder / INVENTORY_FILE
        self._agreement_path = folder / AGREEMENT_FILE
        self._loaded: tuple[tuple[int, int, int], Inventory] | None = None

    def load(self, anchor: Anchor, rules: str) -> tuple[Inventory, frozenset[str]] | None:
        """Return the inventory that this generation agrees with, except for these documents."""
        agreement = self._read_agreement()
        if agreement is None or agreement[0] != anchor:
            return None
        try:
            info = os.stat(self._inventory_path)
            stamp = (info.st_mtime_ns, info.st_size, info.st_ino)
            if self._loaded is None or self._loaded[0] != stamp:
                self._loaded = stamp, Inventory.from_bytes(self._inventory_path.read_bytes())
            inventory = self._loaded[1]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        if (inventory.rules, inventory.made_at) != (rules, agreement[1]):
            return None
        age = time.time_ns() - inventory.made_at
        return (inventory, agreement[2]) if 0 <= age < _LONGEST_USE_NS else None

    def save(self, inventory: Inventory, anchor: Anchor) -> None:
        """Keep an inventory whose files are what this generation contains."""
        with suppress(IOFailed):  # Without it, queries walk.
            files.write_cache(self._inventory_path, inventory.to_bytes())
            self._write_agreement(anchor, inventory.made_at, frozenset())

    def add_changes(self, base: int, anchor: Anchor, uris: Collection[str]) -> None:
        """Note that a pass over these documents turned generation ``base`` into another one."""
        agreement = self._read_agreement()
        if agreement is None or agreement[0].generation != base:
            return  # The inventory was not of that generation, so it is not of this one either.
        changed = agreement[2] | frozenset(uris)
        if len(changed) <= _MOST_CHANGED:
            with suppress(IOFailed):
                self._write_agreement(anchor, agreement[1], changed)

    def _read_agreement(self) -> tuple[Anchor, int, frozenset[str]] | None:
        try:
            record = unpack_record(self._agreement_path.read_bytes())
            if record["format"] != _FORMAT:
                return None
            return Anchor(*record["anchor"]), record["made_at"], frozenset(record["changed"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def _write_agreement(self, anchor: Anchor, made_at: int, changed: frozenset[str]) -> None:
        record = {
            "format": _FORMAT,
            "anchor": list(anchor),
            "made_at": made_at,
            "changed": sorted(changed),
        }
        files.write_cache(self._agreement_path, pack_record(record))

    @property
    def loaded(self) -> Inventory | None:
        """The inventory that was read last."""
        return self._loaded[1] if self._loaded is not None else None

    def forget(self) -> None:
        """Release the memory of the inventory; the next query reads it again."""
        self._loaded = None
