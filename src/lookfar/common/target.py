"""A parsed target: the part of a document that a reader or an edit names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A URI, and at most one of heading, lines and citation; the whole document without one."""

    uri: str
    heading: str = ""
    """The end of a heading path, in any case."""
    lines: tuple[int, int] | None = None
    chars: tuple[int, int] | None = None
    """Offsets of the cited text."""
    sha256: str = ""
    """SHA-256 of the cited text, or its first digits."""
    also: tuple[str, ...] = ()
    """The other parts of a definition in several parts, described by URI, lines and name."""
