"""Questions and answers: filters, hits, matching lines, and lists of documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

from lookfar.model.documents import Kind, Span, SymbolKind

Mode = Literal["hybrid", "vector", "keyword"]
Confidence = Literal["high", "medium", "low"]
LineMode = Literal["literal", "regex"]
"""How :meth:`lookfar.Library.grep` interprets its pattern."""
Case = Literal["sensitive", "insensitive", "smart"]
State = Literal["same", "moved", "changed", "gone"]
Likeness = Literal["text", "words", "meaning"]


@dataclass(frozen=True, slots=True, init=False)
class Filters:
    """Restricts an answer; applied before the best hits are chosen."""

    prefix: str = ""
    uris: tuple[str, ...] = ()
    glob: str = ""
    heading: str = ""
    tags: tuple[str, ...] = ()
    lanes: tuple[Kind, ...] = ()
    """The older name of ``kinds``."""
    languages: tuple[str, ...] = ()
    """Formats or programming languages: ``markdown``, ``python``."""
    after: int | None = None
    """Modified at or after this time, in nanoseconds since 1970; a note that is about a day counts
    by that day."""
    before: int | None = None
    """Modified before this time."""
    authors: tuple[str, ...] = ()
    """Commits only: the author's name or address contains one of these."""
    touches: str = ""
    """Commits only: a glob that matches a changed path."""
    branch: str = ""
    """Commits only: reachable from this branch or tag."""
    phrases: tuple[str, ...] = ()
    """Passages that contain each of these phrases."""
    without: tuple[str, ...] = ()
    """Passages that contain none of these words and phrases."""
    where: tuple[str, ...] = ()
    """Conditions on properties, all of which must hold: ``status=active``, ``due<2026-12-01``,
    ``has:aliases``, ``missing:due``."""
    superseded: bool = False
    """Memories: also those that another one supersedes."""

    def __init__(
        self,
        prefix: str = "",
        uris: tuple[str, ...] = (),
        glob: str = "",
        heading: str = "",
        tags: tuple[str, ...] = (),
        lanes: tuple[Kind, ...] = (),
        languages: tuple[str, ...] = (),
        after: int | None = None,
        before: int | None = None,
        authors: tuple[str, ...] = (),
        touches: str = "",
        branch: str = "",
        phrases: tuple[str, ...] = (),
        without: tuple[str, ...] = (),
        where: tuple[str, ...] = (),
        superseded: bool = False,
        *,
        kinds: tuple[Kind, ...] | None = None,
    ) -> None:
        """``kinds`` are kinds of documents, such as ``("docs", "code")``."""
        # Written out because a dataclass cannot accept two names for one field.
        given = {**locals(), "lanes": lanes if kinds is None else kinds}
        for field in fields(self):
            object.__setattr__(self, field.name, given[field.name])

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return self.lanes

    def __bool__(self) -> bool:
        return self != _NO_FILTERS


