"""Find passages that contain a part of the question word for word, if few documents do.

A pasted log message or line of code should lead to the place that writes it, although its words may
be common ones. The passages come first if the part is the whole question, or what it quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from lookfar.common.recent import RecentValues
from lookfar.retrieve.question.admission import resolve_globs
from lookfar.retrieve.question.intent import asks_for_history
from lookfar.retrieve.ranking import Candidate, Chunk, Ranking, read_parts
from lookfar.store.keywords.analyser import terms_of

_WORDS: Final = 4
"""Length of the word groups that are looked up."""
_MOST_RUNS: Final = 4
_FEW_DOCUMENTS: Final = 5
_FEW_CHUNKS: Final = 20
_LONG: Final = 5
_TELLING: Final = 2
"""An error message matches if so many words in a row are found, with so many significant ones; the
rest may be values that the program filled in."""
_PART: Final = 0.3
"""Largest boost for a smaller part."""
_QUOTED: Final = re.compile(r"[`\"“]([^`\"“”\n]{3,200})[`\"”]")
_WORD: Final = re.compile(r"\w+")
_BLANKED: Final = bytes(
    code if code < 128 and _WORD.match(chr(code)) else ord(" ") for code in range(256)
)
_MOST_BYTES: Final = 8 << 20
_BYTES: Final = 300
"""Of a text in the cache, besides its characters."""
RECENT_TEXTS: Final[RecentValues[bytes, str]] = RecentValues(_MOST_BYTES)
"""Normalised texts of chunks by their hashes, so that none is ever stale: few chunks hold what
questions ask for word for word, and they are read again and again."""
_EDGES: Final = "\"'`“”‘’.,;:!?()[]{}<>"


class _Question:
    """The words of a question, prepared to measure how much of it a text repeats."""

    def __init__(self, ranking: Ranking) -> None:
        plan = ranking.plan
        quoted = (*_QUOTED.findall(plan.text), *plan.filters.phrases)
        self.words = _split_words(plan.text)
        self.quoted = [words for text in quoted if len(words := _split_words(text)) > 1]
        self.is_error = plan.kind == "error"
        self._rarity = {term: ranking.rarity.get(term, 0.0) for term in plan.terms}
        self.total = sum(self._rarity.values())
        self._terms = {
            word: self._rarity.keys() & terms_of(word)
            for word in (*self.words, *(word for words in self.quoted for word in words))
        }
        self._plain = [" ".join(_WORD.findall(word.lower())) for word in self.words]
        self._plain_quoted = [_normalise(" ".join(words)) for words in self.quoted]

    def share(self, words: Iterable[str]) -> float:
        """Return the share of these words in the question, weighted by how rare they are."""
        terms = frozenset[str]().union(*map(self._terms.__getitem__, words))
        # In the order of the question, since the order of a sum changes its last digits.
        return sum([value for term, value in self._rarity.items() if term in terms]) / self.total

    def list_runs(self) -> list[tuple[str, ...]]:
        """Return the parts to look up, best first: quoted text, code, and groups of words."""
        if not self.total:
            return []
        words = self.words
        groups = [tuple(words[at : at + _WORDS]) for at in range(len(words) - _WORDS + 1)]
        shares = {group: self.share(group) for group in groups}
        best = sorted((group for group in groups if shares[group]), key=lambda g: -shares[g])
        quoted = map(tuple, self.quoted[:_MOST_RUNS])
        return list(dict.fromkeys((*quoted, *best[:_MOST_RUNS])))

    def measure_extent(self, written: str) -> float:
        """Return how much of the question a normalised text contains, from 0 to 1.

        That is the share of the longest part found. Quoted text and long parts of an error message
        count in full.
        """
        if any(quoted in written for quoted in self._plain_quoted):
            return 1.0
        best, end = 0.0, 0
        for start in range(len(self.words)):  # The longest run of words from each start.
            end = max(end, start)
            while end < len(self.words):
                run = " ".join(filter(None, self._plain[start : end + 1]))
                if f" {run} " not in written:
                    break
                end += 1
            words = self.words[start:end]
            terms = frozenset[str]().union(*map(self._terms.__getitem__, words))
            if self.is_error and len(words) >= _LONG and len(terms) >= _TELLING:
                return 1.0
            if len(words) > 1:
                best = max(best, self.share(words))
        return best


def _split_words(text: str) -> list[str]:
    return [word for written in text.split() if (word := written.strip(_EDGES))]


def boost_verbatim(ranking: Ranking) -> Ranking:
    """Put passages first that repeat the question word for word, if few documents do."""
    plan, sources = ranking.plan, ranking.sources
    if plan.mode == "vector" or plan.kind in ("identifier", "path"):
        return ranking
    question = _Question(ranking)
    phrases = [" ".join(run) for run in question.list_runs()]
    if not phrases:
        return ranking
    reported = []
    for source in sources:
        filters = resolve_globs(source.plan.filters, source.snapshot)
        reported.append(source.snapshot.few_holding(phrases, _FEW_CHUNKS, filters))
    holders: dict[Chunk, Candidate] = {}
    for of_run in zip(*reported, strict=True):
        if None in of_run:
            continue  # Too many documents have it.
        places = [(number, place) for number, here in enumerate(of_run) for place in here or ()]
        if len({(number, place.document) for number, place in places}) <= _FEW_DOCUMENTS:
            for number, place in places:
                holders.setdefault((number, place.key), Candidate(place, 0.0, 0.0, 0.0, number))
    if not holders:
        return ranking
    chunks = [(candidate.source, candidate.place) for candidate in holders.values()]
    normalised = read_parts(sources, chunks, _normalise, RECENT_TEXTS, _BYTES, 2)
    shares = {
        chunk: question.measure_extent(normalised[candidate.place.sha])
        for chunk, candidate in holders.items()
    }
    known = frozenset(ranking.candidates.chunks)
    missing = [candidate for chunk, candidate in holders.items() if chunk not in known]
    ranking = ranking.add_candidates(missing) if missing else ranking
    best = max(ranking.scores, default=0.0)
    # A question about history asks for a commit, not for a place with the same words.
    decides = not asks_for_history(plan.text)
    added = [0.0] * len(ranking.candidates)
    for at, chunk in enumerate(ranking.candidates.chunks):
        if share := shares.get(chunk, 0.0):
            # The same for all, so that the rest of the ranking decides between them.
            added[at] = best + 1.0 if share == 1.0 and decides else _PART * share
    return ranking.add_step(
        "word for word",
        added,
        lambda c: f"{shares.get(c.chunk, 0.0):.0%} of the question, word for word",
    )


def _normalise(text: str) -> str:
    """Return the words in lower case, with a single space around each."""
    lowered = text.lower()
    if lowered.isascii():  # The usual case; splitting it does not need a regex.
        words = lowered.encode().translate(_BLANKED).decode().split()
    else:
        words = _WORD.findall(lowered)
    return f" {' '.join(words)} "
