"""The names of memories in their folder: list them, find one, choose one for a new file."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from lookfar.common.folders import scan_folder
from lookfar.edit.memory_file import MAX_BYTES
from lookfar.edit.memory_names import (
    SUFFIX,
    check_name,
    fold_name,
    is_unicode,
    match_name,
    numbered,
    slug,
    stem_of,
)
from lookfar.edit.memory_trash import Trash
from lookfar.errors import InvalidArgument, NotFound
from lookfar.sources.confine import Refused, Root


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
