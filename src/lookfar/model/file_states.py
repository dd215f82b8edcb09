"""Files on disk: which are indexed, which are skipped, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """File metadata from ``stat``, to detect changes without reading the file."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that may be indexed."""

    uri: str
    fingerprint: Fingerprint


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder that is not indexed, and why."""

    uri: str
    reason: str
    """A stable identifier: ``denied``, ``secret``, ``excluded``, ``ignored``, ``symlink``, ..."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Ruling:
    """Whether a path may be indexed, and the rule that decides it."""

    uri: str
    admitted: bool
    reason: str
    """As in ``Skipped``; for admitted paths ``admitted``, ``included``, ``not_ignored`` or, if
    passages are hidden, ``masked``."""
    rule: str
    """The rule as written, or the state of the file; empty if no rule applies."""
    place: str
    """Where the rule is defined: a file and line, a setting, or ``built in``."""
    decided: str
    """The path that the rule matched: the one asked for, or a folder above it."""
    indexed: bool = False
    """Whether it is in the index now."""
    collection: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A file that could not be indexed; its earlier version, if any, is still searched."""

    uri: str
    code: str
    message: str
