"""Demote tests, examples and generated code, and what packages keep for themselves or outgrew."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from lookfar.retrieve.locate.file_names import find_inner_folder, is_marginal, is_test
from lookfar.retrieve.question.intent import asks_about_tests
from lookfar.retrieve.ranking import Candidate, Ranking, Source, Stage
from lookfar.retrieve.stages.code import Reader, has_code

ASIDE: Final = 0.5
"""Factor for tests."""
MARGINAL: Final = 0.7
"""Factor for examples, declarations, generated code, and what packages keep or leave behind."""
_WORD: Final = re.compile(r"\w+")

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


def demote_aside(sources: Sequence[Source], read: Reader) -> Stage:
    """Demote tests behind the code they test, and marginal or outdated code behind the rest."""
    deprecated = demote_deprecated(sources, read)

    def demote(ranking: Ranking) -> Ranking:
        if not has_code(ranking):
            return ranking
        ranking = demote_tests(ranking)
        return deprecated(demote_inner_code(ranking)) if ranking.packages else ranking

    return demote


def demote_tests(ranking: Ranking) -> Ranking:
    """Demote tests behind the code they test, and marginal files behind the rest."""
    wanted = asks_about_tests(ranking.plan)
    weights: dict[str, float] = {}

    def weight(uri: str) -> float:
        if uri not in weights:
            tests = not wanted and is_test(uri)
            margin = is_marginal(uri)
            weights[uri] = (ASIDE if tests else 1.0) * (MARGINAL if margin else 1.0)
        return weights[uri]

    added = [
        (weight(candidate.place.uri) - 1) * score if candidate.place.lane == "code" else 0.0
        for candidate, score in zip(ranking.candidates, ranking.scores, strict=True)
    ]
    return ranking.add_step(
        "aside", added, lambda c: f"factor {weight(c.place.uri):g}", whole_document=True
    )


def demote_inner_code(ranking: Ranking) -> Ranking:
    """Demote what a package keeps for itself, and its earlier API, behind its public API.

    A folder that the question names is not demoted.
    """
    words = frozenset(_WORD.findall(ranking.plan.text.lower()))
    inner: dict[tuple[int, int], bool] = {}
    for candidate in ranking.candidates:
        major = ranking.packages.get(candidate.source)
        if major is not None and candidate.place.lane == "code":
            folder = find_inner_folder(candidate.place.uri, major)
            inner[candidate.document] = bool(folder) and folder.strip("_") not in words
    added = [
        (MARGINAL - 1) * score if inner.get(candidate.document) else 0.0
        for candidate, score in zip(ranking.candidates, ranking.scores, strict=True)
    ]
    return ranking.add_step("inner", added, lambda _: f"factor {MARGINAL:g}", whole_document=True)


def demote_deprecated(sources: Sequence[Source], read: Reader) -> Stage:
    """Demote chunks of packages in which every definition is deprecated."""

    def demote(ranking: Ranking) -> Ranking:
        if _ABOUT.search(ranking.plan.text):
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
