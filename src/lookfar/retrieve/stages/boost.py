"""Boost candidates for their title, headings, path or definition."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import Final

from lookfar.ports import Place
from lookfar.retrieve.locate.file_names import extract_path, matches_path_end
from lookfar.retrieve.ranking import Ranking, Stage, within_reach
from lookfar.store.keywords.analyser import terms_of

_FEW_FILES = 5


def boost_names(weight: float) -> Stage:
    """Boost by the share of the question's words in the title, the headings and the path."""

    def boost(ranking: Ranking) -> Ranking:
        wanted = frozenset(ranking.plan.terms)
        if not wanted or not weight:
            return ranking

        padded = [f" {term} " for term in wanted]

        def share(place: Place) -> float:
            names = _name_terms(place.uri, place.title, place.path)
            return len([term for term in padded if term in names]) / len(padded)

        added = [0.0] * len(ranking.candidates)
        for at in within_reach(ranking, weight):
            place = ranking.candidates[at].place
            if place.lane != "code":  # Code is ranked by its names elsewhere.
                added[at] = weight * share(place)
        return ranking.add_step(
            "names", added, lambda c: f"{share(c.place):.0%} of the question's words"
        )

    return boost


def boost_path(ranking: Ranking) -> Ranking:
    """Put a file first if the question is the end of its path, with or without extension."""
    path = extract_path(ranking.plan.text)
    if not path:
        return ranking
    asked = {
        candidate.place.uri
        for candidate in ranking.candidates
        if matches_path_end(candidate.place.uri, path)
    }
    if len(asked) > _FEW_FILES:
        return ranking
    added = [1.0 if candidate.place.uri in asked else 0.0 for candidate in ranking.candidates]
    return ranking.add_step(
        "path", added, lambda _: "the question is its path", whole_document=True
    )


@lru_cache(maxsize=16_384)
def _name_terms(uri: str, title: str, path: tuple[str, ...]) -> str:
    """Return the terms of a path, title and headings, each between spaces.

    Cached, since the same chunks recur; one takes about 400 bytes.
    """
    terms = chain.from_iterable(map(terms_of, (uri, title, *path)))
    return f" {' '.join(dict.fromkeys(terms))} "


_STEP: Final = 0.01
"""Distance in score between a definition and what follows it."""


def put_definitions_first(ranking: Ranking) -> Ranking:
    """Raise the best match of each name in the question just above all other candidates.

    A class comes before a function of that name, both before a constructor or a declaration, and
    all of them before code that merely uses the name. Of equal ones, that in a file of its name
    comes first. A member whose type the question names as well comes before everything else.
    """
    if not ranking.named:
        return ranking
    named = {
        at: ranking.named[chunk]
        for at, chunk in enumerate(ranking.candidates.chunks)
        if chunk in ranking.named
    }
    if not named:
        return ranking
    best: dict[int, int] = {}
    order = sorted(
        named, key=lambda at: (named[at].tier, not named[at].namesake, -ranking.scores[at])
    )
    for at in order:
        best.setdefault(named[at].name, at)
    first = sorted(best.values(), key=lambda at: (not named[at].is_member, -ranking.scores[at]))
    lifted = frozenset(first)
    others = (score for at, score in enumerate(ranking.scores) if at not in lifted)
    least = max(others, default=0.0)
    added = [0.0] * len(ranking.candidates)
    for at in reversed(first):
        least = max(ranking.scores[at], least + _STEP)
        added[at] = least - ranking.scores[at]
    notes = {ranking.candidates[at]: place.why for at, place in named.items()}
    return ranking.add_step("name", added, lambda candidate: notes[candidate])
