"""Search with fixed shares of meaning and words, for scores that can be added up by hand.

A score is ``vector * cosine + keyword * bm25``, where negative cosines count as 0 and BM25 is
divided by the best among the candidates. BM25 is that of the chunk with the title, path,
description and aliases of its document. A passage of a document that the question names exactly
gets 1 as both; one with hardly more than headings and links gets half of both. There are no other
boosts and no limits per document. The best chunks are chosen first; then those of one section are
joined, so there may be fewer hits than asked for. Headings in the path of a hit keep their markup.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from lookfar.common.lines import count_units
from lookfar.config import SearchSettings
from lookfar.library.compat import THIN, find_exact, find_thin
from lookfar.model import Hit, Section
from lookfar.ports import Place
from lookfar.retrieve.answer.diversify import Passage, join_chunks
from lookfar.retrieve.answer.excerpt import cite
from lookfar.retrieve.question.plan import field_weights
from lookfar.retrieve.ranking import Ranking, Results, Source
from lookfar.retrieve.search import collect_candidates
from lookfar.retrieve.stages.boost import score_word_pairs

_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*$", re.MULTILINE)


class Shares(NamedTuple):
    """The parts of a score before they are weighted, from 0 to 1."""

    vector: float
    keyword: float


class ShareSearch:
    """A search with fixed weights, for a single question. It keeps the shares of its hits."""

    def __init__(self, *, vector: float, keyword: float, gap: int, utf16: bool = False) -> None:
        """Join spans less than ``gap`` characters apart; ``utf16``: offsets are UTF-16 units."""
        self._vector = vector
        self._keyword = keyword
        self._gap = gap
        self._utf16 = utf16
        self.shares: dict[str, Shares] = {}
        """The shares of each hit, by the id of its best chunk."""

    def __call__(
        self, sources: Sequence[Source], settings: SearchSettings, explain: bool
    ) -> Results:
        ranking = collect_candidates(sources, settings)
        candidates = ranking.candidates
        beside = score_word_pairs(ranking, candidates)
        names = _score_names(ranking, sources, field_weights(settings)[1])
        # Words in the same order as in the question count up to twice.
        words = [
            (candidate.keyword + name) * (1 + beside.get(candidate.chunk, 0.0))
            for candidate, name in zip(candidates, names, strict=True)
        ]
        most = max(words, default=0.0) or 1.0
        shares = [
            Shares(min(max(candidate.vector, 0.0), 1.0), score / most)
            for candidate, score in zip(candidates, words, strict=True)
        ]
        first = self._weigh(ranking, shares)
        for at in find_thin(first):
            shares[at] = Shares(THIN * shares[at].vector, THIN * shares[at].keyword)
        for at in find_exact(first)[1]:
            shares[at] = Shares(1.0, 1.0)
        ranking = self._weigh(ranking, shares)
        best = [at for at in ranking.order() if ranking.scores[at] > 0][: ranking.plan.top_k]
        self.shares = {candidates[at].place.id.hex(): shares[at] for at in best}
        hits, stale = cite(
            _join_passages(ranking, best, self._gap),
            sources,
            max_chars=settings.max_excerpt_chars,
            explain=ranking.explain if explain else None,
        )
        hits = _restore_titles(hits, sources)
        if self._utf16:
            hits = _count_in_utf16(hits, sources)
        return Results(hits, [*ranking.notes, *stale])

    def _weigh(self, ranking: Ranking, shares: Sequence[Shares]) -> Ranking:
        by_meaning = [self._vector * share.vector for share in shares]
        by_words = [self._keyword * share.keyword for share in shares]
        ranking = ranking.add_step("vector", by_meaning, lambda c: f"cosine {c.vector:.3f}")
        return ranking.add_step("keyword", by_words, lambda c: f"bm25 {c.keyword:.3f}")


def _score_names(
    ranking: Ranking, sources: Sequence[Source], weights: Mapping[str, float]
) -> list[float]:
    """Return BM25 of the title, path, description and aliases of each candidate's document."""
    names = {field: weight for field, weight in weights.items() if field != "page"}
    scores: dict[tuple[int, int], float] = {}
    for number, source in enumerate(sources):
        documents = sorted({at for owner, at in ranking.candidates.documents if owner == number})
        terms = dict.fromkeys(source.plan.terms, 1.0)
        known = [at for at in documents if at >= 0]
        for document, score in source.snapshot.page_scores(terms, names, known).items():
            scores[number, document] = score
    return [scores.get(document, 0.0) for document in ranking.candidates.documents]


def _join_passages(ranking: Ranking, best: Sequence[int], gap: int) -> list[Passage]:
    """Turn chunks into passages. Chunks that nearly touch become one, with the better score."""
    documents: dict[tuple[int, int], list[int]] = defaultdict(list)
    for at in best:
        documents[ranking.candidates[at].document].append(at)
    runs: list[list[int]] = []
    for group in documents.values():
        previous: Place | None = None
        reach = 0
        places = [(ranking.candidates[at].place, at) for at in group]
        for place, at in sorted(places, key=lambda pair: (pair[0].start, pair[0].ordinal)):
            near = previous is not None and place.start < reach + gap
            if previous is not None and near and _are_one_section(previous, place):
                runs[-1].append(at)
                reach = max(reach, place.end)
            else:
                runs.append([at])
                reach = place.end
            previous = place
    passages = [join_chunks(ranking, run) for run in runs]
    return sorted(passages, key=attrgetter("rank_key"))


def _are_one_section(earlier: Place, later: Place) -> bool:
    """Whether two chunks are parts of one section. Titles may repeat, so positions decide."""
    apart = later.part - earlier.part
    return earlier.path == later.path and apart == later.ordinal - earlier.ordinal


def _restore_titles(hits: Sequence[Hit], sources: Sequence[Source]) -> list[Hit]:
    """Return the hits with the markup of their headings, unless the text has moved."""
    by_name = {source.collection: source for source in sources}
    written: dict[tuple[str, str], tuple[list[Section], str]] = {}
    restored = []
    for hit in hits:
        key, snapshot = (hit.collection, hit.uri), by_name[hit.collection].snapshot
        if key not in written:
            written[key] = snapshot.sections(hit.uri), snapshot.text(hit.uri) or ""
        sections, text = written[key]
        around = [s for s in sections if s.level and s.span.start <= hit.span.start < s.span.end]
        if hit.state != "moved" and tuple(section.title for section in around) == hit.path:
            hit = replace(hit, path=tuple(_read_heading(text, section) for section in around))
        restored.append(hit)
    return restored


def _read_heading(text: str, section: Section) -> str:
    """Return a heading with its markup, but without ``#``; an underlined one without markup."""
    match = _HEADING.match(text, section.span.start, section.body)
    return " ".join(match[1].split()) if match else section.title


def _count_in_utf16(hits: Sequence[Hit], sources: Sequence[Source]) -> list[Hit]:
    """Return the hits with offsets in UTF-16 units."""
    by_name = {source.collection: source for source in sources}
    texts: dict[tuple[str, str, bool], str] = {}
    counted = []
    for hit in hits:
        source, current = by_name[hit.collection], hit.state in ("same", "moved")
        key = hit.collection, hit.uri, current
        if key not in texts:
            text = source.read(hit.uri) if current else None
            texts[key] = source.snapshot.text(hit.uri) or "" if text is None else text
        text = texts[key]
        start = count_units(text[: hit.span.start])
        end = start + count_units(text[hit.span.start : hit.span.end])
        counted.append(replace(hit, span=replace(hit.span, start=start, end=end)))
    return counted
