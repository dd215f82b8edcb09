"""Demote the deprecated definitions of packages behind those that replace them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from lookfar.retrieve.ranking import Candidate, Ranking, Source, Stage
from lookfar.retrieve.stages.code import MARGINAL, Reader

_DEPTH: Final = 20
"""Candidates that are looked at: their texts have to be read."""
_ABOUT: Final = re.compile(r"(?i)\bdeprecat")
_DEPRECATED: Final = re.compile(
    r"(?im)^\W*@(?:\w+\.)*deprecated\b|#\[deprecated|^\s*deprecated\(|\.\. deprecated::"
    r"|^\W*deprecated[:.]\s|\b(?:function|method|class|type|property|attribute|api)"
    r" (?:has been|is) deprecated"
)
"""Marks of a definition in the conventions of Python, JavaScript, Rust, Java and Go."""
_PARAMETERS: Final = re.compile(r"(?m):param\b|^\s*(?:Parameters|Args|Arguments)\b|^\s*\* @param\b")
"""What is deprecated after this is a parameter."""


def demote_deprecated(sources: Sequence[Source], read: Reader) -> Stage:
    """Demote chunks of packages in which every definition is deprecated."""

    def demote(ranking: Ranking) -> Ranking:
        if not ranking.packages or _ABOUT.search(ranking.plan.text):
            return ranking
        candidates = ranking.candidates
        places = [at for at in ranking.order()[:_DEPTH] if _is_package_code(ranking, at)]
        defined = read([candidates[at] for at in places])
        added = [0.0] * len(candidates)
        for at in places:
            starts = [definition.start for definition in defined.get(candidates[at], ())]
            if starts and _is_deprecated(sources, candidates[at], starts):
                added[at] = (MARGINAL - 1) * ranking.scores[at]
        return ranking.add_step("deprecated", added, lambda _: f"factor {MARGINAL:g}")

    return demote


def _is_package_code(ranking: Ranking, at: int) -> bool:
    candidate = ranking.candidates[at]
    return candidate.source in ranking.packages and candidate.place.lane == "code"


def _is_deprecated(sources: Sequence[Source], candidate: Candidate, starts: Sequence[int]) -> bool:
    place = candidate.place
    text = sources[candidate.source].snapshot.text(place.uri) or ""
    parts = pairwise([*sorted(starts), place.end])
    return all(
        _DEPRECATED.search(_PARAMETERS.split(text[start:end], maxsplit=1)[0])
        for start, end in parts
    )
