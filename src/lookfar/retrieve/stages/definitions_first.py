"""Put the definitions that a question asks for by name before everything else.

A class comes before a function of that name, both before a constructor or a declaration, and all
of them before what merely uses the name: see :mod:`lookfar.retrieve.retrievers.definitions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lookfar.retrieve.ranking import Ranking

_STEP: Final = 0.01
"""Distance in score between a definition and what follows it."""


def put_definitions_first(ranking: Ranking) -> Ranking:
    """Raise the best match of each name just above all other candidates."""
    named = {
        at: ranking.named[candidate.source, candidate.place.key]
        for at, candidate in enumerate(ranking.candidates)
        if (candidate.source, candidate.place.key) in ranking.named
    }
    if not named:
        return ranking
    best: dict[int, int] = {}
    for at in sorted(named, key=lambda at: (named[at].tier, -ranking.scores[at])):
        best.setdefault(named[at].name, at)
    order = sorted(best.values(), key=lambda at: -ranking.scores[at])
    lifted = frozenset(order)
    others = (score for at, score in enumerate(ranking.scores) if at not in lifted)
    least = max(others, default=0.0)
    added = [0.0] * len(ranking.candidates)
    for at in reversed(order):
        least = max(ranking.scores[at], least + _STEP)
        added[at] = least - ranking.scores[at]
    notes = {ranking.candidates[at]: place.why for at, place in named.items()}
    return ranking.add_step("name", added, lambda candidate: notes[candidate])
