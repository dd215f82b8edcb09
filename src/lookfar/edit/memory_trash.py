"""The trash of a memory folder: old versions of its files, and a log of all writes.

FOLDER/.trash/why-we-retry.000003.md      a version before a change or a deletion
FOLDER/.trash/journal.jsonl               who did what, and when
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lookfar.common.folders import scan_folder
from lookfar.edit.memory_names import VERSION, fold_name, is_unicode, version_name
from lookfar.errors import OutsideRoot
from lookfar.store.ground import files

TRASH: Final = ".trash"
_JOURNAL: Final = "journal.jsonl"
_MAX_VERSIONS: Final = 20


@dataclass(frozen=True, slots=True)
class Trashed:
    """A file in the trash: a deleted memory, or an earlier version of one."""

    name: str
    version: int
    deleted: bool
    """There is no memory of that name now."""


class Trash:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._trash = folder / TRASH

    def make_folder(self) -> None:
        if self._trash.is_symlink():
            raise OutsideRoot(
                f"The trash of {self._folder.name!r} is a symbolic link.",
                hint="Replace .trash with a folder; nothing was changed.",
            )
        files.make_folder(self._trash)

    def versions(self) -> dict[str, list[int]]:
        """Return the version numbers by name of their memory, in rising order."""
        versions: dict[str, list[int]] = {}
        for entry in (entry.name for entry in scan_folder(self._trash)):
            match = VERSION.fullmatch(entry)
            if match is not None and is_unicode(entry) and not entry.startswith("."):
                name = match["stem"] + match["ending"]
                versions.setdefault(name, []).append(int(match["number"]))
        return {name: sorted(numbers) for name, numbers in versions.items()}

    def entries(self) -> list[Trashed]:
        return [
            Trashed(name, number, not os.path.lexists(self._folder / name))
            for name, numbers in sorted(self.versions().items())
            for number in numbers
        ]

    def add(self, name: str, raw: bytes) -> int:
        """Store a version of a memory and return its number; drop the oldest above the limit."""
        versions = self.versions()
        numbers = versions.get(name, [])
        # Some file systems ignore case, so names that differ only in case share their numbers.
        alike = (other for other in versions if fold_name(other) == fold_name(name))
        number = max((max(versions[other]) for other in alike), default=0) + 1
        files.write_atomic(self._trash / version_name(name, number), raw)
        for old in numbers[: max(0, len(numbers) + 1 - _MAX_VERSIONS)]:
            self.remove(name, old)
        return number

    def remove(self, name: str, number: int) -> None:
        files.remove(self._trash / version_name(name, number))

    def log(self, at: str, action: str, name: str, author: str, **more: Any) -> None:
        """Append to the log; it covers memories whose front matter cannot name an author, too."""
        row = {"at": at, "by": author or "unknown", "did": action, "name": name, **more}
        path = self._trash / _JOURNAL
        size = path.lstat().st_size if path.is_file() else 0
        files.append(path, size, json.dumps(row, ensure_ascii=True).encode() + b"\n")
