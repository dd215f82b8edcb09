"""Keep the inventory of the last full pass, so that a query can look for changes by stat alone.

Two files: the inventory, and a small record of which generation agrees with it except for some
documents, those that later passes over single files indexed. Both can be made again by a walk. What
is damaged, too old, made under other rules or not of the serving generation is not used.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from lookfar.errors import IOFailed
from lookfar.sources.folder.inventory import Inventory
from lookfar.store.ground import files
from lookfar.store.ground.records import pack_record, unpack_record

INVENTORY_FILE: Final = "inventory.bin"
AGREEMENT_FILE: Final = "inventory.state"

_FORMAT: Final = 1
_LONGEST_USE_NS: Final = 24 * 3600 * 10**9
"""After a day a walk looks at everything, in case a folder did not show a change by its times."""
_MOST_CHANGED: Final = 500


class Anchor(NamedTuple):
    """Identifies one generation of one store."""

    fingerprint: str
    generation: int
    content: str
    """The hash of its documents. A server may count from 1 again in another collection."""


def make_anchor(fingerprint: str, generation: int, manifest: Mapping[str, Any]) -> Anchor:
    return Anchor(fingerprint, generation, str(manifest.get("content", "")))


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
