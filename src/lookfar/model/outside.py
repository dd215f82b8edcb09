"""Sources outside the user's folders: sites, repositories, archives, folders and packages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

OutsideKind = Literal["site", "repository", "archive", "folder", "package"]


@dataclass(frozen=True, slots=True)
class OutsideSource:
    """A source that was fetched or found once, and is searched without the network."""

    name: str
    """The name of its collection, like ``flask-docs@source`` or ``requests-2.31.0@pypi``."""
    kind: OutsideKind
    origin: str
    """What it was fetched from: an address, a path, or the folder of a package."""
    version: str = ""
    """The commit of a repository or the version of a package; empty where there is none."""
    fetched: str = ""
    """When its files were last compared with the origin, in ISO format."""
    files: int = 0
    bytes: int = 0
    digest: str = ""
    """SHA-256 over the names and contents of all files."""
    pinned: bool = False
    """Whether an update leaves it as it is."""
    remote: bool = False
    """Whether its text came over the network, and so from a stranger."""
    folders: tuple[str, ...] = ()
    """The real paths of the folders whose searches include it; none means all folders."""
    options: Mapping[str, str | int | bool] = field(default_factory=dict)
    """How it was asked for, so that an update asks the same way."""


@dataclass(frozen=True, slots=True)
class SourceChange:
    """What adding or updating a source did."""

    source: OutsideSource
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What was refused or skipped, and why."""
