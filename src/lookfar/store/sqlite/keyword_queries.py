"""The keyword queries of a snapshot, for live chunks and documents that pass the filters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from sqlite3 import Connection

from lookfar.model import Filters
from lookfar.ports import Place, Statistics, Terms
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.remembered import Remembered
from lookfar.store.keywords.analyser import analyse
from lookfar.store.keywords.live_keywords import LiveKeywords
from lookfar.store.sqlite.recent_places import RecentPlaces
from lookfar.store.sqlite.scopes import ScopeResolver


class KeywordQueries:
    def __init__(
        self,
        connection: Connection,
        generation: int,
        remembered: Remembered,
        keywords: LiveKeywords,
        read_text: Callable[[str], str | None],
    ) -> None:
        self.generation = generation
        self._connection = connection
        self._keywords = keywords
        self._remembered = remembered
        self._scopes = ScopeResolver(connection, generation, remembered, keywords, read_text)

    def keyword_search(
        self, terms: Terms, weights: Mapping[str, float], limit: int, filters: Filters
    ) -> list[tuple[Place, float]]:
        scope = self._scopes.resolve(filters)
        listed = self._scopes.list_documents(scope)
        fetch = self._scopes.fetch_size(limit, scope, listed)
        while True:
            hits = self._keywords.search(terms, weights, fetch, listed)
            alive = self._places([key for key, _ in hits])
            admitted = [
                (alive[key], score)
                for key, score in hits
                if key in alive and (scope is None or scope.admits(alive[key]))
            ]
            if len(admitted) >= limit or len(hits) < fetch:
                return best_places(admitted, limit)
            fetch *= 4

    def best_of_each(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        documents: Sequence[int],
        filters: Filters,
    ) -> list[tuple[Place, float]]:
        scope = self._scopes.resolve(filters)
        admits = None if scope is None else scope.admits_words
        best = dict(self._keywords.best_of_each(terms, weights, documents, admits))
        places = list(self._places(list(best)).values())
        bare = set(documents).difference(place.document for place in places)
        places += catalog.first_places(self._connection, sorted(bare), self.generation)
        return [
            (place, best.get(place.key, 0.0))
            for place in places
            if scope is None or scope.admits(place)
        ]

    def page_search(
        self, terms: Terms, weights: Mapping[str, float], limit: int, filters: Filters
    ) -> list[tuple[int, float]]:
        scope = self._scopes.resolve(filters)
        listed = self._scopes.list_documents(scope)
        fetch = self._scopes.fetch_size(limit, scope, listed)
        while True:
            hits = self._keywords.search_pages(terms, weights, fetch, listed)
            alive = (
                scope.documents
                if scope is not None
                else self._recent_places().filter_live(
                    self._connection, self.generation, [document for document, _ in hits]
                )
            )
            admitted = [hit for hit in hits if hit[0] in alive]
            if len(admitted) >= limit or len(hits) < fetch:
                return self._best_pages(admitted, limit)
            fetch *= 4

    def _best_pages(self, hits: Sequence[tuple[int, float]], limit: int) -> list[tuple[int, float]]:
        """Return the best ``limit`` of sorted hits; of those that tie with the last, by URI."""
        if len(hits) <= limit:
            return list(hits)
        last = hits[limit - 1][1]
        better = [hit for hit in hits if hit[1] > last]
        tied = [document for document, score in hits if score == last]
        places = catalog.first_places(self._connection, tied, self.generation)
        uris = {place.document: place.uri for place in places}
        tied.sort(key=lambda document: uris.get(document, ""))
        return better + [(document, last) for document in tied[: limit - len(better)]]

    def page_scores(
        self, terms: Terms, weights: Mapping[str, float], documents: Sequence[int]
    ) -> dict[int, float]:
        return dict(self._keywords.search_pages(terms, weights, len(documents), documents))

    def holding(self, phrase: str, filters: Filters) -> list[int]:
        scope = self._scopes.resolve(filters)
        places = self._places(self._scopes.chunks_with_phrase(phrase))
        return [key for key, place in places.items() if scope is None or scope.admits(place)]

    def few_holding(
        self, phrases: Sequence[str], most: int, filters: Filters
    ) -> list[list[Place] | None]:
        terms_of_each = [analyse(phrase).split() for phrase in phrases]
        keys_of_each = [
            self._keywords.holding(terms, most=most + 1) if terms else [] for terms in terms_of_each
        ]
        few = {key for keys in keys_of_each if len(keys) <= most for key in keys}
        scope = self._scopes.resolve(filters)
        admitted = {
            key: place
            for key, place in self._places(sorted(few)).items()
            if scope is None or scope.admits(place)
        }
        return [
            [admitted[key] for key in keys if key in admitted] if len(keys) <= most else None
            for keys in keys_of_each
        ]

    def adjoining(
        self, pairs: Sequence[tuple[str, str, int]], places: Sequence[Place]
    ) -> dict[int, int]:
        return self._keywords.adjoining(pairs, _keys(places))

    def wording(
        self, groups: Sequence[Mapping[str, float]], places: Sequence[Place]
    ) -> dict[int, float]:
        return self._keywords.wording(groups, _keys(places))

    def vocabulary(self, prefix: str = "", most: int | None = None) -> list[tuple[str, int]]:
        return self._keywords.vocabulary(prefix, most)

    def statistics(self, terms: Sequence[str]) -> Statistics:
        return self._keywords.statistics(terms)

    def score_with(self, shared: Statistics) -> None:
        self._keywords = self._keywords.scored_with(shared)

    def knows(self, term: str) -> bool:
        return bool(self.known_terms([term]))

    def known_terms(self, terms: Collection[str]) -> set[str]:
        return self._keywords.known_terms(terms)

    def _places(self, keys: Sequence[int]) -> dict[int, Place]:
        return self._recent_places().by_key(self._connection, self.generation, keys)

    def _recent_places(self) -> RecentPlaces:
        return self._remembered.cached(self._scopes.state, "places", RecentPlaces)


def best_places(hits: Sequence[tuple[Place, float]], limit: int) -> list[tuple[Place, float]]:
    """Return the best hits; ties go by URI and start, because numbers depend on the history."""
    return sorted(hits, key=lambda hit: (-hit[1], hit[0].uri, hit[0].start))[:limit]


def _keys(places: Sequence[Place]) -> list[int]:
    """Return the chunk keys; a place that is only a part of a chunk is not in the index."""
    return [place.key for place in places if place.key >= 0]
