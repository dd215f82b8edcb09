"""The walk of a query: gather, fuse, boost, diversify, cite. Read it top to bottom.

Takes: the collections asked, each with its plan and snapshot, and settings. Gives: hits
and what may be missing from them. Refuses: to know where snapshots and texts come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from lookfar.retrieve import code
from lookfar.retrieve.boost import asked_by_path, lanes_weighed, name_match
from lookfar.retrieve.candidates import gather, rarity, share_statistics
from lookfar.retrieve.diversify import passages
from lookfar.retrieve.excerpt import Source, cite
from lookfar.retrieve.fuse import weighted_sum
from lookfar.retrieve.recency import lift_recent

__all__ = ["Source", "candidates_of", "rank", "search", "stages"]

if TYPE_CHECKING:
    from lookfar.config import SearchSettings
    from lookfar.model import Hit, Incomplete
    from lookfar.retrieve.ranking import Candidate, Ranking, Stage


def stages(settings: SearchSettings, sources: Sequence[Source]) -> list[Stage]:
    """What happens to scores, in order."""
    return [
        weighted_sum(
            settings.vector_weight,
            settings.keyword_weight,
            settings.page_share,
            settings.code_vector_weight,
        ),
        name_match(settings.name_boost),
        code.by_file,
        code.by_definition(partial(_defined, sources)),
        code.set_aside,
        asked_by_path,
        lanes_weighed(settings.commits_weight),
        code.not_crowding,
    ]


def _defined(
    sources: Sequence[Source], candidates: Sequence[Candidate]
) -> dict[Candidate, list[str]]:
    """The names that begin in each candidate."""
    found: dict[Candidate, list[str]] = {}
    for number, source in enumerate(sources):
        here = [each for each in candidates if each.source == number]
        names = source.snapshot.definitions(sorted({each.place.document for each in here}))
        for each in here:
            place = each.place
            within = (name for start, name in names.get(place.document, ())
                      if place.start <= start < place.end)  # fmt: skip
            found[each] = list(within)
    return found


def candidates_of(sources: Sequence[Source], settings: SearchSettings) -> Ranking:
    """All candidates of all sources in one ranking that has not scored them yet."""
    asked = [(each.plan, each.snapshot) for each in sources]
    if len(asked) > 1:
        share_statistics(asked, [at for at, each in enumerate(sources) if not each.aside])
    found = [
        gather(plan, snapshot, max(settings.candidates, plan.top_k), at)
        for at, (plan, snapshot) in enumerate(asked)
    ]
    # One that has a model speaks for all: without, meaning would count for none of them.
    lead = next((each for each in found if each.plan.vector is not None), found[0])
    candidates = tuple(chain.from_iterable(each.candidates for each in found))
    none = (0.0,) * len(candidates)
    return replace(lead, candidates=candidates, scores=none, rarity=rarity(asked))


def rank(sources: Sequence[Source], settings: SearchSettings) -> Ranking:
    """All candidates of all sources, scored together."""
    ranking = candidates_of(sources, settings)
    for stage in stages(settings, sources):
        ranking = stage(ranking)
    if any(each.recent is not None for each in sources):
        ranking = lift_recent(ranking, sources)
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
