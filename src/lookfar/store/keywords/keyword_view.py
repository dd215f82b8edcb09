"""Search one commit of the keyword index."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

import tantivy
from tantivy import Occur, Query

from lookfar.common.cores import map_on_two_cores
from lookfar.ports import Statistics, Terms
from lookfar.store.keywords.fields import FIELDS, MOST_PAIRS, PAGE_FIELDS, weigh_terms
from lookfar.store.keywords.tantivy_files import reading

_ALL_FIELDS = (*FIELDS, *PAGE_FIELDS)
_EQUAL = (1, 64, 4096)
"""How many more entries are read, until one of them no longer ties with the last wanted one."""
_CACHED_TERMS = 20_000
"""Terms whose frequency a view caches."""
_FEW_NUMBERS = 300
"""Up to so many numbers, a query for each takes less time than one for the set: that one walks
through all numbers of the index."""
_MANY_ENTRIES = 200_000
"""Entries from which phrases are looked up on two cores."""
_CACHED_CLAUSES = 4_000
"""Terms whose clauses a view caches, at about a kilobyte each."""
_CACHED_QUERIES = 16
"""A question searches several times for the same terms, among all entries and among some."""
_RARE_PER_KEY = 100
"""Entries per wanted chunk up to which a phrase is looked for in all entries with its words."""


class KeywordView:
    """The state of one commit; later commits, merges and deletions do not change it."""

    def __init__(
        self,
        folder: Path,
        schema: tantivy.Schema,
        searcher: tantivy.Searcher,
        stamp: int,
        shared: Statistics | None = None,
        lacking: frozenset[str] = frozenset(),
        *,
        deletions: bool = False,
    ) -> None:
        """``lacking`` are the fields that an index of an older format does not have, and
        ``deletions`` says whether there are deleted entries."""
        self._folder = folder
        self._lacking = lacking
        self._deletions = deletions
        self._schema = schema
        self._searcher = searcher
        self._shared = shared
        self._frequencies: dict[tuple[str, str], int] = {}
        self._by_term: dict[str, Mapping[tuple[str, str], int]] = {}
        self._clauses: dict[tuple[object, ...], Sequence[tuple[Occur, Query]]] = {}
        self._queries: dict[tuple[object, ...], Query | None] = {}
        self.stamp = stamp
        """At least this commit is visible."""

    def _frequency(self, field: str, term: str) -> int:
        """Count the entries with a term; cached, because a query asks several times."""
        count = self._frequencies.get((field, term))
        if count is None:
            if len(self._frequencies) >= _CACHED_TERMS:
                self._frequencies.clear()
            lacks = field in self._lacking
            count = 0 if lacks else self._searcher.doc_freq(field, term)
            self._frequencies[field, term] = count
        return count

    def statistics(self, terms: Iterable[str]) -> Statistics:
        with reading(self._folder):
            frequency: dict[tuple[str, str], int] = {}
            for term in terms:
                frequency.update(self._frequencies_of(term))
            return Statistics(self._searcher.num_docs, frequency)

    def _frequencies_of(self, term: str) -> Mapping[tuple[str, str], int]:
        """Count the entries with a term in each field; cached like each of the counts."""
        known = self._by_term.get(term)
        if known is None:
            if len(self._by_term) >= _CACHED_TERMS // len(_ALL_FIELDS):
                self._by_term.clear()
            known = {(field, term): self._frequency(field, term) for field in _ALL_FIELDS}
            self._by_term[term] = known
        return known

    def scored_with(self, shared: Statistics) -> KeywordView:
        view = KeywordView(
            self._folder,
            self._schema,
            self._searcher,
            self.stamp,
            shared,
            self._lacking,
            deletions=self._deletions,
        )
        view._frequencies = self._frequencies
        view._by_term = self._by_term
        return view

    def search(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None = None,
    ) -> list[tuple[int, float]]:
        return self._best("key", terms, _select_weights(weights, FIELDS), limit, documents)

    def best_of_each(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        documents: Sequence[int],
        admits: Callable[[int], bool] | None = None,
    ) -> list[tuple[int, float]]:
        hits = self._find_hits(
            terms, _select_weights(weights, FIELDS), 6 * len(documents), documents
        )
        addresses = [address for _, address in hits]
        with reading(self._folder):
            owners = self._read_numbers("document", addresses)
            keys = self._read_numbers("key", addresses)
        rows = sorted(
            (-score, key, owner)
            for owner, key, (score, _) in zip(owners, keys, hits, strict=True)
            if owner is not None and key is not None
        )
        best: dict[int, tuple[int, float]] = {}
        for score, key, owner in rows:
            if admits is None or admits(key):
                best.setdefault(owner, (key, -score))
        return list(best.values())

    def _read_numbers(self, field: str, addresses: list[tantivy.DocAddress]) -> list[int | None]:
        """Return the whole number that each entry has in a field."""
        return cast("list[int | None]", self._searcher.fast_field_values(field, addresses))

    def search_pages(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None = None,
    ) -> list[tuple[int, float]]:
        return self._best(
            "document", terms, _select_weights(weights, PAGE_FIELDS), limit, documents
        )

    def _best(
        self,
        field: str,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None,
    ) -> list[tuple[int, float]]:
        hits = self._find_hits(terms, weights, limit, documents)
        with reading(self._folder):
            numbers = self._searcher.fast_field_values(field, [address for _, address in hits])
        best = sorted(
            (-score, number)
            for number, (score, _) in zip(numbers, hits, strict=True)
            if number is not None
        )
        return [(int(number), -score) for score, number in best]

    def _find_hits(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None,
    ) -> list[tuple[float, tantivy.DocAddress]]:
        """Return the best ``limit`` entries, and any that tie with the last of them.

        The order of ties depends on the order of segments, which is random.
        """
        with reading(self._folder):
            scoring = self._find_query(terms, weights)
            if scoring is None or (documents is not None and not documents):
                return []
            if documents is not None:
                scoring = self._restrict(scoring, "document", documents)
            for more in _EQUAL:
                hits = self._searcher.search(scoring, limit=limit + more, count=False).hits
                if len(hits) < limit + more or hits[-1][0] < hits[limit - 1][0]:
                    break
            if len(hits) <= limit:
                return hits
            last = hits[limit - 1][0]
            return [hit for hit in hits if hit[0] >= last]

    def _restrict(self, query: Query, field: str, numbers: Sequence[int]) -> Query:
        """Return the query for entries that have one of these numbers in a field."""
        return Query.boolean_query(
            [(Occur.Must, query), (Occur.Must, self._having(field, numbers))]
        )

    def _having(self, field: str, numbers: Sequence[int]) -> Query:
        """Match the entries with one of these numbers, without adding to their score."""
        if len(numbers) > _FEW_NUMBERS:
            among = Query.term_set_query(self._schema, field, list(numbers))
        else:
            among = Query.boolean_query(
                [(Occur.Should, Query.term_query(self._schema, field, number, "basic"))
                 for number in numbers]
            )  # fmt: skip
        return Query.const_score_query(among, 0.0)

    def _find_query(self, terms: Terms, weights: Mapping[str, float]) -> Query | None:
        """Return the query for terms, from the cache if the same question has made it."""
        weighed = tuple(weigh_terms(terms))
        key = (weighed, *weights.items())
        queries = self._queries  # Another thread may begin a new cache.
        if key not in queries:
            if len(queries) >= _CACHED_QUERIES:
                self._queries = queries = {}
            queries[key] = self._make_query(weighed, weights)
        return queries[key]

    def _make_query(
        self, terms: Iterable[tuple[str, float]], weights: Mapping[str, float]
    ) -> Query | None:
        clauses: list[tuple[Occur, Query]] = []
        fields = tuple(weights.items())
        for term, importance in terms:
            clauses += self._find_clauses(term, importance, fields)
        return Query.boolean_query(clauses) if clauses else None

    def _find_clauses(
        self, term: str, importance: float, fields: tuple[tuple[str, float], ...]
    ) -> Sequence[tuple[Occur, Query]]:
        """Return a clause for each field that has a term; cached, since questions share terms."""
        key = (term, importance, fields)
        known = self._clauses.get(key)
        if known is not None:
            return known
        clauses: list[tuple[Occur, Query]] = []
        for field, weight in fields:
            here = self._frequency(field, term) if weight > 0 else 0
            if not here:
                continue
            option = Query.term_query(self._schema, field, term, index_option="freq")
            boost = weight * importance * self._shared_rarity(field, term, here)
            clauses.append((Occur.Should, Query.boost_query(option, boost)))
        if len(self._clauses) >= _CACHED_CLAUSES:
            self._clauses.clear()
        self._clauses[key] = clauses
        return clauses

    def _shared_rarity(self, field: str, term: str, here: int) -> float:
        """Return how much rarer a term is by the shared statistics than in this index."""
        if self._shared is None:
            return 1.0
        there = self._shared.frequency.get((field, term), here)
        return _idf(self._shared.entries, there) / _idf(self._searcher.num_docs, here)

    def known_terms(
        self, terms: Collection[str], read_dead: Callable[[], frozenset[int]]
    ) -> set[str]:
        fields, dead = (*PAGE_FIELDS, "tags"), read_dead()
        with reading(self._folder):
            known = {
                term for term in terms if any(self._frequency(field, term) for field in fields)
            }
            # tantivy counts deleted entries as well, until it merges their segment.
            if not dead and not self._deletions:
                return known
            return {term for term in known if self._occurs(term, fields, dead)}

    def _occurs(self, term: str, fields: Sequence[str], dead: frozenset[int]) -> bool:
        """Return whether an entry has the term that is neither deleted nor of a dead document."""
        options = [
            (Occur.Should, Query.term_query(self._schema, field, term, "basic"))
            for field in fields
            if self._frequency(field, term)
        ]
        query, limit = Query.const_score_query(Query.boolean_query(options), 1.0), 1 + len(dead)
        while True:
            hits = self._searcher.search(query, limit=limit, count=False).hits
            owners = self._read_numbers("document", [address for _, address in hits])
            if len(hits) < limit or not dead.issuperset(owners):
                return not dead.issuperset(owners)
            limit *= 4

    def holding(self, terms: Sequence[str], apart: int = 0, most: int | None = None) -> list[int]:
        with reading(self._folder):
            limit = most or max(1, self._searcher.num_docs)
            # A constant, because the scores are not used.
            query = Query.const_score_query(self._phrase(terms, apart), 1.0)
            result = self._searcher.search(query, limit=limit, count=False)
            addresses = [address for _, address in result.hits]
            keys = self._searcher.fast_field_values("key", addresses)
        return sorted(int(key) for key in keys if key is not None)

    def holding_each(self, phrases: Sequence[Sequence[str]], most: int) -> list[list[int]]:
        def look_up(terms: Sequence[str]) -> list[int]:
            return self.holding(terms, most=most) if terms else []

        if len(self) < _MANY_ENTRIES:
            return [look_up(terms) for terms in phrases]
        return map_on_two_cores(look_up, phrases)

    def adjoining(
        self, pairs: Sequence[tuple[str, str, int]], keys: Sequence[int]
    ) -> dict[int, int]:
        if not pairs or not keys:
            return {}
        # A score is a sum, and a sum of powers of two shows its terms, as far as the precision
        # of a float reaches.
        among = self._having("key", keys)
        clauses = []
        for at, pair in enumerate(pairs[:MOST_PAIRS]):
            phrases = self._phrases_among(pair, among, _RARE_PER_KEY * len(keys))
            if phrases:
                clauses.append(
                    (Occur.Should, Query.const_score_query(Query.boolean_query(phrases), 2.0**at))
                )
        matching = self._among(clauses, keys) if clauses else {}
        return {key: int(score) for key, score in matching.items()}

    def _phrases_among(
        self, pair: tuple[str, str, int], among: Query, rare: int
    ) -> list[tuple[Occur, Query]]:
        """Match two words at their distance in one of the fields, for entries of ``among``.

        tantivy reads a phrase of a union up to the next entry that has it, in or out of ``among``.
        With common words that is most of the index, so their phrase is first narrowed to ``among``.
        """
        left, right, step = pair
        clauses = []
        for field in FIELDS:
            entries = min(self._frequency(field, left), self._frequency(field, right))
            # A field that lacks one of the words would take time and match nothing.
            if not entries:
                continue
            phrase = Query.phrase_query(self._schema, field, [(0, left), (step, right)], 0)
            if entries > rare:
                phrase = Query.boolean_query([(Occur.Must, phrase), (Occur.Must, among)])
            clauses.append((Occur.Should, phrase))
        return clauses

    def _among(
        self, clauses: Sequence[tuple[Occur, Query]], keys: Sequence[int]
    ) -> dict[int, float]:
        """Return the score of each of these chunks that matches a clause."""
        with reading(self._folder):
            query = self._restrict(Query.boolean_query(clauses), "key", keys)
            hits = self._searcher.search(query, limit=len(keys), count=False).hits
            matching = self._searcher.fast_field_values("key", [address for _, address in hits])
        return {
            int(key): float(score)
            for key, (score, _) in zip(matching, hits, strict=True)
            if key is not None
        }

    def wording(
        self, groups: Sequence[Mapping[str, float]], keys: Sequence[int]
    ) -> dict[int, float]:
        clauses = [
            (
                Occur.Should,
                Query.disjunction_max_query(
                    [
                        Query.const_score_query(self._phrase((term,), 0), worth)
                        for term, worth in group.items()
                    ]
                ),
            )
            for group in groups
        ]
        return self._among(clauses, keys) if clauses and keys else {}

    def _phrase(self, terms: Sequence[str], apart: int) -> Query:
        """Match these terms next to each other in any one field of a chunk."""
        # A field that lacks one of the terms would take time and match nothing.
        fields = [field for field in FIELDS if all(self._frequency(field, term) for term in terms)]
        if len(terms) == 1:
            return Query.boolean_query(
                [(Occur.Should, Query.term_query(self._schema, field, terms[0], "basic"))
                 for field in fields]
            )  # fmt: skip
        words: list[str | tuple[int, str]] = list(enumerate(terms))
        return Query.boolean_query(
            [(Occur.Should, Query.phrase_query(self._schema, field, words, apart))
             for field in fields]
        )  # fmt: skip

    def vocabulary(self, prefix: str = "", most: int | None = None) -> list[tuple[str, int]]:
        with reading(self._folder):
            return list(self._searcher.terms_with_prefix("page", prefix, limit=most))

    def beside(self, documents: Sequence[int]) -> set[int]:
        """Return the documents that share a segment with one of these, including these."""
        if not documents or not len(self):
            return set()
        among = Query.term_set_query(self._schema, "document", list(documents))
        with reading(self._folder):
            hits = self._searcher.search(among, limit=len(self), count=False).hits
        return self._in_segments({address.segment_ord for _, address in hits})

    def documents(self) -> set[int]:
        return self._in_segments(set(range(self._searcher.num_segments)))

    def _in_segments(self, wanted: Collection[int]) -> set[int]:
        if not wanted or not len(self):
            return set()
        with reading(self._folder):
            hits = self._searcher.search(Query.all_query(), limit=len(self), count=False).hits
            addresses = [address for _, address in hits if address.segment_ord in wanted]
            owners = self._searcher.fast_field_values("document", addresses)
        return {int(owner) for owner in owners if owner is not None}

    def count_entries_of(self, documents: Sequence[int]) -> int:
        """Count the entries of these documents."""
        if not documents:
            return 0
        return self._count(Query.term_set_query(self._schema, "document", list(documents)))

    def count_declared(self) -> int:
        """Count the entries by what ``meta.json`` says of each segment."""
        return self._count(Query.all_query())

    def count_entries(self) -> int:
        """Count the entries one by one; each has a document."""
        anything = Query.range_query(
            self._schema,
            "document",
            tantivy.FieldType.Unsigned,
            lower_bound=0,
            use_inverted_index=True,
        )
        return self._count(anything)

    def _count(self, query: Query) -> int:
        with reading(self._folder):
            result = self._searcher.search(query, limit=1, count=True)
            return int(result.count)  # type: ignore[attr-defined]  # Missing in its stubs.

    def __len__(self) -> int:
        return self._searcher.num_docs


def _select_weights(weights: Mapping[str, float], fields: Sequence[str]) -> dict[str, float]:
    """Return the weights of these fields; the entry of a first chunk has both kinds of fields."""
    return {field: weight for field, weight in weights.items() if field in fields}


def _idf(entries: int, having: int) -> float:
    """Return the inverse document frequency as tantivy computes it."""
    return math.log(1 + (entries - having + 0.5) / (having + 0.5))
