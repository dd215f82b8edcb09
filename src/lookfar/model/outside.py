"""Sources outside the user's folders: sites, repositories, archives, folders and packages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

OutsideKind = Literal["site", "repository", "archive", "folder", "package", "pack"]


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
    named: Mapping[str, str] = field(default_factory=dict)
    """Which entries of projects the user confirmed: ``FOLDER#NAME``, and the hash of the entry."""
    pack: str = ""
    """The SHA-256 of the pack that it was added from; empty if it was not."""
    signer: str = ""
    """The key that signed it: the user's name for it, or its fingerprint; empty without one."""


@dataclass(frozen=True, slots=True)
class NamedSource:
    """A source that a project's ``lookfar.toml`` names. Naming it fetches nothing."""

    name: str
    origin: str
    pin: bool = False
    """Whether updates leave it as it was fetched first."""
    only_page: bool = False
    max_pages: int | None = None
    """Limits below those of the user; None where the entry has none."""
    max_files: int | None = None
    max_bytes: int | None = None


NamedState = Literal["added", "missing", "changed"]
"""Whether the user confirmed an entry, not yet, or as it was before it changed."""


@dataclass(frozen=True, slots=True)
class NamedStatus:
    """A source that a project names, and whether it is there."""

    source: NamedSource
    folder: str
    """The real path of the project."""
    state: NamedState
    stored: str = ""
    """The name of what was fetched for it; empty if it is missing."""
    previous: str = ""
    """For a changed entry: what was fetched for the entry before it changed."""


@dataclass(frozen=True, slots=True)
class SourceChange:
    """What adding or updating a source did."""

    source: OutsideSource
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What was refused or skipped, and why."""


@dataclass(frozen=True, slots=True)
class PackReport:
    """What was written into a pack."""

    source: str
    path: str
    bytes: int
    sha256: str
    """Hash of the whole file."""
    files: int
    vectors: int
    model: str
    """The name of the model that made the vectors; empty without vectors."""
    key: str = ""
    """The key that others must trust to check who signed it; empty if it is not signed."""
    notes: tuple[str, ...] = ()
    """What was skipped, and why."""


ApiChangeKind = Literal[
    "added", "removed", "changed", "deprecated", "moved", "retyped", "documented"
]
"""``changed`` means other parameters or defaults, ``retyped`` other types alone, and
``documented`` another docstring alone."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition of a package, and where it is."""

    collection: str
    uri: str
    start_line: int
    end_line: int
    signature: str
    """On one line; of a function, its name, parameters and result."""
    docstring: str = ""
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApiChange:
    """How a definition differs between two versions of a package."""

    kind: ApiChangeKind
    name: str
    """With its module, such as ``requests.sessions.Session.get``."""
    before: Definition | None = None
    after: Definition | None = None


@dataclass(frozen=True, slots=True)
class ReleaseNote:
    """The section of a changelog that is about one version."""

    version: str
    collection: str
    uri: str
    start_line: int
    end_line: int
    text: str


@dataclass(frozen=True, slots=True)
class VersionChanges:
    """What changed between two versions of a package that are both on this machine."""

    package: str
    older: str
    newer: str
    older_source: str
    newer_source: str
    changes: tuple[ApiChange, ...]
    notes: tuple[ReleaseNote, ...]
    """From the changelog, the newest version first; empty if the package has none."""
