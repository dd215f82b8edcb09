"""All that a question finds, ranked once and then turned over page by page.

Takes: the candidates of a question, and which page of them is wanted. Gives: its cited hits, how
many there are in all, and what the others could be narrowed by, with counts. Refuses: to rank
again for the next page, or to read from disk what is on another page.

A page of a list may be asked for by anybody at any time, so what was ranked is kept for a few
questions only, and only as long as no collection has moved on.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lookfar.retrieve.answer.choose import choose_passages
from lookfar.retrieve.answer.excerpt import cite
from lookfar.retrieve.answer.relevance import note_low_relevance
from lookfar.retrieve.ranking import Source
from lookfar.retrieve.search import rank

if TYPE_CHECKING:
    from lookfar.config import SearchSettings
    from lookfar.model import Contribution, Hit, Incomplete
    from lookfar.ports import Facts
    from lookfar.retrieve.answer.diversify import Passage
    from lookfar.retrieve.fixed_shares import SearchFunction

_KEPT: Final = 6
_MOST_KEPT: Final = 12_000
"""Passages of all questions together: one that found ten thousand leaves room for no other."""
_MOST_VALUES: Final = 12
"""Of one facet; the rest can be typed."""
_DAY: Final = 86_400
AGES: Final = (("day", _DAY), ("week", 7 * _DAY), ("month", 31 * _DAY), ("year", 366 * _DAY))
"""Names for how long ago something changed, and seconds that it may be."""

Facets = dict[str, list[tuple[str, int]]]


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What of one document a list can be narrowed by."""

    lane: str
    uri: str
    language: str
    modified_ns: int
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Ranked:
    """What a question found, best first."""

    generations: tuple[tuple[str, int], ...]
    passages: Sequence[Passage]
    facts: Mapping[tuple[int, int], Facts]
    """By source and document."""
    facets: Facets
    notes: Sequence[Incomplete]
    explain: Callable[[int], tuple[Contribution, ...]]


@dataclass(slots=True)
class Page:
    """One page of what was found; filled by the search that it was made for."""

    ranked: Ranked | None = None
    facts: Sequence[Facts | None] = ()
    """Of the document of each hit."""


class Listings:
    """What was ranked for the last few questions."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, Ranked] = OrderedDict()
        self._lock = threading.Lock()

    def answering(
        self, question: Hashable, *, depth: int, offset: int, limit: int, prefix: str, page: Page
    ) -> SearchFunction:
        """The way from the candidates of this question to the hits of one page."""

        def answer(
            sources: Sequence[Source], settings: SearchSettings, explain: bool
        ) -> tuple[list[Hit], list[Incomplete]]:
            now = tuple((each.collection, each.snapshot.generation) for each in sources)
            ranked = self._find(question, now)
            if ranked is None:
                ranked = _rank(sources, settings, depth, prefix, now)
                self._keep(question, ranked)
            wanted = ranked.passages[offset : offset + limit]
            hits, stale = cite(
                wanted,
                sources,
                max_chars=settings.max_excerpt_chars,
                explain=ranked.explain if explain else None,
            )
            page.ranked = ranked
            page.facts = [ranked.facts.get((e.source, e.place.document)) for e in wanted]
            return hits, [*ranked.notes, *stale]

        return answer

    def _find(self, question: Hashable, now: tuple[tuple[str, int], ...]) -> Ranked | None:
        with self._lock:
            found = self._kept.get(question)
            if found is None or found.generations != now:
                return None
            self._kept.move_to_end(question)
            return found

    def _keep(self, question: Hashable, ranked: Ranked) -> None:
        with self._lock:
            self._kept[question] = ranked
            self._kept.move_to_end(question)
            while len(self._kept) > 1 and (len(self._kept) > _KEPT or self._size > _MOST_KEPT):
                self._kept.popitem(last=False)

    @property
    def _size(self) -> int:
        return sum(len(each.passages) for each in self._kept.values())


def _rank(
    sources: Sequence[Source],
    settings: SearchSettings,
    depth: int,
    prefix: str,
    now: tuple[tuple[str, int], ...],
) -> Ranked:
    deep = [each._replace(plan=replace(each.plan, top_k=depth)) for each in sources]
    ranking = rank(deep, settings)
    best, notes = choose_passages(ranking, deep, settings)
    facts: dict[tuple[int, int], Facts] = {}
    for number, source in enumerate(deep):
        held = sorted({each.place.document for each in best if each.source == number})
        facts.update(((number, each.document), each) for each in source.snapshot.facts(held))
    narrowed = (facts.get((each.source, each.place.document)) for each in best)
    doubted = note_low_relevance(ranking) if settings.doubt and best else []
    return Ranked(
        generations=now,
        passages=best,
        facts=facts,
        facets=count(
            (
                Narrowing(each.lane, each.uri, each.language, each.modified_ns, each.tags)
                for each in narrowed
                if each is not None
            ),
            prefix,
        ),
        notes=(*ranking.notes, *notes, *doubted),
        # Without the model, which may be put to rest meanwhile.
        explain=replace(ranking, plan=replace(ranking.plan, embedder=None)).explain_fully,
    )


def count(found: Iterable[Narrowing], prefix: str = "") -> Facets:
    """How many there are of each lane, folder, language, tag and age; the most first.

    Folders are the next ones below ``prefix`` that tell something apart.
    """
    lanes: Counter[str] = Counter()
    languages: Counter[str] = Counter()
    tags: Counter[str] = Counter()
    ages: Counter[str] = Counter()
    uris: list[str] = []
    now = datetime.now(UTC).timestamp()
    for each in found:
        lanes[each.lane] += 1
        languages[each.language] += 1
        tags.update(each.tags)
        if each.lane != "commits":
            uris.append(each.uri)
        age = now - each.modified_ns / 1e9
        ages.update(name for name, seconds in AGES if age <= seconds)
    return {
        "lane": _most(lanes),
        "path": _most(_folders(uris, prefix)),
        "language": _most(languages),
        "tag": _most(tags),
        "age": [(name, ages[name]) for name, _ in AGES if ages[name]],
    }


def _folders(uris: Sequence[str], prefix: str) -> Counter[str]:
    """How many stand in each folder below this one, or below the only one that has them all."""
    while True:
        found: Counter[str] = Counter()
        for uri in uris:
            folder, below, _ = uri[len(prefix) :].partition("/")
            if below and uri.startswith(prefix):
                found[f"{prefix}{folder}/"] += 1
        if len(found) != 1 or found.total() < len(uris):
            return found
        [prefix] = found


def _most(counted: Counter[str]) -> list[tuple[str, int]]:
    order = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
    return [each for each in order if each[0]][:_MOST_VALUES]
