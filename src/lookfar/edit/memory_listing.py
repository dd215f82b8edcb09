"""The files of a folder of memories: list them, find one by its name, name a new one; the trash."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from lookfar.common.folders import scan_folder
from lookfar.edit.memory_file import (
    MAX_BYTES,
    SUFFIX,
    VERSION,
    check_name,
    fold_name,
    is_unicode,
    match_name,
    numbered,
    slug,
    stem_of,
    version_name,
)
from lookfar.errors import InvalidArgument, NotFound, OutsideRoot
from lookfar.sources.confine import Refused, Root
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


class MemoryListing:
    """The files of one folder of memories."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._trash = Trash(self.folder)

    def _names(self) -> list[str]:
        return [
            entry.name
            for entry in scan_folder(self.folder)
            if entry.name.lower().endswith(SUFFIX)
            and not entry.name.startswith(".")
            and is_unicode(entry.name)
            and entry.is_file(follow_symlinks=False)
        ]

    def _find(self, name: str) -> str:
        """Return the name of an existing memory, in its own spelling."""
        wanted = check_name(name)
        existing = match_name(wanted, self._names())
        if existing is None:
            near = get_close_matches(wanted, self._names(), n=3, cutoff=0.4)
            versions = self._trash.versions()
            trashed = any(fold_name(other) == fold_name(wanted) for other in versions)
            hint = f"Nearest: {', '.join(near)}." if near else "List them: lookfar memory list."
            raise NotFound(
                f"There is no memory {wanted!r}.",
                hint="It is in the trash: restore it first." if trashed else hint,
                details={"candidates": near},
            )
        return existing

    def _choose_name(self, name: str, title: str) -> str:
        """Return the name for a new file: the given one, or one derived from the title."""
        existing = {fold_name(other) for other in self._names()}
        if name:
            wanted = f"{stem_of(check_name(name))}{SUFFIX}"
            if fold_name(wanted) in existing:
                raise InvalidArgument(
                    f"The memory {wanted!r} already exists.",
                    hint="Update it, append to it, or choose another name.",
                    details={"name": wanted},
                )
            return wanted
        # Names in the trash stay reserved, so that restoring brings back the right memory.
        reserved = existing | {fold_name(other) for other in self._trash.versions()}
        stem, number = slug(title), 1
        while fold_name(chosen := numbered(stem, number)) in reserved:
            number += 1
        return chosen

    def _bytes(self, name: str) -> bytes:
        """Read a file, without following links that someone may have put in its place."""
        try:
            return Root.open(self.folder).read(name, MAX_BYTES)[0]
        except Refused as refusal:
            raise NotFound(
                f"{name!r} cannot be read: {refusal.reason}.",
                hint="Memories are regular files; check this one.",
                developer=f"{refusal.reason}: {refusal.detail}",
            ) from refusal
