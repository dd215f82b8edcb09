"""Which projects have their packages indexed, and which packages each of them uses.

    <outside.dir>/projects/<hash>.json     one record for each project

A package that no project uses any more stays for some days, so that its versions can be compared,
and then it is removed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from lookfar.common.folders import list_folder
from lookfar.model import OutsideSource
from lookfar.store.ground import files
from lookfar.store.ground.records import pack_record, unpack_record

FOLDER_NAME: Final = "projects"
_DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class ProjectRecord:
    """What is remembered about a project."""

    folder: str
    enabled: bool = False
    """Whether its packages are indexed in the background."""
    uses: Mapping[str, str] = field(default_factory=dict)
    """The name of the source of each package that is indexed, by its full name."""
    words: Sequence[str] = ()
    """The names under which its packages are known, in lower case."""
    dropped: Mapping[str, float] = field(default_factory=dict)
    """When the project stopped using a source, in seconds since 1970."""
    seen: float = 0.0
    """When the project was last looked at."""


class Projects:
    """The records of all projects of a user. May be shared by threads and processes."""

    def __init__(self, outside_folder: Path) -> None:
        self._folder = outside_folder / FOLDER_NAME

    def get(self, project: str) -> ProjectRecord:
        real = os.path.realpath(project)
        return _read(self._place(real)) or ProjectRecord(real)

    def enable(self, project: str, enabled: bool = True) -> None:
        """Remember whether the packages of a project are indexed."""
        record = self.get(project)
        if record.enabled != enabled:
            self._write(replace(record, enabled=enabled))

    def record_uses(self, project: str, uses: Mapping[str, str], words: Iterable[str] = ()) -> None:
        """Remember which packages a project uses now, and when it dropped others."""
        record, now, names = self.get(project), time.time(), sorted(words)
        if record.uses == uses and list(record.words) == names and now - record.seen < _DAY:
            return
        gone = set(record.uses.values()) - set(uses.values())
        dropped = {
            **{name: at for name, at in record.dropped.items() if name not in uses.values()},
            **dict.fromkeys(gone, now),
        }
        self._write(replace(record, uses=dict(uses), words=names, dropped=dropped, seen=now))

    def find_unused(self, packages: Iterable[OutsideSource], days: float) -> list[str]:
        """Return the packages that no project has used for so many days."""
        before = time.time() - days * _DAY
        records = [record for record in map(_read, list_folder(self._folder)) if record]
        # A folder that is away for a while, such as one on another disk, still counts.
        alive = [r for r in records if r.seen > before or os.path.isdir(r.folder)]
        used = {name for record in alive for name in record.uses.values()}
        dropped: dict[str, float] = {}
        for record in records:
            for name, at in record.dropped.items():
                dropped[name] = max(at, dropped.get(name, 0.0))
        return [
            package.name
            for package in packages
            if package.name not in used
            and not package.pinned
            and max(dropped.get(package.name, 0.0), parse_time(package.fetched)) < before
        ]

    def _place(self, real: str) -> Path:
        key = sha256(real.encode("utf-8", "surrogateescape")).hexdigest()[:24]
        return self._folder / f"{key}.json"

    def _write(self, record: ProjectRecord) -> None:
        files.make_folder(self._folder)
        files.write_atomic(self._place(record.folder), pack_record(asdict(record)))


def _read(path: Path) -> ProjectRecord | None:
    try:
        return ProjectRecord(**unpack_record(path.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def parse_time(text: str) -> float:
    """Return the seconds since 1970 of a time in ISO format; 0 if it is not one."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
