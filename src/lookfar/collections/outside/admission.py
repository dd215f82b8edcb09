"""Which files of a repository, archive or pack are stored, within the limits of the settings."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from lookfar.common.skip_reasons import BINARY_EXTENSIONS
from lookfar.errors import InvalidArgument, how_many
from lookfar.index.recipe import policy_from
from lookfar.sources.confine import path_problem
from lookfar.sources.folder.policy import read_extension

if TYPE_CHECKING:
    from lookfar.config import Settings


SAME_PATH: Final = "a file and a folder have the same path"
_LONGEST_NAME: Final = 255
"""Bytes in the name of a file or folder, which most file systems limit."""
_LONGEST_PATH: Final = 1_000
_SPARE_FOLDERS: Final = 500


class Admission:
    """Counts what is stored, and remembers why files were skipped."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings = settings
        self._policy = policy_from(settings, "/")
        self._name = name
        self._files = 0
        self._bytes = 0
        self._stored: set[str] = set()
        self._folders: set[str] = set()
        self.skipped: Counter[str] = Counter()

    def limit(self, uri: str) -> int:
        """Return how many bytes a file may have."""
        return self._policy.size_limit(uri)

    def refuse(self, uri: str, size: int) -> str:
        """Return why a file is not stored; empty if it is. The reason is counted."""
        reason = ""
        # The parents of a path of any length could take gigabytes.
        short = uri if len(uri) <= _LONGEST_PATH else ""
        parents = {str(parent) for parent in PurePosixPath(short).parents}
        names = short.split("/")
        if path_problem(short) or any(len(name.encode()) > _LONGEST_NAME for name in names):
            reason = "unusable path"
        elif uri in self._folders or not parents.isdisjoint(self._stored):
            reason = SAME_PATH
        elif read_extension(uri) in BINARY_EXTENSIONS:
            reason = "binary"
        elif size > self.limit(uri):
            reason = "too large"
        if reason:
            self.skipped[reason] += 1
        else:
            self._stored.add(uri)
            self._folders |= parents
        return reason

    def count(self, size: int) -> None:
        """Count a stored file; raise ``InvalidArgument`` if the source is too large."""
        self._files += 1
        self._bytes += size
        outside = self._settings.outside
        # Each file may have a deep path of its own.
        files = max(self._files, len(self._folders) // 2 - _SPARE_FOLDERS)
        if files > outside.max_files or self._bytes > outside.max_bytes:
            limit = "max_files" if files > outside.max_files else "max_bytes"
            most = getattr(outside, limit)
            raise InvalidArgument(
                f"{self._name} is larger than outside.{limit} allows ({most:,}).",
                hint=f"Raise outside.{limit}, or add a part of it.",
            )

    def notes(self) -> tuple[str, ...]:
        return tuple(
            f"{how_many(number, 'file')} skipped: {reason}"
            for reason, number in sorted(self.skipped.items())
        )
