"""Answer questions about history from release notes, and find the commits that the notes describe.

Release notes are long lists in which one item is the answer, so as a whole they would rank low.
Therefore the items are compared with the question, and the passage with the best item is ranked
first. If the question names a version ("what changed in 3.1 about sessions?"), only the sections of
that version are used, and the commits that their items describe are ranked next to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from lookfar.model import Filters
from lookfar.ports import Place, Snapshot
from lookfar.retrieve.question.admission import resolve_globs
from lookfar.retrieve.question.field_weights import CHUNK_WEIGHTS
from lookfar.retrieve.question.intent import HISTORY_TERMS, asks_for_history
from lookfar.retrieve.question.plan import make_plan
from lookfar.retrieve.ranking import Candidate, Ranking, Source
from lookfar.store.keywords.analyser import terms_of

Rank = Callable[[Sequence[Source]], Ranking]

_CHANGELOG: Final = re.compile(
    r"(?:^|/)(?:changes|change-?log|history|news|releases?|release[-_ ]?notes|what'?s[-_ ]?new"
    r"|upgrad\w*)(?:[./_-]|$)",
    re.IGNORECASE,
)
_VERSION: Final = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+)+)(?!\w)")
_ITEM: Final = re.compile(r"^[ \t]*(?:[-*+•]|\d+[.)])[ \t]+", re.MULTILINE)
_BLANK: Final = re.compile(r"\n[ \t]*\n")
_LEAST_SHARE: Final = 0.6
"""An item must contain at least this share of the question; rare words count more."""
_MOST_SECTIONS: Final = 2
_MOST_ITEMS: Final = 2
_LONGEST_ITEM: Final = 500
_DEEP: Final = 50
_STEP: Final = 0.95
"""Each further section or commit gets this share of the score of the one before it."""


class _Chunk(NamedTuple):
    """A chunk of a release note, and the range of it that is compared with the question."""

    source: int
    place: Place
    score: float
    start: int
    end: int


class _Item(NamedTuple):
    """One entry of a release note."""

    share: float
    """The share of the question that it contains."""
    score: float
    """The keyword score of its chunk."""
    source: int
    place: Place
    text: str


def add_release_notes(ranking: Ranking, sources: Sequence[Source], rank: Rank) -> Ranking:
    """Rank the release notes that answer a question about history first.

    The ranking of other questions does not change. ``rank`` scores the candidates of some sources.
    """
    plan = ranking.plan
    if not asks_for_history(plan.text) or plan.filters.heading:
        return ranking
    named = _VERSION.search(plan.text)
    version = named[1] if named else ""
    items = _find_items(ranking, sources, version) if version else []
    if not items:  # The question names no version, or that of something else, such as "Python 3.7".
        version = ""
        items = _find_items(ranking, sources, version)
        items = [item for item in items if item.share >= _LEAST_SHARE][:1]
    if not items:
        return ranking
    top = max(ranking.scores, default=1.0)
    offers: dict[Candidate, tuple[float, str]] = {}
    for item in items:
        if len(offers) < _MOST_SECTIONS:
            note = Candidate(item.place, item.score, 0.0, 0.0, item.source)
            offers.setdefault(note, (top * _STEP ** len(offers), "release notes"))
    described = _find_commits(items[:_MOST_ITEMS], ranking, sources, rank) if version else []
    for number, commit in enumerate(described, 1):
        offers.setdefault(commit, (top * _STEP**number, "a release note describes it"))
    return _raise_to_offers(ranking, offers)


def _find_chunks(
    ranking: Ranking, sources: Sequence[Source], version: str, topics: frozenset[str]
) -> list[_Chunk]:
    """Return the parts of release notes that match the topics; with a version, only its parts."""
    chunks: list[_Chunk] = []
    for number, (_, plan, snapshot, *_) in enumerate(sources):
        scopes = [_restrict_to_changelogs(ranking, number, plan.filters)]
        if version:
            scopes.append(replace(plan.filters, heading=version))
        places: dict[int, tuple[Place, float]] = {}
        for filters in scopes:
            if filters.uris or filters.heading:
                resolved = resolve_globs(filters, snapshot)
                for place, score in snapshot.keyword_search(
                    sorted(topics), CHUNK_WEIGHTS, _DEEP, resolved
                ):
                    places.setdefault(place.key, (place, score))
        for place, score in places.values():
            if place.lane == "docs":
                chunks += (
                    _Chunk(number, place, score, start, end)
                    for start, end in _find_spans(snapshot, place, version)
                )
    return chunks


def _find_spans(snapshot: Snapshot, place: Place, version: str) -> list[tuple[int, int]]:
    """Return the parts of a chunk that are below a heading with the version."""
    if not version:
        return [(place.start, place.end)]
    heading = re.compile(rf"(?<![\w.])v?{re.escape(version)}(?:\.\w+)*(?![\w.]*\d)", re.IGNORECASE)
    spans = []
    for section in snapshot.sections(place.uri):
        start, end = max(section.body, place.start), min(section.span.end, place.end)
        if start < end and heading.search(section.title):
            spans.append((start, end))
    return spans


def _restrict_to_changelogs(ranking: Ranking, number: int, filters: Filters) -> Filters:
    """Return filters that admit only the changelogs among the candidates of a source."""
    uris = {
        candidate.place.uri
        for candidate in ranking.candidates
        if candidate.source == number
        and candidate.place.lane == "docs"
        and _CHANGELOG.search(candidate.place.uri)
    }
    return replace(filters, uris=tuple(sorted(uris)))


def _find_items(ranking: Ranking, sources: Sequence[Source], version: str) -> list[_Item]:
    """Return the items that share words with the question, best matches first."""
    topics = frozenset(ranking.plan.terms).difference(HISTORY_TERMS, terms_of(version))
    weights = {term: ranking.rarity.get(term, 0.0) for term in ranking.plan.terms if term in topics}
    total = sum(weights.values())
    if not total:
        return []
    texts: dict[tuple[int, str], str] = {}
    items: list[_Item] = []
    for number, place, score, start, end in _find_chunks(ranking, sources, version, topics):
        key = (number, place.uri)
        if key not in texts:
            texts[key] = sources[number].snapshot.text(place.uri) or ""
        for part in _ITEM.split(texts[key][start:end]):
            text = " ".join(_BLANK.split(part)[0].split())[:_LONGEST_ITEM]
            terms = frozenset(terms_of(text))
            if not terms.isdisjoint(weights):
                # In the order of the question, since the order of a sum changes its last digits.
                shared = sum(weight for term, weight in weights.items() if term in terms)
                items.append(_Item(shared / total, score, number, place, text))
    items.sort(key=lambda item: (-item.share, -item.score, item.place.uri, item.place.start))
    return items


def _find_commits(
    items: Sequence[_Item], ranking: Ranking, sources: Sequence[Source], rank: Rank
) -> list[Candidate]:
    """Return the best commit for each item of a release note."""
    numbers = sorted({c.source for c in ranking.candidates if c.place.lane == "commits"})
    commits: list[Candidate] = []
    for item in items if numbers else ():
        plan = ranking.plan
        asked = make_plan(
            item.text,
            mode=plan.mode,
            top_k=plan.top_k,
            filters=replace(plan.filters, lanes=("commits",)),
            embedder=plan.embedder,
        )
        answer = rank([sources[number]._replace(plan=asked) for number in numbers])
        best = next((answer.candidates[at] for at in answer.order()), None)
        if best is not None and best.place.lane == "commits":
            commits.append(best._replace(source=numbers[best.source]))
    return commits


def _raise_to_offers(ranking: Ranking, offers: Mapping[Candidate, tuple[float, str]]) -> Ranking:
    """Raise the chunks in ``offers`` to at least the score given there."""
    wanted = {c.chunk: offer for c, offer in offers.items()}
    present = {c.chunk for c in ranking.candidates}
    missing = [c for c in offers if c.chunk not in present]
    ranking = ranking.add_candidates(missing) if missing else ranking
    added = []
    for candidate, score in zip(ranking.candidates, ranking.scores, strict=True):
        offer, _ = wanted.get(candidate.chunk, (0.0, ""))
        added.append(max(0.0, offer - score))
    return ranking.add_step("release", added, lambda c: wanted[c.chunk][1])
