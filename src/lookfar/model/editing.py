"""Edits, their results, and the rules documents are checked against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lookfar.model.documents import Span

EditOp = Literal["create", "replace", "append", "insert", "move", "rename", "delete", "fix"]
Position = Literal["last", "first", "before", "after"]
EditAction = Literal["created", "changed", "removed", "unchanged"]


@dataclass(frozen=True, slots=True)
class Edit:
    """One change to one document, as somebody asks for it."""

    op: EditOp
    target: str
    """A document or a part of it, in any way that ``read`` takes."""
    path: str | Sequence[str] = ()
    """The heading path of a section, from the root and with case; ``target`` is then a URI."""
    text: str = ""
    heading: str = ""
    """Of the new section or document; of ``rename``, the new title."""
    level: int = 0
    """Of the new heading; 0 is one below its parent."""
    to: str | Sequence[str] = ()
    """Of ``move``: the heading path of the new parent; empty for the top level."""
    position: Position = "last"
    """Of ``insert`` and ``move``: among the parent's sections, or beside the section named."""
    whole: bool = False
    """Of ``replace``: the section with its heading and subsections, as ``read`` gives it."""
    template: str = ""
    overwrite: bool = False
    expected: str = ""
    """The hash of the document or of the part, from the reading that came before; or none."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A heading that breaks a rule, and what would mend it."""

    rule: str
    message: str
    start_line: int
    end_line: int
    suggested_fix: str
    fixable: bool
    """Whether ``fix`` mends it; where it would have to invent a title, a person has to."""
    uri: str = ""
    """Of the document."""


@dataclass(frozen=True, slots=True)
class Validation:
    """What the rules say about a document."""

    collection: str
    uri: str
    violations: tuple[Violation, ...]
    sha256: str
    """Of the document's text, to be expected by the edit that follows."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.violations


@dataclass(frozen=True, slots=True)
class LinkChange:
    """A link to a heading that an edit renames, moves or removes."""

    uri: str
    """The document that has the link."""
    line: int
    written: str
    """The link as it stands."""
    anchor: str
    heading_path: tuple[str, ...]
    """The heading that it meant."""
    becomes: str
    """The anchor that means the same heading now; empty where there is none."""
    rewritten: bool


@dataclass(frozen=True, slots=True)
class EditedDocument:
    """What an edit made of one document."""

    collection: str
    uri: str
    action: EditAction
    before: str
    """The hash of the text as it was; empty for one that was not there."""
    after: str
    """The hash of the text as it is now; empty for one that is gone."""
    diff: str
    heading_path: tuple[str, ...] = ()
    span: Span | None = None
    """Where the edited part stands now; none where it is gone."""
    section_sha256: str = ""
    """The hash that ``read`` now gives of that part."""


@dataclass(frozen=True, slots=True)
class EditResult:
    """What a transaction changed, or in a dry run would change."""

    transaction: int
    """Its number; 0 where nothing was written."""
    dry_run: bool
    documents: tuple[EditedDocument, ...]
    links: tuple[LinkChange, ...] = ()
    violations: tuple[Violation, ...] = ()
    """What breaks a rule now and did not before."""
    warnings: tuple[str, ...] = ()
    indexed: bool = False
    """Whether a search finds what was written already."""


@dataclass(frozen=True, slots=True)
class UndoStep:
    """A transaction that can be taken back."""

    transaction: int
    collection: str
    uris: tuple[str, ...]
    at: str
