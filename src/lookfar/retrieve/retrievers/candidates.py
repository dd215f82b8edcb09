"""Gather the best chunks by keyword and by vector into one list of candidates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from lookfar.config import SearchSettings
from lookfar.ports import Place, Snapshot, Statistics
from lookfar.retrieve.locate.file_names import extract_path
from lookfar.retrieve.question.admission import resolve_globs
from lookfar.retrieve.question.plan import field_weights
from lookfar.retrieve.ranking import Candidate, Candidates, Plan, Ranking
from lookfar.retrieve.retrievers.definitions import find_named_places

_PART_OF_NAME = 0.02
_PART_OF_WORDS = 0.4
_LANGUAGE = 0.05
_LANGUAGES: Mapping[str, str] = {
    **{name: name for name in (
        "bash", "cpp", "csharp", "elixir", "haskell", "java", "javascript", "kotlin", "lua", "php",
        "python", "ruby", "rust", "scala", "swift", "typescript", "zig",
    )},
    "golang": "go", "js": "javascript", "py": "python", "ts": "typescript",
}  # fmt: skip
"""Names of programming languages, except those that are also common words."""

_INSTEAD = 0.8
"""Weight of a word that replaces an unknown one; several replacements share it."""
_PATH_END = 2
"""Folders of another machine precede the last parts of a path in a stack trace."""
_MOST_PATHS = 8
_BROUGHT_IN = 20
"""Chunks that may be found by synonyms and concepts alone."""


def share_statistics(sources: Sequence[tuple[Plan, Snapshot]], counted: Sequence[int] = ()) -> None:
    """Let all snapshots score words by how rare they are in all collections together.

    BM25 counts within one collection: the same match in ten notes would weigh a fraction of what it
    weighs among a hundred thousand pages. With ``counted``, only those sources are counted.
    """
    counted_sources = [sources[at] for at in counted] or sources
    statistics = []
    for plan, snapshot in counted_sources:
        more = (*plan.replacements.values(), *plan.synonyms.values(), plan.concepts)
        terms = dict.fromkeys((*plan.terms, *(term for others in more for term in others)))
        statistics.append(snapshot.statistics(list(terms)))
    frequency: Counter[tuple[str, str]] = Counter()
    for counted_here in statistics:
        frequency.update(counted_here.frequency)
    shared = Statistics(sum(counted_here.entries for counted_here in statistics), frequency)
    for plan_and_snapshot in sources:
        # If only one source is counted, its own statistics already apply to it.
        if len(counted_sources) > 1 or plan_and_snapshot is not counted_sources[0]:
            plan_and_snapshot[1].score_with(shared)


def measure_rarity(sources: Sequence[tuple[Plan, Snapshot]]) -> tuple[dict[str, float], float]:
    """Return the weight of each term, and the share of this weight that occurs in some document.

    The fewer documents of all sources contain a term, the higher is its weight.
    """
    having: Counter[str] = Counter()
    occurring: set[str] = set()
    entries = 0
    for plan, snapshot in sources:
        statistics = snapshot.statistics(plan.terms)
        entries += statistics.entries
        occurring.update(term for (_, term), count in statistics.frequency.items() if count)
        for term in plan.terms:
            having[term] += statistics.frequency["page", term]
    rarity = {
        term: math.log(1 + (max(entries - count, 0) + 0.5) / (count + 0.5))
        for term, count in having.items()
    }
    for plan, _ in sources:
        occurring.update(plan.replacements)
        # A name that does not occur is searched by its parts.
        occurring.update(
            name for name, parts in plan.names.items() if not occurring.isdisjoint(parts)
        )
    weight = sum(rarity.values())
    # In the order of the question, since the order of a sum changes its last digits.
    known = sum(value for term, value in rarity.items() if term in occurring)
    return rarity, known / weight if weight else 1.0


def gather_candidates(
    plan: Plan, snapshot: Snapshot, settings: SearchSettings, source: int = 0
) -> Ranking:
    """Return the union of what all retrievers find, with all scores for each candidate."""
    limit = max(settings.candidates, plan.top_k)
    of_chunks, of_pages = field_weights(settings)
    filters = resolve_globs(plan.filters, snapshot)
    places: dict[int, Place] = {}
    keyword: dict[int, float] = {}
    page: dict[int, float] = {}
    vector: dict[int, float] = {}
    if plan.vector is not None:
        snapshot.begin_vector_search(plan.vector, limit, filters)
    terms = _weigh_terms(plan, snapshot)
    if plan.mode != "vector":
        page = dict(snapshot.page_search(terms, of_pages, limit, filters))
        matches = snapshot.keyword_search(terms, of_chunks, limit, filters)
        covered = {place.document for place, _ in matches}
        bare = [document for document in page if document not in covered]
        matches += snapshot.best_of_each(terms, of_chunks, bare, filters)
        # The path that the question consists of, or the ends of those that a long one names.
        ends = ["/".join(path.split("/")[-_PATH_END:]) for path in plan.paths][-_MOST_PATHS:]
        for path in [whole] if (whole := extract_path(plan.text)) else ends:
            named = snapshot.ending_in(path, filters)
            matches += [(place, 0.0) for place in named if place.document not in covered]
        keyword = {place.key: score for place, score in matches}
        places.update((place.key, place) for place, _ in matches)
    defining, leads = find_named_places(plan, snapshot, filters)
    brought = defining.keys() - places.keys()
    places.update(defining)
    if plan.vector is not None:
        near = snapshot.vector_search(plan.vector, limit, filters)
        vector = {place.key: score for place, score in near}
        places.update((place.key, place) for place, _ in near)
        if plan.quality is not None:
            # The second model searches only what it has embedded so far. So it may find as large a
            # part of the limit as it has embedded of the other candidates; otherwise the first few
            # chunks with a vector would take part in every answer.
            judged = snapshot.quality_scores(plan.quality, list(places.values()))
            embedded = sum(score is not None for score in judged)
            if share := math.ceil(limit * embedded / (len(judged) or 1)):
                nearest = snapshot.quality_search(plan.quality, share, filters)
                places.update((place.key, place) for place, _ in nearest)
        unscored = [place for key, place in places.items() if key not in vector]
        missing = snapshot.vector_scores(plan.vector, unscored)
        vector.update(zip((place.key for place in unscored), missing, strict=True))
        # A chunk found by name alone must not change the scale of the vector scores.
        least = min((vector[key] for key in vector.keys() - brought), default=0.0)
        vector.update((key, max(vector[key], least)) for key in brought)
    if plan.mode != "vector":
        synonyms = (synonym for others in plan.synonyms.values() for synonym in others)
        if others := list(dict.fromkeys((*synonyms, *plan.concepts))):
            found = snapshot.keyword_search(others, of_chunks, _BROUGHT_IN, filters)
            for place, cosine in _choose_new(found, plan, snapshot, places, vector):
                places[place.key], vector[place.key] = place, cosine
        unread = {place.document for place in places.values()}.difference(page)
        page |= snapshot.page_scores(terms, of_pages, sorted(unread))
    quality: Sequence[float | None] = [None] * len(places)
    if plan.quality is not None:
        quality = snapshot.quality_scores(plan.quality, list(places.values()))
    candidates = Candidates(
        Candidate(
            place,
            keyword.get(key, 0.0),
            page.get(place.document, 0.0),
            vector.get(key, 0.0),
            source,
            second,
        )
        for (key, place), second in zip(places.items(), quality, strict=True)
    )
    named_here = {(source, key): lead for key, lead in leads.items()}
    return Ranking(plan, candidates, (0.0,) * len(candidates), named=named_here)


def _choose_new(
    found: Sequence[tuple[Place, float]],
    plan: Plan,
    snapshot: Snapshot,
    places: Mapping[int, Place],
    vector: Mapping[int, float],
) -> list[tuple[Place, float]]:
    """Return the best chunk of each document that only synonyms and concepts found, and its cosine.

    Documents with a lower cosine than all others are dropped: scores are scaled between the lowest
    and the highest, and the additions must not change that scale.
    """
    present = {place.document for place in places.values()}
    new: dict[int, Place] = {}
    for place, _ in found:
        if place.document not in present:
            new.setdefault(place.document, place)
    if plan.vector is None:
        return [(place, 0.0) for place in new.values()]
    nearest: dict[int, float] = {}
    for key, place in places.items():
        nearest[place.document] = max(vector[key], nearest.get(place.document, -1.0))
    least = min(nearest.values(), default=-1.0)
    scores = snapshot.vector_scores(plan.vector, list(new.values()))
    return [pair for pair in zip(new.values(), scores, strict=True) if pair[1] >= least]


def _weigh_terms(plan: Plan, snapshot: Snapshot) -> dict[str, float]:
    """Return terms with weights: parts of a known name count little.

    A search for ``i32x4`` should not match any other ``x``, unless no document contains it. The
    parts of ``read-only`` are also written as separate words, so they count more.
    """
    weights = dict.fromkeys(plan.terms, 1.0)
    for replacements in plan.replacements.values():
        for term in replacements:
            weights.setdefault(term, _INSTEAD / math.sqrt(len(replacements)))
    for name, parts in plan.names.items():
        if not snapshot.knows(name) and name not in plan.replacements:
            continue
        words = name.replace("-", "").isalpha() and "-" in name
        for part in parts:
            if part in weights:
                weights[part] = _PART_OF_WORDS if words else _PART_OF_NAME
    # All code in a language matches the name of the language, so the word counts little.
    for term in _LANGUAGES.keys() & weights if len(weights) > 1 else ():
        if snapshot.has_code_in(_LANGUAGES[term]):
            weights[term] = _LANGUAGE
    return weights