_NO_FILTERS = Filters()


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one stage contributed to a score."""

    stage: str
    value: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Alike:
    """A passage that was folded into a hit because both have the same text or meaning."""

    collection: str
    uri: str
    span: Span
    sha256: str
    """SHA-256 of its text as UTF-8."""
    state: State
    by: Likeness
    """Whether the text is identical, the words nearly so, or the meaning."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A cited passage of a document."""

    collection: str
    uri: str
    title: str
    heading_path: tuple[str, ...]
    span: Span
    sha256: str
    """SHA-256 of the whole cited text as UTF-8, even if ``text`` is cut."""
    lane: Kind
    score: float
    text: str
    truncated: bool
    """``text`` was cut to the excerpt limit; ``span`` is still that of the whole passage."""
    state: State
    """How the cited text compares with the file on disk at the time of the answer."""
    chunk_id: str
    explanation: tuple[Contribution, ...] = ()
    path: tuple[str, ...] = ()
    """The headings above the best chunk, as written; may be empty."""
    part: int = 1
    parts: int = 1
    """Number of parts the section was split into; 1 if several chunks were merged."""
    stale: tuple[str, ...] = ()
    """Memories only: linked documents that changed or were removed since it was written."""
    origin: str = ""
    """Outside sources only: the address of the page, or the source it belongs to."""
    comment: bool = False
    """A comment or docstring of source code, returned as documentation."""
    also: tuple[Alike, ...] = ()
    """The best few passages that were folded into this hit."""
    also_more: int = 0
    """Number of further folded passages."""
    focus: tuple[Span, ...] = ()
    """The sentences or lines of ``text`` that answer best, best first, if requested."""
    focus_path: tuple[str, ...] = ()
    """Code only: the definition around the best of these lines, outermost name first."""
    focus_lines: tuple[int, int] = (0, 0)
    """First and last line of that definition."""
    document_chars: int = 0
    """Length of the whole document on disk; 0 if it is gone."""
    extracted: bool = False
    """The text was extracted from the file, so its lines and offsets are not those of the file."""
    place: str = ""
    """Where the best part of an extracted text is in its file: ``page=3``, ``Budget!A1:F20``."""
    places: tuple[str, ...] = ()
    """Every place that the passage is from; it may begin on one page and end on the next."""
    drift: tuple[str, ...] = ()
    """Documentation only: what the text names that is gone, by the last ``lookfar drift``."""

    @property
    def kind(self) -> Kind:
        """What the document is; ``lane`` is the older name."""
        return self.lane


@dataclass(frozen=True, slots=True)
class UnitLine:
    """A line of a unit that answers: it carries words of the question, or decides something."""

    number: int
    """Its line in the document, from 1."""
    text: str
    """Without its line break."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A whole definition of code, ranked by itself, or a passage of a document."""

    collection: str
    uri: str
    path: tuple[str, ...]
    """The names around it, outermost first, and its own; empty for a whole file."""
    kind: SymbolKind | Literal["section", "file"]
    """``file`` is what code has outside of all definitions."""
    lane: Kind
    """What its document is."""
    span: Span
    """With its decorators and the comments above it."""
    score: float
    """Comparable only within one answer."""
    line: int = 0
    """The line that names it: comments and decorators above it are part of the span."""
    lines: tuple[UnitLine, ...] = ()
    """Only of the best few: its lines that answer best, in the order of the document."""
    text: str = ""
    """Only of the best few: its text; cut if it is very long."""

    @property
    def name(self) -> str:
        """Its name with those around it, such as ``Session.get``; a heading with its parents."""
        return (" > " if self.kind == "section" else ".").join(self.path)


REMARKS = frozenset({"corrected", "no_phrase", "nothing_relevant", "understood", "versions"})
"""Reasons that say how a question was read or answered; nothing is missing."""


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Why an answer may be incomplete, or how the question was understood."""

    reason: str
    detail: str
    uris: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the note as a sentence for readers."""
        if self.reason in REMARKS:
            return f"{self.detail[:1].upper()}{self.detail[1:]}"
        return f"Incomplete ({self.reason}): {self.detail}"


@dataclass(frozen=True, slots=True)
class Answer:
    """The hits for one query, best first."""

    query: str
    mode: Mode
    hits: tuple[Hit, ...]
    generations: Mapping[str, int]
    """The generation of each collection that was searched."""
    took_ms: float
    incomplete: tuple[Incomplete, ...] = ()
    documents: tuple[Listed, ...] = ()
    """The matching documents, if there were filters but no query."""
    total: int = 0
    """Number of documents that match the filters; ``documents`` has the first of them."""
    confidence: Confidence | None = None
    """How well the best hit fits the question and leads, compared with answers that are known to be
    right; ``None`` if that cannot be said, as in a search by vectors alone."""
    units: tuple[Unit, ...] = ()
    """The best definitions and sections, best first, if requested."""

    @property
    def generation(self) -> int:
        """The generation of the collection, if only one was searched; otherwise 0."""
        return next(iter(self.generations.values())) if len(self.generations) == 1 else 0


