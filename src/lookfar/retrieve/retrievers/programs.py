"""Replace prose by the programs in it, for questions that ask for a programming language.

Passages are found as usual, and the programs are read from their pages. A program is scored by its
own words and by the vector of the passage around it, and cited as an exact slice of its page.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from lookfar.common.lines import Lines
from lookfar.model import Span
from lookfar.retrieve.ranking import Candidate, Candidates, Document, Ranking
from lookfar.store.keywords.analyser import terms_of


def replace_with_programs(ranking: Ranking) -> Ranking:
    """Replace prose by the programs in it, at most ``per_document`` of a page."""
    candidates: list[Candidate] = []
    prose: dict[Document, list[Candidate]] = defaultdict(list)
    for candidate in ranking.candidates:
        languages = ranking.sources[candidate.source].plan.filters.languages
        if languages and candidate.place.lane != "code":
            prose[candidate.document].append(candidate)
        else:
            candidates.append(candidate)
    for passages in prose.values():
        candidates += _find_in_page(passages, ranking, len(candidates))
    return replace(ranking, candidates=Candidates(candidates), scores=(0.0,) * len(candidates))


def _find_in_page(
    passages: Sequence[Candidate], ranking: Ranking, number: int
) -> Sequence[Candidate]:
    _, plan, snapshot, *_ = ranking.sources[passages[0].source]
    uri = passages[0].place.uri
    known, text = snapshot.document(uri), snapshot.text(uri)
    wanted = plan.filters.languages
    if known is None or text is None or known["language"] in wanted:
        return passages  # The page itself is in that language.
    lines = Lines(text)
    programs: dict[int, Candidate] = {}
    spans: Mapping[str, Sequence[tuple[int, int]]] = known.get("programs") or {}
    for start, end in (span for name, some in spans.items() if name in wanted for span in some):
        holding = [
            passage
            for passage in passages
            if start < passage.place.end and passage.place.start < end
        ]
        score, _ = score_words(text[start:end], ranking.rarity)
        if not holding or (ranking.plan.mode == "keyword" and not score):
            continue
        best = max(holding, key=lambda passage: (passage.vector, -passage.place.start))
        span = Span(start, end, lines.line_of(start), lines.line_of(end - 1))
        programs[start] = cut_out(best, text, span, score, number + len(programs))
    ranked = sorted(programs.values(), key=lambda program: (-program.keyword, program.place.start))
    # If one program contains words of the question, those without any are dropped.
    if ranked and ranked[0].keyword:
        ranked = [program for program in ranked if program.keyword]
    return ranked[: ranking.settings.per_document or None]


def cut_out(candidate: Candidate, text: str, span: Span, score: float, number: int) -> Candidate:
    """Return a part of a document as a candidate, with the vector scores of the chunk around it.

    Its document has a number that no other has: two parts must not be merged into one passage.
    """
    place = candidate.place._replace(
        document=-1 - number,
        part=1,
        parts=1,
        start=span.start,
        end=span.end,
        start_line=span.start_line,
        end_line=span.end_line,
        overlap=0,
        sha=sha256(text[span.start : span.end].encode("utf-8")).digest(),
    )
    return candidate._replace(place=place, keyword=score)


_USUAL_LENGTH = 40
_SATURATION = 1.2
_LENGTH_SHARE = 0.75


def score_words(text: str, rarity: Mapping[str, float]) -> tuple[float, int]:
    """Return a BM25 score for a text that is not in the keyword index, and its number of words."""
    terms = Counter(terms_of(text))
    length = terms.total()
    damped = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * length / _USUAL_LENGTH)
    score = sum(
        weight * terms[term] * (_SATURATION + 1) / (terms[term] + damped)
        for term, weight in rarity.items()
        if term in terms
    )
    return score, length
