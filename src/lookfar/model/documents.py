"""Documents, their structure, and the chunks they are cut into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["docs", "code", "commits", "memory", "documents", "sources", "deps"]
"""What a document is. In filters, ``sources`` means everything in sources that were added, and
``deps`` everything in the packages of a project."""
Lane = Kind
"""The older name; it remains in JSON, in the database and in some attributes."""
LinkKind = Literal["wikilink", "embed", "link", "image", "label", "document"]
"""``label`` and ``document`` name a place of a documentation project, as Sphinx does."""
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
Places = tuple[tuple[int, str], ...]
"""Where the parts of an extracted text are in its file: where each begins in the text, and a label
such as ``page=3``, ``Budget!A1:F20`` or ``cell=4``."""
ROOT_HEADING = "(root)"
"""Heading path of text without a heading above it."""


def display_path(path: tuple[str, ...], part: int, parts: int) -> tuple[str, ...]:
    """Return a heading path for display: never empty, with ``[part N/M]`` if it was split."""
    path = path or (ROOT_HEADING,)
    if parts == 1:
        return path
    return (*path[:-1], f"{path[-1]} [part {part}/{parts}]")


@dataclass(frozen=True, slots=True)
class Span:
    """``text[start:end]``, on lines ``start_line`` to ``end_line``."""

    start: int
    end: int
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class Section:
    """A node of the heading tree. Its span covers its heading and everything below it."""

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
    """A region that must not be split (fence, table) or that is code."""

    kind: BlockKind
    start: int
    end: int
    language: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A link as written, not yet resolved."""

    kind: LinkKind
    target: str
    """Document name, relative path or URL, without the anchor."""
    anchor: str
    """The part after ``#`` (heading or ``^block``), or empty."""
    text: str
    """The visible text: the alias or the link text."""
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """A definition in source code. Each belongs to one section of a code document."""

    section: int
    """Ordinal of its section, which includes decorators and the comments above."""
    kind: SymbolKind
    name: str
    signature: str
    """As written, on one line, without the body."""
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
    """Cyclomatic complexity: decision points plus one."""
    nesting: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed text with its structure."""

    uri: str
    text: str
    title: str
    """From front matter or the first heading; empty if there is neither."""
    lane: Kind
    language: str
    """Format or programming language: ``markdown``, ``rst``, ``python``."""
    body: int
    """Offset of the first character after the front matter."""
    sections: tuple[Section, ...]
    blocks: tuple[Block, ...] = ()
    links: tuple[Link, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    """For source code: the definitions, in the order of their sections."""
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    fields: tuple[tuple[str, Any], ...] = ()
    """Properties in the text, such as ``due:: 2026-12-01``: name and value."""
    labels: tuple[str, ...] = ()
    """Names that other documents of the same project may link to, such as ``.. _name:``."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    places: Places = ()
    """For a text that was extracted from a file."""


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, a run of adjacent comments, or a docstring: an exact slice of source code."""

    span: Span
    docstring: bool
    """Whether it is documentation by the rules of its language."""
    section: int
    """Ordinal of the innermost section around it, or -1."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The part of a document that is embedded and searched; its text is a slice."""

    id: str
    """32 hex digits of a hash of URI, content and occurrence; stable when neighbours change."""
    content: bytes
    """16-byte hash of what is embedded (context and text): equal content, equal vector."""
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
        """The heading path for display, with ``[part N/M]`` if a section was split."""
        return display_path(self.path, self.part, self.parts)
