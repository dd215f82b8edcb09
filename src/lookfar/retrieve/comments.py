"""Search comments and docstrings along with the documentation when code is not asked for.

Chunks of code are ranked first, and the best few files are parsed for comments. A comment is scored
by its own words and by the vector of the chunk around it, and cited as an exact slice of its file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lookfar.common.recent import RecentValues
from lookfar.config import SearchSettings
from lookfar.model import Comment
from lookfar.model import Document as ParsedDocument
from lookfar.retrieve.answer.choose import choose_passages
from lookfar.retrieve.answer.excerpt import cite
from lookfar.retrieve.ranking import Candidate, Candidates, Document, Results, Source, Stage
from lookfar.retrieve.retrievers.programs import cut_out, score_words
from lookfar.retrieve.search import apply_stages, collect_candidates, rank
from lookfar.text.parse.comments import find_comments

_MOST_FILES = 8
"""Files parsed for one question."""
_MOST_CHUNKS = 32
_recent: RecentValues[tuple[str, int], tuple[Comment, ...]] = RecentValues(64)
"""The comments of files, cached for the next questions."""
_FEWEST_WORDS = 4
"""Minimum length of a comment that is cited; docstrings may be shorter."""
_AS_GOOD = 0.6
"""Share of the best score in a chunk that another of its comments needs."""


def search_with_comments(
    sources: Sequence[Source], settings: SearchSettings, explain: bool, score: Stage = apply_stages
) -> Results:
    """Return cited hits from documents and from comments in code, ranked together."""
    code_sources = []
    for source in sources:
        filters = replace(source.plan.filters, lanes=("code",))
        code_sources.append(source._replace(plan=replace(source.plan, filters=filters), aside=True))
    asked = [*sources, *code_sources]
    ranking = collect_candidates(sources, settings)
    code = rank(code_sources, settings, score=score)
    chunks = [code.candidates[at] for at in code.order()[:_MOST_CHUNKS]]
    chunks = [chunk._replace(source=chunk.source + len(sources)) for chunk in chunks]
    most = settings.per_document or len(chunks)
    remarks = _find_comments(asked, chunks, ranking.rarity, most)
    if ranking.plan.mode == "keyword":
        remarks = [remark for remark in remarks if remark.keyword]
    candidates = Candidates((*ranking.candidates, *remarks))
    none = (0.0,) * len(candidates)
    ranking = score(replace(ranking, candidates=candidates, scores=none, sources=asked))
    best, notes = choose_passages(ranking, asked, settings)
    explained = ranking.explain_fully if explain else None
    hits, stale = cite(best, asked, max_chars=settings.max_excerpt_chars, explain=explained)
    marked = [
        replace(hit, comment=passage.source >= len(sources))
        for hit, passage in zip(hits, best, strict=True)
    ]
    return Results(marked, [*ranking.notes, *notes, *stale])


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
                cut = cut_out(chunk, text, remark.span, score, len(candidates))
                path = document.sections[remark.section].path if remark.section >= 0 else ()
                candidates[place] = cut._replace(place=cut.place._replace(lane="docs", path=path))
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
    parsed = _recent.get(key)
    if parsed is None:
        parsed = find_comments(document)
        _recent.add(key, parsed, 1)
    return text, parsed, document
