"""No document crowds out the others, and neighbours answer as one.

Takes: a scored ranking. Gives: at most so many passages per document, where
chunks that stand beside each other and answer about equally well are one passage; more
than were asked for, since later stages fold some. Refuses: to let the number of hits asked
for change what a hit spans.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lookfar.model import Contribution, Likeness
from lookfar.ports import Place
from lookfar.retrieve.ranking import Ranking

_POOL = 200
_POOL_PER_DOCUMENT = 8
_ENOUGH = 60
"""Passages of an answer before copies are folded and the like."""
_AS_GOOD = 0.75


@dataclass(frozen=True, slots=True)
class Passage:
    """One or more neighbouring chunks of one document, scored as their best."""

    best: int
    """Position of the best chunk in the ranking."""
    score: float
    place: Place
    """Of the best chunk."""
    source: int
    start: int
    end: int
    start_line: int
    end_line: int
    chunks: int = 1
    texts: tuple[tuple[int, bytes], ...] = ()
    """Of each chunk how far behind ``start`` it begins, and its hash."""
    path: tuple[str, ...] | None = None
    """Of the section that it was widened to."""
    folded: tuple[tuple[Passage, Likeness], ...] = ()
    """What it stands for besides, best first, and how that is like it."""
    steps: tuple[Contribution, ...] = ()
    """What changed its score after the ranking, or says what it stands for."""

    def scored(self, stage: str, score: float, note: str) -> Passage:
        """The same with another score, and why."""
        step = Contribution(stage, round(score - self.score, 6), note)
        return replace(self, score=score, steps=(*self.steps, step))


def passages(ranking: Ranking, *, per_document: int, merge_gap: int) -> list[Passage]:
    """What may be in the answer, best first; with a gap below 0 each is one chunk."""
    wanted = ranking.plan.top_k
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    # A pool whose size does not follow ``top_k``, so that asking for one hit, for ten or for the
    # next ten cites the same spans; few per document, so that one cannot fill it.
    left = max(_POOL, 2 * wanted)
    crowd = max(_POOL_PER_DOCUMENT, per_document) if per_document else left
    for at in ranking.order():
        if not left:
            break
        candidate = ranking.candidates[at]
        lanes = candidate.keyword or candidate.page or candidate.vector > 0
        if not (lanes or ranking.scores[at] > 0):
            continue  # Nothing speaks for it.
        group = groups[candidate.document]
        if len(group) < crowd:
            group.append(at)
            left -= 1
    merged: list[Passage] = []
    enough = max(_ENOUGH, 2 * wanted)
    for group in groups.values():
        best = ranking.scores[group[0]]
        if len(merged) >= enough:
            # Documents come in the order of their best: none from here on could stand before.
            before = [each for each in merged if each.score > best]
            if len(before) >= enough:
                merged = before
                break
        merged += _merged(ranking, group, merge_gap)[: _most(ranking, group, per_document)]
    merged.sort(key=lambda each: (-each.score, each.place.uri, each.start, each.source))
    return merged


def _most(ranking: Ranking, group: Sequence[int], per_document: int) -> int | None:
    """How many passages of one document; a commit is one change, so it is shown once."""
    if group and ranking.candidates[group[0]].place.lane == "commits":
        return 1
    return per_document or None


def _merged(ranking: Ranking, group: Sequence[int], gap: int) -> list[Passage]:
    """Join chunks of one document whose spans nearly touch, if they answer alike; best first."""
    found: list[Passage] = []
    for at in sorted(group, key=lambda at: ranking.candidates[at].place.start):
        place, score = ranking.candidates[at].place, ranking.scores[at]
        last = found[-1] if found else None
        beside = last is not None and gap >= 0 and place.start <= last.end + gap
        if last is None or not beside or not _alike(ranking, at, last.best):
            found.append(
                Passage(
                    best=at,
                    score=score,
                    place=place,
                    source=ranking.candidates[at].source,
                    start=place.start,
                    end=place.end,
                    start_line=place.start_line,
                    end_line=place.end_line,
                    texts=((0, place.sha),),
                )
            )
            continue
        joined = replace(
            last,
            end=max(last.end, place.end),
            end_line=max(last.end_line, place.end_line),
            chunks=last.chunks + 1,
            texts=(*last.texts, (place.start - last.start, place.sha)),
        )
        better = score > last.score
        found[-1] = replace(joined, best=at, score=score, place=place) if better else joined
    return sorted(found, key=lambda passage: (-passage.score, passage.start))


def _alike(ranking: Ranking, left: int, right: int) -> bool:
    """Whether two chunks of one document answer about equally well by themselves."""
    worse, better = sorted((ranking.own(left), ranking.own(right)))
    return worse >= _AS_GOOD * better
