"""The vocabulary of Lookfar as frozen data: nothing here does anything.

Takes: plain values. Gives: the nouns that every room shares (document,
section, chunk, span, link, hit, answer). Refuses: behaviour, I/O and mutation.

All offsets count characters of the *normalised text* of a document (UTF-8
decoded, no byte-order mark, ``\\n`` line ends, one final newline). Lines are
counted from 1 and both ends are inclusive; offsets are half-open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Lane = Literal["docs", "code", "commits", "memory", "documents"]
Mode = Literal["hybrid", "vector", "keyword"]
LineMode = Literal["literal", "regex"]
"""How :meth:`lookfar.Library.grep` reads its pattern."""
Case = Literal["sensitive", "insensitive", "smart"]
State = Literal["same", "moved", "changed", "gone"]
Likeness = Literal["text", "words", "meaning"]
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
class LineCounts:
    """Every line is one of code, blank and comments; docstrings are comments."""

    total: int
    code: int
    blank: int
    comments: int


@dataclass(frozen=True, slots=True)
class FunctionSummary:
    """A function or method, and how hard it is to follow."""

    name: str
    kind: SymbolKind
    start_line: int
    end_line: int
    signature: str
    docstring: str
    is_async: bool
    is_exported: bool
    param_count: int
    complexity: int
    """Cyclomatic: one more than the decision points that no function inside it has."""
    nesting: int
    """How deep control structures stand in one another."""
    parent: str = ""
    visibility: Visibility = ""
    decorators: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClassSummary:
    """A class, interface, struct, trait or enum."""

    name: str
    kind: SymbolKind
    start_line: int
    end_line: int
    signature: str
    docstring: str
    is_exported: bool
    methods: tuple[str, ...]
    """Names, in the order of the file."""


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """What a file takes from elsewhere."""

    source: str
    specifiers: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """What a file offers."""

    name: str
    kind: SymbolKind


@dataclass(frozen=True, slots=True)
class Complexity:
    """How hard a file is to follow."""

    cyclomatic: int
    """Decision points, and one for each function (at least one)."""
    max_nesting: int
    average: float
    """Of its functions; 0 where it has none."""
    decision_points: int
    score: int
    """0 to 100, higher is simpler."""


@dataclass(frozen=True, slots=True)
class FileSummary:
    """What is in a source file, for whoever does not want to read it."""

    uri: str
    language: str
    lines: LineCounts
    functions: tuple[FunctionSummary, ...]
    classes: tuple[ClassSummary, ...]
    imports: tuple[ImportSummary, ...]
    exports: tuple[ExportSummary, ...]
    complexity: Complexity
    size: int
    """Bytes of the normalised text."""
    full_support: bool
    """Imports, exports and metrics are known for its language."""


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
    """A stable word: ``denied``, ``secret``, ``excluded``, ``ignored``, ``symlink``, ..."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Ruling:
    """Whether a path may be indexed, and the rule that decides it."""

    uri: str
    admitted: bool
    reason: str
    """That of ``Skipped``; of what is admitted ``admitted``, ``included``, ``not_ignored``
    or, where passages of it are not shown, ``masked``."""
    rule: str
    """The rule as it is written, or what the disk says; empty where no rule is about it."""
    place: str
    """Where the rule stands: a file and line, a setting, or ``built in``."""
    decided: str
    """The path that the rule is about: the one asked for, or a folder above it."""
    indexed: bool = False
    """The index has it now."""
    collection: str = ""


@dataclass(frozen=True, slots=True)
class Filters:
    """What may be in an answer; applied before the best are chosen."""

    prefix: str = ""
    uris: tuple[str, ...] = ()
    glob: str = ""
    heading: str = ""
    tags: tuple[str, ...] = ()
    lanes: tuple[Lane, ...] = ()
    languages: tuple[str, ...] = ()
    """Formats or programming languages: ``markdown``, ``python``."""
    after: int | None = None
    """Modified at or after this moment, in nanoseconds since 1970."""
    before: int | None = None
    """Modified before this moment."""
    authors: tuple[str, ...] = ()
    """Of commits: one of these stands in the author's name or address."""
    touches: str = ""
    """Of commits: a glob that a path matches which they changed."""
    branch: str = ""
    """Of commits: the branch or tag that they lead to."""
    phrases: tuple[str, ...] = ()
    """Passages that hold each of these, its words beside each other."""
    without: tuple[str, ...] = ()
    """Passages that hold none of these words and phrases."""

    def __bool__(self) -> bool:
        return self != _NO_FILTERS


