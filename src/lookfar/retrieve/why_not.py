"""Explain why a document is not in an answer: not indexed, filtered, unmatched or outranked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lookfar.config import SearchSettings
from lookfar.model import Filters, WhyNot
from lookfar.model.answers import Verdict
from lookfar.retrieve.answer.choose import choose_passages
from lookfar.retrieve.question.admission import resolve_globs
from lookfar.retrieve.question.expand import ground_plans
from lookfar.retrieve.ranking import Source, Stage
from lookfar.retrieve.search import apply_stages, rank


def explain_absence(
    sources: Sequence[Source], settings: SearchSettings, uri: str, score: Stage = apply_stages
) -> WhyNot:
    """Follow one document through a search and return the verdict."""
    query = sources[0].plan.text
    holding = [at for at, source in enumerate(sources) if source.snapshot.document(uri) is not None]
    if not holding:
        return WhyNot(query, uri, "not_indexed", "It is not in any collection that was searched.")
    # The search does the same: it drops phrases that do not occur and resolves dashed words.
    plans, _ = ground_plans([(source.plan, source.snapshot) for source in sources], settings)
    admitted = [at for at in holding if _is_admitted(sources[at], uri, plans[at].filters)]
    if not admitted:
        excluding = _name_filters(sources[holding[0]], uri, plans[holding[0]].filters)
        detail = f"The filters exclude it: {excluding}."
        return WhyNot(query, uri, "filtered", detail)
    ranking = rank(sources, settings, uri, score)
    order = ranking.order()
    documents = list(dict.fromkeys(ranking.candidates[at].document for at in order))
    best = next(
        (at for at in order if ranking.candidates[at].place.uri == uri
         and ranking.candidates[at].source in admitted),
        None,
    )  # fmt: skip
    if best is None or ranking.scores[best] <= 0:
        detail = "It contains no word of the question, and its meaning is not close."
        return WhyNot(query, uri, "unmatched", detail, of=len(documents))
    passages, _ = choose_passages(ranking, sources, settings)
    reached, least = ranking.scores[best], passages[-1].score if passages else 0.0
    best_score = ranking.scores[order[0]]
    place = documents.index(ranking.candidates[best].document) + 1
    hit = next((at for at, passage in enumerate(passages, 1) if passage.place.uri == uri), 0)
    verdict: Verdict = "outranked"
    if hit:
        verdict, detail = "shown", f"It is hit {hit}."
    elif reached >= least:
        reordered = settings.mmr or settings.rerank
        other = ", or mmr or rerank moved others ahead of it" if reordered else ""
        verdict, detail = "folded", f"It is a duplicate of a hit{other}."
    elif reached < settings.min_confidence * best_score:
        detail = (
            f"It scores {reached:.3f}, less than search.min_confidence"
            f" ({settings.min_confidence:g}) of the best hit's {best_score:.3f}."
        )
    else:
        detail = (
            f"It ranks {place} of {len(documents)} documents, with {reached:.3f}; the last hit has"
            f" {least:.3f}. A larger top_k reaches further."
        )
    return WhyNot(
        query,
        uri,
        verdict,
        detail,
        rank=place,
        of=len(documents),
        score=round(reached, 6),
        needed=round(least, 6),
        explanation=ranking.explain_fully(best),
    )


def _is_admitted(source: Source, uri: str, filters: Filters) -> bool:
    """Return whether any chunk of the document passes the filters."""
    asked = resolve_globs(filters, source.snapshot)
    if asked.uris and uri not in asked.uris:
        return False
    return bool(source.snapshot.admitted(uri, asked))


def _name_filters(source: Source, uri: str, given: Filters) -> str:
    """Name the filters that exclude a document on their own."""
    names = [
        name
        for name in Filters.__slots__
        if getattr(given, name) != getattr(Filters(), name)
        and not _is_admitted(source, uri, replace(Filters(), **{name: getattr(given, name)}))
    ]
    return ", ".join(names) or "only in combination"
