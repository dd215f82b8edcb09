"""No document crowds out the others, and neighbours answer as one.

Takes: a scored ranking. Gives: at most so many passages per document, where
chunks that stand beside each other are one passage. Refuses: to drop a
candidate that no cap concerns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lookfar.ports import Place
from lookfar.retrieve.ranking import Ranking


@dataclass(frozen=True, slots=True)
class Passage:
    """One or more neighbouring chunks of one document, scored as their best."""

    best: int
    """Position of the best chunk in the ranking."""
    score: float
    place: Place
    """Of the best chunk."""
    start: int
    end: int
    start_line: int
    end_line: int
    chunks: int = 1


def passages(ranking: Ranking, *, per_document: int, merge_gap: int) -> list[Passage]:
    """The best passages, best first."""
    wanted = ranking.plan.top_k
    taken: dict[int, list[int]] = defaultdict(list)
    chosen = 0
    # Merging shortens the list, so more chunks are taken than passages were asked for.
    for at in ranking.order():
        siblings = taken[ranking.candidates[at].place.document]
        if not per_document or len(siblings) < per_document:
            siblings.append(at)
            chosen += 1
            if chosen >= 2 * wanted:
                break
    merged = [each for group in taken.values() for each in _merged(ranking, group, merge_gap)]
    merged.sort(key=lambda passage: (-passage.score, passage.place.uri, passage.start))
    return merged[:wanted]


def _merged(ranking: Ranking, group: Sequence[int], gap: int) -> list[Passage]:
    """Join chunks of one document whose spans touch or nearly touch."""
    found: list[Passage] = []
    for at in sorted(group, key=lambda at: ranking.candidates[at].place.start):
        place, score = ranking.candidates[at].place, ranking.scores[at]
        last = found[-1] if found else None
        if last is None or place.start > last.end + gap:
            found.append(
                Passage(
                    at, score, place, place.start, place.end, place.start_line, place.end_line
                )
            )
            continue
        joined = replace(
            last,
            end=max(last.end, place.end),
            end_line=max(last.end_line, place.end_line),
            chunks=last.chunks + 1,
        )
        better = score > last.score
        found[-1] = replace(joined, best=at, score=score, place=place) if better else joined
    return found
