"""Documentation that names something which is no longer there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lookfar.model.answers import Incomplete

ClaimKind = Literal["symbol", "import", "file", "option", "setting", "parameter"]


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that a document names as code."""

    kind: ClaimKind
    name: str
    """As written, without decoration: ``Flask.run``, ``docs/setup.md``, ``--reload``."""
    line: int
    start: int
    """Offset of the code span."""
    call: str = ""
    """For a parameter, the function it is passed to; for an option, the command, if it is known."""
    is_full: bool = False
    """Whether the name is known to begin with its package, as in an import."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A place in a document that names something which is gone or has changed since."""

    uri: str
    line: int
    heading_path: tuple[str, ...]
    kind: ClaimKind
    name: str
    state: Literal["gone", "moved", "changed"]
    was: str
    """File in which it last was defined, or the file itself."""
    now: str
    """Where a file was moved to; otherwise empty."""
    commit: str
    """Commit that removed it."""
    removed_at: int
    """Time of that commit, in seconds since 1970."""
    touched_at: int
    """Time of the last change of the line, in seconds since 1970."""
    text: str
    """The line of the document."""


@dataclass(frozen=True, slots=True)
class DriftReport:
    """Every drift that was found in the documentation of a collection."""

    collection: str
    generation: int
    documents: int
    """Number of documents that were checked."""
    claims: int
    """Number of names in them."""
    drifts: tuple[Drift, ...]
    incomplete: tuple[Incomplete, ...] = ()
