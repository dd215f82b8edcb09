"""Every Protocol that separates one room from another, and the records that cross them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from datetime import date
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from lookfar.model import (
    Counts,
    Damage,
    Document,
    Failure,
    Filters,
    Fingerprint,
    GenerationDiff,
    Kind,
    LinkKind,
    PageInfo,
    Section,
    SymbolKind,
    VectorPass,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

_FIRST_DAY = date(1970, 1, 1).toordinal()

# -- records that cross the seams ------------------------------------------------------------------


class Entry(NamedTuple):
    """One chunk as a keyword index sees it: terms by field."""

    headings: str
    tags: str
    body: str
    code: str


Streams = tuple[Sequence[str], Sequence[Sequence[str]]]
"""The terms of one document: of its names, and one entry for each chunk."""

SectionRow = tuple[int, int, int, str, int, int, int, int, int, str, bool]
"""ordinal, parent, level, title, start, end, start_line, end_line, body, kind, documented"""

ChunkRow = tuple[bytes, bytes, int, str, int, int, int, int, int, int, int, bytes]
"""id, content, section, path, start, end, start_line, end_line, overlap, part, parts, sha256"""

LinkRow = tuple[str, str, str, str, int, int, str]
"""kind, target, anchor, text, start, end, name"""

NameRow = tuple[str, int, str]
"""name, way, whole"""

PropertyRow = tuple[str, str, str, str, str, float | None]
"""key, name, kind, value, folded, number"""

PATH_SEPARATOR = "\x1f"
"""Separates the headings of a stored path."""


@dataclass(slots=True)
class Version:
    """One version of a document, parsed, chunked and analysed, ready to be stored.

    Rows are plain tuples because hundreds of thousands of them cross process boundaries, and
    plain tuples pickle ten times faster.
    """

    uri: str
    lane: Kind
    language: str
    title: str
    body: int
    metadata: str
    """JSON: front matter and aliases."""
    warnings: tuple[str, ...]
    tags: tuple[str, ...]
    fingerprint: Fingerprint
    settled: bool
    raw_sha: bytes
    text_sha: bytes
    text: bytes
    """The normalised text, compressed."""
    text_bytes: int
    sections: list[SectionRow]
    chunks: list[ChunkRow]
    links: list[LinkRow]
    names: list[NameRow]
    """Names by which links may refer to it."""
    name_terms: tuple[str, ...]
    """Terms of title, URI, description, aliases and keywords."""
    entries: list[tuple[str, ...]]
    """One per chunk, in the order of ``Entry``'s fields."""
    embedded: dict[bytes, bytes]
    """Float16 vectors of chunk contents that the store did not have."""
    adopted: dict[bytes, bytes] = field(default_factory=dict)
    """The same, but copied from another index of the same model."""
    signature: bytes = b""
    """Bits of its text that let line search skip it; if empty, the store computes them."""
    masked: int = 0
    """Number of passages that are masked because they look like secrets."""
    calls: bytes = b""
    """Encoded ``CallFacts`` of source code; empty for other documents."""
    properties: list[PropertyRow] = field(default_factory=list)
    """Typed front matter, inline fields and tags, and the day that a note is about."""
    doubts: tuple[str, ...] = ()
    """Warnings about how its text was read: a guessed encoding, or parts without text."""
    sources: list[int] = field(default_factory=list)
    """A hash of what each entry was read from; empty where that is not known."""
    stored: int = 0
    """The number of the stored version that some entries are copied from."""
    copied: dict[int, int] = field(default_factory=dict)
    """Which chunk of that version has the terms of a chunk here, whose own entry is empty."""

    def __reduce__(self) -> tuple[type[Version], tuple[Any, ...]]:
        # Quicker than the state of a dataclass, which names every field.
        return Version, _read_fields(self)


_read_fields = attrgetter(*(entry.name for entry in fields(Version)))


class StoredEntries(NamedTuple):
    """The entries of a stored version, which need not be made again."""

    document: int
    chunks: Mapping[int, int]
    """The number of each chunk by a hash of what its entry was read from."""


NO_ENTRIES = StoredEntries(0, MappingProxyType({}))


class Known(NamedTuple):
    """What a store knows about a live document without reading its rows."""

    document: int
    fingerprint: Fingerprint
    settled: bool
    raw_sha: bytes
    extractor: str = ""
    """Name and version of the extractor that made its text; empty for a file that is text."""


