"""Passages that hold a part of the question word for word, where few documents do.

Takes: a fused ranking, and the collections that were asked. Gives: a ranking in which such
passages are candidates, and come first if the part is most of what the question says. Refuses:
turns of phrase, which many documents have, and parts without a telling word.

Who pastes a log message or a line of code looks for the place that writes it. Its words may be
common ones (``no number is assigned for``), so that neither their rarity nor their meaning leads
there; only their order does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from lookfar.retrieve.question.admission import resolve_globs
from lookfar.retrieve.question.intent import asks_for_history
from lookfar.retrieve.ranking import Candidate, Ranking, Stage
from lookfar.store.keywords.analyser import terms_of

if TYPE_CHECKING:
    from lookfar.ports import Place
    from lookfar.retrieve.ranking import Plan, Source

_WORDS: Final = 4
"""So many words in a row are looked for."""
_MOST_RUNS: Final = 4
_FEW_DOCUMENTS: Final = 5
_FEW_CHUNKS: Final = 20
_MOST_OF_IT: Final = 0.6
"""The share of what a question says from which a part of it decides."""
_LONG: Final = 5
_TELLING: Final = 2
"""So many words of an error message in a row, of which so many tell something, decide; the rest of
it may be what the program filled in."""
_PART: Final = 0.3
"""What a smaller part lifts at most."""
_QUOTED: Final = re.compile(r"[`\"“]([^`\"“”\n]{3,200})[`\"”]")
_WORD: Final = re.compile(r"\w+")
_EDGES: Final = "\"'`“”‘’.,;:!?()[]{}<>"


class Run(NamedTuple):
    """Neighbouring words of a question."""

    words: tuple[str, ...]
    share: float
    """Of what the question says, by how rare its words are."""


def find_runs(plan: Plan, rarity: dict[str, float]) -> list[Run]:
    """What of a question is worth a look word for word, the most telling first: what is quoted
    or written as code, and groups of neighbouring words."""
    total = sum(rarity.get(term, 0.0) for term in plan.terms)
    if not total:
        return []

    def share(words: Sequence[str]) -> float:
        held = frozenset(plan.terms).intersection(terms_of(" ".join(words)))
        return sum(rarity.get(term, 0.0) for term in held) / total

    quoted = [_split_words(each) for each in _find_quoted(plan)]
    words = _split_words(plan.text)
    groups = (words[at : at + _WORDS] for at in range(len(words) - _WORDS + 1))
    telling = [run for each in groups if (run := Run(tuple(each), share(each))).share]
    best = sorted(telling, key=lambda run: -run.share)[:_MOST_RUNS]
    first = [Run(tuple(each), share(each)) for each in quoted[:_MOST_RUNS]]
    return list(dict.fromkeys((*first, *best)))


def _find_quoted(plan: Plan) -> list[str]:
    """What is written as code or in quotes, of several words."""
    quoted = (*_QUOTED.findall(plan.text), *plan.filters.phrases)
    return [each for each in quoted if len(_split_words(each)) > 1]


def _split_words(text: str) -> list[str]:
    stripped = (word.strip(_EDGES) for word in text.split())
    return [word for word in stripped if word]


def boost_verbatim(sources: Sequence[Source]) -> Stage:
    """Put passages first that write what the question does, where few documents do."""

    def lift(ranking: Ranking) -> Ranking:
        plan = ranking.plan
        if plan.mode == "vector" or plan.kind in ("identifier", "path"):
            return ranking
        rarity = dict(ranking.rarity)
        shares: dict[tuple[int, int], float] = {}
        added: dict[tuple[int, int], Candidate] = {}
        for run in find_runs(plan, rarity):
            for number, place in _find_holders(run, sources):
                held = _measure_extent(place, sources[number], plan, rarity)
                key = (number, place.key)
                shares[key] = max(shares.get(key, 0.0), held)
                added[key] = Candidate(place, 0.0, 0.0, 0.0, number)
        if not shares:
            return ranking
        known = {(each.source, each.place.key) for each in ranking.candidates}
        joined = ranking.add_candidates([each for key, each in added.items() if key not in known])
        return _boost(joined, shares)

    return lift


def _find_holders(run: Run, sources: Sequence[Source]) -> list[tuple[int, Place]]:
    """The chunks that hold these words beside each other; none where many documents do."""
    found: list[tuple[int, Place]] = []
    for number, source in enumerate(sources):
        filters = resolve_globs(source.plan.filters, source.snapshot)
        places = source.snapshot.few_holding(" ".join(run.words), _FEW_CHUNKS, filters)
        if places is None:
            return []
        found += [(number, place) for place in places]
    if len({(number, place.document) for number, place in found}) > _FEW_DOCUMENTS:
        return []
    return found


def _measure_extent(place: Place, source: Source, plan: Plan, rarity: dict[str, float]) -> float:
    """How much of the question a chunk holds word for word, 0 to 1: the share of its longest
    part; all, where that is what is quoted, or a long one of an error message."""
    text = source.snapshot.text(place.uri)
    if text is None:
        return 0.0
    written = _normalise(text[place.start : place.end])
    if any(_normalise(each) in written for each in _find_quoted(plan)):
        return 1.0
    total = sum(rarity.get(term, 0.0) for term in plan.terms)
    best = 0.0
    for words in _longest_runs(_split_words(plan.text), written):
        held = frozenset(plan.terms).intersection(terms_of(" ".join(words)))
        if plan.kind == "error" and len(words) >= _LONG and len(held) >= _TELLING:
            return 1.0
        best = max(best, sum(rarity.get(term, 0.0) for term in held) / total)
    return best


def _longest_runs(words: Sequence[str], written: str) -> Iterator[Sequence[str]]:
    """The longest parts of a question, each from another of its words on, that are written."""
    end = 0
    for start in range(len(words)):
        end = max(end, start)
        while end < len(words) and _normalise(" ".join(words[start : end + 1])) in written:
            end += 1
        if end - start >= 2:
            yield words[start:end]


def _normalise(text: str) -> str:
    """Words in lower case with one space around each, whatever is between them."""
    return f" {' '.join(_WORD.findall(text.lower()))} "


def _boost(ranking: Ranking, shares: dict[tuple[int, int], float]) -> Ranking:
    best = max(ranking.scores, default=0.0)
    # Who asks what happened looks for a commit, not for the place that words it the same.
    decides = 2.0 if asks_for_history(ranking.plan.text) else _MOST_OF_IT
    added = []
    for each, score in zip(ranking.candidates, ranking.scores, strict=True):
        share = shares.get((each.source, each.place.key), 0.0)
        first = max(best - score, 0.0) + share if share >= decides else _PART * share
        added.append(first if share else 0.0)

    def note(candidate: Candidate) -> str:
        share = shares.get((candidate.source, candidate.place.key), 0.0)
        return f"{share:.0%} of the question stands here word for word"

    return ranking.add_step("word for word", added, note)
