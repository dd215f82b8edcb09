"""Documents for reading and the parts that are named, related documents, and the link graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lookfar.model.answers import Incomplete, State
from lookfar.model.documents import Section, Span, Symbol


@dataclass(frozen=True, slots=True)
class Reading:
    """A document or a part of it, as it is on disk now."""

    collection: str
    uri: str
    title: str
    heading_path: tuple[str, ...]
    span: Span
    sha256: str
    text: str
    state: State
    """Whether the file changed since it was indexed; for a citation, whether it still holds."""
    extracted: bool = False
    """The text was extracted from the file, so its lines and offsets are not those of the file."""
    places: tuple[str, ...] = ()
    """Where an extracted text is in its file, such as ``page=3`` or ``Budget!A1:F20``."""
    warnings: tuple[str, ...] = ()
    """What may be wrong with the text: a guessed encoding, or parts that were not extracted."""
    also: tuple[str, ...] = ()
    """Other parts of the definition: overloads, branches of a condition, parts of its class."""


EmbedProblem = Literal[
    "", "not_indexed", "not_found", "ambiguous", "cycle", "too_deep", "too_large"
]
"""Why an embed is not shown; ``not_indexed`` is a picture or another file, or nothing at all."""


@dataclass(frozen=True, slots=True)
class Embed:
    """A note, or a part of one, that another note shows in place: ``![[Note#Heading]]``."""

    start: int
    """Where the embed is in the text that was read."""
    end: int
    written: str
    problem: EmbedProblem
    reading: Reading | None = None
    """The embedded text as it is on disk, with its own place and hash."""
    embeds: tuple[Embed, ...] = ()
    """What the embedded text embeds, with offsets in it."""


@dataclass(frozen=True, slots=True)
class Outline:
    """The heading tree of a document, as it is on disk now."""

    collection: str
    uri: str
    title: str
    language: str
    lines: int
    tags: tuple[str, ...]
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...] = ()
    """For source code: the definitions of these sections."""
    places: tuple[tuple[int, str], ...] = ()
    """For an extracted text: its pages, slides, ranges or cells, by their first line."""

    def place_at(self, line: int) -> str:
        """Return the page, slide, range or cell that contains a line; empty if there is none."""
        return next((label for first, label in reversed(self.places) if first <= line), "")


@dataclass(frozen=True, slots=True)
class PageChunk:
    """A chunk of a page: ``text[start:end]``, without its overlap."""

    id: str
    heading_path: tuple[str, ...]
    """For display: never empty, with ``[part N/M]`` if a section was split."""
    level: int
    """Level of the heading that it is named after; 0 without a heading."""
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Page:
    """An indexed document: its whole text and its chunks."""

    collection: str
    uri: str
    text: str
    modified_ns: int
    """Modification time in nanoseconds since 1970."""
    sections: tuple[Section, ...]
    chunks: tuple[PageChunk, ...]
    """In document order; together they are the text after the front matter."""
    incomplete: tuple[Incomplete, ...] = ()


@dataclass(frozen=True, slots=True)
class PageInfo:
    """A page in a listing."""

    uri: str
    language: str
    modified_ns: int
    chunks: int
    chars: int
    """Length of all chunks, without overlaps."""
    heading: str
    """The first heading of level 1, or empty."""
    headings: tuple[tuple[str, ...], ...]
    """Heading paths of levels 1 and 2, in document order."""


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    """A text that a document had, in one kept generation or several in a row."""

    oldest: int
    """The first of these generations that is still kept."""
    newest: int
    created_at: str
    """When the oldest of these generations was made."""
    title: str
    sha256: str
    """SHA-256 of the text as UTF-8."""
    modified_ns: int
    active: bool
    """Whether the active generation has this text."""


RelatedKind = Literal[
    "links",
    "backlinks",
    "similar",
    "community",
    "definitions",
    "mentions",
    "callers",
    "callees",
    "impact",
    "tests",
    "commits",
    "memories",
]
USUAL_KINDS: tuple[RelatedKind, ...] = ("links", "backlinks", "similar", "community")
"""What is related to a document, unless other kinds are asked for."""
Relation = Literal[
    "links_to",
    "transclusion",
    "implements",
    "tests",
    "related",
    "mentions",
    "plans",
    "refactors",
]


@dataclass(frozen=True, slots=True)
class RelatedEntry:
    """A document related to another, and how."""

    kind: RelatedKind
    uri: str
    """Empty if the link target does not exist."""
    title: str
    target: str
    """For a link, its target as written."""
    resolved: bool
    """Whether the document exists."""
    relation: Relation | None
    """Kind of the first link; None without links."""
    count: int
    """Number of links."""
    score: float
    """Comparable only within one kind."""
    anchor: str
    """Heading or block that the first link points to."""
    heading_path: tuple[str, ...]
    """Headings above the first link or above the similar passage."""
    line: int
    """Line of the first link or of the passage, in the document that contains it; or 0."""
    text: str
    """Text of the first link."""
    context: str
    """About a hundred characters around it, or the start of the passage."""
    collection: str = ""
    """Its collection, if it differs from that of the queried document."""
    certain: bool | None = None
    """In the call graph: whether scope, imports or types lead to it, or only its name."""
    depth: int = 0
    """In the call graph: number of calls between it and the queried definition."""


@dataclass(frozen=True, slots=True)
class Related:
    """What is related to a document or a part of it, by kind and then best first."""

    collection: str
    uri: str
    title: str
    heading_path: tuple[str, ...]
    """Heading path of the queried section; empty for a whole document."""
    entries: tuple[RelatedEntry, ...]
    totals: Mapping[RelatedKind, int]
    """Number of each requested kind; ``entries`` may have fewer."""
    generation: int
    incomplete: tuple[Incomplete, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A document in a link graph for display."""

    uri: str
    title: str
    community: int
    """Number of its community; 0 is the largest."""
    links: int
    """Number of documents linked with it, shown or not."""


@dataclass(frozen=True, slots=True)
class Community:
    """Documents that are linked more with each other than with the rest."""

    number: int
    size: int
    title: str
    """Title of its most linked document."""
    uri: str


@dataclass(frozen=True, slots=True)
class LinkGraph:
    """The part of a collection's link graph that is small enough to draw."""

    collection: str
    generation: int
    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[int, int], ...]
    """Pairs of positions in ``nodes``."""
    communities: tuple[Community, ...]
    """Largest first, including those without a document in ``nodes``."""
    documents: int
    """Number of documents with links, shown or not."""


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
