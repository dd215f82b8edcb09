"""Rank as other systems do, for users who migrate from them: see the presets in ``config``.

Nothing here is used by default. Ranks, weights by variance, joined neighbours and communities are
those of ragdocs; factors for names, kinds, docstrings and paths of code those of Search MCP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from lookfar.config import SearchSettings
from lookfar.model import Relation
from lookfar.retrieve.neighbours.related import classify_link, find_headings
from lookfar.retrieve.question.admission import resolve_globs
from lookfar.retrieve.question.field_weights import CHUNK_WEIGHTS
from lookfar.retrieve.question.intent import Intent, detect_intents
from lookfar.retrieve.ranking import Candidate, Document, Ranking, Source, Stage
from lookfar.retrieve.search import MakeStages, make_stages, read_definitions
from lookfar.retrieve.stages import fuse
from lookfar.retrieve.stages.code import Defined, Judge, Reader, judge_definitions
from lookfar.retrieve.stages.links import best_by_document, choose_seeds
from lookfar.store.keywords.analyser import names_in, terms_of

_END: Final = 1 << 62
"""A position beyond the last character of any text."""
_SEEDS: Final = 3
"""Best documents whose links and communities count."""
_SHARE: Final = 0.5
"""Share of the linking document's score that a linked one gets."""
_RELATIONS: Final[Mapping[Relation, float]] = {
    "links_to": 1.0, "implements": 1.0, "tests": 0.5, "related": 0.5, "transclusion": 1.0,
}  # fmt: skip
_MOST_JOINING: Final = 20
"""Documents that may be found by links alone."""
NAME_LADDER: Final = ((1.0, 1.4), (0.8, 1.3), (0.5, 1.2), (0.3, 1.1), (0.0, 1.05))
"""Minimum share of the question's words in a name, and the factor for it."""
KIND: Final = 1.3
TOPIC: Final = 1.05
DOCUMENTED: Final = 1.05
PATH: Final = 1.2
LARGE: Final = ((8_000, 0.95), (4_000, 0.98))
"""Characters of a chunk, and the factor for larger ones."""

_KINDS: Final[Mapping[Intent, frozenset[str]]] = {
    "function": frozenset(("function", "method", "macro")),
    "class": frozenset(("class", "interface", "struct", "trait", "enum", "type", "impl")),
}


def choose_stages(settings: SearchSettings) -> MakeStages:
    """Return what makes the stages that the settings ask for."""
    if (
        settings.fusion == "rrf"
        or settings.dynamic_weights
        or settings.join_neighbours
        or settings.communities
        or settings.code_names == "ladder"
    ):
        return make_compatible_stages
    return make_stages


def make_compatible_stages(settings: SearchSettings, sources: Sequence[Source]) -> list[Stage]:
    """Return the usual stages, with other ones where the settings ask for them."""
    by_ladder = settings.code_names == "ladder"
    return make_stages(
        settings,
        sources,
        fusion=make_fusion(settings),
        more_links=make_link_stages(settings, sources),
        names=rank_code_by_ladder(partial(read_definitions, sources)) if by_ladder else None,
    )


def make_fusion(settings: SearchSettings) -> Stage:
    """Return the stage that fuses by ranks, or by weights that depend on the variance."""
    weigh: fuse.Weigh = fuse.keep_weights
    if settings.dynamic_weights:
        weigh = weigh_by_variance(settings.variance_threshold, settings.min_weight_factor)
    if settings.fusion == "rrf":
        return fuse_by_rank(*fuse.choose_weights(settings)[:2], settings.rrf_k, weigh)
    return fuse.fuse_by_score(settings, weigh)


def weigh_by_variance(threshold: float, least: float) -> fuse.Weigh:
    """Lower the weight of a retriever whose scores hardly differ, down to the share ``least``."""

    def weigh(ranking: Ranking, meaning: float, words: float) -> tuple[float, float]:
        if not meaning or not words:
            return meaning, words
        reference = fuse.choose_reference(ranking)

        def factor(values: Sequence[float], floor: float | None) -> float:
            scaled = fuse.scale(np.array(values), 1.0, floor, reference=reference).tolist()
            mean = sum(scaled) / (len(scaled) or 1)
            spread = sum((value - mean) ** 2 for value in scaled) / (len(scaled) or 1)
            return max(least, spread / threshold) if spread < threshold else 1.0

        by_retriever = ranking.candidates.scores_by_retriever
        by_meaning = meaning * factor(by_retriever.vector, None)
        by_words = words * factor(by_retriever.keyword, 0.0)
        whole = (meaning + words) / (by_meaning + by_words or 1.0)
        return by_meaning * whole, by_words * whole

    return weigh