class LeftOut(NamedTuple):
    """A file or folder that a pass saw but did not store, with its state on disk at the time."""

    uri: str
    failed: bool
    """It could not be read or parsed; if False, there was simply nothing to store."""
    code: str
    message: str
    fingerprint: Fingerprint
    settled: bool
    extractor: str = ""
    """Name and version of the extractor that refused it; another version may accept it."""


class Place(NamedTuple):
    """A chunk of a live document, with what ranking and citation need."""

    key: int
    id: bytes
    document: int
    vector: int | None
    uri: str
    title: str
    lane: Kind
    path: tuple[str, ...]
    ordinal: int
    part: int
    parts: int
    start: int
    end: int
    start_line: int
    end_line: int
    overlap: int
    sha: bytes


class Definition(NamedTuple):
    """A definition or a heading in a document."""

    start: int
    name: str
    kind: SymbolKind | Literal[""]
    """Empty for a heading."""
    documented: bool


class SymbolRow(NamedTuple):
    """A definition in live source code."""

    document: int
    section: int
    title: str


class MovedDocument(NamedTuple):
    """A document that is to get another path, with the names that it has beside its path."""

    old: str
    new: str
    title: str = ""
    aliases: tuple[str, ...] = ()


class Edge(NamedTuple):
    """A link of a live document, and the live document it points to."""

    source: str
    source_title: str
    target: str
    """URI; empty if the link does not resolve."""
    target_title: str
    kind: LinkKind
    written: str
    """The target as written in the link."""
    anchor: str
    text: str
    start: int
    end: int


class Lead(NamedTuple):
    """A link between two live documents, reduced to what ranking needs."""

    source: int
    target: int
    kind: LinkKind
    start: int
    """Offset in the source document."""


class Member(NamedTuple):
    """A document of a community."""

    uri: str
    title: str
    closeness: float
    """To the queried document, by links and common neighbours."""
    links: int
    """Number of documents linked with it, in either direction."""


class Facts(NamedTuple):
    """A document in a listing, with the fields that filters use."""

    document: int
    uri: str
    title: str
    lane: Kind
    language: str
    modified_ns: int
    tags: tuple[str, ...]
    size: int = 0
    """Size on disk in bytes."""
    day: str = ""
    """The day that a note is about, such as ``2026-01-31``."""

    @property
    def time_ns(self) -> int:
        """The day that it is about, or else when it was modified, in nanoseconds since 1970."""
        if not self.day:
            return self.modified_ns
        since = date.fromisoformat(self.day).toordinal() - _FIRST_DAY
        return since * 86_400 * 10**9


class ValueCount(NamedTuple):
    """A value of a property, and how many documents have it."""

    folded: str
    value: str
    """As first written."""
    documents: int


class PropertyCount(NamedTuple):
    """A property, how many documents have it, and its most frequent values."""

    key: str
    name: str
    """As usually written."""
    kinds: frozenset[str]
    documents: int
    distinct: int
    values: tuple[ValueCount, ...]


class TaggedDocuments(NamedTuple):
    """A tag, and the documents that have exactly this tag."""

    folded: str
    tag: str
    """As first written."""
    documents: frozenset[int]


Terms = Mapping[str, float] | Sequence[str]
"""Keyword terms, optionally with weights."""


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of these conditions; without any, every document matches."""

    parts: tuple[Need, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of these conditions."""

    parts: tuple[Need, ...]


Need = bytes | AllOf | AnyOf
"""A condition on documents: a lower-case text, as UTF-8, that they must contain."""
EVERYTHING = AllOf(())


class Statistics(NamedTuple):
    """Word frequencies, by which BM25 weights words."""

    entries: int
    frequency: Mapping[tuple[str, str], int]
    """Number of entries that contain a word, by field and word."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One activated state of a collection."""

    number: int
    created_at: str
    pinned: bool
    manifest: Mapping[str, Any]


class ChunkedDocument(NamedTuple):
    """A document and its chunks, for making its keyword entries again."""

    title: str
    metadata: str
    text: str
    spans: Sequence[tuple[int, int]]


class StoredDocument(NamedTuple):
    """A live document with everything that the client sent."""

    uri: str
    metadata: str
    text: str


Digest = Callable[[StoredDocument], bytes]
"""Computes the hash that was stored of a document as it was given."""
OnStep = Callable[[str], None]
"""Called with the name of the part that is checked next."""


