"""A reader's pinned view of one generation: the catalogue, the keyword segments, the vectors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from sqlite3 import Connection
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from lookfar.common.recent import RecentValues
from lookfar.model import Counts, Failure, Filters, PageInfo, Section
from lookfar.ports import (
    EVERYTHING,
    Definition,
    Edge,
    Facts,
    Known,
    Lead,
    LeftOut,
    Member,
    MovedDocument,
    Need,
    Place,
    PropertyCount,
    Streams,
    SymbolRow,
    TaggedDocuments,
    Version,
)
from lookfar.store.catalogue import call_rows, generations, graph, property_counts, property_rows
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.exports import read_version
from lookfar.store.catalogue.graph import Graph
from lookfar.store.catalogue.leads import LeadReader
from lookfar.store.catalogue.migrations import FORMAT_WITH_NAMES, check
from lookfar.store.catalogue.scope import overlaps
from lookfar.store.keywords.live_keywords import LiveKeywords
from lookfar.store.keywords.signatures import Documents
from lookfar.store.sqlite.vector_queries import VectorQueries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lookfar.store.sqlite.epoch import Epoch

T = TypeVar("T")

CheckVersion = Callable[[int], None]
"""Refuses a document version that is damaged, where there is no other copy of it."""


MOST_BYTES: Final = 64 << 20
_MOST_SECTIONS: Final = 8_000
"""Sections of recent documents that are kept, at about half a kilobyte each."""


class RecentTexts:
    """A bounded, thread-safe cache of uncompressed texts, because line searches read them again.

    Texts are keyed by their hash, so an entry is never stale; the least recently used goes first.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._texts: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def known(self, hashes: Iterable[bytes]) -> dict[bytes, bytes]:
        with self._lock:
            texts = {sha: self._texts[sha] for sha in hashes if sha in self._texts}
            for sha in texts:
                self._texts.move_to_end(sha)
        return texts

    def forget(self) -> None:
        """Release all texts."""
        with self._lock:
            self._texts.clear()
            self._bytes = 0

    def add(self, sha: bytes, text: bytes) -> None:
        """Add a text that was checked against its hash."""
        if len(text) > self._most // 8:
            return
        with self._lock:
            if sha in self._texts:
                return
            self._texts[sha] = text
            self._bytes += len(text)
            while self._bytes > self._most:
                _, gone = self._texts.popitem(last=False)
                self._bytes -= len(gone)


RECENT: Final = RecentTexts()