def fuse_by_rank(
    vector_weight: float,
    keyword_weight: float,
    k: int,
    weigh: fuse.Weigh = fuse.keep_weights,
) -> Stage:
    """Give the first of each retriever 1 / (k + 1), the second 1 / (k + 2), and so on.

    The sums are scaled so that a candidate that is first everywhere gets 1.
    """

    def fuse_ranks(ranking: Ranking) -> Ranking:
        plan = ranking.plan
        meaning, words = weigh(ranking, *fuse.mode_weights(ranking, vector_weight, keyword_weight))
        total = (meaning + words or 1.0) / (k + 1)

        def score_by_rank(scores: Sequence[float], weight: float) -> list[float]:
            # A retriever without a score for a candidate does not rank it.
            listed = replace(ranking, scores=tuple(scores)).order()
            listed = [at for at in listed if scores[at] > 0]
            place = {at: rank for rank, at in enumerate(listed, 1)}
            return [
                weight / (k + place[at]) / total if at in place else 0.0
                for at in range(len(scores))
            ]

        if words:
            matched = [c.keyword or c.page / fuse.BEHIND_CHUNKS for c in ranking.candidates]
            added = score_by_rank(matched, words)
            ranking = ranking.add_step("keyword", added, lambda c: f"bm25 {c.keyword:.3f}, by rank")
        if meaning and plan.vector is not None:
            cosines = np.array(ranking.candidates.scores_by_retriever.vector)
            blended = fuse.blend_models(ranking, cosines).tolist()
            added = score_by_rank(blended, meaning)
            ranking = ranking.add_step("vector", added, lambda c: f"{fuse.note_vector(c)}, by rank")
        return ranking

    return fuse_ranks


def make_link_stages(settings: SearchSettings, sources: Sequence[Source]) -> list[Stage]:
    """Return the stages that follow links and communities, where they are on."""
    stages = []
    if settings.join_neighbours:
        stages.append(add_linked(_SEEDS, sources))
    if settings.communities and settings.community_factor > 1:
        stages.append(boost_community(_SEEDS, settings.community_factor, sources))
    return stages


def add_linked(seeds: int, sources: Sequence[Source]) -> Stage:
    """Add documents that the best ``seeds`` link to, with a share of the score of the seed.

    They must pass the filters of the question. Of each document, the chunk with most words of the
    question is added, otherwise the first. A document that is a candidate already gets at least
    that share.
    """

    def join(ranking: Ranking) -> Ranking:
        best = best_by_document(ranking)
        offers: dict[Document, tuple[float, str]] = {}
        leading = choose_seeds(best, seeds)
        for source, target, relation in _find_edges(best, leading, sources):
            score, seed = best[source]
            value = _SHARE * _RELATIONS[relation] * score
            own = best[target][0] if target in best else 0.0
            if value > max(own, offers.get(target, (0.0, ""))[0]):
                offers[target] = (value, f"linked from {seed.place.uri}")
        ranking = _raise_to_offers(ranking, best, offers)
        added_candidates: list[Candidate] = []
        for number, (_, plan, snapshot, *_) in enumerate(sources):
            wanted = sorted(
                document for at, document in offers if at == number and (at, document) not in best
            )
            if wanted:
                filters = resolve_globs(plan.filters, snapshot)
                places = snapshot.best_of_each(plan.terms, CHUNK_WEIGHTS, wanted, filters)
                added_candidates += (
                    Candidate(place, score, 0.0, 0.0, number) for place, score in places
                )
        added_candidates.sort(
            key=lambda candidate: (
                -offers[candidate.document][0],
                candidate.place.uri,
                candidate.source,
            )
        )
        del added_candidates[_MOST_JOINING:]
        if not added_candidates:
            return ranking
        added = [0.0] * len(ranking.candidates) + [
            offers[candidate.document][0] for candidate in added_candidates
        ]
        return ranking.add_candidates(added_candidates).add_step(
            "neighbour", added, lambda c: offers[c.document][1]
        )

    return join


def _raise_to_offers(
    ranking: Ranking,
    best: Mapping[Document, tuple[float, Candidate]],
    offers: Mapping[Document, tuple[float, str]],
) -> Ranking:
    """Raise the candidates of each document until the best one has the score of its offer."""
    lifts = {
        document: offers[document][0] - score
        for document, (score, _) in best.items()
        if document in offers
    }
    if not lifts:
        return ranking
    return ranking.add_step(
        "neighbour",
        [lifts.get(candidate.document, 0.0) for candidate in ranking.candidates],
        lambda c: offers[c.document][1],
        whole_document=True,
    )


def _find_edges(
    best: Mapping[Document, tuple[float, Candidate]],
    leading: Sequence[Document],
    sources: Sequence[Source],
) -> Iterator[tuple[Document, Document, Relation]]:
    """Yield the links of the seeds, best first, with the relation that each expresses."""
    for at, document in leading:
        snapshot, uri = sources[at].snapshot, best[at, document][1].place.uri
        sections = snapshot.sections(uri)
        for lead in snapshot.leads([document], None, {document: [(0, _END)]}):
            relation = classify_link(lead.kind, uri, find_headings(sections, lead.start))
            yield (at, document), (at, lead.target), relation