_NO_FILTERS = Filters()


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one stage did to one score, in words a person can follow."""

    stage: str
    value: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Alike:
    """A place that was folded into a hit, because it says the same or nearly."""

    collection: str
    uri: str
    span: Span
    sha256: str
    """Of the UTF-8 bytes of what stands there."""
    state: State
    by: Likeness
    """Equal in every character, in nearly all words, or in meaning."""


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
    state: State
    """How the cited text compares with the disk at the moment of answering."""
    chunk_id: str
    explanation: tuple[Contribution, ...] = ()
    path: tuple[str, ...] = ()
    """The headings of the best chunk as they are written; empty where none stands above it."""
    part: int = 1
    parts: int = 1
    """How many the section was split into; 1 where several chunks answer as one."""
    stale: tuple[str, ...] = ()
    """Of a memory: the documents it links to that changed or went since it was written."""
    comment: bool = False
    """It is a comment or docstring of source code that answers as documentation."""
    also: tuple[Alike, ...] = ()
    """Where else it stands, or nearly; the best few."""
    also_more: int = 0
    """How many more of those there are."""
    focus: tuple[Span, ...] = ()
    """The sentences or lines of ``text`` that answer best, best first, where that was asked for."""
    focus_path: tuple[str, ...] = ()
    """Of code: the definition that holds the best of these lines, from the outermost in."""
    focus_lines: tuple[int, int] = (0, 0)
    """The first and last line of that definition."""
    document_chars: int = 0
    """The length of the whole document on the disk; 0 where it is gone."""
    uses: tuple[tuple[int, str], ...] = ()
    """Of code, beside ``focus``: the constants and imports of its file that it uses, by line."""


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
    documents: tuple[Listed, ...] = ()
    """What the filters admit, where there were filters and no words."""
    total: int = 0
    """How many documents the filters admit, of which these are the first."""

    @property
    def generation(self) -> int:
        """The state of the only collection that was asked; 0 where several were."""
        return next(iter(self.generations.values())) if len(self.generations) == 1 else 0


@dataclass(frozen=True, slots=True)
class MatchedLine:
    """A line that matches a pattern, as a citation of its own."""

    number: int
    text: str
    """The line without its line break; of a very long one the part around the first match."""
    column: int
    """Where ``text`` begins in the line: 0 unless it was cut."""
    spans: tuple[tuple[int, int], ...]
    """The matches as half-open columns of the line, counted in characters from 0."""
    heading_path: tuple[str, ...]
    """The headings above the line, or in code the definitions around it; may be empty."""
    span: Span
    """The whole line with its line break, as ``read URI:NUMBER`` gives it."""
    sha256: str
    """Of the UTF-8 bytes of that span."""
    state: State
    """How the line compares with the disk at the moment of answering."""
    before: tuple[str, ...] = ()
    """Context lines that directly precede it and are not shown with the line before."""
    after: tuple[str, ...] = ()
    truncated: bool = False
    """``text`` is not the whole line, or ``spans`` are not all its matches."""


@dataclass(frozen=True, slots=True)
class FileMatches:
    """A document with lines that match a pattern."""

    collection: str
    uri: str
    title: str
    lane: Lane
    language: str
    count: int
    """How many of its lines match; ``lines`` may be fewer."""
    lines: tuple[MatchedLine, ...]


@dataclass(frozen=True, slots=True)
class Matches:
    """The lines that match a pattern, by collection and then by URI."""

    pattern: str
    mode: LineMode
    case: Literal["sensitive", "insensitive"]
    """How it was matched, after ``smart`` was decided."""
    files: tuple[FileMatches, ...]
    """As many as were asked for, from ``offset`` on."""
    matches: int
    """Lines that match in all documents, shown or not."""
    matched_files: int
    """Documents with such lines, shown or not."""
    offset: int
    generations: Mapping[str, int]
    """Which state of each collection answered."""
    took_ms: float
    incomplete: tuple[Incomplete, ...] = ()


Verdict = Literal["shown", "outranked", "folded", "unmatched", "filtered", "not_indexed"]


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why a document is, or is not, among the hits for a question."""

    query: str
    uri: str
    verdict: Verdict
    detail: str
    """The same in a sentence, and what would change it."""
    rank: int = 0
    """Its place among the documents that were ranked, from 1; 0 where it was not."""
    of: int = 0
    score: float = 0.0
    needed: float = 0.0
    """The score of the last hit."""
    explanation: tuple[Contribution, ...] = ()


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
    masked: int = 0
    """How many of the files that were read have passages that are masked as secrets."""
    masked_examples: tuple[str, ...] = ()
    """The first few of them."""


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


