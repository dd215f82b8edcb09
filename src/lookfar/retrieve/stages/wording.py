"""Lifts for passages that put it as the question does, or nearly.

Takes: a fused ranking, and the collections its candidates stand in. Gives: scores raised
where words stand beside each other as they do in the question, and where a synonym stands
for one of its words. Refuses: to lift a passage that only has synonyms as much as one that
has the words themselves; so an exact match is never overtaken by them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from lookfar.ports import Place
from lookfar.retrieve.ranking import Candidate, Ranking, Stage, within_reach
from lookfar.store.keywords.analyser import analyse

if TYPE_CHECKING:
    from lookfar.ports import Snapshot
    from lookfar.retrieve.ranking import Plan, Source

_FARTHEST = 3
"""Positions from one word of a question to the next that still belong together."""
_MOST_PAIRS = 8
"""Whoever writes more has pasted a text, and shares turns of phrase with whoever wrote it."""
_SYNONYM = 0.5
"""Of what the word itself counts."""

T = TypeVar("T")


def boost_word_pairs(weight: float, sources: Sequence[Source]) -> Stage:
    """How many of the question's pairs of words stand in a passage as they do in it."""

    def lift(ranking: Ranking) -> Ranking:
        if not weight or ranking.plan.mode == "vector":
            return ranking
        near = within_reach(ranking, weight)
        # Code is judged by its names.
        prose = [each for each in near if each.place.lane != "code"]
        shares = score_word_pairs(ranking, sources, prose)
        return _boost(ranking, weight, shares, "phrase", "of its pairs of words stand here")

    return lift


def score_word_pairs(
    ranking: Ranking, sources: Sequence[Source], among: Sequence[Candidate]
) -> dict[Candidate, float]:
    """For each of these the share of the question's pairs of words that stand in it as there.

    A pair says the more, the fewer of them have it: what all of them have is a turn of phrase.
    """
    pairs = find_word_pairs(ranking.plan)
    if not pairs:
        return {}
    held = _look_up(sources, among, lambda snapshot, places: snapshot.adjoining(pairs, places))
    says = []
    for at in range(len(pairs)):
        having = sum(1 for bits in held.values() if bits >> at & 1)
        says.append(math.log(1 + (len(among) - having + 0.5) / (having + 0.5)))
    total = sum(says)
    return {
        each: sum(said for at, said in enumerate(says) if bits >> at & 1) / total
        for each, bits in held.items()
        if bits
    }


def boost_synonyms(weight: float, sources: Sequence[Source]) -> Stage:
    """Whether a passage has the question's words, or at least what others say for them.

    The word itself earns the whole lift, so that among passages with all words of a question
    and those without, the order can change only in favour of the former.
    """

    def lift(ranking: Ranking) -> Ranking:
        plan = ranking.plan
        groups = [
            {term: 1.0, **dict.fromkeys(others, _SYNONYM)} for term, others in plan.alike.items()
        ]
        if plan.concepts:
            near = dict.fromkeys(plan.concepts, _SYNONYM)
            groups.append({**near, **dict.fromkeys(plan.terms, 1.0)})
        if not groups or not weight or plan.mode == "vector":
            return ranking
        among = within_reach(ranking, weight)
        found = _look_up(sources, among, lambda snapshot, at: snapshot.wording(groups, at))
        shares = {each: share / len(groups) for each, share in found.items()}
        return _boost(ranking, weight, shares, "synonyms", "of the words or others for them")

    return lift


def find_word_pairs(plan: Plan) -> list[tuple[str, str, int]]:
    """Telling words that follow each other in a question, and how far apart they stand."""
    telling = frozenset(plan.terms)
    score_word_pairs: list[tuple[int, str]] = []
    position = 0
    for run in plan.text.split():
        terms = analyse(run).split()
        if len(terms) == 1 and terms[0] in telling:
            score_word_pairs.append((position, terms[0]))
        position += len(terms)
    found = dict.fromkeys(
        (left, right, after - before)
        for (before, left), (after, right) in pairwise(score_word_pairs)
        if after - before <= _FARTHEST
    )
    return list(found) if len(found) <= _MOST_PAIRS else []


def _look_up(
    sources: Sequence[Source],
    among: Sequence[Candidate],
    look: Callable[[Snapshot, Sequence[Place]], Mapping[int, T]],
) -> dict[Candidate, T]:
    """What the collections say of those of these candidates that they find something in."""
    found: dict[Candidate, T] = {}
    for number, source in enumerate(sources):
        here = [each for each in among if each.source == number]
        said = look(source.snapshot, [each.place for each in here]) if here else {}
        found.update((each, said[each.place.key]) for each in here if each.place.key in said)
    return found


def _boost(
    ranking: Ranking, weight: float, shares: Mapping[Candidate, float], stage: str, noted: str
) -> Ranking:
    if not any(shares.values()):
        return ranking
    added = [weight * shares.get(each, 0.0) for each in ranking.candidates]
    return ranking.add_step(stage, added, lambda c: f"{shares.get(c, 0.0):.0%} {noted}")
