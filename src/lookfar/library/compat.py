"""Rank as other systems do, for users who migrate from them: see the presets in ``config``.

Nothing here is used by default. Ranks, weights by variance, joined neighbours and communities are
those of ragdocs; factors for names, kinds, docstrings and paths of code those of Search MCP. Where
their documents are silent, our own stages rank. In all of them what the question names exactly
comes first, and the scores of an answer say how well its best text fits.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from operator import mul
from pathlib import PurePosixPath
from typing import Final

import numpy as np

from lookfar.config import SearchSettings
from lookfar.ports import Definition
from lookfar.retrieve.answer.relevance import BY_WORDS, measure_relevance
from lookfar.retrieve.locate.file_names import extract_path, matches_path_end
from lookfar.retrieve.question.admission import resolve_globs
from lookfar.retrieve.question.intent import Intent, detect_intents
from lookfar.retrieve.question.plan import field_weights
from lookfar.retrieve.ranking import (
    Candidate,
    Candidates,
    Document,
    Ranking,
    Results,
    Source,
    Stage,
)
from lookfar.retrieve.search import USUAL, Ways, apply_by_kind, apply_stages, search
from lookfar.retrieve.stages import fuse
from lookfar.retrieve.stages.boost import boost_synonyms
from lookfar.retrieve.stages.code import read_definitions
from lookfar.retrieve.stages.links import best_by_document, choose_seeds
from lookfar.store.keywords.analyser import names_in, terms_of

_END: Final = 1 << 62
"""A position beyond the last character of any text."""
SEEDS: Final = 3
"""Best documents whose links and communities count."""
_SHARE: Final = 0.5
"""Share of the linking document's score that a linked one gets."""
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

