"""Search the keyword index for live chunks and documents that pass the filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lookfar.model import Filters
from lookfar.ports import Keywords, Place, Statistics, Terms
from lookfar.store.catalogue import rows as catalog
from lookfar.store.ground.sql import Connection
from lookfar.store.keywords.analyser import analyse
from lookfar.store.shared.scopes import ScopeResolver


class KeywordQueries:
    """The keyword queries of one snapshot."""

    def __init__(
        self, connection: Connection, generation: int, scopes: ScopeResolver, view: Keywords
    ) -> None:
        self._connection = connection
        self._generation = generation
        self._scopes = scopes
        self.view = view

    def score_with(self, shared: Statistics) -> None:
        self.view = self.view.scored_with(shared)

    def chunks(
        self, terms: Terms, weights: Mapping[str, float], limit: int, filters: Filters
    ) -> list[tuple[Place, float]]:
        """Return the best live chunks, best first."""
        scope = self._scopes.resolve(filters)
        listed = self._scopes.list_documents(scope)
        fetch = self._scopes.fetch_size(limit, scope, listed)
        while True:
            hits = self.view.search(terms, weights, fetch, listed)
            alive = self._places([key for key, _ in hits])
            admitted = [
                (alive[key], score)
                for key, score in hits
                if key in alive and (scope is None or scope.admits(alive[key]))
            ]
            if len(admitted) >= limit or len(hits) < fetch:
                return admitted[:limit]
            fetch *= 4

    def best_chunks(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        documents: Sequence[int],
        filters: Filters,
    ) -> list[tuple[Place, float]]:
        """Return one chunk of each named live document: the best match, otherwise the first."""
        scope = self._scopes.resolve(filters)
        admits = None if scope is None else scope.admits_words
        best = dict(self.view.best_of_each(terms, weights, documents, admits))
        places = list(self._places(list(best)).values())
        bare = set(documents).difference(place.document for place in places)
        places += catalog.first_places(self._connection, sorted(bare), self._generation)
        return [
            (place, best.get(place.key, 0.0))
            for place in places
            if scope is None or scope.admits(place)
        ]

    def documents(
        self, terms: Terms, weights: Mapping[str, float], limit: int, filters: Filters
    ) -> list[tuple[int, float]]:
        """Return the live documents whose whole text matches best, best first."""
        scope = self._scopes.resolve(filters)
        listed = self._scopes.list_documents(scope)
        fetch = self._scopes.fetch_size(limit, scope, listed)
        while True:
            hits = self.view.search_pages(terms, weights, fetch, listed)
            alive = (
                scope.documents
                if scope is not None
                else catalog.filter_live(
                    self._connection, [document for document, _ in hits], self._generation
                )
            )
            admitted = [hit for hit in hits if hit[0] in alive]
            if len(admitted) >= limit or len(hits) < fetch:
                return admitted[:limit]
            fetch *= 4

    def phrase(self, phrase: str, filters: Filters) -> list[int]:
        """Return the keys of the admitted chunks with these words next to each other."""
        scope = self._scopes.resolve(filters)
        places = self._places(self._scopes.chunks_with_phrase(phrase))
        return [key for key, place in places.items() if scope is None or scope.admits(place)]

    def rare_phrase(self, phrase: str, most: int, filters: Filters) -> list[Place] | None:
        """Return the admitted chunks with this phrase; ``None`` if more than ``most`` chunks have
        it, admitted or not."""
        terms = analyse(phrase).split()
        keys = self.view.holding(terms, most=most + 1) if terms else []
        if len(keys) > most:
            return None
        scope = self._scopes.resolve(filters)
        return [
            place for place in self._places(keys).values() if scope is None or scope.admits(place)
        ]

    def _places(self, keys: Sequence[int]) -> dict[int, Place]:
        return catalog.places_by_key(self._connection, keys, self._generation)
