"""The walk of a query: gather, fuse, boost, diversify, cite. Read it top to bottom.

Takes: the collections asked, each with its plan and snapshot, and settings. Gives: hits
and what may be missing from them. Refuses: to know where snapshots and texts come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from lookfar.retrieve.boost import asked_by_path, name_match
from lookfar.retrieve.candidates import gather, share_statistics
from lookfar.retrieve.diversify import passages
from lookfar.retrieve.excerpt import Source, cite
from lookfar.retrieve.fuse import weighted_sum

__all__ = ["Source", "candidates_of", "rank", "search", "stages"]

if TYPE_CHECKING:
    from lookfar.config import SearchSettings
    from lookfar.model import Hit, Incomplete
    from lookfar.retrieve.ranking import Ranking, Stage


def stages(settings: SearchSettings) -> list[Stage]:
    """What happens to scores, in order."""
    return [
        weighted_sum(settings.vector_weight, settings.keyword_weight, settings.page_share),
        name_match(settings.name_boost),
        asked_by_path,
    ]


def candidates_of(sources: Sequence[Source], settings: SearchSettings) -> Ranking:
    """All candidates of all sources in one ranking that has not scored them yet."""
    asked = [(each.plan, each.snapshot) for each in sources]
    if len(asked) > 1:
        share_statistics(asked)
    found = [
        gather(plan, snapshot, max(settings.candidates, plan.top_k), at)
        for at, (plan, snapshot) in enumerate(asked)
    ]
    # One that has a model speaks for all: without, meaning would count for none of them.
    lead = next((each for each in found if each.plan.vector is not None), found[0])
    candidates = tuple(chain.from_iterable(each.candidates for each in found))
    return replace(lead, candidates=candidates, scores=(0.0,) * len(candidates))


def rank(sources: Sequence[Source], settings: SearchSettings) -> Ranking:
    """All candidates of all sources, scored together."""
    ranking = candidates_of(sources, settings)
    for stage in stages(settings):
        ranking = stage(ranking)
    return ranking


def search(
    sources: Sequence[Source], settings: SearchSettings, explain: bool
) -> tuple[list[Hit], list[Incomplete]]:
    """The cited answer to a question, from all sources together."""
    ranking = rank(sources, settings)
    best = passages(
        ranking,
        per_document=settings.per_document,
        merge_gap=settings.merge_gap,
    )
    return cite(
        best,
        sources,
        max_chars=settings.max_excerpt_chars,
        explain=ranking.explain if explain else None,
    )