class EpochSnapshot(VectorQueries):
    """One generation of one epoch, read inside one SQLite transaction.

    It has the methods of :class:`lookfar.ports.Snapshot`. Most of them call a function of the
    catalogue.
    """

    def __init__(
        self,
        epoch: Epoch,
        connection: Connection,
        keywords: LiveKeywords,
        rows: NDArray[np.float16],
        generation: int,
    ) -> None:
        """``rows`` are the rows of the vector file that this snapshot's catalogue knows."""

        def check_version(document: int) -> None:
            epoch.check_version(connection, document)

        # Not self.text: a cycle of references would keep a closed snapshot's files open.
        read_text = partial(_read_text, connection, generation, check_version)
        super().__init__(epoch, connection, keywords, rows, generation, read_text)
        self._check_version = check_version
        self._manifest: Mapping[str, Any] | None = None
        self._definitions: dict[int, list[Definition]] = {}

    def centre(
        self, uri: str, start: int = 0, end: int | None = None
    ) -> NDArray[np.float32] | None:
        document = self.document(uri)
        if document is None:
            return None
        rows = catalog.vectors_between(self._connection, document["id"], start, end)
        return self._epoch.vectors.mean(self._rows, rows)

    def model(self) -> str:
        return catalog.read_model(self._connection)

    def _narrow(self, need: Need, admitted: list[int] | None) -> list[int]:
        """Return those of the admitted documents, or of all, that may contain ``need``."""
        signatures = self.cached("signatures", self._signatures)
        among = None if admitted is None else np.array(admitted, dtype=np.int64)
        documents: list[int] = signatures.holding(need, among).tolist()
        return documents

    def _signatures(self) -> Documents:
        hashes = self._text_hashes()
        return self._epoch.signatures.documents(list(hashes), hashes.values())

    # -- documents -----------------------------------------------------------------

    def cached(self, name: str, make: Callable[[], T]) -> T:
        return self._remembered.cached(self._scopes.state, name, make)

    def has_code(self) -> bool:
        """Return whether there is any source code; a no takes a full scan."""
        return self.cached("code", lambda: catalog.has_code(self._connection, self.generation))

    def has_code_in(self, language: str) -> bool:
        """Return whether there is source code in this language; a no takes a full scan."""
        return self.cached(
            f"code in {language}",
            lambda: catalog.has_code_in(self._connection, self.generation, language),
        )

    def ending_in(self, path: str, filters: Filters) -> list[Place]:
        """Return the first chunk of documents whose URI ends in ``path``, if those are few."""
        scope = self._scopes.resolve(filters)
        documents = catalog.documents_ending_in(self._connection, self.generation, path)
        places = catalog.first_places(self._connection, documents, self.generation)
        return [place for place in places if scope is None or scope.admits(place)]

    def uris(self, prefix: str = "") -> list[str]:
        return catalog.uris(self._connection, self.generation, prefix)

    def titles(self, prefix: str = "") -> list[tuple[str, str]]:
        return catalog.titles(self._connection, self.generation, prefix)

    def document(self, uri: str) -> dict[str, Any] | None:
        return _read_document(self._connection, self.generation, self._check_version, uri)

    def pages(self) -> list[PageInfo]:
        return catalog.pages(self._connection, self.generation)

    def chunks(self, uri: str) -> list[Place]:
        document = self.document(uri)
        if document is None:
            return []
        return catalog.neighbours(self._connection, document["id"], 0, catalog.END)

    def admitted(self, uri: str, filters: Filters) -> list[Place]:
        scope = self._scopes.resolve(filters)
        return [place for place in self.chunks(uri) if scope is None or scope.admits(place)]

    def sections(self, uri: str) -> list[Section]:
        recent = self.cached("sections", _make_recent_sections)
        known = recent.get(uri)
        if known is None:
            known = catalog.live_sections(self._connection, uri, self.generation)
            recent.add(uri, known, 1 + len(known[1]))
        document, sections = known
        if document is not None:
            self._check_version(document)
        return list(sections)

    def holds_text(self, uri: str, text_sha: bytes) -> bool:
        return catalog.live_text_hash(self._connection, uri, self.generation) == text_sha

    def streams(self, uri: str) -> Streams | None:
        document = self.document(uri)
        return self._keywords.read_streams(document["id"]) if document else None

    def text(self, uri: str) -> str | None:
        return _read_text(self._connection, self.generation, self._check_version, uri)

    def version(self, uri: str) -> Version | None:
        def vectors(places: Sequence[Place]) -> list[bytes]:
            return [row.astype("<f2").tobytes() for row in self.vectors(places)]

        return read_version(self._connection, self.generation, uri, vectors)

    def documents_with(self, need: Need, filters: Filters) -> list[int]:
        scope = self._scopes.resolve(filters)
        admitted = None if scope is None else sorted(scope.documents)
        if need != EVERYTHING and admitted != []:
            return self._narrow(need, admitted)
        return admitted if admitted is not None else self._every_document()

    def _every_document(self) -> list[int]:
        return list(self._text_hashes())

    def _text_hashes(self) -> dict[int, bytes]:
        return self.cached("hashes", lambda: catalog.text_hashes(self._connection, self.generation))

    def texts(self, documents: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        hashes = self._text_hashes()
        recent = RECENT.known(hashes[document] for document in documents if document in hashes)
        lacking = []
        for document in documents:
            text = recent.get(hashes.get(document, b""))
            if text is None:
                lacking.append(document)
            else:
                yield document, text
        for document, text in catalog.texts(self._connection, lacking):
            if document in hashes:
                RECENT.add(hashes[document], text)
            yield document, text

    def admitted_parts(self, document: int, filters: Filters) -> list[tuple[int, int]] | None:
        scope = self._scopes.resolve(filters)
        if scope is None:
            return None
        parts = scope.parts(document)
        if scope.only is None and not scope.without:
            return parts
        chunks = catalog.neighbours(self._connection, document, 0, catalog.END)
        spans = [(chunk.start, chunk.end) for chunk in chunks if scope.admits_words(chunk.key)]
        return spans if parts is None else overlaps(parts, spans)

    def definitions(self, documents: Sequence[int]) -> dict[int, list[Definition]]:
        unread = [document for document in documents if document not in self._definitions]
        read = catalog.definitions(self._connection, unread) if unread else {}
        self._definitions.update((document, read.get(document, [])) for document in unread)
        known = ((document, self._definitions[document]) for document in documents)
        return {document: definitions for document, definitions in known if definitions}

    def defining(self, name: str) -> list[tuple[str, Section]]:
        return catalog.find_definitions(self._connection, self.generation, name)

    def call_facts(self, documents: Sequence[int]) -> dict[int, bytes]:
        return call_rows.read_facts(self._connection, documents)

    def symbols(self) -> list[SymbolRow]:
        return call_rows.list_symbols(self._connection, self.generation)

    def neighbours(self, document: int, first: int, last: int) -> list[Place]:
        return catalog.neighbours(self._connection, document, first, last)

    def without_links(self, documents: Sequence[int]) -> set[int]:
        return catalog.without_links(self._connection, documents)

    def modified(self, documents: Sequence[int]) -> dict[int, int]:
        return catalog.modified_times(self._connection, documents)

    def facts(self, documents: Sequence[int] | None = None) -> list[Facts]:
        facts = catalog.facts(self._connection, self.generation, documents)
        days = property_rows.read_days(self._connection, documents)
        if not days:
            return facts
        return [fact._replace(day=days.get(fact.document, "")) for fact in facts]

    def superseded(self) -> dict[str, str]:
        table = property_rows.PropertyTable(self._connection, self.generation)
        return self.cached("superseded", table.superseded)

    def count_properties(
        self, most_values: int, documents: Sequence[int] | None = None
    ) -> list[PropertyCount]:
        rows = property_rows.open_rows(self._connection, self.generation)
        return property_counts.count_properties(rows, self.generation, most_values, documents)

    def property_kinds(self) -> dict[str, frozenset[str]]:
        rows = property_rows.open_rows(self._connection, self.generation)
        return property_counts.read_kinds(rows, self.generation)

    def list_tagged(self) -> list[TaggedDocuments]:
        rows = property_rows.open_rows(self._connection, self.generation)
        return property_counts.list_tagged(rows, self.generation)

    def admitting(self, filters: Filters) -> list[Facts]:
        """Return the documents that filters admit, without those that contain an excluded word."""
        listed = self.cached("listed", self.facts)
        scope = self._scopes.resolve(filters)
        if scope is None:
            return listed
        refused = catalog.places_by_key(self._connection, sorted(scope.without), self.generation)
        admitted = scope.documents.difference(place.document for place in refused.values())
        return [facts for facts in listed if facts.document in admitted]

    def line_counts(self, documents: Sequence[int]) -> dict[int, int]:
        return catalog.line_counts(self._connection, documents)

    # -- links ---------------------------------------------------------------------

    def links_from(self, uri: str, start: int = 0, end: int | None = None) -> list[Edge]:
        graph.require_link_names(self._connection)
        document = self.document(uri)
        if document is None:
            return []
        last = catalog.END if end is None else end
        return graph.links_from(self._connection, self.generation, document["id"], start, last)

    def targets(self, uri: str = "") -> list[str]:
        if not uri:
            return catalog.link_targets(self._connection)
        document = self.document(uri)
        return catalog.link_targets(self._connection, document["id"]) if document else []

    def linking(self, targets: Sequence[str], text: str = "") -> list[tuple[str, str, int]]:
        return catalog.find_linking(self._connection, self.generation, targets, text)

    def links_named(self, names: Iterable[str]) -> list[tuple[str, Edge]]:
        graph.require_link_names(self._connection)
        return graph.links_named(self._connection, self.generation, names)

    def resolve_links(
        self, links: Iterable[tuple[str, str, str]], absent: str = ""
    ) -> dict[tuple[str, str, str], tuple[str, str]]:
        graph.require_link_names(self._connection)
        return graph.resolve_links(self._connection, self.generation, links, absent)

    def resolve_from(
        self, links: Sequence[tuple[str, str, str]], moved: MovedDocument | None = None
    ) -> list[str]:
        graph.require_link_names(self._connection)
        return graph.resolve_from(self._connection, self.generation, links, moved)

    def find_notes(self, name: str) -> list[tuple[str, str]]:
        # An older index still answers by path.
        if check(self._connection) < FORMAT_WITH_NAMES:
            return []
        return graph.find_notes(self._connection, self.generation, name)

    def note_names(self) -> list[tuple[str, str, str]]:
        if check(self._connection) < FORMAT_WITH_NAMES:
            return []
        return graph.list_note_names(self._connection, self.generation)

    def links_to(self, uri: str) -> list[Edge]:
        graph.require_link_names(self._connection)
        document = self.document(uri)
        return graph.links_to(self._connection, self.generation, document["id"]) if document else []

    def leads(
        self,
        documents: Sequence[int],
        among: Collection[int] | None = None,
        within: Mapping[int, Sequence[tuple[int, int]]] | None = None,
    ) -> list[Lead]:
        # An older index still answers while a new one is built.
        if check(self._connection) < FORMAT_WITH_NAMES:
            return []
        reader = self.cached("leads", LeadReader)
        return reader.read(self._connection, self.generation, documents, among, within)

    def community(self, uri: str) -> list[Member]:
        return self.graph().around(uri)

    def communities(self, uris: Collection[str]) -> dict[str, int]:
        if check(self._connection) < FORMAT_WITH_NAMES:
            return {}
        stored = graph.stored_communities(self._connection, self.generation, uris)
        if stored is not None:
            return stored
        return self._remembered.graph(self._connection, self.generation).communities_of(uris)

    def graph(self) -> Graph:
        graph.require_link_names(self._connection)
        return self._remembered.graph(self._connection, self.generation)

    # -- the generation ------------------------------------------------------------

    def size(self) -> int:
        return catalog.count_documents(self._connection, self.generation)

    def counts(self) -> Counts:
        """Return the recorded counts: counting a million rows takes seconds."""
        manifest = self.manifest()
        if Counts.__annotations__.keys() <= manifest.keys():
            return Counts(**{name: manifest[name] for name in Counts.__annotations__})
        return catalog.count_rows(self._connection, self.generation)

    def held(self) -> int | None:
        return generations.read_held_generation(self._connection)

    def manifest(self) -> Mapping[str, Any]:
        if self._manifest is None:
            self._manifest = generations.manifest(self._connection, self.generation)
        return self._manifest

    def failures(self) -> list[Failure]:
        return catalog.failures(self._connection)

    def known(self, uris: Collection[str] | None = None) -> dict[str, Known]:
        return catalog.known(self._connection, self.generation, uris)

    def unsettled(self) -> list[str]:
        return catalog.unsettled(self._connection, self.generation)

    def left_out(self, uris: Collection[str] | None = None) -> dict[str, LeftOut]:
        return catalog.left_out(self._connection, uris)


def _make_recent_sections() -> RecentValues[str, tuple[int | None, list[Section]]]:
    return RecentValues(_MOST_SECTIONS)


def _read_document(
    connection: Connection, generation: int, check_version: CheckVersion, uri: str
) -> dict[str, Any] | None:
    document = catalog.live_document(connection, uri, generation)
    if document is not None:
        check_version(document["id"])
    return document


def _read_text(
    connection: Connection, generation: int, check_version: CheckVersion, uri: str
) -> str | None:
    stored = catalog.live_text(connection, uri, generation)
    if stored is None:
        return None
    document, text_sha, body = stored
    check_version(document)
    return catalog.decode_text(connection, text_sha, body)
