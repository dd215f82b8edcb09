"""Search comments and docstrings along with the documentation when code is not asked for.

Chunks of code are ranked first, and the best few files are parsed for comments. A comment is scored
by its own words and by the vector of the chunk around it, and cited as an exact slice of its file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from threading import Lock

from lookfar.config import SearchSettings
from lookfar.model import Comment
from lookfar.model import Document as ParsedDocument
from lookfar.retrieve.answer.choose import choose_passages
from lookfar.retrieve.answer.excerpt import cite
from lookfar.retrieve.ranking import Candidate, Candidates, Document, Results, Source
from lookfar.retrieve.retrievers.programs import score_words
from lookfar.retrieve.search import USUAL, Ways, apply_stages, collect_candidates, rank
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
    sources: Sequence[Source], settings: SearchSettings, explain: bool, ways: Ways = USUAL
) -> Results:
    """Return cited hits from documents and from comments in code, ranked together."""
    code_sources = [_ask_for_code(source) for source in sources]
    asked = [*sources, *code_sources]
    ranking = collect_candidates(sources, settings)
    code = rank(code_sources, settings, ways=ways)
    chunks = [code.candidates[at] for at in code.order()[:_MOST_CHUNKS]]
    chunks = [chunk._replace(source=chunk.source + len(sources)) for chunk in chunks]
    most = settings.per_document or len(chunks)
    remarks = _find_comments(asked, chunks, ranking.rarity, most)
    if ranking.plan.mode == "keyword":
        remarks = [remark for remark in remarks if remark.keyword]
    candidates = Candidates((*ranking.candidates, *remarks))
    none = (0.0,) * len(candidates)
    ranking = replace(ranking, candidates=candidates, scores=none, sources=asked)
    ranking = apply_stages(ranking, ways)
    best, notes = choose_passages(ranking, asked, settings)
    explained = ranking.explain_fully if explain else None
    hits, stale = cite(best, asked, max_chars=settings.max_excerpt_chars, explain=explained)
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
    files: dict[Document, tuple[str, tuple[Comment, ...], ParsedDocument]] = {}
    of_file: Counter[Document] = Counter()
    candidates: dict[tuple[int, int, int], Candidate] = {}
    for chunk in chunks:
        file = chunk.document
        if file not in files:
            if len(files) == _MOST_FILES:
                continue
            files[file] = _read_comments(asked[chunk.source], chunk.place.uri)
        text, remarks, document = files[file]
        scored: list[tuple[float, Comment]] = []
        for remark in remarks:
            if remark.span.start < chunk.place.end and chunk.place.start < remark.span.end:
                score, length = score_words(text[remark.span.start : remark.span.end], rarity)
                # A docstring is worth citing however short it is.
                if length >= (1 if remark.docstring else _FEWEST_WORDS):
                    scored.append((score, remark))
        scored.sort(key=lambda pair: (-pair[0], not pair[1].docstring, pair[1].span.start))
        for score, remark in scored:
            place = (*file, remark.span.start)
            as_good = remark is scored[0][1] or score > _AS_GOOD * scored[0][0]
            if as_good and place not in candidates and of_file[file] < most:
                of_file[file] += 1
                number = -1 - len(candidates)
                candidates[place] = _make_candidate(chunk, remark, document, score, number)
    return list(candidates.values())


def _read_comments(source: Source, uri: str) -> tuple[str, tuple[Comment, ...], ParsedDocument]:
    """Return the text and the comments of a file as it was indexed.

    Comments are cached: files of thousands of lines are slow to parse.
    """
    known, text = source.snapshot.document(uri), source.snapshot.text(uri) or ""
    document = ParsedDocument(
        uri=uri,
        text=text,
        title="",
        lane="code",
        language=known["language"] if known else "",
        body=0,
        sections=tuple(source.snapshot.sections(uri)),
    )
    key = (uri, hash(text))
    parsed = _cache.get(key)
    if parsed is None:
        parsed = find_comments(document)
        with _cache_lock:
            while len(_cache) >= _CACHED_FILES:
                del _cache[next(iter(_cache))]
            _cache[key] = parsed
    return text, parsed, document


_cache: dict[tuple[str, int], tuple[Comment, ...]] = {}
_cache_lock = Lock()


def _make_candidate(
    chunk: Candidate, comment: Comment, document: ParsedDocument, score: float, number: int
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
