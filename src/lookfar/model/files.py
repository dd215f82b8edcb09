"""Files on disk: which are indexed, which are skipped, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What the disk says about a file without reading it."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that policy admits."""

    uri: str
    fingerprint: Fingerprint


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder that was not indexed, and the rule that said so."""

    uri: str
    reason: str
    """A stable word: ``denied``, ``secret``, ``excluded``, ``ignored``, ``symlink``, ..."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Ruling:
    """Whether a path may be indexed, and the rule that decides it."""

    uri: str
    admitted: bool
    reason: str
    """That of ``Skipped``; of what is admitted ``admitted``, ``included``, ``not_ignored``
    or, where passages of it are not shown, ``masked``."""
    rule: str
    """The rule as it is written, or what the disk says; empty where no rule is about it."""
    place: str
    """Where the rule stands: a file and line, a setting, or ``built in``."""
    decided: str
    """The path that the rule is about: the one asked for, or a folder above it."""
    indexed: bool = False
    """The index has it now."""
    collection: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A file that could not be indexed; its earlier state, if any, still serves."""

    uri: str
    code: str
    message: str
