"""Rank all results of a question once, and return them page by page.

Text is read from disk only for the page that is shown. The rankings of the last few questions are
cached until a collection changes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lookfar.config import SearchSettings
from lookfar.library.compat import choose_scoring
from lookfar.library.filter_values import MOST_COUNTED, merge_properties
from lookfar.model import Confidence, Contribution, Incomplete, PropertyValues
from lookfar.ports import Facts
from lookfar.retrieve.answer.diversify import Passage
from lookfar.retrieve.answer.excerpt import cite
from lookfar.retrieve.answer.focus import FocusQuery
from lookfar.retrieve.question.admission import resolve_globs
from lookfar.retrieve.ranking import Results, Source
from lookfar.retrieve.search import SearchFunction, choose_confidently, rank
from lookfar.serve.http.web.facets import Facets, FacetValues, count_facets

_MAX_RANKINGS: Final = 6
_MAX_PASSAGES: Final = 12_000
"""The number of passages in all cached rankings together."""
PREVIEW_CHARS: Final = 1600
"""How much of a passage the page shows next to the list."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """The ranked passages of a question, best first."""

    generations: tuple[tuple[str, int], ...]
    passages: Sequence[Passage]
    facts: Mapping[tuple[int, int], Facts]
    """The facts about each document; the key is its source and number."""
    facets: Facets
    properties: Sequence[PropertyValues]
    notes: Sequence[Incomplete]
    confidence: Confidence | None
    explain: Callable[[int], tuple[Contribution, ...]]
    asked: FocusQuery
    """The question as it is used to find the answering sentence of a passage, without a model."""


@dataclass(slots=True)
class Page:
    """One page of results; the search for which it is created fills it in."""

    total: int = 0
    facets: Facets | None = None
    properties: Sequence[PropertyValues] = ()
    facts: Sequence[Facts | None] = ()
    """The facts about the document of each hit, or about each listed document."""
    collections: Sequence[str] = ()
    """The collection of each listed document."""
    beginnings: Sequence[str] = ()
    """The first characters of each listed document."""


class Listings:
    """Caches the rankings of the last few questions."""

    def __init__(self) -> None:
        self._rankings: OrderedDict[Hashable, Ranked] = OrderedDict()
        self._lock = threading.Lock()

    def answering(
        self, question: Hashable, *, depth: int, offset: int, limit: int, prefix: str, page: Page
    ) -> SearchFunction:
        """Return a function that turns the candidates of a question into the hits of one page."""

        def answer(sources: Sequence[Source], settings: SearchSettings, explain: bool) -> Results:
            generations = tuple(
                (source.collection, source.snapshot.generation) for source in sources
            )
            ranked = self._find(question, generations)
            if ranked is None:
                ranked = _rank(sources, settings, depth, prefix, generations)
                self._store(question, ranked)
            shown = ranked.passages[offset : offset + limit]
            hits, stale = cite(
                shown,
                sources,
                max_chars=settings.max_excerpt_chars,
                explain=ranked.explain if explain else None,
                focus=_with_model(ranked.asked, sources),
            )
            page.total, page.facets = len(ranked.passages), ranked.facets
            page.properties = ranked.properties
            page.facts = [
                ranked.facts.get((passage.source, passage.place.document)) for passage in shown
            ]
            return Results(hits, [*ranked.notes, *stale], ranked.confidence)

        return answer

    def _find(self, question: Hashable, generations: tuple[tuple[str, int], ...]) -> Ranked | None:
        with self._lock:
            ranked = self._rankings.get(question)
            if ranked is None or ranked.generations != generations:
                return None
            self._rankings.move_to_end(question)
            return ranked

    def _store(self, question: Hashable, ranked: Ranked) -> None:
        with self._lock:
            self._rankings[question] = ranked
            self._rankings.move_to_end(question)
            while len(self._rankings) > 1 and (
                len(self._rankings) > _MAX_RANKINGS or self._size > _MAX_PASSAGES
            ):
                self._rankings.popitem(last=False)

    @property
    def _size(self) -> int:
        return sum(len(ranked.passages) for ranked in self._rankings.values())


def list_documents(offset: int, limit: int, prefix: str, page: Page) -> SearchFunction:
    """Return a function that lists the documents that filters admit, the latest first."""

    def answer(sources: Sequence[Source], _settings: SearchSettings, _explain: bool) -> Results:
        admitted = [
            (source, facts)
            for source in sources
            for facts in source.snapshot.admitting(
                resolve_globs(source.plan.filters, source.snapshot)
            )
        ]
        admitted.sort(key=lambda pair: (-pair[1].time_ns, pair[0].collection, pair[1].uri))
        shown = admitted[offset : offset + limit]
        page.total = len(admitted)
        page.facets = count_facets(
            (FacetValues.of(facts, source.collection) for source, facts in admitted), prefix
        )
        found = [(source.collection, facts.document) for source, facts in admitted]
        page.properties = _count_properties(sources, found)
        page.facts = [facts for _, facts in shown]
        page.collections = [source.collection for source, _ in shown]
        page.beginnings = [
            (source.snapshot.text(facts.uri) or "")[:PREVIEW_CHARS] for source, facts in shown
        ]
        return Results([], [])

    return answer


def _count_properties(
    sources: Sequence[Source], found: Sequence[tuple[str, int]]
) -> tuple[PropertyValues, ...]:
    """Count the properties of documents, given by their collection and number."""
    return merge_properties(
        source.snapshot.count_properties(
            MOST_COUNTED, [document for name, document in found if name == source.collection]
        )
        for source in sources
    )


def _with_model(asked: FocusQuery, sources: Sequence[Source]) -> FocusQuery:
    plan = next((source.plan for source in sources if source.plan.vector is not None), None)
    if plan is None or plan.embedder is None or not plan.embedder.quick:
        return asked
    return replace(asked, vector=plan.vector, embedder=plan.embedder)


def _rank(
    sources: Sequence[Source],
    settings: SearchSettings,
    depth: int,
    prefix: str,
    generations: tuple[tuple[str, int], ...],
) -> Ranked:
    deep = [source._replace(plan=replace(source.plan, top_k=depth)) for source in sources]
    ranking = rank(deep, settings, score=choose_scoring(settings))
    best, notes, confidence = choose_confidently(ranking)
    facts: dict[tuple[int, int], Facts] = {}
    for number, source in enumerate(deep):
        documents = sorted({passage.place.document for passage in best if passage.source == number})
        facts.update(((number, fact.document), fact) for fact in source.snapshot.facts(documents))
    best_facts = (
        (sources[passage.source].collection, facts.get((passage.source, passage.place.document)))
        for passage in best
    )
    return Ranked(
        generations=generations,
        passages=best,
        facts=facts,
        facets=count_facets(
            (FacetValues.of(fact, name) for name, fact in best_facts if fact is not None), prefix
        ),
        properties=_count_properties(deep, [(deep[at].collection, one) for at, one in facts]),
        notes=(*ranking.notes, *notes),
        confidence=confidence,
        # Without the model, which may be released before the next page.
        explain=replace(ranking, plan=replace(ranking.plan, embedder=None)).explain_fully,
        asked=replace(FocusQuery.from_ranking(ranking), vector=None, embedder=None),
    )
