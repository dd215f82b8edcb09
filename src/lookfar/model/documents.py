"""Documents, their structure, and the chunks they are cut into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Lane = Literal["docs", "code", "commits", "memory", "documents"]
LinkKind = Literal["wikilink", "embed", "link", "image"]
SymbolKind = Literal[
    "function",
    "method",
    "class",
    "interface",
    "struct",
    "trait",
    "impl",
    "enum",
    "module",
    "type",
    "constant",
    "macro",
    "other",
]
Visibility = Literal["", "public", "private", "protected"]
BlockKind = Literal["fence", "indented", "table", "html", "list", "quote"]
ROOT_HEADING = "(root)"
"""Heading path shown for text that stands under no heading."""


def shown_path(path: tuple[str, ...], part: int, parts: int) -> tuple[str, ...]:
    """A heading path as people see it: never empty, with ``[part N/M]`` where it was split."""
    shown = path or (ROOT_HEADING,)
    if parts == 1:
        return shown
    return (*shown[:-1], f"{shown[-1]} [part {part}/{parts}]")


@dataclass(frozen=True, slots=True)
class Span:
    """``text[start:end]``, which covers lines ``start_line``..``end_line``."""

    start: int
    end: int
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class Section:
    """A node of the heading tree. Its span covers its heading and all below it."""

    ordinal: int
    """Position in document order, from 0."""
    parent: int
    """Ordinal of the enclosing section, or -1."""
    level: int
    """1 to 6 for headings; 0 for the text before the first heading."""
    title: str
    path: tuple[str, ...]
    """Titles from the outermost heading down to this one."""
    span: Span
    body: int
    """Offset of the first character after the heading line(s)."""


@dataclass(frozen=True, slots=True)
class Block:
    """A region that must not be cut (fence, table) or that is code."""

    kind: BlockKind
    start: int
    end: int
    language: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """An outgoing edge as written. Whether it resolves is the graph's business."""

    kind: LinkKind
    target: str
    """Document name, relative path or URL, without the anchor."""
    anchor: str
    """The part after ``#`` (heading or ``^block``), or empty."""
    text: str
    """What the reader sees: the alias or the link text."""
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """What source code defines at one place: the meaning of a section of a code document."""

    section: int
    """Ordinal of the section that spans it, its decorators and comments above included."""
    kind: SymbolKind
    name: str
    signature: str
    """As written, in one line, without the body."""
    docstring: str = ""
    decorators: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """``async``, ``export``, ``static``, ``abstract``, ``test``, ..."""
    visibility: Visibility = ""
    parent: str = ""
    parent_kind: SymbolKind | Literal[""] = ""
    parameters: tuple[str, ...] = ()
    returns: str = ""
    generics: tuple[str, ...] = ()
    complexity: int = 1
    """Cyclomatic: one more than its decision points."""
    nesting: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """One parsed text with its structure."""

    uri: str
    text: str
    title: str
    """From front matter or the first heading; empty when the text names itself nowhere."""
    lane: Lane
    language: str
    """Format or programming language: ``markdown``, ``rst``, ``python``."""
    body: int
    """Offset of the first character after the front matter."""
    sections: tuple[Section, ...]
    blocks: tuple[Block, ...] = ()
    links: tuple[Link, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    """Of source code: what its sections define, in their order."""
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, or neighbouring ones, or a docstring: an exact slice of source code."""

    span: Span
    docstring: bool
    """It is documentation by the rules of its language, and not only a remark."""
    section: int
    """Ordinal of the innermost section that it stands in, or -1."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The span that is embedded and searched; its text is a slice of the document."""

    id: str
    """32 hex digits from URI, content and occurrence; unchanged when only neighbours change."""
    content: bytes
    """16 bytes naming what is embedded (context and text): equal content, equal vector."""
    ordinal: int
    section: int
    """Ordinal of the section that the chunk starts in."""
    path: tuple[str, ...]
    span: Span
    overlap: int
    """Leading characters that repeat the end of the previous chunk."""
    part: int
    parts: int

    @property
    def heading_path(self) -> tuple[str, ...]:
        """The breadcrumb, with ``[part N/M]`` where a section was split."""
        return shown_path(self.path, self.part, self.parts)
