"""The walk of a query: gather, fuse, boost, diversify, cite. Read it top to bottom.

Takes: the collections asked, each with its plan and snapshot, and settings. Gives: hits
and what may be missing from them. Refuses: to know where snapshots and texts come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from lookfar.retrieve.answer.choose import choose
from lookfar.retrieve.answer.excerpt import cite
from lookfar.retrieve.answer.focus import Asked
from lookfar.retrieve.answer.relevance import doubts
from lookfar.retrieve.question.expand import grounded
from lookfar.retrieve.retrievers import programs
from lookfar.retrieve.retrievers.candidates import gather, rarity, share_statistics
from lookfar.retrieve.retrievers.verbatim import word_for_word
from lookfar.retrieve.stages import code, factors
from lookfar.retrieve.stages.boost import asked_by_path, lanes_weighed, name_match
from lookfar.retrieve.stages.definitions_first import first_by_name
from lookfar.retrieve.stages.fuse import Weigh, by_variance, reciprocal_rank, steady, weighted_sum
from lookfar.retrieve.stages.links import joined_by_links, led_to, of_one_community
from lookfar.retrieve.stages.recency import by_age
from lookfar.retrieve.stages.wording import adjacency, widened

if TYPE_CHECKING:
    from lookfar.config import SearchSettings
    from lookfar.model import Hit, Incomplete, Relation
    from lookfar.ports import Definition, Snapshot
    from lookfar.retrieve.ranking import Candidate, Plan, Ranking, Source, Stage


def stages(settings: SearchSettings, sources: Sequence[Source]) -> list[Stage]:
    """What happens to scores, in order."""
    return [
        _fusion(settings),
        name_match(settings.name_boost),
        adjacency(settings.phrase_boost, sources),
        widened(settings.expansion_weight, sources),
        *_company(settings, sources),
        *_code(settings, partial(_defined, sources)),
        code.set_aside,
        asked_by_path,
        lanes_weighed(settings.commits_weight),
        code.not_crowding,
        *([word_for_word(sources)] if settings.verbatim else []),
    ]


def _fusion(settings: SearchSettings) -> Stage:
    """How the lanes' scores become one."""
    if (alpha := settings.alpha) >= 0:
        settings = replace(
            settings, vector_weight=alpha, keyword_weight=1 - alpha, code_vector_weight=alpha
        )
    weigh: Weigh = steady
    if settings.dynamic_weights:
        weigh = by_variance(settings.variance_threshold, settings.min_weight_factor)
    if settings.fusion == "rrf":
        return reciprocal_rank(
            settings.vector_weight, settings.keyword_weight, settings.rrf_k, weigh
        )
    return weighted_sum(
        settings.vector_weight,
        settings.keyword_weight,
        settings.page_share,
        settings.code_vector_weight,
        weigh,
    )


def _company(settings: SearchSettings, sources: Sequence[Source]) -> list[Stage]:
    """What lifts documents for the company that they keep."""
    seeds = settings.neighbours
    weights: Mapping[Relation, float] = {
        "links_to": 1.0,
        "implements": settings.edge_implements,
        "tests": settings.edge_tests,
        "related": settings.edge_related,
        "transclusion": settings.edge_transclusion,
    }
    found = []
    if seeds and (settings.link_lift or settings.below_lift):
        found.append(led_to(seeds, settings.link_lift, settings.below_lift, weights, sources))
    if seeds and settings.join_neighbours:
        found.append(joined_by_links(seeds, settings.neighbour_score, weights, sources))
    if settings.communities and settings.community_factor > 1:
        found.append(of_one_community(settings.community_seeds, settings.community_factor, sources))
    return found


def _code(settings: SearchSettings, read: code.Reader) -> list[Stage]:
    """What judges code by its names, its kind and its size."""
    ladder = settings.code_names == "ladder"
    judges: list[code.Judge] = [factors.by_name_ladder if ladder else code.by_definition]
    if settings.code_kind > 1 or settings.code_topic > 1:
        judges.append(factors.by_kind(settings.code_kind, settings.code_topic))
    if settings.code_docstring > 1:
        judges.append(factors.by_docstring(settings.code_docstring))
    stages = [
        factors.by_path_share if ladder else code.by_file,
        code.by_definitions(read, judges),
    ]
    if settings.code_sizes:
        stages.append(factors.by_size)
    return stages


