"""Boost passages that use the wording of the question, or less so synonyms of its words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from lookfar.retrieve.ranking import Candidate, Chunk, Plan, Ranking, within_reach
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


def boost_word_pairs(ranking: Ranking) -> Ranking:
    """Boost by the share of the question's word pairs that a passage contains."""
    near = [ranking.candidates[at] for at in within_reach(ranking, _PAIRS)]
    # Code is ranked by its names.
    shares = score_word_pairs(ranking, [c for c in near if c.place.lane != "code"])
    return _boost(ranking, _PAIRS, shares, "phrase", "of the question's word pairs")


def score_word_pairs(ranking: Ranking, among: Sequence[Candidate]) -> dict[Chunk, float]:
    """Return for each candidate the share of the question's word pairs that it contains.

    The fewer candidates contain a pair, the more it counts.
    """
    pairs = find_word_pairs(ranking.plan)
    if not pairs:
        return {}
    held: dict[Chunk, int] = {}
    for number, source in enumerate(ranking.sources):
        places = [candidate.place for candidate in among if candidate.source == number]
        bits_by_key = source.snapshot.adjoining(pairs, places) if places else {}
        held.update(((number, key), bits) for key, bits in bits_by_key.items())
    counts = [sum(bits >> at & 1 for bits in held.values()) for at in range(len(pairs))]
    weights = [math.log(1 + (len(among) - count + 0.5) / (count + 0.5)) for count in counts]
    total = sum(weights)
    return {
        chunk: sum(weight for at, weight in enumerate(weights) if bits >> at & 1) / total
        for chunk, bits in held.items()
        if bits
    }


def boost_synonyms(ranking: Ranking) -> Ranking:
    """Boost passages with the question's words, or by less with their synonyms."""
    plan = ranking.plan
    groups = [
        {term: 1.0, **dict.fromkeys(others, _SYNONYM)} for term, others in plan.synonyms.items()
    ]
    if plan.concepts:
        near = dict.fromkeys(plan.concepts, _SYNONYM)
        groups.append({**near, **dict.fromkeys(plan.terms, 1.0)})
    among = [ranking.candidates[at] for at in within_reach(ranking, _SYNONYMS)]
    shares: dict[Chunk, float] = {}
    for number, source in enumerate(ranking.sources):
        places = [candidate.place for candidate in among if candidate.source == number]
        matched = source.snapshot.wording(groups, places) if places else {}
        shares.update(((number, key), share / len(groups)) for key, share in matched.items())
    noted = "of the question's words or their synonyms"
    return _boost(ranking, _SYNONYMS, shares, "synonyms", noted)


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


def _boost(
    ranking: Ranking, weight: float, shares: Mapping[Chunk, float], stage: str, noted: str
) -> Ranking:
    if not any(shares.values()):
        return ranking
    added = [weight * shares.get(chunk, 0.0) for chunk in ranking.candidates.chunks]
    return ranking.add_step(stage, added, lambda c: f"{shares.get(c.chunk, 0.0):.0%} {noted}")
