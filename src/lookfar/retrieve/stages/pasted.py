"""Rank the candidates of a long question, such as a pasted issue or log.

The scores for the whole text and for its title are added. In a collection with code, a pasted issue
is about the code to change: files that it names rank higher, and tests and prose a little lower.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lookfar.retrieve.locate.file_names import is_test
from lookfar.retrieve.ranking import Candidate, Candidates, Ranking

_OF_DOCUMENT: Final = 0.8
"""Share of a score that comes from the document's best passages; the rest is the chunk's own."""
_NAMED: Final = 0.3
"""Added to a file that the question names; less for each if it names several."""
_ORIGIN: Final = 0.1
"""Added to the file in which the error of a stack trace was raised."""
_SAME_NAME: Final = 2
"""A bare file name that more files than this have is ignored."""
_TESTS: Final = 0.8
_PROSE: Final = 0.7


def fuse_with_title(whole: Ranking, title: Ranking) -> Ranking:
    """Add the scores of a long question and of its title, each as a share of its best score.

    Most of a score comes from the best passages of the whole document, so that a document may match
    the text and the title in different places. The rest is the chunk's own score.
    """
    candidates: dict[tuple[int, int], Candidate] = {}
    for ranking in (whole, title):
        for candidate in ranking.candidates:
            candidates.setdefault(candidate.chunk, candidate)
    fused = replace(
        whole,
        candidates=Candidates(candidates.values()),
        scores=(0.0,) * len(candidates),
        steps=(),
        named={**title.named, **whole.named},
        relevance=None,
    )
    for stage, ranking in (("whole text", whole), ("title", title)):
        best = max(ranking.scores, default=0.0) or 1.0
        own: dict[tuple[int, int], float] = {}
        together: dict[tuple[int, int], float] = defaultdict(float)
        for candidate, score in zip(ranking.candidates, ranking.scores, strict=True):
            own[candidate.chunk] = score / best
            together[candidate.document] = max(together[candidate.document], score / best)
        by_document = [_OF_DOCUMENT / 2 * together[c.document] for c in fused.candidates]
        by_chunk = [(1 - _OF_DOCUMENT) / 2 * own.get(key, 0.0) for key in candidates]
        fused = fused.add_step(
            f"{stage}, document", by_document, lambda _: "its best passage", whole_document=True
        )
        fused = fused.add_step(stage, by_chunk, lambda _: "the passage itself")
    return fused


def boost_named_files(ranking: Ranking) -> Ranking:
    """Raise files whose path occurs in the question, and the origin of an error most."""
    uris = list(dict.fromkeys(candidate.place.uri for candidate in ranking.candidates))
    named: dict[str, float] = {}
    for path in ranking.plan.paths:
        for uri in match_path(path, uris):
            named[uri] = max(named.get(uri, 0.0), _ORIGIN if path == ranking.plan.origin else 0.0)
    if not named:
        return ranking
    share = _NAMED / math.sqrt(len(named))
    added = [
        share + named[candidate.place.uri] if candidate.place.uri in named else 0.0
        for candidate in ranking.candidates
    ]
    return ranking.add_step("named", added, lambda _: "the question names it", whole_document=True)


def match_path(path: str, uris: Sequence[str]) -> list[str]:
    """Return the URIs that share the longest suffix with a path from another machine."""
    parts = path.split("/")
    for first in range(len(parts)):
        end = "/" + "/".join(parts[first:])
        matches = [uri for uri in uris if f"/{uri}".endswith(end)]
        if matches:
            bare = first == len(parts) - 1
            return [] if bare and len(matches) > _SAME_NAME else matches
    return []


def put_code_first(ranking: Ranking) -> Ranking:
    """Lower tests and prose behind the code."""

    def weigh(candidate: Candidate) -> float:
        if candidate.place.lane != "code":
            return _PROSE
        return _TESTS if is_test(candidate.place.uri) else 1.0

    added = [
        (weigh(candidate) - 1) * score
        for candidate, score in zip(ranking.candidates, ranking.scores, strict=True)
    ]
    return ranking.add_step(
        "code first", added, lambda c: f"factor {weigh(c):g}", whole_document=True
    )