_FEW_FILES: Final = 5
"""A name that more documents have says nothing about any of them."""
_WORD: Final = re.compile(r"\w+")
_VERSION: Final = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+)+[.\w]*)", re.IGNORECASE)
_EXACT: Final = frozenset(("path", "title", "file name", "heading", "version"))
_READ: Final = 20
"""Passages whose texts, and documents whose headings, are looked at."""
_AHEAD: Final = 0.1
"""How far what is named exactly is ahead of everything else, as a share of the best score."""
THIN: Final = 0.5
"""Factor for a passage that is only headings and links."""
_LEAST_TEXT: Final = 0.3
"""Share of letters outside of headings and links that other passages have."""
_THIN: Final = re.compile(
    r"^ {0,3}#{1,6} .*$|!?\[\[[^\]\n]*\]\]|!?\[[^\]\n]*\]\([^)\n]*\)|\{\{[^}\n]*\}\}"
    r"|https?://\S+",
    re.MULTILINE,
)
_FENCED: Final = re.compile(
    r"^ {0,3}(```+|~~~+).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_LETTER: Final = re.compile(r"[^\W\d_]")
_FIT_SLOPE: Final = 8.0
_FIT_MIDDLE: Final = 0.05
_NAMED: Final = 0.4
"""Least fit of what the question names exactly."""

_KINDS: Final[Mapping[Intent, frozenset[str]]] = {
    "function": frozenset(("function", "method", "macro")),
    "class": frozenset(("class", "interface", "struct", "trait", "enum", "type", "impl")),
}


Defined = Mapping[Candidate, Sequence[Definition]]
"""The definitions that begin in each chunk."""


def search_for_clients(
    sources: Sequence[Source], settings: SearchSettings, explain: bool, *, comments: bool = False
) -> Results:
    """Answer the search tools of other systems; with ``comments``, also from comments in code.

    What the question names exactly comes first. The best score says how well its text fits the
    question, below 1, and the others are in proportion to it; ``min_confidence`` is compared with
    these scores.
    """
    usual, run, fit = choose_scoring(settings), search, 0.0
    if comments:
        from lookfar.retrieve.comments import search_with_comments as run

    def score(ranking: Ranking) -> Ranking:
        nonlocal fit
        ranking = put_exact_first(demote_thin(usual(ranking)))
        fit = measure_fit(ranking) if ranking.candidates else 0.0
        return ranking

    results = run(sources, settings, explain, score)
    factor = fit / (max((hit.score for hit in results.hits), default=0.0) or 1.0)
    hits = [replace(hit, score=round(max(0.0, hit.score * factor), 6)) for hit in results.hits]
    return results._replace(hits=[hit for hit in hits if hit.score >= settings.min_confidence])


def choose_scoring(settings: SearchSettings) -> Stage:
    """Return what scores the candidates of a question as the settings ask for."""
    score = apply_by_rank if settings.fusion == "rrf" else apply_stages
    return partial(score, ways=choose_ways(settings))


def apply_by_rank(ranking: Ranking, ways: Ways) -> Ranking:
    """Score with the fusion of another system, and only with boosts that its document names."""
    ranking = apply_by_kind(ways.fuse(ignore_parts_in_comments(ranking)), ways)
    return fuse.level_kinds(boost_synonyms(ranking))


def ignore_parts_in_comments(ranking: Ranking) -> Ranking:
    """Drop the keyword score of comments that have only parts of a name, such as 0 of 0.28.0."""
    parts = {part for parts in ranking.plan.names.values() for part in parts}
    whole = frozenset(ranking.plan.terms) - parts
    if not parts:
        return ranking

    def keep(candidate: Candidate) -> bool:
        place = candidate.place
        if place.document >= 0:
            return True
        text = ranking.sources[candidate.source].snapshot.text(place.uri) or ""
        return not whole.isdisjoint(terms_of(text[place.start : place.end]))

    kept = (one if keep(one) else one._replace(keyword=0.0) for one in ranking.candidates)
    return replace(ranking, candidates=Candidates(kept))


# --- exact names and scores -----------------------------------------------------------------------


def put_exact_first(ranking: Ranking) -> Ranking:
    """Put first what the question names exactly."""
    kind, named = find_exact(ranking) if ranking.plan.mode != "vector" else ("", [])
    if not named:
        return ranking
    best = max(ranking.scores)
    lift = best - min(ranking.scores[at] for at in named) + _AHEAD * best
    added = [0.0] * len(ranking.scores)
    for at in named:
        added[at] = lift
    return ranking.add_step(kind, added, lambda _: f"the question is its {kind}")


def find_exact(ranking: Ranking) -> tuple[str, list[int]]:
    """Return what a question names exactly, with the best chunk of each document it names.

    That is a path, a title, the name of a file, a heading, or a version that a heading has.
    """
    text, candidates = ranking.plan.text, ranking.candidates
    path, words = extract_path(text), _WORD.findall(text.casefold())
    versions = _find_versions(text)
    order = [at for at in ranking.order() if candidates.lanes[at] not in ("code", "commits")]

    def is_called(name: str) -> bool:
        return _WORD.findall(name.casefold()) == words

    list_headings = cache(lambda: _list_headings(candidates, order, ranking.sources))

    def has_heading(candidate: Candidate, test: Callable[[str], bool]) -> bool:
        return any(map(test, list_headings().get(candidate.chunk, ())))

    kinds: dict[str, Callable[[Candidate], bool]] = {}
    if path:
        kinds["path"] = lambda candidate: matches_path_end(candidate.place.uri, path)
    if words:
        kinds["title"] = lambda candidate: is_called(candidate.place.title)
        kinds["file name"] = lambda candidate: is_called(PurePosixPath(candidate.place.uri).stem)
        kinds["heading"] = lambda candidate: has_heading(candidate, is_called)
    if versions:
        kinds["version"] = lambda candidate: has_heading(
            candidate, lambda heading: bool(versions & _find_versions(heading))
        )
    for kind, is_named in kinds.items():
        best: dict[Document, int] = {}
        for at in order:
            if is_named(candidates[at]):
                best.setdefault(candidates.documents[at], at)
        if 0 < len(best) <= _FEW_FILES:
            return kind, list(best.values())
    return "", []


def _list_headings(
    candidates: Sequence[Candidate], order: Sequence[int], sources: Sequence[Source]
) -> dict[tuple[int, int], list[str]]:
    """Return the headings that begin in each chunk of the best documents, and the one above it."""
    headings: dict[tuple[int, int], list[str]] = {}
    known: dict[Document, tuple[list[int], list[str]]] = {}
    for at in order:
        candidate = candidates[at]
        place, document = candidate.place, candidate.document
        if document not in known:
            if len(known) == _READ or place.document < 0:
                continue
            sections = sources[candidate.source].snapshot.sections(place.uri)
            known[document] = [s.span.start for s in sections], [s.title for s in sections]
        starts, titles = known[document]
        inside = titles[bisect_left(starts, place.start) : bisect_left(starts, place.end)]
        headings[candidate.chunk] = [*place.path[-2:], *inside]
    return headings


def _find_versions(text: str) -> frozenset[str]:
    return frozenset(version.rstrip(".").casefold() for version in _VERSION.findall(text))


def demote_thin(ranking: Ranking) -> Ranking:
    """Demote passages of documentation that are only headings and links."""
    thin = find_thin(ranking)
    added = [(THIN - 1) * score if at in thin else 0.0 for at, score in enumerate(ranking.scores)]
    return ranking.add_step("thin", added, lambda _: f"factor {THIN:g}")


def find_thin(ranking: Ranking) -> frozenset[int]:
    """Return the positions of the best chunks that are hardly more than headings and links."""
    thin = []
    for at in ranking.order()[:_READ]:
        place, source = ranking.candidates[at].place, ranking.candidates[at].source
        if place.lane == "docs" and place.document >= 0:
            text = (ranking.sources[source].snapshot.text(place.uri) or "")[place.start : place.end]
            code = "".join(match[0] for match in _FENCED.finditer(text))  # Its comments are text.
            rest = code + _THIN.sub("", _FENCED.sub("", text))
            if len(_LETTER.findall(rest)) < _LEAST_TEXT * len(_LETTER.findall(text)):
                thin.append(at)
    return frozenset(thin)


def measure_fit(ranking: Ranking) -> float:
    """Return how well the best text fits the question, from 0 to 1."""
    best = ranking.best()
    if ranking.plan.mode == "vector":
        return max(0.0, best.vector)
    relevance = measure_relevance(ranking)
    fit = relevance[0] if relevance else _measure_words(ranking, best)
    if any(step.stage in _EXACT for step in ranking.steps):
        fit = max(fit, _NAMED)
    return 1 / (1 + math.exp(_FIT_SLOPE * (_FIT_MIDDLE - fit)))


def _measure_words(ranking: Ranking, best: Candidate) -> float:
    """Measure the fit by words alone, where :func:`measure_relevance` gives none."""
    share = best.page / (sum(ranking.rarity.values()) or 1.0)
    size = math.log(max(ranking.entries, 1))
    fit: float = sum(map(mul, BY_WORDS, (0.0, share, ranking.known_share, size, 1.0)))
    return fit


# --- fusion ---------------------------------------------------------------------------------------


def choose_ways(settings: SearchSettings) -> Ways:
    """Return the stages that the settings ask for where systems differ."""
    ways = USUAL
    weigh = weigh_by_variance if settings.dynamic_weights else None
    if settings.fusion == "rrf":
        ways = ways._replace(fuse=partial(fuse_by_rank, weigh=weigh))
    elif weigh is not None:
        ways = ways._replace(fuse=partial(fuse.fuse_by_score, weigh=weigh))
    links: list[Stage] = [add_linked] if settings.join_neighbours else []
    links += [boost_community] if settings.communities and settings.community_factor > 1 else []
    if settings.code_names == "ladder":
        ways = ways._replace(name_code=(boost_path_words, boost_by_ladder, demote_large))
    return ways._replace(follow_links=links) if links else ways


def weigh_by_variance(ranking: Ranking, meaning: float, words: float) -> tuple[float, float]:
    """Lower the weight of a retriever whose scores hardly differ."""
    if not meaning or not words:
        return meaning, words
    threshold, least = ranking.settings.variance_threshold, ranking.settings.min_weight_factor
    reference = fuse.choose_reference(ranking)

    def factor(values: Sequence[float], floor: float | None) -> float:
        scaled = fuse.scale(np.array(values), 1.0, floor, reference=reference).tolist()
        mean = sum(scaled) / (len(scaled) or 1)
        spread = sum((value - mean) ** 2 for value in scaled) / (len(scaled) or 1)
        return max(least, spread / threshold) if spread < threshold else 1.0

    by_meaning = meaning * factor(ranking.candidates.scores_by_retriever.vector, None)
    by_words = words * factor(_match_words(ranking), 0.0)
    whole = (meaning + words) / (by_meaning + by_words or 1.0)
    return by_meaning * whole, by_words * whole


def fuse_by_rank(ranking: Ranking, weigh: fuse.Weigh | None = None) -> Ranking:
    """Give the first of each retriever 1 / (k + 1), the second 1 / (k + 2), and so on.

    The sums are scaled so that a candidate that is first everywhere gets 1.
    """
    k = ranking.settings.rrf_k
    meaning, words = fuse.mode_weights(ranking)
    if weigh is not None:
        meaning, words = weigh(ranking, meaning, words)
    total = (meaning + words or 1.0) / (k + 1)

    def score_by_rank(scores: Sequence[float], weight: float) -> list[float]:
        # A retriever without a score for a candidate does not rank it. A cosine may be negative.
        listed = replace(ranking, scores=tuple(scores)).order()
        listed = [at for at in listed if scores[at]]
        place = {at: rank for rank, at in enumerate(listed, 1)}
        return [
            weight / (k + place[at]) / total if at in place else 0.0 for at in range(len(scores))
        ]

    if words:
        added = score_by_rank(_match_words(ranking), words)
        ranking = ranking.add_step("keyword", added, lambda c: f"bm25 {c.keyword:.3f}, by rank")
    if meaning and ranking.plan.vector is not None:
        cosines = np.array(ranking.candidates.scores_by_retriever.vector)
        blended = fuse.blend_models(ranking, cosines).tolist()
        # The vector of a comment is that of the code around it.
        near = [
            0.0 if candidate.place.document < 0 and not candidate.keyword else cosine
            for candidate, cosine in zip(ranking.candidates, blended, strict=True)
        ]
        added = score_by_rank(near, meaning)
        ranking = ranking.add_step("vector", added, lambda c: f"{fuse.note_vector(c)}, by rank")
    return ranking


def _match_words(ranking: Ranking) -> list[float]:
    """Return how well the words of each candidate match.

    The document counts with its title and other fields, but not that of a comment.
    """
    return [c.keyword + (c.page if c.place.document >= 0 else 0.0) for c in ranking.candidates]


def add_linked(ranking: Ranking, seeds: int = SEEDS) -> Ranking:
    """Add documents that the best few link to, with a share of the score of the one that links.

    They must pass the filters of the question. Of each document, the chunk with most words of the
    question is added, otherwise the first. A document that is a candidate already gets at least
    that share.
    """
    best = best_by_document(ranking)
    offers: dict[Document, tuple[float, str]] = {}
    for source, target in _find_edges(ranking, choose_seeds(best, seeds)):
        score, seed = best[source]
        value = _SHARE * score
        own = best[target][0] if target in best else 0.0
        if value > max(own, offers.get(target, (0.0, ""))[0]):
            offers[target] = (value, f"linked from {seed.place.uri}")
    ranking = _raise_to_offers(ranking, best, offers)
    weights = field_weights(ranking.settings)[0]
    added_candidates: list[Candidate] = []
    for number, (_, plan, snapshot, *_) in enumerate(ranking.sources):
        wanted = sorted(
            document for at, document in offers if at == number and (at, document) not in best
        )
        if wanted:
            filters = resolve_globs(plan.filters, snapshot)
            places = snapshot.best_of_each(plan.terms, weights, wanted, filters)
            added_candidates += (
                Candidate(place, score, 0.0, 0.0, number) for place, score in places
            )
    added_candidates.sort(key=lambda c: (-offers[c.document][0], c.place.uri, c.source))
    del added_candidates[_MOST_JOINING:]
    if not added_candidates:
        return ranking
    added = [0.0] * len(ranking.candidates) + [offers[c.document][0] for c in added_candidates]
    return ranking.add_candidates(added_candidates).add_step(
        "neighbour", added, lambda c: offers[c.document][1]
    )


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
    ranking: Ranking, leading: Sequence[Document]
) -> Iterator[tuple[Document, Document]]:
    """Yield the links of the seeds, best first."""
    for at, document in leading:
        for lead in ranking.sources[at].snapshot.leads([document], None, {document: [(0, _END)]}):
            yield (at, document), (at, lead.target)


def boost_community(ranking: Ranking, seeds: int = SEEDS) -> Ranking:
    """Multiply the scores of documents in the communities of the best few."""
    factor = ranking.settings.community_factor
    best = best_by_document(ranking)
    among: dict[Document, tuple[int, int]] = {}
    for number, source in enumerate(ranking.sources):
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
        (factor - 1) * best[document][0] if among.get(document) in favoured else 0.0
        for document in ranking.candidates.documents
    ]
    return ranking.add_step(
        "community", added, lambda _: "in a community of the best hits", whole_document=True
    )


def boost_by_ladder(ranking: Ranking) -> Ranking:
    """Multiply the scores of code by factors for the names, kinds and docstrings in it."""
    defined = read_definitions(ranking, [c for c in ranking.candidates if c.place.lane == "code"])
    ranking = boost_names_by_ladder(ranking, defined)
    return boost_documented(boost_kind(ranking, defined), defined)


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
