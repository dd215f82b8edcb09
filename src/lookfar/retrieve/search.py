"""Answer a question: gather candidates, rank them in stages, choose passages and cite them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from lookfar.config import SearchSettings
from lookfar.model import Confidence, Incomplete
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
from lookfar.retrieve.answer.units import rank_units
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
from lookfar.retrieve.stages import code, fuse, pasted
from lookfar.retrieve.stages.aside import demote_aside
from lookfar.retrieve.stages.boost import boost_exact, put_definitions_first
from lookfar.retrieve.stages.links import boost_described
from lookfar.retrieve.stages.recency import RECENT, boost_recent
from lookfar.retrieve.stages.release_notes import add_release_notes
from lookfar.retrieve.stages.weigh_commits import rank_commits
from lookfar.retrieve.stages.wording import boost_synonyms, boost_word_pairs

SearchFunction = Callable[[Sequence[Source], SearchSettings, bool], Results]
"""From the collections to cited hits; the flag says whether scores are explained."""
MakeStages = Callable[[SearchSettings, Sequence[Source]], list[Stage]]


def make_stages(
    settings: SearchSettings,
    sources: Sequence[Source],
    *,
    fusion: Stage | None = None,
    more_links: Sequence[Stage] = (),
    names: Sequence[Stage] | None = None,
) -> list[Stage]:
    """Return the stages in their order; other systems fuse, link and weigh names otherwise."""
    read = partial(read_definitions, sources)
    boosts: list[Stage] = [boost_word_pairs(sources), boost_synonyms(sources)]
    links = [boost_described(sources)]
    if names is None:
        names = [code.boost_file_names, code.judge_definitions(read, [code.boost_definitions])]
    last = [fuse.level_kinds, boost_verbatim(sources), boost_exact]
    if not settings.boosts:
        boosts, links, last = [], [], []
    return [
        fusion or fuse.fuse_by_score(settings),
        *boosts,
        *links,
        *more_links,
        *names,
        demote_aside(sources, read),
        rank_commits(settings.commits_weight, sources),
        code.demote_repeats,
        *last,
    ]


def read_definitions(
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
    counted = [at for at, source in enumerate(sources) if not source.aside]
    if len(asked) > 1:
        share_statistics(asked, counted)
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
    rarity, known_share = measure_rarity([asked[at] for at in counted] or asked)
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


def rank(
    sources: Sequence[Source],
    settings: SearchSettings,
    also: str = "",
    stages: MakeStages = make_stages,
) -> Ranking:
    """Score the candidates of all sources together; for a long question, also by its title."""
    whole = add_release_notes(
        _rank_question(sources, settings, also, stages),
        sources,
        lambda some: _rank_question(some, settings, "", stages),
    )
    titles = [source._replace(plan=source.plan.title) for source in sources if source.plan.title]
    if not titles:
        return whole
    fused = pasted.fuse_with_title(whole, _rank_question(titles, settings, also, stages))
    return code.demote_repeats(pasted.put_code_first(pasted.boost_named_files(fused)))


def _rank_question(
    sources: Sequence[Source], settings: SearchSettings, also: str, stages: MakeStages
) -> Ranking:
    """Score the candidates for one question."""
    ranking = collect_candidates(sources, settings, also)
    for stage in stages(settings, sources):
        ranking = stage(ranking)
    if settings.recency or any(source.recent is not None for source in sources):
        ranking = boost_recent(RECENT if settings.recency else (), sources)(ranking)
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


def search(
    sources: Sequence[Source],
    settings: SearchSettings,
    explain: bool,
    stages: MakeStages = make_stages,
) -> Results:
    """Return cited hits for a question, and notes on what may be missing."""
    ranking = rank(sources, settings, stages=stages)
    best, notes, confidence = choose_confidently(ranking, sources, settings)
    hits, stale = cite(
        best,
        sources,
        max_chars=settings.max_excerpt_chars,
        explain=ranking.explain_fully if explain else None,
        focus=FocusQuery.from_ranking(ranking) if ranking.plan.focus else None,
    )
    units = rank_units(ranking, sources, ranking.plan.units) if ranking.plan.units else ()
    return Results(hits, [*ranking.notes, *notes, *stale], confidence, units=units)
