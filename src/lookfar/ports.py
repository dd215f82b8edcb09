"""The seams of the system: what a part must do to be exchanged for another.

Takes: the nouns of :mod:`lookfar.model`. Gives: Protocols, each with one
sentence of contract, and the records that cross them. Refuses: implementations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from lookfar.model import (
    Counts,
    Document,
    Failure,
    Filters,
    Fingerprint,
    Lane,
    LinkKind,
    Section,
    SymbolKind,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

Parser = Callable[[str, str], Document]
"""``(uri, normalised text) -> Document``; total: any text gives a document."""


class Embedder(Protocol):
    """Texts to unit vectors of one fixed length; equal text, equal vector, in any process."""

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    @property
    def quick(self) -> bool:
        """Whether it embeds thousands of words while somebody waits, and for nothing."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever the same text could get another vector."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Passages of documents: a row for each."""
        ...

    def embed_code(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The same for passages of code, which may have a model of their own."""
        ...

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """One question; where documents and code have two models, a row for each of them."""
        ...

    def count_tokens(self, text: str) -> int: ...


class Reranker(Protocol):
    """A question and texts to how well each answers, 0 to 1; equal pairs, equal values."""

    @property
    def name(self) -> str: ...

    def scores(self, question: str, texts: Sequence[str]) -> list[float]: ...


class Entry(NamedTuple):
    """One chunk as a keyword index sees it: term streams, by field."""

    headings: str
    tags: str
    body: str
    code: str


Streams = tuple[Sequence[str], Sequence[Sequence[str]]]
"""The terms of one document: of its names, and an entry for each chunk."""

SectionRow = tuple[int, int, int, str, int, int, int, int, int, str, bool]
"""ordinal, parent, level, title, start, end, start_line, end_line, body, kind, documented"""

ChunkRow = tuple[bytes, bytes, int, str, int, int, int, int, int, int, int, bytes]
"""id, content, section, path, start, end, start_line, end_line, overlap, part, parts, sha256"""

LinkRow = tuple[str, str, str, str, int, int, str]
"""kind, target, anchor, text, start, end, name"""

NameRow = tuple[str, int, str]
"""name, way, whole"""

PATH_SEPARATOR = "\x1f"
"""Between the headings of a stored path."""


@dataclass(slots=True)
class Version:
    """One version of a document, parsed, chunked and analysed: ready to be stored.

    Rows are plain tuples because versions cross process boundaries by the
    hundred thousand, and plain tuples do so an order of magnitude faster.
    """

    uri: str
    lane: Lane
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
    """What links may call it."""
    name_terms: tuple[str, ...]
    """Of title, URI, description, aliases and keywords."""
    entries: list[tuple[str, ...]]
    """One per chunk, in the order of ``Entry``'s fields."""
    embedded: dict[bytes, bytes]
    """Float16 vectors of chunk contents that the store did not have."""
    adopted: dict[bytes, bytes] = field(default_factory=dict)
    """The same, but found in another index of the model and not made anew."""
    signature: bytes = b""
    """Bits of its text, by which search by line passes over it; where empty, the store makes it."""
    masked: int = 0
    """How many passages of the text are masked, because they look like secrets."""


class Known(NamedTuple):
    """What a store remembers of a live document without reading its rows."""

    document: int
    fingerprint: Fingerprint
    settled: bool
    raw_sha: bytes


class LeftOut(NamedTuple):
    """A file or folder that a pass saw and did not store, and how the disk showed it then."""

    uri: str
    failed: bool
    """It could not be read or parsed; otherwise it is simply nothing to store."""
    code: str
    message: str
    fingerprint: Fingerprint
    settled: bool


class Place(NamedTuple):
    """A chunk of a live document, with what ranking and citing need."""

    key: int
    id: bytes
    document: int
    vector: int | None
    uri: str
    title: str
    lane: Lane
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
    """Something that a document defines or heads."""

    start: int
    name: str
    kind: SymbolKind | Literal[""]
    """Of source code; a heading has none."""
    documented: bool


class Edge(NamedTuple):
    """A link of a live document, and the live document that it means."""

    source: str
    source_title: str
    target: str
    """URI; empty where nothing here is what the link means."""
    target_title: str
    kind: LinkKind
    written: str
    """The target as the link spells it."""
    anchor: str
    text: str
    start: int
    end: int


