"""Find the best entries for some terms by BM25, from posting lists that a store reads.

A query reads the lists of its rarest terms first, and those of common ones only as far as they can
still change the best results. Only live entries count, here and in the statistics: what other
generations contain, or what was there before, changes no score.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lookfar.ports import Statistics, Terms
from lookfar.store.keywords import postings
from lookfar.store.keywords.fields import FIELDS, NUMBERS, PAGE_FIELDS, Named, weigh_terms
from lookfar.store.keywords.postings import NONE, Impacts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lookfar.store.keywords.postings import Keys

_FIRST_STAGE: Final = 20_000
"""Postings that a query reads before it checks whether more can matter."""
_SUMMED: Final = 200_000
"""Postings up to which those of a query are added up at once, and the sums are cached."""
_CACHED_SUMS: Final = 8
"""A question searches several times for the same terms, among all entries and among some."""
_OCCURRING: Final = [NUMBERS[field] for field in (*PAGE_FIELDS, "tags")]
"""The fields that together have every term of a document."""


KeywordHits = list[tuple[int, float]]
"""Chunk keys or documents, with scores."""


class WeightedList(NamedTuple):
    """One term in one field, with its weight in a query."""

    named: Named
    entries: int
    weight: float
    mean: float
    """The mean length of the field."""


class KeywordSearcher(ABC):
    """Searches the live entries of one generation, as of one commit; later ones do not show."""

    def __init__(self, shared: Statistics | None = None) -> None:
        """With ``shared`` statistics, words are weighted by these instead of by those of this
        index."""
        self._shared = shared
        self._sums: dict[tuple[WeightedList, ...], Impacts] = {}

    @abstractmethod
    def _totals(self) -> tuple[int, Mapping[int, int]]:
        """Return the number of live entries, and of their tokens by field."""

    @abstractmethod
    def _counts(self, wanted: Iterable[Named]) -> Mapping[Named, int]:
        """Return how many live entries contain each term in each field."""

    @abstractmethod
    def _read(
        self, lists: Sequence[WeightedList], among: Keys | None = None
    ) -> Mapping[Named, Impacts]:
        """Return the live entries of each list; at least those in ``among``, if given."""

    @abstractmethod
    def _find_chunks(self, documents: Sequence[int]) -> tuple[Keys, Sequence[int]]:
        """Return the chunk keys of some documents, in order, and the document of each."""

    def statistics(self, terms: Iterable[str]) -> Statistics:
        counted = self._counts((number, term) for term in terms for number in NUMBERS.values())
        names = {number: field for field, number in NUMBERS.items()}
        return Statistics(
            self._totals()[0],
            {(names[field], term): count for (field, term), count in counted.items()},
        )

    def known_terms(self, terms: Collection[str]) -> set[str]:
        """Return those of the terms that any document has in its text, names or tags."""
        counts = self._counts((field, term) for term in terms for field in _OCCURRING)
        return {term for (_, term), count in counts.items() if count}

    def search(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None = None,
    ) -> KeywordHits:
        """Return the best chunks by key, best first, and all that tie with the last of them; only
        chunks of ``documents`` if given."""
        lists = self._lists(terms, weights, FIELDS)
        if documents is None:
            return self._best(lists, limit)
        return _rank(*self._score(lists, self._find_chunks(documents)[0]), limit)

    def best_of_each(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        documents: Sequence[int],
        admits: Callable[[int], bool] | None = None,
    ) -> KeywordHits:
        """Return the best admitted chunk of each document that has one among the best overall."""
        lists = self._lists(terms, weights, FIELDS)
        keys, owners = self._find_chunks(documents)
        hits = _rank(*self._score(lists, keys), 6 * len(documents))
        owner = dict(zip(keys.tolist(), owners, strict=True))
        best: dict[int, tuple[int, float]] = {}
        for key, score in hits:
            if admits is None or admits(key):
                best.setdefault(owner[key], (key, score))
        return list(best.values())

    def search_pages(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        limit: int,
        documents: Sequence[int] | None = None,
    ) -> KeywordHits:
        """Return the documents whose whole text matches best, and all that tie with the last."""
        lists = self._lists(terms, weights, PAGE_FIELDS)
        if documents is None:
            return self._best(lists, limit)
        wanted = np.array(sorted(set(documents)), dtype=np.int64)
        return _rank(*self._score(lists, wanted), limit)

    def _lists(
        self, terms: Terms, weights: Mapping[str, float], fields: Sequence[str]
    ) -> list[WeightedList]:
        """Return the weighted lists of a query, the rarest term first."""
        wanted = [
            ((NUMBERS[field], term), field, weight * importance)
            for term, importance in weigh_terms(terms)
            for field, weight in weights.items()
            if weight > 0 and field in fields
        ]
        counts = self._counts(named for named, _, _ in wanted)
        entries, tokens = self._totals()
        lists: list[WeightedList] = []
        for named, field, weight in wanted:
            count = counts[named]
            if not count or not entries:
                continue
            if self._shared is None:
                rarity = postings.idf(entries, count)
            else:
                frequency = self._shared.frequency.get((field, named[1]), count)
                rarity = postings.idf(self._shared.entries, frequency)
            lists.append(WeightedList(named, count, weight * rarity, tokens[named[0]] / entries))
        return sorted(lists, key=lambda term: term.entries)

    def _best(self, lists: Sequence[WeightedList], limit: int) -> KeywordHits:
        """Return the best entries.

        Lists are read from the rarest on, until the rest cannot bring another entry among the best;
        of the rest only what concerns the candidates is read.
        """
        if (sums := self._sum(lists)) is not None:
            return _rank(*sums, limit)
        left = [*accumulate((postings.bound(term.weight) for term in reversed(lists)), initial=0.0)]
        left.reverse()
        parts: list[Impacts] = []
        at, budget = 0, _FIRST_STAGE
        keys, scores = NONE.keys, np.empty(0)
        while at < len(lists):
            stage = [*_take_within(lists[at:], budget)]
            parts += self._contributions(stage)
            at += len(stage)
            budget *= 4
            keys, scores = postings.sum_scores(parts)
            if at == len(lists) or len(scores) < limit:
                continue
            least = float(np.partition(scores, len(scores) - limit)[len(scores) - limit])
            if left[at] < least:
                hopeful = scores + left[at] >= least
                keys, scores = keys[hopeful], scores[hopeful]
                rest = self._contributions(lists[at:], keys)
                keys, scores = postings.sum_scores([Impacts(keys, scores), *rest])
                break
        return _rank(keys, scores, limit)

    def _score(self, lists: Sequence[WeightedList], keys: Keys) -> tuple[Keys, NDArray[np.float64]]:
        """Return the scores of those of these entries that have one of the terms."""
        if not len(keys):
            return NONE.keys, np.empty(0)
        if (sums := self._sum(lists)) is not None:
            return sums.among(keys)
        return postings.sum_scores(self._contributions(lists, keys))

    def _sum(self, lists: Sequence[WeightedList]) -> Impacts | None:
        """Return the scores of all entries that have one of the terms; ``None`` if there are too
        many."""
        if sum(term.entries for term in lists) > _SUMMED:
            return None
        sums, wanted = self._sums, tuple(lists)
        if wanted not in sums:
            if len(sums) >= _CACHED_SUMS:
                self._sums = sums = {}
            sums[wanted] = Impacts(*postings.sum_scores(self._contributions(lists)))
        return sums[wanted]

    def _contributions(
        self, lists: Sequence[WeightedList], among: Keys | None = None
    ) -> list[Impacts]:
        """Return what each list adds to its entries, all of them or those in ``among``."""
        read = self._read(lists, among)
        parts: list[Impacts] = []
        for term in lists:
            entries = read[term.named] if among is None else read[term.named].among(among)
            parts.append(Impacts(entries.keys, term.weight * entries.values))
        return parts


def _take_within(lists: Sequence[WeightedList], budget: int) -> Iterator[WeightedList]:
    """Yield the next lists, at least one, until their entries exceed the budget."""
    for number, term in enumerate(lists):
        budget -= term.entries
        if number and budget < 0:
            return
        yield term


def _rank(keys: Keys, scores: NDArray[np.float64], limit: int) -> KeywordHits:
    """Return the best entries, and all that tie with the last of them."""
    if limit < len(scores):
        least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        chosen = np.flatnonzero(scores >= least)
        keys, scores = keys[chosen], scores[chosen]
    order = np.argsort(-scores, kind="stable")
    return list(zip(keys[order].tolist(), scores[order].tolist(), strict=True))
