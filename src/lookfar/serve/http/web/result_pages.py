"""Rank all results of a question once, and return them page by page.

Text is read from disk only for the page that is shown. The rankings of the last few questions are
cached until a collection changes.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from lookfar.config import SearchSettings
from lookfar.model import Confidence, Contribution, Incomplete
from lookfar.ports import Facts
from lookfar.retrieve.answer.diversify import Passage
from lookfar.retrieve.answer.excerpt import cite
from lookfar.retrieve.fixed_shares import SearchFunction
from lookfar.retrieve.ranking import Results, Source
from lookfar.retrieve.search import choose_confidently, rank

_MAX_RANKINGS: Final = 6
_MAX_PASSAGES: Final = 12_000
"""Passages of all cached rankings: one with ten thousand leaves no room for another."""
_MAX_VALUES: Final = 12
"""Values of one facet."""
_DAY: Final = 86_400
AGES: Final = (("day", _DAY), ("week", 7 * _DAY), ("month", 31 * _DAY), ("year", 366 * _DAY))
"""Ages of a change by name, and their limits in seconds."""

Facets = dict[str, list[tuple[str, int]]]


@dataclass(frozen=True, slots=True)
class FacetValues:
    """The values of one document for each filter."""

    lane: str
    uri: str
    language: str
    modified_ns: int
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Ranked:
    """The ranked passages of a question, best first."""

    generations: tuple[tuple[str, int], ...]
    passages: Sequence[Passage]
    facts: Mapping[tuple[int, int], Facts]
    """By source and document."""
    facets: Facets
    notes: Sequence[Incomplete]
    confidence: Confidence | None
    explain: Callable[[int], tuple[Contribution, ...]]


@dataclass(slots=True)
class Page:
    """One page of results; the search for which it is created fills it in."""

    ranked: Ranked | None = None
    facts: Sequence[Facts | None] = ()
    """The facts about the document of each hit."""


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
            )
            page.ranked = ranked
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


def _rank(
    sources: Sequence[Source],
    settings: SearchSettings,
    depth: int,
    prefix: str,
    generations: tuple[tuple[str, int], ...],
) -> Ranked:
    deep = [source._replace(plan=replace(source.plan, top_k=depth)) for source in sources]
    ranking = rank(deep, settings)
    best, notes, confidence = choose_confidently(ranking, deep, settings)
    facts: dict[tuple[int, int], Facts] = {}
    for number, source in enumerate(deep):
        documents = sorted({passage.place.document for passage in best if passage.source == number})
        facts.update(((number, fact.document), fact) for fact in source.snapshot.facts(documents))
    best_facts = (facts.get((passage.source, passage.place.document)) for passage in best)
    return Ranked(
        generations=generations,
        passages=best,
        facts=facts,
        facets=count(
            (
                FacetValues(fact.lane, fact.uri, fact.language, fact.modified_ns, fact.tags)
                for fact in best_facts
                if fact is not None
            ),
            prefix,
        ),
        notes=(*ranking.notes, *notes),
        confidence=confidence,
        # Without the model, which may be released in the meantime.
        explain=replace(ranking, plan=replace(ranking.plan, embedder=None)).explain_fully,
    )


def count(documents: Iterable[FacetValues], prefix: str = "") -> Facets:
    """Count documents by kind, folder, language, tag and age, most frequent first.

    Folders are those below ``prefix``; a folder that contains all documents is skipped.
    """
    kinds: Counter[str] = Counter()
    languages: Counter[str] = Counter()
    tags: Counter[str] = Counter()
    ages: Counter[str] = Counter()
    uris: list[str] = []
    now = datetime.now(UTC).timestamp()
    for document in documents:
        kinds[document.lane] += 1
        languages[document.language] += 1
        tags.update(document.tags)
        if document.lane != "commits":
            uris.append(document.uri)
        age = now - document.modified_ns / 1e9
        ages.update(name for name, seconds in AGES if age <= seconds)
    return {
        "lane": _most_frequent(kinds),
        "path": _most_frequent(_count_folders(uris, prefix)),
        "language": _most_frequent(languages),
        "tag": _most_frequent(tags),
        "age": [(name, ages[name]) for name, _ in AGES if ages[name]],
    }


def _count_folders(uris: Sequence[str], prefix: str) -> Counter[str]:
    """Count documents per folder below ``prefix``, or below the only folder that has them all."""
    while True:
        folders: Counter[str] = Counter()
        for uri in uris:
            folder, below, _ = uri[len(prefix) :].partition("/")
            if below and uri.startswith(prefix):
                folders[f"{prefix}{folder}/"] += 1
        if len(folders) != 1 or folders.total() < len(uris):
            return folders
        [prefix] = folders


def _most_frequent(counts: Counter[str]) -> list[tuple[str, int]]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [item for item in ordered if item[0]][:_MAX_VALUES]
