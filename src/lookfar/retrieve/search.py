"""Answer a question: gather candidates, rank them in stages, choose passages and cite them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

from lookfar.config import SearchSettings
from lookfar.model import Confidence, Incomplete
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
from lookfar.retrieve.answer.units import make_units, mix_kinds, rank_definitions
from lookfar.retrieve.locate.file_names import find_major_version, is_changelog
from lookfar.retrieve.question.expand import ground_plans
from lookfar.retrieve.question.intent import asks_for_history
from lookfar.retrieve.ranking import Candidates, Ranking, Results, Source, Stage
from lookfar.retrieve.retrievers import programs
from lookfar.retrieve.retrievers.candidates import (
    gather_candidates,
    measure_rarity,
    share_statistics,
)
from lookfar.retrieve.retrievers.verbatim import boost_verbatim
from lookfar.retrieve.stages import code, fuse
from lookfar.retrieve.stages.boost import (
    boost_exact,
    boost_named_files,
    boost_recent,
    boost_synonyms,
    boost_word_pairs,
    put_definitions_first,
)
from lookfar.retrieve.stages.commits_and_releases import add_release_notes, rank_commits
from lookfar.retrieve.stages.links import boost_described

SearchFunction = Callable[[Sequence[Source], SearchSettings, bool], Results]
"""From the collections to cited hits; the flag says whether scores are explained."""


class Ways(NamedTuple):
    """The stages in which systems differ that Lookfar can replace."""

    fuse: Stage = fuse.fuse_by_score
    follow_links: Sequence[Stage] = ()
    """After the boost for pages that overviews describe."""
    name_code: Sequence[Stage] = (code.boost_file_names, code.boost_definitions)


USUAL: Final = Ways()


def apply_stages(ranking: Ranking, ways: Ways = USUAL) -> Ranking:
    """Score the candidates; each stage explains what it adds."""
    plan, kinds, boosts = ranking.plan, ranking.candidates.kinds, ranking.settings.boosts
    ranking = ways.fuse(ranking)
    if boosts:
        if plan.mode != "vector":
            ranking = boost_word_pairs(ranking)
            if plan.synonyms or plan.concepts:
                ranking = boost_synonyms(ranking)
        ranking = boost_described(ranking)
    ranking = apply_by_kind(ranking, ways)
    if "code" in kinds:
        ranking = code.demote_repeats(ranking)
    if boosts:
        ranking = fuse.level_kinds(ranking) if len(kinds) > 1 else ranking
        ranking = boost_exact(boost_verbatim(ranking))
    return ranking


def apply_by_kind(ranking: Ranking, ways: Ways) -> Ranking:
    """Follow links, and score code and commits by what only they have."""
    kinds = ranking.candidates.kinds
    for stage in ways.follow_links:
        ranking = stage(ranking)
    if "code" in kinds:
        for stage in ways.name_code:
            ranking = stage(ranking)
        ranking = code.demote_aside(ranking)
        if ranking.packages:
            ranking = code.demote_deprecated(code.demote_inner_code(ranking))
    return rank_commits(ranking) if "commits" in kinds else ranking


def collect_candidates(
    sources: Sequence[Source], settings: SearchSettings, also: str = ""
) -> Ranking:
    """Gather the candidates of all sources in one ranking without scores.

    With ``also``, include the document with that URI even if no retriever found it.
    """
    plans, notes = ground_plans([(source.plan, source.snapshot) for source in sources], settings)
    asked = [(plan, source.snapshot) for plan, source in zip(plans, sources, strict=True)]
    counted = [at for at, source in enumerate(sources) if not source.aside]
    if len(asked) > 1:
        share_statistics(asked, counted)
    gathered = [
        gather_candidates(plan, snapshot, settings, at) for at, (plan, snapshot) in enumerate(asked)
    ]
    candidates = gathered[0].candidates
    if len(gathered) > 1:
        candidates = Candidates(chain.from_iterable(ranking.candidates for ranking in gathered))
    for at, (plan, snapshot) in enumerate(asked) if also else ():
        alone = replace(plan, filters=replace(plan.filters, uris=(also,)))
        wanted = gather_candidates(alone, snapshot, settings, at).candidates
        candidates = Candidates(dict.fromkeys((*candidates, *wanted)))
    # If any collection has a model, use its plan: otherwise meaning would count for none.
    lead = next((ranking for ranking in gathered if ranking.plan.vector is not None), gathered[0])
    rarity, known_share = measure_rarity([asked[at] for at in counted] or asked)
    majors = [find_major_version(source.collection) for source in sources]
    ranking = replace(
        lead,
        candidates=candidates,
        scores=(0.0,) * len(candidates),
        sources=sources,
        settings=settings,
        rarity=rarity,
        known_share=known_share,
        entries=sum(snapshot.statistics(()).entries for _, snapshot in asked),
        notes=tuple(notes),
        named={key: name for ranking in gathered for key, name in ranking.named.items()},
        packages={at: major for at, major in enumerate(majors) if major is not None},
    )
    if any(source.plan.filters.languages for source in sources):
        return programs.replace_with_programs(ranking)
    return ranking


def rank(
    sources: Sequence[Source], settings: SearchSettings, also: str = "", score: Stage = apply_stages
) -> Ranking:
    """Score the candidates of all sources together; for a long question, also by its title.

    Other systems ``score`` candidates otherwise.
    """

    def rank_question(some: Sequence[Source], also: str = "") -> Ranking:
        ranking = score(collect_candidates(some, settings, also))
        if settings.recency or any(source.recent is not None for source in some):
            ranking = boost_recent(ranking)
        if ranking.named:
            ranking = put_definitions_first(ranking)
        return replace(ranking, relevance=measure_relevance(ranking))

    whole = rank_question(sources, also)
    if asks_for_history(whole.plan.text) and not whole.plan.filters.heading:
        whole = add_release_notes(whole, rank_question)
    titles = [source._replace(plan=source.plan.title) for source in sources if source.plan.title]
    if not titles:
        return whole
    fused = boost_named_files(fuse.fuse_with_title(whole, rank_question(titles, also)))
    if "code" not in fused.candidates.kinds:
        return fused
    return code.demote_repeats(code.put_code_first(fused))


def choose_confidently(
    ranking: Ranking,
) -> tuple[list[Passage], list[Incomplete], Confidence | None]:
    """Return the passages to show, notes, and the confidence; only a few passages if it is low."""
    sources, settings = ranking.sources, ranking.settings
    best, notes = choose_passages(ranking, sources, settings)
    confidence = judge_confidence(ranking.relevance) if settings.doubt and best else None
    if confidence == "low" and not lacks_words(ranking, sources, settings):
        confidence = "medium"
    if confidence == "low":
        return best[:SHOWN], [*notes, note_low_relevance()], confidence
    return best, notes, confidence


def search(
    sources: Sequence[Source], settings: SearchSettings, explain: bool, score: Stage = apply_stages
) -> Results:
    """Return cited hits for a question, and notes on what may be missing."""
    ranking = rank(sources, settings, score=score)
    wanted, listed = ranking.plan.top_k, ranking.plan.units
    if listed:
        ranking = replace(ranking, plan=replace(ranking.plan, top_k=max(wanted, listed)))
    best, notes, confidence = choose_confidently(ranking)
    if listed and best:
        best = _with_definitions(best, ranking, sources, confidence)
    hits, stale = cite(
        best[:wanted],
        sources,
        max_chars=settings.max_excerpt_chars,
        explain=ranking.explain_fully if explain else None,
        focus=FocusQuery.from_ranking(ranking) if ranking.plan.focus or listed else None,
    )
    units = make_units(best[:listed], hits, sources) if listed else []
    return Results(hits, [*ranking.notes, *notes, *stale], confidence, units=units)


def _with_definitions(
    best: Sequence[Passage],
    ranking: Ranking,
    sources: Sequence[Source],
    confidence: Confidence | None,
) -> list[Passage]:
    """Return passages with whole definitions in place of parts of code."""
    most = ranking.plan.top_k
    definitions = rank_definitions(ranking, sources, most)
    others = [passage for passage in best if passage.place.lane != "code"]
    if definitions and not asks_for_history(ranking.plan.text):
        others.sort(key=lambda passage: is_changelog(passage.place.uri))
    mixed = [*mix_kinds(definitions, others, code_leads=best[0].place.lane == "code")]
    return mixed[: len(best) if confidence == "low" else most]
