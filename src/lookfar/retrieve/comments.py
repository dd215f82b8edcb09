"""Search comments and docstrings along with the documentation when code is not asked for.

Chunks of code are ranked first, and the best few files are parsed for comments. A comment is scored
by its own words and by the vector of the chunk around it, and cited as an exact slice of its file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from threading import Lock

from lookfar.config import SearchSettings
from lookfar.model import Comment, Document
from lookfar.retrieve.answer.choose import choose_passages
from lookfar.retrieve.answer.excerpt import cite
from lookfar.retrieve.ranking import Candidate, Candidates, Results, Source
from lookfar.retrieve.retrievers.programs import score_words
from lookfar.retrieve.search import MakeStages, collect_candidates, make_stages, rank
from lookfar.text.parse.comments import find_comments

_MOST_FILES = 8
"""Files parsed for one question."""
_MOST_CHUNKS = 32
_CACHED_FILES = 64
"""Files whose comments are cached for the next questions."""
_FEWEST_WORDS = 4
"""Minimum length of a comment that is cited; docstrings may be shorter."""
_AS_GOOD = 0.6
"""Share of the best score in a chunk that another of its comments needs."""


def search_with_comments(
    sources: Sequence[Source],
    settings: SearchSettings,
    explain: bool,
    stages: MakeStages = make_stages,
) -> Results:
    """Return cited hits from documents and from comments in code, ranked together."""
    code_sources = [_ask_for_code(source) for source in sources]
    asked = [*sources, *code_sources]
    ranking = collect_candidates(sources, settings)
    code = rank(code_sources, settings, stages=stages)
    chunks = [code.candidates[at] for at in code.order()[:_MOST_CHUNKS]]
    chunks = [chunk._replace(source=chunk.source + len(sources)) for chunk in chunks]
    most = settings.per_document or len(chunks)
    remarks = _find_comments(asked, chunks, ranking.rarity, most)
    if ranking.plan.mode == "keyword":
        remarks = [remark for remark in remarks if remark.keyword]
    candidates = Candidates((*ranking.candidates, *remarks))
    ranking = replace(ranking, candidates=candidates, scores=(0.0,) * len(candidates))
    for stage in stages(settings, asked):
        ranking = stage(ranking)
    best, notes = choose_passages(ranking, asked, settings)
    hits, stale = cite(
        best,
        asked,
        max_chars=settings.max_excerpt_chars,
        explain=ranking.explain_fully if explain else None,
    )
    marked = [
        replace(hit, comment=passage.source >= len(sources))
        for hit, passage in zip(hits, best, strict=True)
    ]
    return Results(marked, [*ranking.notes, *notes, *stale])


def _ask_for_code(source: Source) -> Source:
    """Return the same collection with a plan that asks for code."""
    filters = replace(source.plan.filters, lanes=("code",))
    return source._replace(plan=replace(source.plan, filters=filters), aside=True)


def _find_comments(
    asked: Sequence[Source], chunks: Sequence[Candidate], rarity: Mapping[str, float], most: int
) -> list[Candidate]:
    """Return the best comments in each chunk, at most ``most`` per file."""
    read: dict[tuple[int, int], tuple[str, tuple[Comment, ...], Document]] = {}
    of_file: Counter[tuple[int, int]] = Counter()
    candidates: dict[tuple[int, int, int], Candidate] = {}
    for chunk in chunks:
        key = chunk.document
        if key not in read and len(read) == _MOST_FILES:
            continue
        if key not in read:
            read[key] = _read_comments(asked[chunk.source], chunk.place.uri)
        text, remarks, document = read[key]
        scored = sorted(
            _score_comments(chunk, text, remarks, rarity),
            key=lambda pair: (-pair[0], not pair[1].docstring, pair[1].span.start),
        )
        for score, remark in scored:
            place = (*key, remark.span.start)
            as_good = remark is scored[0][1] or score > _AS_GOOD * scored[0][0]
            if as_good and place not in candidates and of_file[key] < most:
                of_file[key] += 1
                candidates[place] = _make_candidate(
                    chunk, remark, document, score, -1 - len(candidates)
                )
    return list(candidates.values())


def _read_comments(source: Source, uri: str) -> tuple[str, tuple[Comment, ...], Document]:
    """Return the text and the comments of a file as it was indexed."""
    known, text = source.snapshot.document(uri), source.snapshot.text(uri) or ""
    document = Document(
        uri=uri,
        text=text,
        title="",
        lane="code",
        language=known["language"] if known else "",
        body=0,
        sections=tuple(source.snapshot.sections(uri)),
    )
    return text, _parse_comments(document), document


def _parse_comments(document: Document) -> tuple[Comment, ...]:
    """Parse the comments of a document, with a cache: files of thousands of lines are slow."""
    key = (document.uri, hash(document.text))
    parsed = _cache.get(key)
    if parsed is None:
        parsed = find_comments(document)
        with _cache_lock:
            while len(_cache) >= _CACHED_FILES:
                del _cache[next(iter(_cache))]
            _cache[key] = parsed
    return parsed


_cache: dict[tuple[str, int], tuple[Comment, ...]] = {}
_cache_lock = Lock()


def _score_comments(
    chunk: Candidate, text: str, remarks: Sequence[Comment], rarity: Mapping[str, float]
) -> Iterator[tuple[float, Comment]]:
    """Yield the comments of a chunk that are worth citing, with their keyword scores."""
    for remark in remarks:
        if remark.span.end <= chunk.place.start or remark.span.start >= chunk.place.end:
            continue
        score, length = score_words(text[remark.span.start : remark.span.end], rarity)
        if length and (length >= _FEWEST_WORDS or remark.docstring):
            yield score, remark


def _make_candidate(
    chunk: Candidate, comment: Comment, document: Document, score: float, number: int
) -> Candidate:
    """Return a comment as a candidate of its own.

    ``number`` is an unused document number: two comments of a file must not become one passage.
    """
    span = comment.span
    text = document.text[span.start : span.end]
    place = chunk.place._replace(
        document=number,
        lane="docs",
        path=document.sections[comment.section].path if comment.section >= 0 else (),
        part=1,
        parts=1,
        start=span.start,
        end=span.end,
        start_line=span.start_line,
        end_line=span.end_line,
        overlap=0,
        sha=sha256(text.encode("utf-8")).digest(),
    )
    return chunk._replace(place=place, keyword=score)
