"""Small, bounded lifts for candidates whose names answer the question.

Takes: a fused ranking. Gives: scores raised by title, heading and path matches.
Refuses: to lower a score, and to outweigh the text itself.
"""

from __future__ import annotations

from lookfar.retrieve.ranking import Candidate, Ranking, Stage
from lookfar.store.analyser import terms_of


def name_match(weight: float) -> Stage:
    """How much of the question stands in the title, the headings or the path."""

    def boost(ranking: Ranking) -> Ranking:
        wanted = frozenset(ranking.plan.terms)
        if not wanted or not weight:
            return ranking
        names: dict[tuple[str, ...], float] = {}
        lifted: list[Candidate] = []
        for each in ranking.candidates:
            place = each.place
            asked = (place.uri, place.title, *place.path)
            if asked not in names:
                named = wanted.intersection(terms_of(" ".join(asked)))
                names[asked] = len(named) / len(wanted)
            share = names[asked]
            lifted.append(
                each.scored(each.score + weight * share, "names", f"{share:.0%} of the words")
                if share
                else each
            )
        return ranking.reordered(lifted)

    return boost

