"""Who is considered: the best by words and the best by meaning, in one list.

Takes: a plan and a snapshot. Gives: a ranking of candidates with both scores.
Refuses: to filter late; filters narrow the search itself, so that a filtered
answer is never emptier than it has to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lookfar.retrieve.ranking import Candidate, Plan, Ranking
from lookfar.sources.globs import glob_matcher

if TYPE_CHECKING:
    from lookfar.model import Filters
    from lookfar.ports import Place, Snapshot

FIELD_WEIGHTS: Mapping[str, float] = {
    "title": 1.0,
    "headings": 1.0,
    "tags": 0.5,
    "body": 1.0,
    "code": 0.5,
}
"""How much a match in each field counts; chosen with bench/quality.py."""


def gather(plan: Plan, snapshot: Snapshot, limit: int) -> Ranking:
    """The union of both lanes; each candidate has both scores, whichever lane found it."""
    filters = _without_glob(plan.filters, snapshot)
    keyword: dict[int, float] = {}
    vector: dict[int, float] = {}
    places: dict[int, Place] = {}
    if plan.mode != "vector":
        found = snapshot.keyword_search(plan.terms, FIELD_WEIGHTS, limit, filters)
        keyword = {place.key: score for place, score in found}
        places.update((place.key, place) for place, _ in found)
    if plan.vector is not None:
        found = snapshot.vector_search(plan.vector, limit, filters)
        vector = {place.key: score for place, score in found}
        unscored = [place for key, place in places.items() if key not in vector]
        missing = snapshot.vector_scores(plan.vector, unscored)
        vector.update(zip((place.key for place in unscored), missing, strict=True))
        places.update((place.key, place) for place, _ in found)
    return Ranking(
        plan,
        tuple(
            Candidate(place, keyword.get(key, 0.0), vector.get(key, 0.0))
            for key, place in places.items()
        ),
    )


def _without_glob(filters: Filters, snapshot: Snapshot) -> Filters:
    """Spell a glob out as the URIs it matches: stores know names, not patterns."""
    if not filters.glob:
        return filters
    matches = glob_matcher(filters.glob)
    wanted = frozenset(filters.uris)
    uris = tuple(
        uri
        for uri in snapshot.uris(filters.prefix)
        if matches(uri) and (not wanted or uri in wanted)
    )
    # A name no document has keeps an empty match from meaning "everything".
    return replace(filters, glob="", uris=uris or ("\0",))
