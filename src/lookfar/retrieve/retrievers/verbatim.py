"""Find passages that contain a part of the question word for word, if few documents do.

A pasted log message or line of code should lead to the place that writes it, although its words may
be common ones. The passages come first if the part is the whole question, or what it quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from lookfar.common.recent import RecentValues
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
_recent: Final[RecentValues[bytes, str]] = RecentValues(_MOST_BYTES)
"""Normalised texts of chunks by their hashes, so that none is ever stale: few chunks hold what
questions ask for word for word, and they are read again and again."""
_EDGES: Final = "\"'`“”‘’.,;:!?()[]{}<>"


class Run(NamedTuple):
    """Consecutive words of a question."""

    words: tuple[str, ...]
    share: float
    """Share of the question, weighted by how rare its words are."""


class _Question:
    """The words of a question, prepared to measure how much of it a text repeats."""

    def __init__(self, plan: Plan, rarity: Mapping[str, float]) -> None:
        self.words = _split_words(plan.text)
        self.quoted = [_split_words(text) for text in _find_quoted(plan)]
        self.is_error = plan.kind == "error"
        self._rarity = {term: rarity.get(term, 0.0) for term in plan.terms}
        self.total = sum(self._rarity.values())
        self._terms = {
            word: self._rarity.keys() & terms_of(word)
            for word in (*self.words, *(word for words in self.quoted for word in words))
        }
        self._plain = [" ".join(_WORD.findall(word.lower())) for word in self.words]
        self._plain_quoted = [_normalise(text) for text in _find_quoted(plan)]

    def terms(self, words: Iterable[str]) -> frozenset[str]:
        """Return the terms of the question that these of its words have."""
        return frozenset().union(*map(self._terms.__getitem__, words))

    def share(self, words: Iterable[str]) -> float:
        """Return the share of these words in the question, weighted by how rare they are."""
        terms = self.terms(words)
        # In the order of the question, since the order of a sum changes its last digits.
        return sum([value for term, value in self._rarity.items() if term in terms]) / self.total

    def measure_extent(self, written: str) -> float:
        """Return how much of the question a normalised text contains, from 0 to 1.

        That is the share of the longest part found. Quoted text and long parts of an error message
        count in full.
        """
        if any(quoted in written for quoted in self._plain_quoted):
            return 1.0
        best = 0.0
        for words in self._longest_runs(written):
            if self.is_error and len(words) >= _LONG and len(self.terms(words)) >= _TELLING:
                return 1.0
            best = max(best, self.share(words))
        return best

    def _longest_runs(self, written: str) -> Iterator[Sequence[str]]:
        """Yield the longest run of words from each start that the text contains."""
        end = 0
        for start in range(len(self.words)):
            end = max(end, start)
            while end < len(self.words) and self._join(start, end + 1) in written:
                end += 1
            if end - start >= 2:
                yield self.words[start:end]

    def _join(self, start: int, end: int) -> str:
        joined = " ".join(filter(None, self._plain[start:end]))
        return f" {joined} "


def find_runs(question: _Question) -> list[Run]:
    """Return the parts of a question to look up, best first: quoted text, code, word groups."""
    if not question.total:
        return []
    words = question.words
    groups = (words[at : at + _WORDS] for at in range(len(words) - _WORDS + 1))
    runs = (Run(tuple(group), question.share(group)) for group in groups)
    best = sorted((run for run in runs if run.share), key=lambda run: -run.share)[:_MOST_RUNS]
    first = [Run(tuple(group), question.share(group)) for group in question.quoted[:_MOST_RUNS]]
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
        shares: dict[tuple[int, int], float] = {}
        added: dict[tuple[int, int], Candidate] = {}
        question = _Question(plan, ranking.rarity)
        holders = _find_holders(find_runs(question), sources)
        normalised = _read_normalised(holders, sources)
        for number, place in holders:
            candidate = Candidate(place, 0.0, 0.0, 0.0, number)
            if candidate.chunk not in shares:
                shares[candidate.chunk] = question.measure_extent(normalised[place.sha])
                added[candidate.chunk] = candidate
        if not shares:
            return ranking
        known = frozenset(ranking.candidates.chunks)
        joined = ranking.add_candidates(
            [candidate for key, candidate in added.items() if key not in known]
        )
        return _boost(joined, shares)

    return lift


def _find_holders(runs: Sequence[Run], sources: Sequence[Source]) -> list[tuple[int, Place]]:
    """Return the chunks that contain one of the runs; none for a run that many documents have."""
    if not runs:
        return []
    phrases = [" ".join(run.words) for run in runs]
    reported = []
    for source in sources:
        filters = resolve_globs(source.plan.filters, source.snapshot)
        reported.append(source.snapshot.few_holding(phrases, _FEW_CHUNKS, filters))
    holders: list[tuple[int, Place]] = []
    for of_run in zip(*reported, strict=True):
        if None in of_run:
            continue
        places = [(number, place) for number, here in enumerate(of_run) for place in here or ()]
        if len({(number, place.document) for number, place in places}) <= _FEW_DOCUMENTS:
            holders += places
    return holders


def _read_normalised(
    holders: Sequence[tuple[int, Place]], sources: Sequence[Source]
) -> dict[bytes, str]:
    """Return the normalised texts of these chunks by their hashes; only unknown ones are read."""
    texts: dict[bytes, str] = {}
    unread: list[tuple[int, Place]] = []
    for number, place in holders:
        known = _recent.get(place.sha)
        if known is None:
            unread.append((number, place))
        else:
            texts[place.sha] = known
    for number, source in enumerate(sources):
        source.snapshot.preload_texts(sorted({p.uri for at, p in unread if at == number}))
    for number, place in unread:
        if place.sha in texts:
            continue
        text = sources[number].snapshot.text(place.uri)
        texts[place.sha] = written = _normalise((text or "")[place.start : place.end])
        if text is not None:
            _recent.add(place.sha, written, _BYTES + 2 * len(written))
    return texts


def forget_texts() -> None:
    """Release what was read lately."""
    _recent.clear()


def _normalise(text: str) -> str:
    """Return the words in lower case, with a single space around each."""
    lowered = text.lower()
    if lowered.isascii():  # The usual case; splitting it does not need a regex.
        words = lowered.encode().translate(_BLANKED).decode().split()
    else:
        words = _WORD.findall(lowered)
    return f" {' '.join(words)} "


def _boost(ranking: Ranking, shares: dict[tuple[int, int], float]) -> Ranking:
    best = max(ranking.scores, default=0.0)
    # A question about history asks for a commit, not for a place with the same words.
    decides = not asks_for_history(ranking.plan.text)
    added = [0.0] * len(ranking.candidates)
    for at, chunk in enumerate(ranking.candidates.chunks):
        if share := shares.get(chunk, 0.0):
            # The same for all, so that the rest of the ranking decides between them.
            added[at] = best + 1.0 if share == 1.0 and decides else _PART * share

    def note(candidate: Candidate) -> str:
        share = shares.get(candidate.chunk, 0.0)
        return f"{share:.0%} of the question, word for word"

    return ranking.add_step("word for word", added, note)
