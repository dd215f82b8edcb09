"""The walk of a query: gather, fuse, boost, diversify, cite. Read it top to bottom.

Takes: a plan, a snapshot and settings. Gives: hits and what may be missing from
them. Refuses: to know where snapshots and sources come from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lookfar.retrieve.boost import asked_by_path, name_match
from lookfar.retrieve.candidates import gather
from lookfar.retrieve.diversify import passages
from lookfar.retrieve.excerpt import ReadSource, cite
from lookfar.retrieve.fuse import weighted_sum

if TYPE_CHECKING:
    from lookfar.config import SearchSettings
    from lookfar.model import Hit, Incomplete
    from lookfar.ports import Snapshot
    from lookfar.retrieve.ranking import Plan, Ranking, Stage


def stages(settings: SearchSettings) -> list[Stage]:
    """What happens to scores, in order."""
    return [
        weighted_sum(settings.vector_weight, settings.keyword_weight, settings.page_share),
        name_match(settings.name_boost),
        asked_by_path,
    ]


def rank(plan: Plan, snapshot: Snapshot, settings: SearchSettings) -> Ranking:
    """All candidates, scored."""
    ranking = gather(plan, snapshot, max(settings.candidates, plan.top_k))
    for stage in stages(settings):
        ranking = stage(ranking)
    return ranking


def search(
    plan: Plan,
    snapshot: Snapshot,
    settings: SearchSettings,
    read_source: ReadSource,
    *,
    collection: str,
    explain: bool,
) -> tuple[list[Hit], list[Incomplete]]:
    """The cited answer to a plan."""
    ranking = rank(plan, snapshot, settings)
    best = passages(
        ranking,
        per_document=settings.per_document,
        merge_gap=settings.merge_gap,
    )
    return cite(
        best,
        snapshot,
        read_source,
        collection=collection,
        max_chars=settings.max_excerpt_chars,
        explain=ranking.explain if explain else None,
    )