class Lead(NamedTuple):
    """A link between two live documents, as briefly as ranking needs it."""

    source: int
    target: int
    kind: LinkKind
    start: int
    """Where it stands in the source."""


class Member(NamedTuple):
    """A document of a community."""

    uri: str
    title: str
    closeness: float
    """To the document that was asked about: by links and by neighbours in common."""
    links: int
    """How many documents it is linked with, whichever way."""


class Facts(NamedTuple):
    """What a list of documents says of one of them, and what it can be narrowed by."""

    document: int
    uri: str
    title: str
    lane: Lane
    language: str
    modified_ns: int
    tags: tuple[str, ...]
    size: int = 0
    """In bytes, as the disk has it."""


class LinkedDocuments(Protocol):
    """Who is linked with whom, whichever way, in one generation."""

    @property
    def uris(self) -> Sequence[str]:
        """Documents in the order of their URIs; elsewhere here they are numbers in it."""

    @property
    def titles(self) -> Sequence[str]: ...

    @property
    def neighbours(self) -> Sequence[Sequence[int]]: ...

    @property
    def communities(self) -> Sequence[int]:
        """The community of each document; equal numbers belong together."""


Terms = Mapping[str, float] | Sequence[str]
"""Keyword terms, with how much each counts; without, all count alike."""


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of these; of none, every document."""

    parts: tuple[Need, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of these."""

    parts: tuple[Need, ...]


Need = bytes | AllOf | AnyOf
"""A condition on documents: the UTF-8 of a text in lower case that they hold."""
EVERYTHING = AllOf(())


class Statistics(NamedTuple):
    """How common words are, by which BM25 weighs them."""

    entries: int
    frequency: Mapping[tuple[str, str], int]
    """Entries that hold a word, by field and word."""


