"""Edits, their results, and the rules documents are checked against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lookfar.model.documents import Span

EditOp = Literal["create", "replace", "append", "insert", "move", "rename", "delete", "fix"]
Position = Literal["last", "first", "before", "after"]
EditAction = Literal["created", "changed", "moved", "removed", "unchanged"]


@dataclass(frozen=True, slots=True)
class Edit:
    """A requested change to one document."""

    op: EditOp
    target: str
    """A document or a part of it, in any form that ``read`` accepts."""
    path: str | Sequence[str] = ()
    """Heading path of a section, from the root and case-sensitive; ``target`` is then a URI.
    The text before the first heading has the path ``("",)``."""
    text: str = ""
    heading: str = ""
    """Heading of the new section or document; for ``rename``, the new title. To rename a document,
    its new file name, or its new path from the root of the folder."""
    level: int = 0
    """Level of the new heading; 0 means one below its parent."""
    to: str | Sequence[str] = ()
    """For ``move``: heading path of the new parent; empty for the top level. To move a document,
    the folder."""
    keep_alias: bool = False
    """When a document is renamed, add its old name to its aliases."""
    position: Position = "last"
    """For ``insert`` and ``move``: among the parent's sections, or next to the named section."""
    whole: bool = False
    """For ``replace``: including the heading and subsections, as returned by ``read``."""
    template: str = ""
    overwrite: bool = False
    expected: str = ""
    """Hash of the document or the part from an earlier ``read``; may be empty."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A heading that breaks a rule, and how to fix it."""

    rule: str
    message: str
    start_line: int
    end_line: int
    suggested_fix: str
    fixable: bool
    """Whether ``fix`` can correct it; it cannot invent a title."""
    uri: str = ""
    """URI of the document."""


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of checking a document against the rules."""

    collection: str
    uri: str
    violations: tuple[Violation, ...]
    sha256: str
    """Hash of the document's text, for ``expected`` of a following edit."""

    @property
    def ok(self) -> bool:
        """Whether there are no violations."""
        return not self.violations


@dataclass(frozen=True, slots=True)
class LinkChange:
    """A link to a heading or document that an edit renames, moves or removes."""

    uri: str
    """URI of the document with the link."""
    line: int
    written: str
    """The link as written."""
    anchor: str
    heading_path: tuple[str, ...]
    """The heading that it pointed to; for a link to a renamed document, the old target."""
    becomes: str
    """The new anchor of that heading; empty if it was removed. Of a link to a renamed document,
    the whole new link."""
    rewritten: bool


@dataclass(frozen=True, slots=True)
class EditedDocument:
    """What an edit did to one document."""

    collection: str
    uri: str
    action: EditAction
    before: str
    """Hash of the text before; empty for a new document."""
    after: str
    """Hash of the text after; empty for a removed document."""
    diff: str
    heading_path: tuple[str, ...] = ()
    span: Span | None = None
    """Where the edited part is now; None if it was removed."""
    section_sha256: str = ""
    """Hash of that part, as returned by ``read``."""
    moved_from: str = ""
    """The URI that a renamed document had."""


@dataclass(frozen=True, slots=True)
class EditResult:
    """What a transaction changed, or would change in a dry run."""

    transaction: int
    """Its number; 0 if nothing was written."""
    dry_run: bool
    documents: tuple[EditedDocument, ...]
    links: tuple[LinkChange, ...] = ()
    violations: tuple[Violation, ...] = ()
    """Violations that the edit introduced."""
    warnings: tuple[str, ...] = ()
    indexed: bool = False
    """Whether the change is already searchable."""


@dataclass(frozen=True, slots=True)
class UndoStep:
    """A transaction that can be undone."""

    transaction: int
    collection: str
    uris: tuple[str, ...]
    at: str
