"""Answer a question: gather candidates, rank them in stages, choose passages and cite them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from lookfar.config import SearchSettings
from lookfar.model import Confidence, Incomplete, Relation
from lookfar.ports import Definition, Snapshot
from lookfar.retrieve.answer.choose import choose_passages
from lookfar.retrieve.answer.diversify import Passage
from lookfar.retrieve.answer.excerpt import cite
from lookfar.retrieve.answer.focus import FocusQuery
from lookfar.retrieve.answer.relevance import (
    SHOWN,
    judge_confidence,
    lacks_words,
    measure_relevance,
    note_low_relevance,
)
from lookfar.retrieve.locate.file_names import find_major_version
from lookfar.retrieve.question.expand import ground_plans
from lookfar.retrieve.ranking import Candidate, Candidates, Plan, Ranking, Results, Source, Stage
from lookfar.retrieve.retrievers import programs
from lookfar.retrieve.retrievers.candidates import (
    gather_candidates,
    measure_rarity,
    share_statistics,
)
from lookfar.retrieve.retrievers.verbatim import boost_verbatim
from lookfar.retrieve.stages import code, factors, fuse, pasted
from lookfar.retrieve.stages.boost import boost_names, boost_path, put_definitions_first
from lookfar.retrieve.stages.deprecated import demote_deprecated
from lookfar.retrieve.stages.links import add_linked, boost_community, boost_linked
from lookfar.retrieve.stages.recency import boost_recent
from lookfar.retrieve.stages.release_notes import add_release_notes
from lookfar.retrieve.stages.weigh_commits import (
    boost_titles,
    credit_merged_commits,
    weigh_commits,
    weigh_merges,
)
from lookfar.retrieve.stages.wording import boost_synonyms, boost_word_pairs


def make_stages(settings: SearchSettings, sources: Sequence[Source]) -> list[Stage]:
    return [
        _make_fusion(settings),
        boost_names(settings.name_boost),
        boost_word_pairs(settings.phrase_boost, sources),
        boost_synonyms(settings.expansion_weight, sources),
        *_make_link_stages(settings, sources),
        *_make_code_stages(settings, partial(_read_definitions, sources)),
        code.demote_tests,
        code.demote_inner_code,
        demote_deprecated(sources, partial(_read_definitions, sources)),
        boost_path,
        boost_titles,
        weigh_commits(settings.commits_weight),
        credit_merged_commits(sources),
        weigh_merges(sources),
        code.demote_repeats,
        *([boost_verbatim(sources)] if settings.verbatim else []),
    ]


def _make_fusion(settings: SearchSettings) -> Stage:
    """Return the stage that combines keyword and vector scores."""
    if (alpha := settings.alpha) >= 0:
        settings = replace(
            settings, vector_weight=alpha, keyword_weight=1 - alpha, code_vector_weight=alpha
        )
    weigh: fuse.Weigh = fuse.keep_weights
    if settings.dynamic_weights:
        weigh = fuse.weigh_by_variance(settings.variance_threshold, settings.min_weight_factor)
    second = fuse.SecondTier(settings.quality_weight, settings.quality_lift)
    if settings.fusion == "rrf":
        return fuse.fuse_by_rank(
            settings.vector_weight,
            settings.keyword_weight,
            settings.rrf_k,
            weigh,
            second,
        )
    return fuse.fuse_by_score(
        settings.vector_weight,
        settings.keyword_weight,
        settings.page_share,
        settings.code_vector_weight,
        weigh,
        second,
    )


def _make_link_stages(settings: SearchSettings, sources: Sequence[Source]) -> list[Stage]:
    seeds = settings.neighbours
    weights: Mapping[Relation, float] = {
        "links_to": 1.0,
        "implements": settings.edge_implements,
        "tests": settings.edge_tests,
        "related": settings.edge_related,
        "transclusion": settings.edge_transclusion,
    }
    stages = []
    link, below, described = settings.link_lift, settings.below_lift, settings.described_lift
    if seeds and (link or below or described):
        stages.append(boost_linked(seeds, link, below, weights, sources, described))
    if seeds and settings.join_neighbours:
        stages.append(add_linked(seeds, settings.neighbour_score, weights, sources))
    if settings.communities and settings.community_factor > 1:
        stages.append(boost_community(settings.community_seeds, settings.community_factor, sources))
    return stages


def _make_code_stages(settings: SearchSettings, read: code.Reader) -> list[Stage]:
    """Return the stages that rank code by names, kind and size."""
    ladder = settings.code_names == "ladder"
    judges: list[code.Judge] = [factors.boost_names_by_ladder if ladder else code.boost_definitions]
    if settings.code_kind > 1 or settings.code_topic > 1:
        judges.append(factors.boost_kind(settings.code_kind, settings.code_topic))
    if settings.code_docstring > 1:
        judges.append(factors.boost_documented(settings.code_docstring))
    stages = [
        factors.boost_path_words if ladder else code.boost_file_names,
        code.judge_definitions(read, judges),
    ]
    if settings.code_sizes:
        stages.append(factors.demote_large)
    return stages


def _read_definitions(
    sources: Sequence[Source], candidates: Sequence[Candidate]
) -> dict[Candidate, list[Definition]]:
    definitions: dict[Candidate, list[Definition]] = {}
    for number, source in enumerate(sources):
        here = [candidate for candidate in candidates if candidate.source == number]
        all_of = source.snapshot.definitions(
            sorted({candidate.place.document for candidate in here})
        )
        for candidate in here:
            place = candidate.place
            within = (definition for definition in all_of.get(place.document, ())
                      if place.start <= definition.start < place.end)  # fmt: skip
            definitions[candidate] = list(within)
    return definitions


def collect_candidates(
    sources: Sequence[Source], settings: SearchSettings, also: str = ""
) -> Ranking:
    """Gather the candidates of all sources in one ranking without scores.

    With ``also``, include the document with that URI even if no retriever found it.
    """
    plans, notes = ground_plans([(source.plan, source.snapshot) for source in sources], settings)
    asked = [(plan, source.snapshot) for plan, source in zip(plans, sources, strict=True)]
    if len(asked) > 1:
        share_statistics(asked, [at for at, source in enumerate(sources) if not source.aside])
    gathered = [
        gather_candidates(plan, snapshot, settings, at) for at, (plan, snapshot) in enumerate(asked)
    ]
    candidates = gathered[0].candidates
    if len(gathered) > 1:
        candidates = Candidates(chain.from_iterable(ranking.candidates for ranking in gathered))
    if also:
        wanted = (
            _candidates_from(also, ranking.plan, asked[at][1], settings, at)
            for at, ranking in enumerate(gathered)
        )
        candidates = Candidates(dict.fromkeys(chain(candidates, *wanted)))
    # If any collection has a model, use its plan: otherwise meaning would count for none.
    lead = next((ranking for ranking in gathered if ranking.plan.vector is not None), gathered[0])
    none = (0.0,) * len(candidates)
    rarity, known_share = measure_rarity(asked)
    majors = [find_major_version(source.collection) for source in sources]
    ranking = replace(
        lead,
        candidates=candidates,
        scores=none,
        rarity=rarity,
        known_share=known_share,
        entries=sum(snapshot.statistics(()).entries for _, snapshot in asked),
        notes=tuple(notes),
        named={key: name for ranking in gathered for key, name in ranking.named.items()},
        packages={at: major for at, major in enumerate(majors) if major is not None},
    )
    if any(source.plan.filters.languages for source in sources):
        return programs.replace_with_programs(ranking, sources, settings.per_document)
    return ranking


def _candidates_from(
    uri: str, plan: Plan, snapshot: Snapshot, settings: SearchSettings, source: int
) -> tuple[Candidate, ...]:
    alone = replace(plan, filters=replace(plan.filters, uris=(uri,)))
    return gather_candidates(alone, snapshot, settings, source).candidates


def rank(sources: Sequence[Source], settings: SearchSettings, also: str = "") -> Ranking:
    """Score the candidates of all sources together; for a long question, also by its title."""
    whole = add_release_notes(
        _rank_question(sources, settings, also),
        sources,
        lambda some: _rank_question(some, settings, ""),
    )
    titles = [source._replace(plan=source.plan.title) for source in sources if source.plan.title]
    if not titles:
        return whole
    fused = pasted.fuse_with_title(whole, _rank_question(titles, settings, also))
    return code.demote_repeats(pasted.put_code_first(pasted.boost_named_files(fused)))


def _rank_question(sources: Sequence[Source], settings: SearchSettings, also: str) -> Ranking:
    """Score the candidates for one question."""
    ranking = collect_candidates(sources, settings, also)
    for stage in make_stages(settings, sources):
        ranking = stage(ranking)
    tiers = (
        [
            (settings.recency_days, settings.recency_factor),
            (settings.recency_late_days, settings.recency_late_factor),
        ]
        if settings.recency
        else []
    )
    if tiers or any(source.recent is not None for source in sources):
        ranking = boost_recent(tiers, sources)(ranking)
    ranking = put_definitions_first(ranking)
    return replace(ranking, relevance=measure_relevance(ranking))


def choose_confidently(
    ranking: Ranking, sources: Sequence[Source], settings: SearchSettings
) -> tuple[list[Passage], list[Incomplete], Confidence | None]:
    """Return the passages to show, notes, and the confidence; only a few passages if it is low."""
    best, notes = choose_passages(ranking, sources, settings)
    confidence = judge_confidence(ranking.relevance) if settings.doubt and best else None
    if confidence == "low" and not lacks_words(ranking, sources, settings):
        confidence = "medium"
    if confidence == "low":
        return best[:SHOWN], [*notes, note_low_relevance()], confidence
    return best, notes, confidence


def search(sources: Sequence[Source], settings: SearchSettings, explain: bool) -> Results:
    """Return cited hits for a question, and notes on what may be missing."""
    ranking = rank(sources, settings)
    best, notes, confidence = choose_confidently(ranking, sources, settings)
    hits, stale = cite(
        best,
        sources,
        max_chars=settings.max_excerpt_chars,
        explain=ranking.explain_fully if explain else None,
        focus=FocusQuery.from_ranking(ranking) if ranking.plan.focus else None,
    )
    return Results(hits, [*ranking.notes, *notes, *stale], confidence)