class Snapshot(Protocol):
    """One generation, pinned: every method answers from the same committed state."""

    @property
    def generation(self) -> int: ...

    def keyword_search(
        self, terms: Terms, weights: Mapping[str, float], limit: int, filters: Filters
    ) -> list[tuple[Place, float]]: ...

    def best_of_each(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        documents: Sequence[int],
        filters: Filters,
    ) -> list[tuple[Place, float]]: ...

    def page_search(
        self, terms: Terms, weights: Mapping[str, float], limit: int, filters: Filters
    ) -> list[tuple[int, float]]: ...

    def page_scores(
        self, terms: Terms, weights: Mapping[str, float], documents: Sequence[int]
    ) -> dict[int, float]: ...

    def vector_search(
        self, query: NDArray[np.float32], limit: int, filters: Filters
    ) -> list[tuple[Place, float]]: ...

    def vector_scores(self, query: NDArray[np.float32], places: Sequence[Place]) -> list[float]: ...

    def vectors(self, places: Sequence[Place]) -> NDArray[np.float32]:
        """One row for each place; zeros for one without a vector."""
        ...

    def statistics(self, terms: Sequence[str]) -> Statistics: ...

    def score_with(self, shared: Statistics) -> None:
        """From now on, weigh words by these statistics instead of its own."""
        ...

    def knows(self, term: str) -> bool: ...

    def holding(self, phrase: str, filters: Filters) -> list[int]:
        """The admitted chunks that hold these words beside each other, in whatever form."""
        ...

    def few_holding(self, phrase: str, most: int, filters: Filters) -> list[Place] | None:
        """The admitted chunks that hold these words beside each other; None where more chunks
        than ``most`` do, admitted or not."""
        ...

    def adjoining(
        self, pairs: Sequence[tuple[str, str, int]], places: Sequence[Place]
    ) -> dict[int, int]:
        """Which of ``pairs``, two terms and how far apart, each chunk holds, as bits."""
        ...

    def wording(
        self, groups: Sequence[Mapping[str, float]], places: Sequence[Place]
    ) -> dict[int, float]:
        """For each chunk the sum, over the groups, of the best term of each that it holds."""
        ...

    def kept(self, name: str, make: Callable[[], T]) -> T:
        """What ``make`` gives, made once for this generation."""
        ...

    def vocabulary(self, prefix: str = "", most: int | None = None) -> list[tuple[str, int]]:
        """Terms that begin so and how many documents hold each, the most first."""
        ...

    def has_code_in(self, language: str) -> bool: ...

    def ending_in(self, path: str, filters: Filters) -> list[Place]: ...

    def admitted(self, uri: str, filters: Filters) -> list[Place]:
        """The chunks of a document that pass the filters."""
        ...

    def uris(self, prefix: str = "") -> list[str]: ...

    def document(self, uri: str) -> Mapping[str, Any] | None: ...

    def sections(self, uri: str) -> list[Section]: ...

    def text(self, uri: str) -> str | None: ...

    def documents_with(self, need: Need, filters: Filters) -> list[int]:
        """The admitted documents that may hold what is needed; those that do are among them."""
        ...

    def texts(self, documents: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """The normalised texts of these documents as UTF-8, in any order."""
        ...

    def admitted_parts(self, document: int, filters: Filters) -> list[tuple[int, int]] | None:
        """The parts of an admitted document that pass the filters; None for all of it."""
        ...

    def definitions(self, documents: Sequence[int]) -> dict[int, list[Definition]]:
        """What each of these documents defines or heads, in order."""
        ...

    def defining(self, name: str) -> list[tuple[str, Section]]:
        """URI and section of what code calls so, in any case and by its last name alone."""
        ...

    def neighbours(self, document: int, first: int, last: int) -> list[Place]: ...

    def links_from(self, uri: str, start: int = 0, end: int | None = None) -> list[Edge]:
        """The links that a document has in this part of it, in order."""
        ...

    def targets(self, uri: str = "") -> list[str]:
        """What links are written to lead to, each once: those of a document, or all."""
        ...

    def linking(self, targets: Sequence[str]) -> list[tuple[str, str, int]]:
        """The documents with a link written so, the latest first: URI, title and time."""
        ...

    def links_named(self, names: Iterable[str]) -> list[tuple[str, Edge]]:
        """The links that look for one of these names, wherever what they mean may be."""
        ...

    def meant(
        self, links: Iterable[tuple[str, str, str]], absent: str = ""
    ) -> dict[tuple[str, str, str], tuple[str, str]]:
        """URI and title of what links of another collection (name, kind, target) mean here."""
        ...

    def links_to(self, uri: str) -> list[Edge]:
        """The links of other documents that mean this one, by URI and place."""
        ...

    def community(self, uri: str) -> list[Member]:
        """The other documents of its community, the closest first."""
        ...

    def leads(self, documents: Sequence[int], among: Collection[int] | None = None) -> list[Lead]:
        """The links of these documents that mean others: any, or those ``among`` some."""
        ...

    def communities(self, uris: Collection[str]) -> dict[str, int]:
        """The community of each of these documents that has links."""
        ...

    def modified(self, documents: Sequence[int]) -> dict[int, int]:
        """When the disk says that each was changed, in nanoseconds since 1970."""
        ...

    def centre(
        self, uri: str, start: int = 0, end: int | None = None
    ) -> NDArray[np.float32] | None:
        """The mean direction of the chunks that touch this part; ``None`` without vectors."""
        ...

    def facts(self, documents: Sequence[int] | None = None) -> list[Facts]:
        """What these documents are called and belong to, in any order; without, all of them."""
        ...

    def admitting(self, filters: Filters) -> list[Facts]:
        """The documents that filters without globs admit, in any order."""
        ...

    def line_counts(self, documents: Sequence[int]) -> dict[int, int]:
        """How many lines each of these documents has."""
        ...

    def graph(self) -> LinkedDocuments:
        """All documents with their neighbours and communities."""
        ...

    def size(self) -> int: ...

    def counts(self) -> Counts: ...

    def failures(self) -> list[Failure]: ...


class Writer(Protocol):
    """The one writer of a collection; nothing it does is visible before ``activate``."""

    def known(self, uris: Collection[str] | None = None) -> dict[str, Known]: ...

    def missing(self, contents: Iterable[bytes]) -> set[bytes]:
        """Which contents have no vector yet."""
        ...

    def put(self, version: Version) -> None: ...

    def touch(self, document: int, fingerprint: Fingerprint, settled: bool) -> None: ...

    def remove(self, uri: str) -> None: ...

    def leave_out(self, files: Sequence[LeftOut]) -> None:
        """Remember these, and only these, as what the disk has and the store has not."""
        ...

    def activate(self, manifest: Mapping[str, Any]) -> int:
        """Make all of it one new generation, or nothing of it."""
        ...