class Made(NamedTuple):
    """The chunk IDs of one document, in order, and its keyword terms."""

    ids: Sequence[bytes]
    streams: Streams


class Maker(NamedTuple):
    """Derives terms and vectors from stored texts, as indexing does."""

    fingerprint: str
    """The fingerprint of the epochs it can repair."""
    sources: bool
    """Whether documents can be read again from their sources."""
    make: Callable[[StoredDocument], Made | None]
    make_vectors: Callable[[Sequence[StoredDocument], Collection[bytes]], Mapping[bytes, bytes]]
    """Returns the float16 vectors of the wanted contents of some documents."""


# -- models and parsers ----------------------------------------------------------------------------


Parser = Callable[[str, str], Document]
"""``(uri, normalised text) -> Document``; accepts any text."""


class Embedder(Protocol):
    """Turns texts into unit vectors of a fixed length, the same in every process."""

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    @property
    def quick(self) -> bool:
        """Whether it can embed thousands of words during a search, at no cost per call."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever the same text could get another vector."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed passages of documents; return one row for each."""
        ...

    def embed_code(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed passages of code, which may have a model of their own."""
        ...

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Embed a question: one vector, or a row for each model if code has its own."""
        ...

    def count_tokens(self, text: str) -> int: ...


@runtime_checkable
class PieceEmbedder(Protocol):
    """An embedder to which a text is the pieces of its words, in any order."""

    def pieces(self, text: str) -> bytes:
        """Return the IDs of the pieces of a text, two bytes each: those of its words, joined."""
        ...

    def embed_pieces(self, texts: Sequence[bytes]) -> NDArray[np.float32]:
        """Embed passages of documents or code, given as their pieces; return one row for each."""
        ...

    def count_tokens(self, text: str) -> int: ...


class SecondModel(Embedder, Protocol):
    """A model whose vectors are made in the background, and which does not read every text."""

    @property
    def folder(self) -> Path:
        """Where its files are, for another process that loads it."""
        ...

    def load(self) -> None:
        """Load what the first question would otherwise wait for."""
        ...

    def reads(self, text: str) -> bool:
        """Return whether the text is in a script and in words that the model knows."""
        ...


class QualityQuery(NamedTuple):
    """A question as the second model reads it."""

    model: str
    """The fingerprint of the model."""
    vector: NDArray[np.float32]


class QualityPassage(NamedTuple):
    """A chunk without a vector of the second model."""

    row: int
    content: bytes
    text: str


class LackingDocument(NamedTuple):
    """A document with chunks that the second model has not processed yet."""

    number: int
    uri: str


class QualityCounts(NamedTuple):
    """The progress of the second model with the chunks of a generation."""

    embedded: int
    unreadable: int
    """Texts that the model does not understand, such as those in another language."""
    total: int

    @property
    def lacking(self) -> int:
        """The number of chunks that it has not processed yet."""
        return self.total - self.embedded - self.unreadable


ComposePassage = Callable[[Place, str], str]
"""Makes the text to embed from a chunk and the text of its document."""


class Reranker(Protocol):
    """Scores how well texts answer a question, from 0 to 1; deterministic."""

    @property
    def name(self) -> str: ...

    def scores(self, question: str, texts: Sequence[str]) -> list[float]: ...


# -- reading an index ------------------------------------------------------------------------------


class KeywordSearch(Protocol):
    """Search by words."""

    def keyword_search(
        self, terms: Terms, weights: Mapping[str, float], limit: int, filters: Filters
    ) -> list[tuple[Place, float]]: ...

    def best_of_each(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        documents: Sequence[int],
        filters: Filters,
    ) -> list[tuple[Place, float]]:
        """Return the best chunk of each of these documents."""
        ...

    def page_search(
        self, terms: Terms, weights: Mapping[str, float], limit: int, filters: Filters
    ) -> list[tuple[int, float]]: ...

    def page_scores(
        self, terms: Terms, weights: Mapping[str, float], documents: Sequence[int]
    ) -> dict[int, float]: ...

    def statistics(self, terms: Sequence[str]) -> Statistics: ...

    def score_with(self, shared: Statistics) -> None:
        """Weight words by these statistics from now on, instead of its own."""
        ...

    def knows(self, term: str) -> bool: ...

    def known_terms(self, terms: Collection[str]) -> set[str]:
        """Return those of the terms that any document has in its text, names or tags."""
        ...

    def vocabulary(self, prefix: str = "", most: int | None = None) -> list[tuple[str, int]]:
        """Return terms with this prefix and their document counts, the most frequent first."""
        ...


class PhraseSearch(Protocol):
    """Search by words that are adjacent or close together."""

    def holding(self, phrase: str, filters: Filters) -> list[int]:
        """Return the admitted chunks with these words next to each other, in any inflection."""
        ...

    def few_holding(
        self, phrases: Sequence[str], most: int, filters: Filters
    ) -> list[list[Place] | None]:
        """Return for each phrase the admitted chunks with its words next to each other.

        None if more than ``most`` chunks have them, admitted or not.
        """
        ...

    def adjoining(
        self, pairs: Sequence[tuple[str, str, int]], places: Sequence[Place]
    ) -> dict[int, int]:
        """Return, as bits, which of ``pairs`` (two terms and a distance) each chunk contains."""
        ...

    def wording(
        self, groups: Sequence[Mapping[str, float]], places: Sequence[Place]
    ) -> dict[int, float]:
        """Return for each chunk the sum, over the groups, of the best term that it contains."""
        ...


class VectorSearch(Protocol):
    """Search by vectors."""

    def begin_vector_search(self, query: NDArray[np.float32], limit: int, filters: Filters) -> None:
        """Start what ``vector_search`` will be asked next, beside other work if that is quicker."""
        ...

    def vector_search(
        self, query: NDArray[np.float32], limit: int, filters: Filters
    ) -> list[tuple[Place, float]]: ...

    def vector_scores(self, query: NDArray[np.float32], places: Sequence[Place]) -> list[float]: ...

    def quality_search(
        self, query: QualityQuery, limit: int, filters: Filters
    ) -> list[tuple[Place, float]]:
        """Return the nearest chunks of those that have a vector of the second model."""
        ...

    def quality_scores(self, query: QualityQuery, places: Sequence[Place]) -> list[float | None]:
        """Return the similarity by the second model; None for a place without its vector."""
        ...

    def vectors(self, places: Sequence[Place]) -> NDArray[np.float32]:
        """Return one row for each place; zeros if it has no vector."""
        ...

    def centre(
        self, uri: str, start: int = 0, end: int | None = None
    ) -> NDArray[np.float32] | None:
        """Return the mean vector of the chunks that touch this part; None without vectors."""
        ...


class Documents(Protocol):
    """Documents, their texts and their structure."""

    def uris(self, prefix: str = "") -> list[str]: ...

    def document(self, uri: str) -> Mapping[str, Any] | None: ...

    def sections(self, uri: str) -> list[Section]: ...

    def text(self, uri: str) -> str | None: ...

    def holds_text(self, uri: str, text_sha: bytes) -> bool:
        """Return whether a document's text has this hash, if that is quick to say."""
        ...

    def texts(self, documents: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Return the normalised texts of these documents as UTF-8, in any order."""
        ...

    def documents_with(self, need: Need, filters: Filters) -> list[int]:
        """Return every admitted document that can meet ``need``; some of them may not."""
        ...

    def facts(self, documents: Sequence[int] | None = None) -> list[Facts]:
        """Describe these documents, or all of them, in any order."""
        ...

    def admitting(self, filters: Filters) -> list[Facts]:
        """Return the documents that the filters admit, in any order; globs are resolved before."""
        ...

    def superseded(self) -> dict[str, str]:
        """Return the URIs of memories that another one replaces, with that one's URI."""
        ...

    def count_properties(
        self, most_values: int, documents: Sequence[int] | None = None
    ) -> list[PropertyCount]:
        """Return the properties, of these documents or all, with their most frequent values."""
        ...

    def property_kinds(self) -> dict[str, frozenset[str]]:
        """Return the types of the values of every property, by key."""
        ...

    def list_tagged(self) -> list[TaggedDocuments]:
        """Return every tag with its documents."""
        ...

    def line_counts(self, documents: Sequence[int]) -> dict[int, int]: ...

    def without_links(self, documents: Sequence[int]) -> set[int]:
        """Return those of these documents that have no link; a commit links to its files."""
        ...

    def modified(self, documents: Sequence[int]) -> dict[int, int]:
        """Return the modification times on disk, in nanoseconds since 1970."""
        ...

    def definitions(self, documents: Sequence[int]) -> dict[int, list[Definition]]:
        """Return what each of these documents defines, and its headings, in order."""
        ...

    def defining(self, name: str) -> list[tuple[str, Section]]:
        """Return URI and section of the code definitions whose last name is ``name``.

        Case is ignored.
        """
        ...

    def has_code(self) -> bool: ...

    def has_code_in(self, language: str) -> bool: ...

    def call_facts(self, documents: Sequence[int]) -> dict[int, bytes]:
        """Return the encoded ``CallFacts`` of these documents; some may be missing."""
        ...

    def symbols(self) -> list[SymbolRow]:
        """Return every definition in source code, by URI and position."""
        ...

    def cached(self, name: str, make: Callable[[], T]) -> T:
        """Return the result of ``make``, computed once for this generation."""
        ...


class Chunks(Protocol):
    """Chunks of documents, by filter and by position."""

    def ending_in(self, path: str, filters: Filters) -> list[Place]:
        """Return the admitted chunks of documents whose path ends in ``path``."""
        ...

    def admitted(self, uri: str, filters: Filters) -> list[Place]:
        """Return the chunks of a document that pass the filters."""
        ...

    def admitted_parts(self, document: int, filters: Filters) -> list[tuple[int, int]] | None:
        """Return the parts of an admitted document that pass the filters; None for all of it."""
        ...

    def neighbours(self, document: int, first: int, last: int) -> list[Place]: ...


class LinkedDocuments(Protocol):
    """The undirected link graph of one generation."""

    @property
    def uris(self) -> Sequence[str]:
        """Documents in the order of their URIs; the other properties use their positions."""

    @property
    def titles(self) -> Sequence[str]: ...

    @property
    def neighbours(self) -> Sequence[Sequence[int]]: ...

    @property
    def communities(self) -> Sequence[int]:
        """The community of each document; equal numbers belong together."""


class Links(Protocol):
    """Links between documents, and the communities they form."""

    def links_from(self, uri: str, start: int = 0, end: int | None = None) -> list[Edge]:
        """Return the links in this part of a document, in order."""
        ...

    def links_to(self, uri: str) -> list[Edge]:
        """Return the links of other documents to this one, by URI and position."""
        ...

    def links_named(self, names: Iterable[str]) -> list[tuple[str, Edge]]:
        """Return the links whose target has one of these names, resolved or not."""
        ...

    def targets(self, uri: str = "") -> list[str]:
        """Return the distinct link targets as written, of one document or of all."""
        ...

    def linking(self, targets: Sequence[str], text: str = "") -> list[tuple[str, str, int]]:
        """Return URI, title and time of documents with a link to one of these targets, the latest
        first; with ``text``, only if the link has this text."""
        ...

    def resolve_links(
        self, links: Iterable[tuple[str, str, str]], absent: str = ""
    ) -> dict[tuple[str, str, str], tuple[str, str]]:
        """Resolve links of another collection (name, kind, target) to URI and title here."""
        ...

    def resolve_from(
        self, links: Sequence[tuple[str, str, str]], moved: MovedDocument | None = None
    ) -> list[str]:
        """Return the URI that each link (source, kind, target) leads to; empty if nowhere.

        With ``moved``, as if that document were already at its new path.
        """
        ...

    def find_notes(self, name: str) -> list[tuple[str, str]]:
        """Return URI and title of the documents that a name means: by path, alias or title.

        Several are returned if the name does not decide between them.
        """
        ...

    def note_names(self) -> list[tuple[str, str, str]]:
        """Return every folded file name, alias and title, with URI and title of its document."""
        ...

    def leads(
        self,
        documents: Sequence[int],
        among: Collection[int] | None = None,
        within: Mapping[int, Sequence[tuple[int, int]]] | None = None,
    ) -> list[Lead]:
        """Return the resolved links of these documents, to any document or to ``among``.

        With ``within``, only links in these spans of each document are returned.
        """
        ...

    def community(self, uri: str) -> list[Member]:
        """Return the other documents of its community, the closest first."""
        ...

    def communities(self, uris: Collection[str]) -> dict[str, int]:
        """Return the community of each of these documents that has links."""
        ...

    def graph(self) -> LinkedDocuments:
        """Return all linked documents with their neighbours and communities."""
        ...


class Snapshot(KeywordSearch, PhraseSearch, VectorSearch, Documents, Chunks, Links, Protocol):
    """A pinned generation: every method answers from the same committed state."""

    @property
    def generation(self) -> int: ...

    def size(self) -> int: ...

    def counts(self) -> Counts: ...

    def failures(self) -> list[Failure]: ...

    def left_out(self, uris: Collection[str] | None = None) -> dict[str, LeftOut]:
        """Return the files that the store lacks at least in part, or those of them in ``uris``."""
        ...


class CollectionSnapshot(Snapshot, Protocol):
    """A snapshot with what indexing and copying need besides the queries."""

    @property
    def dimensions(self) -> int: ...

    def model(self) -> str:
        """Return the fingerprint of the model that made the vectors; empty where unknown."""
        ...

    def vector_pass(self) -> VectorPass: ...

    def quality_counts(self, model: str, dimensions: int) -> QualityCounts:
        """Return the progress of this second model."""
        ...

    def titles(self, prefix: str = "") -> list[tuple[str, str]]: ...

    def pages(self) -> list[PageInfo]: ...

    def chunks(self, uri: str) -> list[Place]: ...

    def known(self, uris: Collection[str] | None = None) -> dict[str, Known]: ...

    def unsettled(self) -> list[str]:
        """Return the documents whose files were read too soon after a write to be sure of them."""
        ...

    def held(self) -> int | None: ...

    def manifest(self) -> Mapping[str, Any]:
        """Return what was recorded when this generation was activated."""
        ...

    def version(self, uri: str) -> Version | None:
        """Return a document ready to be written to another store, except for its terms."""
        ...

    def streams(self, uri: str) -> Streams | None:
        """Return the keyword terms of a document; None without it."""
        ...


# -- writing an index ------------------------------------------------------------------------------


class VectorSource(Protocol):
    """Other indexes that may have vectors of the same model."""

    def vectors(self, contents: Collection[bytes]) -> dict[bytes, bytes]: ...


class Writer(Protocol):
    """The single writer of a collection; nothing is visible before ``activate``."""

    fresh: bool
    """Whether nothing points at this collection's rows yet."""
    resumed: bool
    """Whether it continues from a checkpoint of an interrupted session."""
    embedded: int
    """Vectors added by this session that no other index had."""
    activated: bool
    base: int
    """The generation that the session builds on; 0 for the first one."""
    retain_days: int
    """Of each of so many days, today included, the last generation is kept as well."""
    communities: bool
    """Whether the communities of links are stored, for a ranking that reads them."""

    @property
    def catalogue(self) -> Path | None:
        """Where worker processes may look up existing vectors."""
        ...

    @property
    def siblings(self) -> VectorSource | None: ...

    def known(self, uris: Collection[str] | None = None) -> dict[str, Known]: ...

    def missing(self, contents: Iterable[bytes]) -> set[bytes]:
        """Return the contents that have no vector yet."""
        ...

    def stored_entries(self, uri: str) -> StoredEntries:
        """Return the entries of a document that a new version of it may copy."""
        ...

    def put(self, version: Version) -> None: ...

    def touch(self, document: int, fingerprint: Fingerprint, settled: bool) -> None: ...

    def remove(self, uri: str) -> None: ...

    def erase(self, uris: Sequence[str], *, dead: bool = False) -> int:
        """Remove documents from every generation, or with ``dead`` only their ended versions."""
        ...

    def left_out(self) -> dict[str, LeftOut]: ...

    def leave_out(self, files: Sequence[LeftOut]) -> None:
        """Replace the list of files that are on disk but not in the store."""
        ...

    def checkpoint(self) -> None:
        """Make durable what was stored so far in a fresh collection, and go on."""
        ...

    def commit_touches(self) -> int:
        """Save what was learnt about unchanged files; the generation stays the same."""
        ...

    def activate(self, manifest: Mapping[str, Any]) -> int:
        """Commit everything as one new generation."""
        ...


class QualityWriter(Protocol):
    """The one process that fills in the vectors of a second model."""

    def list_documents(self) -> list[LackingDocument]:
        """Return the documents with chunks that were not dealt with, the newest first."""
        ...

    def read(self, documents: Sequence[int], compose: ComposePassage) -> list[QualityPassage]:
        """Return the passages of these documents that have no vector yet, each text once."""
        ...

    def put(self, rows: Sequence[tuple[QualityPassage, bytes | None]]) -> None:
        """Store float16 vectors durably; None for a text that the model does not understand."""
        ...


class Rescue(Protocol):
    """The intact documents of a damaged collection; counts are final once all were read."""

    saved: int
    lost: set[str]
    """URIs of documents without an intact copy, as far as they are known."""
    complete: bool
    """Whether one copy lists all documents, even if there are none."""

    @property
    def missing(self) -> int:
        """How many documents could not be saved."""
        ...

    def documents(self) -> Iterator[StoredDocument]:
        """Yield the newest intact copy of each document."""
        ...


class Store(Protocol):
    """The store of one collection."""

    folder: Path
    """The folder for what belongs to this machine alone."""
    outdated: str
    """Why the last snapshot may lack what was written elsewhere, and how old it is; else empty."""

    @property
    def place(self) -> str:
        """Where the index is, for people."""
        ...

    @property
    def file(self) -> Path | None:
        """The SQLite file of the serving index; None without one, or on a server."""
        ...

    @property
    def present(self) -> bool:
        """Whether there is anything of it, finished or not."""
        ...

    @property
    def exists(self) -> bool: ...

    def fingerprint(self) -> str: ...

    def snapshot(
        self, generation: int | None = None
    ) -> AbstractContextManager[CollectionSnapshot]: ...

    def generations(self) -> list[Generation]: ...

    def history(self) -> tuple[int, list[Generation]]: ...

    def held(self) -> int | None: ...

    def diff(self, older: int, newer: int) -> GenerationDiff: ...

    def roll_back(self, number: int, *, wait_seconds: float = 0.0) -> None: ...

    def pin(self, number: int, *, pinned: bool = True, wait_seconds: float = 0.0) -> None: ...

    def prune(self, keep: int, *, wait_seconds: float = 0.0) -> tuple[int, int]: ...

    def verify(self, on_step: OnStep | None = None) -> list[Damage]:
        """Return everything stored that differs from what was written."""
        ...

    def mend_beside(self, about: Mapping[str, Any], wait_seconds: float = 0.0) -> None: ...

    def repair(self, maker: Maker, why: str, wait_seconds: float = 0.0) -> list[str] | None: ...

    def salvage(
        self,
        fingerprint: str,
        dimensions: int,
        digest: Digest,
        *,
        about: Mapping[str, Any],
        retain: int,
        why: str,
        wait_seconds: float = 0.0,
    ) -> AbstractContextManager[tuple[Writer, Rescue]]: ...

    @property
    def kept_aside(self) -> list[str]:
        """Where the damaged indexes are that were taken out of service."""
        ...

    def set_aside(self, why: str, wait_seconds: float = 0.0) -> None: ...

    def delete(self, besides: Collection[str] = (), wait_seconds: float = 0.0) -> None: ...

    def erase(
        self,
        uris: Sequence[str],
        manifest: Mapping[str, Any],
        *,
        retain: int,
        wait_seconds: float = 0.0,
    ) -> int: ...

    def finish_erasing(self, *, wait_seconds: float = 0.0) -> None:
        """Remove the traces that an interrupted erasure left, if any."""
        ...

    def written(self) -> Iterator[StoredDocument]:
        """Yield every live document straight from the catalogue.

        Raises ``IndexCorrupt`` where a document differs from its hash, or one is missing.
        """
        ...

    def refuse_busy(self) -> None:
        """Raise ``IndexBusy`` if another process is writing at this moment."""
        ...

    def damage(self) -> str:
        """Return the damage that was last found; empty if there never was any."""
        ...

    def writer(
        self,
        fingerprint: str,
        dimensions: int,
        *,
        model: str = "",
        about: Mapping[str, Any],
        retain: int,
        rebuild: bool = False,
        wait_seconds: float = 0.0,
        let_go: bool = True,
    ) -> AbstractContextManager[Writer]:
        """Open a write session on the serving index if it has ``fingerprint``, else on a new one.

        A new one continues an interrupted build with the same fingerprint, unless ``rebuild``.
        Without ``let_go`` a collection that a rollback holds is refused: ``IndexHeld``.
        """
        ...

    def has_quality(self, model: str, dimensions: int) -> bool:
        """Return whether there are vectors of this second model."""
        ...

    def quality_writer(self, model: str, dimensions: int) -> AbstractContextManager[QualityWriter]:
        """Open a writer for a second model's vectors; ``IndexBusy`` if another process has it."""
        ...

    def about(self) -> dict[str, Any]: ...

    def disk_bytes(self) -> int: ...

    def close(self) -> None: ...