RelatedKind = Literal[
    "links",
    "backlinks",
    "similar",
    "community",
    "definitions",
    "mentions",
    "commits",
    "memories",
]
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
    """A document that has to do with another, and how."""

    kind: RelatedKind
    uri: str
    """Empty where a link leads to what is not there: a ghost, until it appears."""
    title: str
    target: str
    """For a link, its target as it is written."""
    resolved: bool
    """Whether there is such a document."""
    relation: Relation | None
    """What kind of link the first one is; none where nothing is linked."""
    count: int
    """How many links there are; 0 where nothing is linked."""
    score: float
    """Comparable within one kind only."""
    anchor: str
    """The heading or block that the first link points to."""
    heading_path: tuple[str, ...]
    """The headings above the first link, or above the passage that is similar."""
    line: int
    """Where the first link or the passage stands, in the document that has it; or 0."""
    text: str
    """What the first link reads like."""
    context: str
    """About a hundred characters around it, or the beginning of the passage."""
    collection: str = ""
    """Where it stands, if not beside the document that was asked about."""


@dataclass(frozen=True, slots=True)
class Related:
    """What has to do with one document or a part of it, by kind and then the best first."""

    collection: str
    uri: str
    title: str
    heading_path: tuple[str, ...]
    """Of the section that was asked about; empty for a whole document."""
    entries: tuple[RelatedEntry, ...]
    totals: Mapping[RelatedKind, int]
    """How many there are of each kind that was asked for; entries may be fewer."""
    generation: int
    incomplete: tuple[Incomplete, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A document of a drawn graph."""

    uri: str
    title: str
    community: int
    """Equal numbers belong together; 0 is the largest community."""
    links: int
    """How many documents it is linked with, drawn or not."""


@dataclass(frozen=True, slots=True)
class Community:
    """Documents that are linked among each other more than with others."""

    number: int
    size: int
    title: str
    """Of its most linked document."""
    uri: str


@dataclass(frozen=True, slots=True)
class LinkGraph:
    """As much of a collection's link graph as can be drawn."""

    collection: str
    generation: int
    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[int, int], ...]
    """Pairs of places in ``nodes``."""
    communities: tuple[Community, ...]
    """The largest first; also those of which no document is drawn."""
    documents: int
    """How many documents have links, drawn or not."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What a list of documents says of one of them."""

    collection: str
    uri: str
    title: str
    lane: Lane
    language: str
    modified_ns: int
    tags: tuple[str, ...]
    size: int = 0
    """In bytes."""
    lines: int = 0
    """0 where nobody counted them."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The documents that filters admit: some of them, and how many there are."""

    documents: tuple[Listed, ...]
    total: int
    generations: Mapping[str, int]
    """Which state of each collection was listed."""
    incomplete: tuple[Incomplete, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """What a list of commits says of one of them."""

    collection: str
    hash: str
    title: str
    author: str
    committed_at: str
    files: int
    """How many it changed."""


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
class VectorPass:
    """How the nearest vectors are found among all."""

    rows: int
    method: Literal["exact", "coarse"]
    """Every vector is compared, or those that their bits put forward."""
    kept: int
    """How many are compared with a question."""
    recall: float | None = None
    """The share of the true ten nearest that are found, measured on a sample of stored vectors
    when the index last grew; None where all are compared or nothing was measured yet."""
    sample: int = 0


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing in an index that is not as it was written."""

    artefact: str
    """``catalogue``, ``texts``, ``vectors``, ``keywords`` or ``signatures``; ``beside`` for the
    small files beside the index, and ``index`` where it cannot be opened."""
    detail: str


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What a repair saved of a database whose own rows were damaged."""

    saved: int
    """Documents that fit their hashes, and are in the new epoch."""
    lost: int
    """Documents of which no intact copy was found, as far as their number is known."""
    lost_ids: tuple[str, ...]
    """Their names, as far as they are known; at most a hundred."""
    kept_aside: str
    """Where the damaged files are. Nothing but deleting documents removes them."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What checking every row and file of one index against its hash came to."""

    collection: str
    index_dir: str
    found: tuple[Damage, ...]
    repaired: bool = False
    """Whether something was damaged, was made anew and is sound now."""
    left: tuple[Damage, ...] = ()
    """What is damaged still."""
    salvaged: Salvaged | None = None
    """What was saved of inserted documents that were damaged themselves."""


@dataclass(frozen=True, slots=True)
class Receipts:
    """What answers cost whoever read them, and what the files they cite would have cost."""

    answers: int = 0
    tokens: int = 0
    document_tokens: int = 0

    def __add__(self, other: Receipts) -> Receipts:
        return Receipts(
            self.answers + other.answers,
            self.tokens + other.tokens,
            self.document_tokens + other.document_tokens,
        )


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
    vectors: VectorPass | None = None
    """None where there are no vectors."""
    receipts: Receipts | None = None
    """Of the answers given to agents; None where none are counted."""


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
