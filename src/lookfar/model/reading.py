"""Documents as they are read: a part, an outline, or a page with its chunks."""

from __future__ import annotations

from dataclasses import dataclass

from lookfar.model.answers import Incomplete, State
from lookfar.model.documents import Section, Span, Symbol


@dataclass(frozen=True, slots=True)
class Reading:
    """A document or a part of it, as the disk has it now."""

    collection: str
    uri: str
    title: str
    heading_path: tuple[str, ...]
    span: Span
    sha256: str
    text: str
    state: State
    """Whether the file is the one that was indexed; of a citation, whether it still holds."""


@dataclass(frozen=True, slots=True)
class Outline:
    """The heading tree of one document, as the disk has it now."""

    collection: str
    uri: str
    title: str
    language: str
    lines: int
    tags: tuple[str, ...]
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...] = ()
    """Of source code: what these sections define."""


@dataclass(frozen=True, slots=True)
class PageChunk:
    """A chunk in its place: ``text[start:end]`` of its page, without what it repeats."""

    id: str
    heading_path: tuple[str, ...]
    """As people see it: never empty, with ``[part N/M]`` where a section was split."""
    level: int
    """Of the heading that it is named after; 0 where it is named after none."""
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Page:
    """A document as it is indexed, whole and cut."""

    collection: str
    uri: str
    text: str
    modified_ns: int
    """When the file was last changed, in nanoseconds since 1970."""
    sections: tuple[Section, ...]
    chunks: tuple[PageChunk, ...]
    """In document order; joined they are the text after the front matter."""
    incomplete: tuple[Incomplete, ...] = ()


@dataclass(frozen=True, slots=True)
class PageInfo:
    """What a list of pages says of one of them."""

    uri: str
    language: str
    modified_ns: int
    chunks: int
    chars: int
    """Of all its chunks, without what they repeat."""
    heading: str
    """The first of level 1, or empty."""
    headings: tuple[tuple[str, ...], ...]
    """Paths of levels 1 and 2, in document order."""