@dataclass(frozen=True, slots=True)
class MatchedLine:
    """A line that matches a pattern, with the span and hash to cite it by."""

    number: int
    text: str
    """The line without its line break; if very long, the part around the first match."""
    column: int
    """Where ``text`` starts in the line; 0 unless it was cut."""
    spans: tuple[tuple[int, int], ...]
    """The matches as half-open ranges of columns, in characters from 0."""
    heading_path: tuple[str, ...]
    """The headings above the line, or the definitions around it in code; may be empty."""
    span: Span
    """The whole line with its line break, as returned by ``read URI:NUMBER``."""
    sha256: str
    """SHA-256 of that span as UTF-8."""
    state: State
    """How the line compares with the file on disk at the time of the answer."""
    before: tuple[str, ...] = ()
    """Context lines before it, without those already shown for the previous match."""
    after: tuple[str, ...] = ()
    place: str = ""
    """Where the line is in the file of an extracted text, such as ``page=3``."""
    truncated: bool = False
    """``text`` is not the whole line, or ``spans`` does not have all matches."""


@dataclass(frozen=True, slots=True)
class FileMatches:
    """A document with lines that match a pattern."""

    collection: str
    uri: str
    title: str
    lane: Kind
    language: str
    count: int
    """Number of matching lines; ``lines`` may have fewer."""
    lines: tuple[MatchedLine, ...]

    @property
    def kind(self) -> Kind:
        """What the document is; ``lane`` is the older name."""
        return self.lane


@dataclass(frozen=True, slots=True)
class Matches:
    """The lines that match a pattern, ordered by collection and URI."""

    pattern: str
    mode: LineMode
    case: Literal["sensitive", "insensitive"]
    """How it was matched, with ``smart`` resolved."""
    files: tuple[FileMatches, ...]
    """At most as many as requested, starting at ``offset``."""
    matches: int
    """Number of matching lines in all documents."""
    matched_files: int
    """Number of documents with matching lines."""
    offset: int
    generations: Mapping[str, int]
    """The generation of each collection that was searched."""
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
    """The verdict as a sentence, and what would change it."""
    rank: int = 0
    """Its rank among all ranked documents, from 1; 0 if it was not ranked."""
    of: int = 0
    score: float = 0.0
    needed: float = 0.0
    """Score of the last hit."""
    explanation: tuple[Contribution, ...] = ()


@dataclass(frozen=True, slots=True)
class Listed:
    """A document in a listing."""

    collection: str
    uri: str
    title: str
    lane: Kind
    language: str
    modified_ns: int
    tags: tuple[str, ...]
    size: int = 0
    """In bytes."""
    lines: int = 0
    """0 if not counted."""
    day: str = ""
    """The day that a note is about, such as ``2026-01-31``; empty for other documents."""

    @property
    def kind(self) -> Kind:
        """What the document is; ``lane`` is the older name."""
        return self.lane


@dataclass(frozen=True, slots=True)
class TagCount:
    """A tag, and how many documents have it."""

    tag: str
    documents: int
    """Documents with this tag or one below it."""
    own: int
    """Documents with exactly this tag."""


@dataclass(frozen=True, slots=True)
class PropertyValues:
    """A property that documents have, and its most frequent values."""

    name: str
    """As it is usually written."""
    types: tuple[str, ...]
    """``text``, ``number``, ``boolean``, ``date``, ``datetime`` or ``link``."""
    documents: int
    """Documents that have it."""
    distinct: int
    """Number of different values."""
    values: tuple[tuple[str, int], ...]
    """Frequent values, and how many documents have them."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of the documents that match filters, and their total number."""

    documents: tuple[Listed, ...]
    total: int
    generations: Mapping[str, int]
    """The generation of each collection that was listed."""
    incomplete: tuple[Incomplete, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """A commit in a listing."""

    collection: str
    hash: str
    title: str
    author: str
    committed_at: str
    files: int
    """Number of changed files."""
