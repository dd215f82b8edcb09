"""Questions and answers: filters, hits, matching lines, and lists of documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lookfar.model.documents import Lane, Span

Mode = Literal["hybrid", "vector", "keyword"]
LineMode = Literal["literal", "regex"]
"""How :meth:`lookfar.Library.grep` reads its pattern."""
Case = Literal["sensitive", "insensitive", "smart"]
State = Literal["same", "moved", "changed", "gone"]
Likeness = Literal["text", "words", "meaning"]


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
