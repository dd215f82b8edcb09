"""The vocabulary of Lookfar as frozen data: nothing here does anything.

Takes: plain values. Gives: the nouns that every room shares (document,
section, chunk, span, link, hit, answer). Refuses: behaviour, I/O and mutation.

All offsets count characters of the *normalised text* of a document (UTF-8
decoded, no byte-order mark, ``\\n`` line ends, one final newline). Lines are
counted from 1 and both ends are inclusive; offsets are half-open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Lane = Literal["docs", "code", "commits", "memory", "documents"]
Mode = Literal["hybrid", "vector", "keyword"]
LinkKind = Literal["wikilink", "embed", "link", "image"]
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
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


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
    """A stable word: ``denied``, ``excluded``, ``ignored``, ``symlink``, ``too_large``, ..."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Filters:
    """What may be in an answer; applied before the best are chosen."""

    prefix: str = ""
    uris: tuple[str, ...] = ()
    glob: str = ""
    heading: str = ""
    tags: tuple[str, ...] = ()
    lanes: tuple[Lane, ...] = ()

    def __bool__(self) -> bool:
        return bool(
            self.prefix or self.uris or self.glob or self.heading or self.tags or self.lanes
        )


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one stage did to one score, in words a person can follow."""

    stage: str
    value: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """A cited span of one document."""

    collection: str
    uri: str
    title: str
    heading_path: tuple[str, ...]
    span: Span
    sha256: str
    """Of the UTF-8 bytes of the cited text, whole even when ``text`` is cut."""
    lane: Lane
    score: float
    text: str
    truncated: bool
    """``text`` was cut to the excerpt limit; the span still names all of it."""
    state: Literal["same", "moved", "changed", "gone"]
    """How the cited text compares with the disk at the moment of answering."""
    chunk_id: str
    explanation: tuple[Contribution, ...] = ()


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Why an answer may be missing something."""

    reason: str
    detail: str
    uris: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The hits for one query, best first."""

    query: str
    mode: Mode
    hits: tuple[Hit, ...]
    generations: Mapping[str, int]
    """Which state of each collection answered."""
    took_ms: float
    incomplete: tuple[Incomplete, ...] = ()

    @property
    def generation(self) -> int:
        """The state of the only collection that was asked; 0 where several were."""
        return next(iter(self.generations.values())) if len(self.generations) == 1 else 0


@dataclass(frozen=True, slots=True)
class Failure:
    """A file that could not be indexed; its earlier state, if any, still serves."""

    uri: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What one indexing pass found and did."""

    collection: str
    root: str
    generation: int
    added: int
    changed: int
    removed: int
    unchanged: int
    chunks_embedded: int
    failures: tuple[Failure, ...]
    skipped: Mapping[str, int]
    """How many entries stayed out, by reason."""
    skipped_examples: Mapping[str, tuple[str, ...]]
    """The first few of each reason."""
    seconds: float
    text_bytes: int


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
    state: Literal["same", "changed"]
    """Whether the file is the one that was indexed."""


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


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a generation holds."""

    documents: int = 0
    sections: int = 0
    chunks: int = 0
    links: int = 0


@dataclass(frozen=True, slots=True)
class GenerationInfo:
    """One kept state of an index, and what its manifest says of it."""

    number: int
    created_at: str
    active: bool
    """It is the one that questions are answered from."""
    pinned: bool
    """Retention leaves it alone."""
    counts: Counts
    content: str
    """A hash over every document's URI and text: equal for equal libraries."""
    model: str
    model_fingerprint: str
    added: int
    changed: int
    removed: int
    failures: int
    seconds: float


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """A document that two generations have with different texts, and where they differ.

    Sections are named by their heading path, and compared by their own text: that
    up to the next heading. The text before the first heading has an empty path.
    """

    uri: str
    added: tuple[tuple[str, ...], ...]
    removed: tuple[tuple[str, ...], ...]
    changed: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class GenerationDiff:
    """What one generation has that another has not."""

    older: int
    newer: int
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[DocumentChange, ...]


@dataclass(frozen=True, slots=True)
class Pruned:
    """What retention let go of."""

    generations: int
    documents: int
    """Versions of documents that no kept generation shows."""
    kept: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Watching:
    """How the keeper of a collection is doing."""

    running: bool = False
    healthy: bool = False
    reason: str = ""
    """Why changes may be missed; empty when none will be."""
    strategy: str = ""
    queued: int = 0
    """Names of files and folders that changed and are not indexed yet."""
    everything: bool = False
    """A comparison of the whole folder is due: names do not say what changed."""
    last_error: str = ""
    last_pass: str = ""
    passes: int = 0


@dataclass(frozen=True, slots=True)
class Status:
    """What is indexed, where, and how well."""

    collection: str
    root: str
    index_dir: str
    indexed: bool
    generation: int
    generations: tuple[int, ...]
    created_at: str
    held: int | None
    """The generation that a roll-back holds the index at, until it is indexed again."""
    counts: Counts
    model: str
    dimensions: int
    current: bool
    """The index was made with the settings now in force."""
    disk_bytes: int
    damage: str
    """When and how the index was last found damaged and built anew; empty if never."""
    failures: tuple[Failure, ...]
    stale: tuple[str, ...]
    """Files that were added, changed or removed since; at most a hundred are named."""
    stale_count: int
    watcher: Watching | None = None
    """None where nobody watches in this process."""
