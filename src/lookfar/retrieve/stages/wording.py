"""Boost passages that use the wording of the question, or less so synonyms of its words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from lookfar.ports import Place, Snapshot
from lookfar.retrieve.ranking import Candidate, Plan, Ranking, Source, Stage, within_reach
from lookfar.store.keywords.analyser import analyse

_FARTHEST = 3
"""Largest distance of two words in a question that form a pair."""
_MOST_PAIRS = 8
"""A question with more pairs was pasted, and shares common phrases with many texts."""
_PAIRS = 0.1
"""Boost for a passage with all word pairs of the question."""
_SYNONYMS = 0.001
"""The same for words of the question or their synonyms: enough to decide between equals."""
_SYNONYM = 0.5
"""Weight of a synonym, relative to the word itself."""

T = TypeVar("T")

Chunk = tuple[int, int]
"""See ``Candidate.chunk``."""


def boost_word_pairs(sources: Sequence[Source]) -> Stage:
    """Boost by the share of the question's word pairs that a passage contains."""

    def lift(ranking: Ranking) -> Ranking:
        if ranking.plan.mode == "vector" or not find_word_pairs(ranking.plan):
            return ranking
        near = [ranking.candidates[at] for at in within_reach(ranking, _PAIRS)]
        # Code is ranked by its names.
        prose = [candidate for candidate in near if candidate.place.lane != "code"]
        shares = score_word_pairs(ranking, sources, prose)
        return _boost(ranking, _PAIRS, shares, "phrase", "of the question's word pairs")

    return lift


def score_word_pairs(
    ranking: Ranking, sources: Sequence[Source], among: Sequence[Candidate]
) -> dict[Chunk, float]:
    """Return for each candidate the share of the question's word pairs that it contains.

    The fewer candidates contain a pair, the more it counts.
    """
    pairs = find_word_pairs(ranking.plan)
    if not pairs:
        return {}
    pairs_held = _look_up(
        sources, among, lambda snapshot, places: snapshot.adjoining(pairs, places)
    )
    weights = []
    for at in range(len(pairs)):
        count = sum(1 for bits in pairs_held.values() if bits >> at & 1)
        weights.append(math.log(1 + (len(among) - count + 0.5) / (count + 0.5)))
    total = sum(weights)
    return {
        chunk: sum(weight for at, weight in enumerate(weights) if bits >> at & 1) / total
        for chunk, bits in pairs_held.items()
        if bits
    }


def boost_synonyms(sources: Sequence[Source]) -> Stage:
    """Boost passages with the question's words, or by less with their synonyms."""

    def lift(ranking: Ranking) -> Ranking:
        plan = ranking.plan
        groups = [
            {term: 1.0, **dict.fromkeys(others, _SYNONYM)} for term, others in plan.synonyms.items()
        ]
        if plan.concepts:
            near = dict.fromkeys(plan.concepts, _SYNONYM)
            groups.append({**near, **dict.fromkeys(plan.terms, 1.0)})
        if not groups or plan.mode == "vector":
            return ranking
        among = [ranking.candidates[at] for at in within_reach(ranking, _SYNONYMS)]
        matched = _look_up(sources, among, lambda snapshot, at: snapshot.wording(groups, at))
        shares = {chunk: share / len(groups) for chunk, share in matched.items()}
        return _boost(
            ranking, _SYNONYMS, shares, "synonyms", "of the question's words or their synonyms"
        )

    return lift


def find_word_pairs(plan: Plan) -> list[tuple[str, str, int]]:
    """Return the significant words next to each other in a question, and their distance."""
    significant = frozenset(plan.terms)
    positions: list[tuple[int, str]] = []
    position = 0
    for run in plan.text.split():
        terms = analyse(run).split()
        if len(terms) == 1 and terms[0] in significant:
            positions.append((position, terms[0]))
        position += len(terms)
    pairs = dict.fromkeys(
        (left, right, after - before)
        for (before, left), (after, right) in pairwise(positions)
        if after - before <= _FARTHEST
    )
    return list(pairs) if len(pairs) <= _MOST_PAIRS else []


def _look_up(
    sources: Sequence[Source],
    among: Sequence[Candidate],
    look: Callable[[Snapshot, Sequence[Place]], Mapping[int, T]],
) -> dict[Chunk, T]:
    """Return what the collections report for these candidates."""
    results: dict[Chunk, T] = {}
    for number, source in enumerate(sources):
        here = [candidate for candidate in among if candidate.source == number]
        reported = look(source.snapshot, [candidate.place for candidate in here]) if here else {}
        results.update(
            (candidate.chunk, reported[candidate.place.key])
            for candidate in here
            if candidate.place.key in reported
        )
    return results


def _boost(
    ranking: Ranking, weight: float, shares: Mapping[Chunk, float], stage: str, noted: str
) -> Ranking:
    if not any(shares.values()):
        return ranking
    added = [weight * shares.get(chunk, 0.0) for chunk in ranking.candidates.chunks]
    return ranking.add_step(stage, added, lambda c: f"{shares.get(c.chunk, 0.0):.0%} {noted}")
