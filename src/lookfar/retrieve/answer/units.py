"""Rank the definitions of code and the sections of documents inside the best files.

A chunk may hold ten small definitions or a part of a long one, so the best chunk does not say which
definition is meant. Here each definition and each section competes as a unit of its own: by the
question's words in its name, its path and its body, by the score of the chunks that it shares, and
by that of its file. Nothing has to be indexed for it: the texts of the best files are in the store.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from lookfar.model import Section, Span, SymbolKind, Unit, UnitLine
from lookfar.retrieve.locate.file_names import is_marginal, is_test
from lookfar.retrieve.question.intent import asks_about_tests
from lookfar.retrieve.question.names import BETWEEN_NAMES, compile_definition_pattern
from lookfar.retrieve.ranking import Candidate, Document, Ranking, Source
from lookfar.store.keywords.analyser import analyse

FILES: Final = 30
"""Files in which definitions are compared; they are read from the store for each question."""
_SATURATION: Final = 1.2
_LENGTH: Final = 0.75
"""The usual parameters of BM25."""
_NAME: Final = 3.0
_PARENTS: Final = 1.0
_PATH: Final = 1.0
"""How often a word of the name, of the names around it or of the file's path counts as one of the
body does."""
_CHUNK: Final = 0.5
_FILE: Final = 0.5
"""Weights of the best chunk inside the unit and of its file, beside the words with 1."""
_ACTS: Final = frozenset(("function", "method", "class", "struct", "trait", "impl", "interface"))
_DECLARED: Final = 0.7
"""Factor for constants, types and other definitions that do nothing."""
_ASIDE: Final = 0.5
_MOST_LINES: Final = 6
_WITH_LINES: Final = 5
"""Units that come with their text and lines."""
_MOST_TEXT: Final = 20_000
_DECIDES: Final = re.compile(
    r"\b(?:if|elif|else|unless|when|case|switch|match|while|for|raise|throw|return|assert|panic"
    r"|except|catch)\b|(?<![=!<>])=(?!=)|\w\("
)
"""A line that decides something: a condition, an error, a result, an assignment or a call."""


@dataclass(slots=True)
class _Entry:
    """A unit while it is ranked."""

    candidate: Candidate
    section: Section | None
    kind: SymbolKind | Literal["section", "file"]
    start: int
    end: int
    words: str
    """The terms of its own text, each between spaces."""
    length: int
    chunk: float
    file: float
    score: float = 0.0


def rank_units(ranking: Ranking, sources: Sequence[Source], most: int) -> list[Unit]:
    """Return the best ``most`` definitions and sections, best first."""
    files = _choose_files(ranking)
    entries: list[_Entry] = []
    texts: dict[Document, str] = {}
    for number, source in enumerate(sources):
        here = {key: chunks for key, chunks in files.items() if key[0] == number}
        source.snapshot.preload_texts(
            [ranking.candidates[chunks[0]].place.uri for chunks in here.values()]
        )
        kinds = source.snapshot.definitions(sorted(document for _, document in here))
        for key, chunks in here.items():
            uri = ranking.candidates[chunks[0]].place.uri
            texts[key] = source.snapshot.text(uri) or ""
            starts = {d.start: d.kind for d in kinds.get(key[1], ())}
            sections = source.snapshot.sections(uri)
            entries += _read_entries(ranking, chunks, texts[key], sections, starts)
    _score(ranking, entries)
    entries.sort(key=lambda entry: (-entry.score, entry.candidate.place.uri, entry.start))
    units = [
        _make_unit(entry, sources, texts[entry.candidate.document]) for entry in entries[:most]
    ]
    for at, entry in enumerate(entries[: min(most, _WITH_LINES)]):
        text = texts[entry.candidate.document]
        lines = tuple(_find_deciding(ranking, entry, text))
        units[at] = replace(units[at], lines=lines, text=text[entry.start : entry.end][:_MOST_TEXT])
    return units


def _choose_files(ranking: Ranking) -> dict[Document, list[int]]:
    """Return the best files, each with the positions of its candidates, best first."""
    files: dict[Document, list[int]] = {}
    for at in ranking.order():
        candidate = ranking.candidates[at]
        if candidate.place.lane == "commits":
            continue
        if candidate.document in files or len(files) < FILES:
            files.setdefault(candidate.document, []).append(at)
    return files


def _read_entries(
    ranking: Ranking,
    chunks: Sequence[int],
    text: str,
    sections: Sequence[Section],
    kinds: Mapping[int, SymbolKind | Literal[""]],
) -> list[_Entry]:
    """Return the units of one file; a class or a section is its text without those inside it."""
    best = ranking.candidates[chunks[0]]
    file_score = ranking.scores[chunks[0]]
    entries: list[_Entry] = []
    inner: dict[int, list[Section]] = {}
    for section in sections:
        inner.setdefault(section.parent, []).append(section)
    for section in sections:
        if not section.level:
            continue
        start, end = section.span.start, section.span.end
        kind = kinds.get(start, "") or "section"
        if kind in ("function", "method", "macro"):
            own = text[start:end]
        else:
            own = _without(text, start, end, inner.get(section.ordinal, ()))
        near = [
            ranking.scores[at]
            for at in chunks
            if ranking.candidates[at].place.start < end and ranking.candidates[at].place.end > start
        ]
        words = analyse(own)
        entries.append(
            _Entry(
                best,
                section,
                kind,
                start,
                end,
                f" {words} ",
                words.count(" ") + 1,
                max(near, default=0.0),
                file_score,
            )
        )
    if not entries and text:
        words = analyse(text)
        entries.append(
            _Entry(
                best, None, "file", 0, len(text), f" {words} ", words.count(" ") + 1,
                file_score, file_score,
            )
        )  # fmt: skip
    return entries


def _without(text: str, start: int, end: int, inner: Sequence[Section]) -> str:
    parts = []
    for section in inner:
        parts.append(text[start : max(start, section.span.start)])
        start = max(start, section.span.end)
    return "".join((*parts, text[start:end]))


def _score(ranking: Ranking, entries: Sequence[_Entry]) -> None:
    """Score all units: BM25 over name, path and body, and what is known of chunk and file."""
    if not entries:
        return
    weights = [(term, rarity) for term, rarity in ranking.rarity.items() if rarity > 0]
    average = sum(entry.length for entry in entries) / len(entries)
    paths: dict[str, str] = {}
    by_words: list[float] = []
    for entry in entries:
        uri = entry.candidate.place.uri
        if uri not in paths:
            paths[uri] = f" {analyse(uri)} "
        *parents, title = entry.section.path if entry.section is not None else ("",)
        name, around = f" {analyse(title)} ", f" {analyse(' '.join(parents))} "
        long = 1 - _LENGTH + _LENGTH * entry.length / average
        total = 0.0
        for term, rarity in weights:
            spaced = f" {term} "
            count = entry.words.count(spaced) / long
            count += _NAME * (spaced in name) + _PARENTS * (spaced in around)
            count += _PATH * (spaced in paths[uri])
            if count:
                total += rarity * count * (_SATURATION + 1) / (count + _SATURATION)
        by_words.append(total)
    most = max(by_words) or 1.0
    best_file = max(entry.file for entry in entries) or 1.0
    best_chunk = max(entry.chunk for entry in entries) or 1.0
    tests = asks_about_tests(ranking.plan)
    for entry, words in zip(entries, by_words, strict=True):
        uri = entry.candidate.place.uri
        score = words / most + _CHUNK * entry.chunk / best_chunk + _FILE * entry.file / best_file
        if entry.candidate.place.lane == "code":
            score *= 1.0 if entry.kind in _ACTS else _DECLARED
            score *= _ASIDE if is_marginal(uri) or (is_test(uri) and not tests) else 1.0
        entry.score = score


def _make_unit(entry: _Entry, sources: Sequence[Source], text: str) -> Unit:
    place, section = entry.candidate.place, entry.section
    return Unit(
        collection=sources[entry.candidate.source].collection,
        uri=place.uri,
        path=section.path if section else (),
        kind=entry.kind,
        lane=place.lane,
        span=section.span if section else Span(0, entry.end, 1, place.end_line),
        score=round(entry.score, 6),
        line=_find_line(section, text) if section else 1,
    )


def _find_line(section: Section, text: str) -> int:
    """Return the line that names a definition, which comments and decorators may precede."""
    start, end = section.span.start, min(section.body, section.span.end)
    name = re.escape(BETWEEN_NAMES.split(section.title)[-1])
    named = [match.start() for match in re.finditer(rf"(?<!\w){name}(?!\w)", text[start:end])]
    defining = compile_definition_pattern(section.title, with_body=False).search(text, start, end)
    at = defining.end() - 1 if defining else start + (named[-1] if named else 0)
    return section.span.start_line + text.count("\n", start, at)


def _find_deciding(ranking: Ranking, entry: _Entry, text: str) -> list[UnitLine]:
    """Return the lines that carry the question's words, those that decide something first."""
    first = entry.section.span.start_line if entry.section else 1
    scored: list[tuple[float, int, str]] = []
    for number, line in enumerate(text[entry.start : entry.end].split("\n"), first):
        words = f" {analyse(line)} "
        weight = sum(rarity for term, rarity in ranking.rarity.items() if f" {term} " in words)
        if weight:
            scored.append((weight * (1.5 if _DECIDES.search(line) else 1.0), number, line))
    best = sorted(scored, key=lambda line: (-line[0], line[1]))[:_MOST_LINES]
    return [
        UnitLine(number, line, round(weight, 6))
        for weight, number, line in sorted(best, key=lambda line: line[1])
    ]
