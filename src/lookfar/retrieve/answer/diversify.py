"""Merge neighbouring chunks into passages, and keep one document or many commits from crowding out
the others.

Chunks next to each other that answer about equally well become one passage. What a passage spans
does not depend on ``top_k``, and it is never so long that its best part would be cut off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter
from typing import Literal, NamedTuple

from lookfar.model import Contribution, Likeness, SymbolKind
from lookfar.ports import Place
from lookfar.retrieve.ranking import Ranking

_POOL = 200
_POOL_PER_DOCUMENT = 8
_AS_GOOD = 0.75
_TEN = 10
_MOST_COMMITS = 3


class Passage(NamedTuple):
    """One or more neighbouring chunks of one document, scored as their best."""

    best: int
    """Position of the best chunk in the ranking."""
    score: float
    place: Place
    """The best chunk."""
    source: int
    start: int
    end: int
    start_line: int
    end_line: int
    chunks: int = 1
    texts: tuple[tuple[int, bytes], ...] = ()
    """The offset of each chunk from ``start``, and its hash."""
    path: tuple[str, ...] | None = None
    """Headings of the section that it was widened to, or those that its chunks share."""
    folded: tuple[tuple[Passage, Likeness], ...] = ()
    """Duplicates of it, best first, and in which way they are alike."""
    steps: tuple[Contribution, ...] = ()
    """Changes of its score after the ranking, and notes on its duplicates."""
    definition: SymbolKind | Literal["file", ""] = ""
    """The kind of the definition that it is, whole, or what a file has outside of all."""
    named_line: int = 0
    """The line that names this definition."""

    @property
    def rank_key(self) -> tuple[float, str, int, int]:
        """Sorts passages, best first; ties go by URI, start and collection."""
        return (-self.score, self.place.uri, self.start, self.source)

    def with_score(self, stage: str, score: float, note: str) -> Passage:
        """Return the passage with another score, and a note why."""
        step = Contribution(stage, round(score - self.score, 6), note)
        # As ``_replace`` does, in a fraction of the time: many passages are lowered.
        best, _, *others, steps, kind, line = self
        return tuple.__new__(Passage, (best, score, *others, (*steps, step), kind, line))


def make_passages(
    ranking: Ranking, *, per_document: int, merge_gap: int, max_chars: int
) -> list[Passage]:
    """Return the passages that may be in the answer, best first.

    With a ``merge_gap`` below 0, each passage is one chunk. A passage of several chunks is never
    longer than ``max_chars``, where its excerpt would be cut off.
    """
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    candidates, scores = ranking.candidates, ranking.scores
    documents = candidates.documents
    # The pool does not depend on ``top_k``, so that asking for one hit, for ten or for the next ten
    # cites the same spans. It is limited per document, so that one cannot fill it.
    left = max(_POOL, 2 * ranking.plan.top_k)
    crowd = max(_POOL_PER_DOCUMENT, per_document) if per_document else left
    for at in ranking.order():
        if not left:
            break
        if scores[at] <= 0:
            _, keyword, page, vector, _, second = candidates[at]
            if not (keyword or page or vector > 0 or (second or 0.0) > 0):
                continue  # It did not match at all.
        group = groups[documents[at]]
        if len(group) < crowd:
            group.append(at)
            left -= 1
    merged: list[Passage] = []
    own = ranking.own_steps()
    for group in groups.values():
        if len(group) == 1:  # The usual case.
            merged.append(_take_chunk(ranking, group[0]))
            continue
        passages = _merge_neighbours(ranking, own, group, merge_gap, max_chars)
        is_commit = ranking.candidates[group[0]].place.lane == "commits"  # It is shown once.
        merged += passages[: 1 if is_commit else per_document or None]
    return _sort_passages(merged)


def _sort_passages(passages: Sequence[Passage]) -> list[Passage]:
    """Sort passages by their ``rank_key``, which is made of those with equal scores only."""
    order = sorted(passages, key=attrgetter("score"), reverse=True)
    first = 0
    for rank in range(1, len(order) + 1):
        if rank == len(order) or order[rank].score != order[first].score:
            if rank > first + 1:
                order[first:rank] = sorted(order[first:rank], key=attrgetter("rank_key"))
            first = rank
    return order


def spread_documents(passages: Sequence[Passage], factor: float) -> list[Passage]:
    """Lower each further passage of a document by another ``factor``, and sort them again."""
    seen: dict[tuple[int, str], int] = {}
    spread: list[Passage] = []
    for passage in passages:
        document = (passage.source, passage.place.uri)
        before = seen.get(document, 0)
        if before:
            score = passage.score * factor**before
            passage = passage.with_score("crowding", score, f"passage {before + 1} of its document")
        seen[document] = before + 1
        spread.append(passage)
    return sorted(spread, key=attrgetter("score"), reverse=True)


def spread_commits(passages: Sequence[Passage]) -> list[Passage]:
    """Move commits back so that each ten passages have at most three, as long as others follow."""
    commits = [passage for passage in passages if passage.place.lane == "commits"]
    if not commits:
        return list(passages)
    others = [passage for passage in passages if passage.place.lane != "commits"]
    spread: list[Passage] = []
    while others and commits:
        shown = sum(
            passage.place.lane == "commits" for passage in spread[len(spread) // _TEN * _TEN :]
        )
        first = commits[0].score > others[0].score and shown < _MOST_COMMITS
        spread.append((commits if first else others).pop(0))
    return [*spread, *others, *commits]


def _merge_neighbours(
    ranking: Ranking,
    own: Sequence[Sequence[float]],
    group: Sequence[int],
    gap: int,
    max_chars: int,
) -> list[Passage]:
    """Join chunks of one document that nearly touch and answer equally well; best first."""
    runs: list[list[int]] = []
    best, end = -1, 0
    for at in sorted(group, key=lambda at: ranking.candidates[at].place.start):
        place = ranking.candidates[at].place
        if runs and gap >= 0 and place.start <= end + gap and _are_equally_good(own, at, best):
            runs[-1].append(at)
            best = at if ranking.scores[at] > ranking.scores[best] else best
            end = max(end, place.end)
        else:
            runs.append([at])
            best, end = at, place.end
    joined = [
        join_chunks(ranking, _trim_to_best(ranking, run, max_chars))
        if len(run) > 1
        else _take_chunk(ranking, run[0])
        for run in runs
    ]
    return sorted(joined, key=lambda passage: (-passage.score, passage.start))


def _trim_to_best(ranking: Ranking, run: Sequence[int], max_chars: int) -> Sequence[int]:
    """Cut a run that is longer than ``max_chars`` to the chunks around its best one."""
    places = [ranking.candidates[at].place for at in run]
    if max(place.end for place in places) - places[0].start <= max_chars:
        return run
    scores = [ranking.scores[at] for at in run]
    first = last = scores.index(max(scores))
    start, end = places[first].start, places[first].end
    while True:
        beside = [at for at in (first - 1, last + 1) if 0 <= at < len(run)]
        for at in sorted(beside, key=lambda at: -scores[at]):
            wider = min(start, places[at].start), max(end, places[at].end)
            if wider[1] - wider[0] <= max_chars:
                start, end = wider
                first, last = min(first, at), max(last, at)
                break
        else:
            return run[first : last + 1]


def _take_chunk(ranking: Ranking, at: int) -> Passage:
    """Return one chunk as a passage."""
    candidate = ranking.candidates[at]
    place = candidate.place
    # All fields at once, which takes a fraction of the time: there are some two hundred.
    return tuple.__new__(
        Passage,
        (
            at, ranking.scores[at], place, candidate.source, place.start, place.end,
            place.start_line, place.end_line, 1, ((0, place.sha),), None, (), (), "", 0,
        ),
    )  # fmt: skip


def join_chunks(ranking: Ranking, run: Sequence[int]) -> Passage:
    """Return consecutive chunks as one passage with the score of the best."""
    candidates = [ranking.candidates[at] for at in run]
    best = max(run, key=lambda at: ranking.scores[at])
    first = candidates[0].place
    return Passage(
        best=best,
        score=ranking.scores[best],
        place=ranking.candidates[best].place,
        source=candidates[0].source,
        start=first.start,
        end=max(candidate.place.end for candidate in candidates),
        start_line=first.start_line,
        end_line=max(candidate.place.end_line for candidate in candidates),
        chunks=len(run),
        texts=tuple(
            (candidate.place.start - first.start, candidate.place.sha) for candidate in candidates
        ),
        path=_find_common_path([candidate.place.path for candidate in candidates]),
    )


def _find_common_path(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...] | None:
    """Return the headings that several chunks have in common; None if all are the same."""
    if len(set(paths)) == 1:
        return None
    shared = 0
    while len({path[: shared + 1] for path in paths}) == 1:
        shared += 1
    return paths[0][:shared]


def _are_equally_good(own: Sequence[Sequence[float]], left: int, right: int) -> bool:
    """Return whether two chunks of one document have similar scores of their own."""
    worse, better = sorted(sum([added[at] for added in own]) for at in (left, right))
    return worse >= _AS_GOOD * better
