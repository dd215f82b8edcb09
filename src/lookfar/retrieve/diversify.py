"""No document crowds out the others, and neighbours answer as one.

Takes: a scored ranking. Gives: at most so many passages per document, where
chunks that stand beside each other are one passage. Refuses: to drop a
candidate that no cap concerns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from lookfar.retrieve.ranking import Candidate, Ranking


@dataclass(frozen=True, slots=True)
class Passage:
    """One or more neighbouring chunks of one document, scored as their best."""

    best: Candidate
    start: int
    end: int
    start_line: int
    end_line: int
    chunks: int = 1


def passages(ranking: Ranking, *, per_document: int, merge_gap: int) -> list[Passage]:
    """The best passages, best first."""
    wanted = ranking.plan.top_k
    taken: dict[int, list[Candidate]] = defaultdict(list)
    chosen: list[Candidate] = []
    cap = per_document or len(ranking.candidates)
    # Merging can only shorten the list, so a few more are taken than were asked for.
    for each in ranking.candidates:
        siblings = taken[each.place.document]
        if len(siblings) < cap:
            siblings.append(each)
            chosen.append(each)
        if len(chosen) >= 2 * wanted:
            break
    merged = [
        passage for group in taken.values() if group for passage in _merged(group, merge_gap)
    ]
    merged.sort(key=lambda p: (-p.best.score, p.best.place.uri, p.start))
    return merged[:wanted]


def _merged(group: Sequence[Candidate], gap: int) -> list[Passage]:
    """Join chunks of one document whose spans touch or nearly touch."""
    found: list[Passage] = []
    for each in sorted(group, key=lambda c: (c.place.start, c.place.end)):
        place = each.place
        last = found[-1] if found else None
        if last is not None and place.start <= last.end + gap:
            better = each if each.score > last.best.score else last.best
            found[-1] = Passage(
                better,
                last.start,
                max(last.end, place.end),
                last.start_line,
                max(last.end_line, place.end_line),
                last.chunks + 1,
            )
        else:
            found.append(
                Passage(each, place.start, place.end, place.start_line, place.end_line)
            )
    return found