def boost_community(seeds: int, factor: float, sources: Sequence[Source]) -> Stage:
    """Multiply the scores of documents in the communities of the best ``seeds``."""

    def lift(ranking: Ranking) -> Ranking:
        best = best_by_document(ranking)
        among: dict[Document, tuple[int, int]] = {}
        for number, source in enumerate(sources):
            uris = {
                candidate.place.uri: doc for doc, (_, candidate) in best.items() if doc[0] == number
            }
            communities = source.snapshot.communities(uris) if uris else {}
            among.update((uris[uri], (number, community)) for uri, community in communities.items())
        favoured = {among[seed] for seed in choose_seeds(best, seeds) if seed in among}
        if not favoured:
            return ranking
        # The same for all chunks, since the position of the document is what counts.
        added = [
            (factor - 1) * best[candidate.document][0]
            if among.get(candidate.document) in favoured
            else 0.0
            for candidate in ranking.candidates
        ]
        return ranking.add_step(
            "community", added, lambda _: "in a community of the best hits", whole_document=True
        )

    return lift


def rank_code_by_ladder(read: Reader) -> list[Stage]:
    """Return the stages that multiply the scores of code by factors of names, kind and size."""
    judges: list[Judge] = [boost_names_by_ladder, boost_kind, boost_documented]
    return [boost_path_words, judge_definitions(read, judges), demote_large]


def boost_names_by_ladder(ranking: Ranking, defined: Defined) -> Ranking:
    """Boost code by the share of the question's words in its name."""
    asked = frozenset(ranking.plan.terms)

    def rung(name: str) -> float:
        if name.lower() in (ranking.plan.text.strip().lower(), *ranking.plan.names):
            return NAME_LADDER[0][1]
        words = frozenset(terms_of(name)).difference(names_in(name))
        share = len(asked & words) / len(asked) if asked else 0.0
        return next((counts for least, counts in NAME_LADDER[1:] if share and share >= least), 1.0)

    def factor(candidate: Candidate) -> float:
        return max((rung(symbol.name) for symbol in defined.get(candidate, ())), default=1.0)

    return _multiply(ranking, "name", factor, lambda _: "its name has words of the question")


def boost_kind(ranking: Ranking, defined: Defined) -> Ranking:
    """Boost functions if the question asks for functions, errors if it asks for errors, etc."""
    wanted = detect_intents(ranking.plan.topics)
    if not wanted:
        return ranking
    kinds = frozenset[str]().union(*(_KINDS[intent] for intent in wanted if intent in _KINDS))
    topics = frozenset(wanted).difference(_KINDS)

    def factor(candidate: Candidate) -> float:
        here = defined.get(candidate, ())
        if any(symbol.kind in kinds for symbol in here):
            return KIND
        if topics and here:
            # Without reading the code, only names show what it is about.
            words = terms_of(" ".join((candidate.place.uri, *(symbol.name for symbol in here))))
            return TOPIC if topics.intersection(detect_intents(words)) else 1.0
        return 1.0

    topics_asked = ", ".join(wanted)
    return _multiply(ranking, "kind", factor, lambda _: f"the question is about: {topics_asked}")


def boost_documented(ranking: Ranking, defined: Defined) -> Ranking:
    """Boost code with a docstring."""

    def factor(candidate: Candidate) -> float:
        has_docstring = any(symbol.documented for symbol in defined.get(candidate, ()))
        return DOCUMENTED if has_docstring else 1.0

    return _multiply(ranking, "docstring", factor, lambda _: "it is documented")


def boost_path_words(ranking: Ranking) -> Ranking:
    """Boost code by the share of the question's words in its path."""
    asked = frozenset(ranking.plan.terms)

    def factor(candidate: Candidate) -> float:
        share = len(asked.intersection(terms_of(candidate.place.uri))) / (len(asked) or 1)
        return 1 + (PATH - 1) * share

    return _multiply(ranking, "path words", factor, lambda _: "its path has words of the question")


def demote_large(ranking: Ranking) -> Ranking:
    """Demote chunks that are too large for one answer."""

    def factor(candidate: Candidate) -> float:
        size = candidate.place.end - candidate.place.start
        return next((counts for least, counts in LARGE if size >= least), 1.0)

    return _multiply(
        ranking, "size", factor, lambda c: f"{c.place.end - c.place.start:,} characters"
    )


def _multiply(
    ranking: Ranking,
    stage: str,
    factor: Callable[[Candidate], float],
    note: Callable[[Candidate], str],
) -> Ranking:
    """Multiply the scores of code by a factor."""
    if "code" not in ranking.candidates.kinds:
        return ranking
    added = [
        (factor(candidate) - 1) * score if candidate.place.lane == "code" else 0.0
        for candidate, score in zip(ranking.candidates, ranking.scores, strict=True)
    ]
    return ranking.add_step(stage, added, note) if any(added) else ranking
