"""Reading an index. ``Snapshot`` is the sum of the smaller protocols in this module."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lookfar.model import Counts, Failure, Filters, Section
from lookfar.ports.records import (
    Definition,
    Edge,
    Facts,
    Lead,
    Member,
    Need,
    Place,
    Statistics,
    Terms,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")


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

    def vocabulary(self, prefix: str = "", most: int | None = None) -> list[tuple[str, int]]:
        """Return terms with this prefix and their document counts, the most frequent first."""
        ...


class PhraseSearch(Protocol):
    """Search by words that are adjacent or close together."""

    def holding(self, phrase: str, filters: Filters) -> list[int]:
        """Return the admitted chunks with these words next to each other, in any inflection."""
        ...

    def few_holding(self, phrase: str, most: int, filters: Filters) -> list[Place] | None:
        """Return the admitted chunks with these words next to each other.

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

    def vector_search(
        self, query: NDArray[np.float32], limit: int, filters: Filters
    ) -> list[tuple[Place, float]]: ...

    def vector_scores(self, query: NDArray[np.float32], places: Sequence[Place]) -> list[float]: ...

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
        """Describe the documents that filters without globs admit, in any order."""
        ...

    def line_counts(self, documents: Sequence[int]) -> dict[int, int]: ...

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

    def has_code_in(self, language: str) -> bool: ...


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

    def linking(self, targets: Sequence[str]) -> list[tuple[str, str, int]]:
        """Return URI, title and time of documents with such a link, the latest first."""
        ...

    def resolve_links(
        self, links: Iterable[tuple[str, str, str]], absent: str = ""
    ) -> dict[tuple[str, str, str], tuple[str, str]]:
        """Resolve links of another collection (name, kind, target) to URI and title here."""
        ...

    def leads(self, documents: Sequence[int], among: Collection[int] | None = None) -> list[Lead]:
        """Return the resolved links of these documents, to any document or to ``among``."""
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

    def cached(self, name: str, make: Callable[[], T]) -> T:
        """Return the result of ``make``, computed once for this generation."""
        ...

    def size(self) -> int: ...

    def counts(self) -> Counts: ...

    def failures(self) -> list[Failure]: ...
