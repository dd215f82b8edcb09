"""Small, bounded lifts for candidates whose names answer the question.

Takes: a fused ranking. Gives: scores raised by title, heading and path matches
and by what else of the document was found. Refuses: to lower a score, and to
outweigh the text itself.
"""

from __future__ import annotations

from collections import defaultdict

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


def document_evidence(weight: float, most: int = 3) -> Stage:
    """A document of which several chunks answer is likelier to be the one that was meant."""

    def boost(ranking: Ranking) -> Ranking:
        if not weight:
            return ranking
        by_document: dict[int, list[float]] = defaultdict(list)
        for each in ranking.candidates:
            by_document[each.place.document].append(each.score)
        lift = {
            document: weight * sum(score / (rank + 2) for rank, score in enumerate(scores[1:most]))
            for document, scores in by_document.items()
        }
        return ranking.reordered(
            each.scored(each.score + lift[each.place.document], "document", "other chunks match")
            if lift[each.place.document] > 0
            else each
            for each in ranking.candidates
        )

    return boost
