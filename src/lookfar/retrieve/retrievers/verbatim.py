"""Find passages that contain a part of the question word for word, if few documents do.

A pasted log message or line of code should lead to the place that writes it, although its words may
be common ones. The passages come first if the part is most of the question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from lookfar.ports import Place
from lookfar.retrieve.question.admission import resolve_globs
from lookfar.retrieve.question.intent import asks_for_history
from lookfar.retrieve.ranking import Candidate, Plan, Ranking, Source, Stage
from lookfar.store.keywords.analyser import terms_of

_WORDS: Final = 4
"""Length of the word groups that are looked up."""
_MOST_RUNS: Final = 4
_FEW_DOCUMENTS: Final = 5
_FEW_CHUNKS: Final = 20
_MOST_OF_IT: Final = 0.8
"""Share of the question from which a part of it decides."""
_LONG: Final = 5
_TELLING: Final = 2
"""An error message matches if so many words in a row are found, with so many significant ones; the
rest may be values that the program filled in."""
_PART: Final = 0.3
"""Largest boost for a smaller part."""
_QUOTED: Final = re.compile(r"[`\"“]([^`\"“”\n]{3,200})[`\"”]")
_WORD: Final = re.compile(r"\w+")
_EDGES: Final = "\"'`“”‘’.,;:!?()[]{}<>"


class Run(NamedTuple):
    """Consecutive words of a question."""

    words: tuple[str, ...]
    share: float
    """Share of the question, weighted by how rare its words are."""


def find_runs(plan: Plan, rarity: dict[str, float]) -> list[Run]:
    """Return the parts of a question to look up, best first: quoted text, code, word groups."""
    total = sum(rarity.get(term, 0.0) for term in plan.terms)
    if not total:
        return []

    def share(words: Sequence[str]) -> float:
        terms = frozenset(plan.terms).intersection(terms_of(" ".join(words)))
        return sum(rarity.get(term, 0.0) for term in terms) / total

    quoted = [_split_words(text) for text in _find_quoted(plan)]
    words = _split_words(plan.text)
    groups = (words[at : at + _WORDS] for at in range(len(words) - _WORDS + 1))
    significant = [run for group in groups if (run := Run(tuple(group), share(group))).share]
    best = sorted(significant, key=lambda run: -run.share)[:_MOST_RUNS]
    first = [Run(tuple(group), share(group)) for group in quoted[:_MOST_RUNS]]
    return list(dict.fromkeys((*first, *best)))


def _find_quoted(plan: Plan) -> list[str]:
    """Return quoted text and code of several words."""
    quoted = (*_QUOTED.findall(plan.text), *plan.filters.phrases)
    return [text for text in quoted if len(_split_words(text)) > 1]


def _split_words(text: str) -> list[str]:
    stripped = (word.strip(_EDGES) for word in text.split())
    return [word for word in stripped if word]


def boost_verbatim(sources: Sequence[Source]) -> Stage:
    """Put passages first that repeat the question word for word, if few documents do."""

    def lift(ranking: Ranking) -> Ranking:
        plan = ranking.plan
        if plan.mode == "vector" or plan.kind in ("identifier", "path"):
            return ranking
        rarity = dict(ranking.rarity)
        shares: dict[tuple[int, int], float] = {}
        added: dict[tuple[int, int], Candidate] = {}
        for run in find_runs(plan, rarity):
            for number, place in _find_holders(run, sources):
                extent = _measure_extent(place, sources[number], plan, rarity)
                key = (number, place.key)
                shares[key] = max(shares.get(key, 0.0), extent)
                added[key] = Candidate(place, 0.0, 0.0, 0.0, number)
        if not shares:
            return ranking
        known = {(candidate.source, candidate.place.key) for candidate in ranking.candidates}
        joined = ranking.add_candidates(
            [candidate for key, candidate in added.items() if key not in known]
        )
        return _boost(joined, shares)

    return lift


def _find_holders(run: Run, sources: Sequence[Source]) -> list[tuple[int, Place]]:
    """Return the chunks that contain these words in a row; none if many documents do."""
    holders: list[tuple[int, Place]] = []
    for number, source in enumerate(sources):
        filters = resolve_globs(source.plan.filters, source.snapshot)
        places = source.snapshot.few_holding(" ".join(run.words), _FEW_CHUNKS, filters)
        if places is None:
            return []
        holders += [(number, place) for place in places]
    if len({(number, place.document) for number, place in holders}) > _FEW_DOCUMENTS:
        return []
    return holders


def _measure_extent(place: Place, source: Source, plan: Plan, rarity: dict[str, float]) -> float:
    """Return how much of the question a chunk contains word for word, from 0 to 1.

    That is the share of the longest part found. Quoted text and long parts of an error message
    count in full.
    """
    text = source.snapshot.text(place.uri)
    if text is None:
        return 0.0
    written = _normalise(text[place.start : place.end])
    if any(_normalise(quoted) in written for quoted in _find_quoted(plan)):
        return 1.0
    total = sum(rarity.get(term, 0.0) for term in plan.terms)
    best = 0.0
    for words in _longest_runs(_split_words(plan.text), written):
        terms = frozenset(plan.terms).intersection(terms_of(" ".join(words)))
        if plan.kind == "error" and len(words) >= _LONG and len(terms) >= _TELLING:
            return 1.0
        best = max(best, sum(rarity.get(term, 0.0) for term in terms) / total)
    return best


def _longest_runs(words: Sequence[str], written: str) -> Iterator[Sequence[str]]:
    """Yield the longest run of words from each start that the text contains."""
    end = 0
    for start in range(len(words)):
        end = max(end, start)
        while end < len(words) and _normalise(" ".join(words[start : end + 1])) in written:
            end += 1
        if end - start >= 2:
            yield words[start:end]


def _normalise(text: str) -> str:
    """Return the words in lower case, with a single space around each."""
    return f" {' '.join(_WORD.findall(text.lower()))} "


def _boost(ranking: Ranking, shares: dict[tuple[int, int], float]) -> Ranking:
    best = max(ranking.scores, default=0.0)
    # A question about history asks for a commit, not for a place with the same words.
    decides = 2.0 if asks_for_history(ranking.plan.text) else _MOST_OF_IT
    added = []
    for candidate, score in zip(ranking.candidates, ranking.scores, strict=True):
        share = shares.get((candidate.source, candidate.place.key), 0.0)
        first = max(best - score, 0.0) + share if share >= decides else _PART * share
        added.append(first if share else 0.0)

    def note(candidate: Candidate) -> str:
        share = shares.get((candidate.source, candidate.place.key), 0.0)
        return f"{share:.0%} of the question, word for word"

    return ranking.add_step("word for word", added, note)