def _defined(
    sources: Sequence[Source], candidates: Sequence[Candidate]
) -> dict[Candidate, list[Definition]]:
    """What begins in each candidate."""
    found: dict[Candidate, list[Definition]] = {}
    for number, source in enumerate(sources):
        here = [each for each in candidates if each.source == number]
        all_of = source.snapshot.definitions(sorted({each.place.document for each in here}))
        for each in here:
            place = each.place
            within = (one for one in all_of.get(place.document, ())
                      if place.start <= one.start < place.end)  # fmt: skip
            found[each] = list(within)
    return found


def candidates_of(sources: Sequence[Source], settings: SearchSettings, also: str = "") -> Ranking:
    """All candidates of all sources in one ranking that has not scored them yet; with ``also``
    the document of that URI is one of them, whether or not it came that far.
    """
    plans, notes = grounded([(each.plan, each.snapshot) for each in sources], settings)
    asked = [(plan, each.snapshot) for plan, each in zip(plans, sources, strict=True)]
    if len(asked) > 1:
        share_statistics(asked, [at for at, each in enumerate(sources) if not each.aside])
    found = [gather(plan, snapshot, settings, at) for at, (plan, snapshot) in enumerate(asked)]
    candidates = tuple(chain.from_iterable(each.candidates for each in found))
    if also:
        put_forward = (_only(also, gathered.plan, asked[at][1], settings, at)
                       for at, gathered in enumerate(found))  # fmt: skip
        candidates = tuple(dict.fromkeys(chain(candidates, *put_forward)))
    # One that has a model speaks for all: without, meaning would count for none of them.
    lead = next((each for each in found if each.plan.vector is not None), found[0])
    none = (0.0,) * len(candidates)
    ranking = replace(
        lead,
        candidates=candidates,
        scores=none,
        rarity=rarity(asked),
        entries=sum(snapshot.statistics(()).entries for _, snapshot in asked),
        notes=tuple(notes),
        named={key: name for each in found for key, name in each.named.items()},
    )
    if any(each.plan.filters.languages for each in sources):
        return programs.apart(ranking, sources, settings.per_document)
    return ranking


def _only(
    uri: str, plan: Plan, snapshot: Snapshot, settings: SearchSettings, source: int
) -> tuple[Candidate, ...]:
    """What one document would put forward."""
    alone = replace(plan, filters=replace(plan.filters, uris=(uri,)))
    return gather(alone, snapshot, settings, source).candidates


def rank(sources: Sequence[Source], settings: SearchSettings, also: str = "") -> Ranking:
    """All candidates of all sources, scored together."""
    ranking = candidates_of(sources, settings, also)
    for stage in stages(settings, sources):
        ranking = stage(ranking)
    tiers = (
        [
            (settings.recency_days, settings.recency_factor),
            (settings.recency_late_days, settings.recency_late_factor),
        ]
        if settings.recency
        else []
    )
    if tiers or any(each.recent is not None for each in sources):
        ranking = by_age(tiers, sources)(ranking)
    return first_by_name(ranking)


def search(
    sources: Sequence[Source], settings: SearchSettings, explain: bool
) -> tuple[list[Hit], list[Incomplete]]:
    """The cited answer to a question, from all sources together."""
    ranking = rank(sources, settings)
    best, notes = choose(ranking, sources, settings)
    hits, stale = cite(
        best,
        sources,
        max_chars=settings.max_excerpt_chars,
        explain=ranking.story if explain else None,
        focus=Asked.by(ranking) if ranking.plan.focus else None,
    )
    doubted = doubts(ranking) if settings.doubt and hits else []
    return hits, [*ranking.notes, *notes, *doubted, *stale]
