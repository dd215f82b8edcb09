"""Resolve filters within one generation, and choose how to search under them.

Phrases are looked up in the keyword index; everything else that a filter can ask for is resolved
by :mod:`lookfar.store.catalogue.scope`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from sqlite3 import Connection

from lookfar.model import Filters
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.remembered import Remembered, State
from lookfar.store.catalogue.scope import Scope, resolve
from lookfar.store.keywords.analyser import analyse
from lookfar.store.keywords.live_keywords import LiveKeywords

_FEW_DOCUMENTS = 0.05
"""The share of all documents up to which the admitted ones are listed in the query."""
_ALWAYS_LISTED = 500
"""This many admitted documents are listed whatever share of the collection they are."""
_MOST_LISTED = 5_000
_SPARE = 1.3
_MOST_AT_FIRST = 5_000
_GAP_PER_WORD = 4
"""Terms that a compound name may put between two words of a phrase."""
_MOST_READ = 500
"""Chunks whose text is read to decide whether they contain a phrase."""


class ScopeResolver:
    """Resolve filters for one snapshot."""

    def __init__(
        self,
        connection: Connection,
        generation: int,
        remembered: Remembered,
        keywords: LiveKeywords,
        read_text: Callable[[str], str | None],
    ) -> None:
        self._connection = connection
        self._generation = generation
        self._remembered = remembered
        self._keywords = keywords
        self._read_text = read_text
        self._moves: int | None = None

    @property
    def state(self) -> State:
        """The generation and the number of in-place changes; cached results belong to one such
        state."""
        if self._moves is None:
            self._moves = catalog.moves(self._connection)
        return State(self._generation, self._moves)

    def resolve(self, filters: Filters) -> Scope | None:
        """Return what the filters admit; ``None`` without filters."""
        if not filters:
            return None
        return self._remembered.scope(self.state, filters, self._resolve)

    def _resolve(self, filters: Filters) -> Scope:
        if not filters.phrases and not filters.without:
            return resolve(self._connection, self._generation, filters)
        scope = resolve(
            self._connection, self._generation, replace(filters, phrases=(), without=())
        )
        without = frozenset(
            key for phrase in filters.without for key in self.chunks_with_phrase(phrase)
        )
        if not filters.phrases:
            return replace(scope, without=without)
        only = frozenset.intersection(
            *(frozenset(self.chunks_with_phrase(phrase)) for phrase in filters.phrases)
        )
        places = catalog.places_by_key(self._connection, sorted(only), self._generation)
        documents = scope.documents.intersection(place.document for place in places.values())
        return replace(scope, documents=documents, only=only, without=without)

    def chunks_with_phrase(self, phrase: str) -> list[int]:
        """Return the keys of chunks with these words next to each other, in any word form.

        ``WebAssembly`` has more terms than ``webassembly``. Where words could be parts of such a
        name, chunks that have them a little apart are decided by reading their text.
        """
        terms = analyse(phrase).split()
        keys = self._keywords.holding(terms) if terms else []
        plain = analyse(phrase.lower())
        count = plain.count(" ")
        if not count or len(phrase.split()) == 1:
            return keys
        apart = sorted(
            set(self._keywords.holding(plain.split(), _GAP_PER_WORD * count)).difference(keys)
        )[:_MOST_READ]
        texts: dict[str, str] = {}
        for key, place in catalog.places_by_key(self._connection, apart, self._generation).items():
            if place.uri not in texts:
                texts[place.uri] = self._read_text(place.uri) or ""
            text = texts[place.uri][place.start : place.end]
            analysed = (analyse(part.lower()) for part in (*place.path, text))
            if any(f" {plain} " in f" {part} " for part in analysed):
                keys.append(key)
        return keys

    def list_documents(self, scope: Scope | None) -> list[int] | None:
        """Return the admitted documents if listing them is cheaper than skipping all others."""
        if scope is None or len(scope.documents) > _MOST_LISTED:
            return None
        few = max(_ALWAYS_LISTED, self.document_count() * _FEW_DOCUMENTS)
        return sorted(scope.documents) if len(scope.documents) <= few else None

    def document_count(self) -> int:
        """Return about how many documents there are: the highest number given out."""
        return catalog.highest_document(self._connection)

    def fetch_size(self, limit: int, scope: Scope | None, listed: Sequence[int] | None) -> int:
        """Return how many hits to fetch so that ``limit`` of them probably pass the filters."""
        if scope is None or listed is not None:
            return limit
        share = len(scope.documents) / max(1, self.document_count())
        return min(round(limit * _SPARE / max(share, 1e-9)), max(limit, _MOST_AT_FIRST))

    def vector_rows(self, documents: Sequence[int]) -> list[int]:
        rows: set[int] = set()
        for batch in catalog.batches(documents):
            vectors = self._connection.execute(
                "SELECT vector FROM chunks WHERE vector IS NOT NULL AND document IN"
                f" ({catalog.placeholders(batch)})",
                batch,
            )
            rows.update(row for (row,) in vectors)
        return sorted(rows)
