"""Rank the definitions of code inside the best files, and mix them with passages of documents.

A chunk may hold ten small definitions or a part of a long one, so the best chunk does not say which
definition is meant. Here each definition competes by itself: by the question's words in its name,
its path and its body, by the score of the chunks that it shares, and by that of its file. Nothing
has to be indexed for it: the texts of the best files are in the store, and their words are kept
for the next question.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from lookfar.common.recent import RecentValues
from lookfar.model import Hit, Section, Span, SymbolKind, Unit, UnitLine
from lookfar.retrieve.answer.diversify import Passage
from lookfar.retrieve.locate.file_names import is_aside, is_marginal, is_test
from lookfar.retrieve.question.intent import asks_about_tests
from lookfar.retrieve.question.names import BETWEEN_NAMES, find_members, find_names
from lookfar.retrieve.ranking import Document, Ranking, Source
from lookfar.store.keywords.analyser import analyse, terms_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lookfar.ports import Snapshot

_FILES: Final = 13
_FILES_ASIDE: Final = 2
"""Files in which definitions are compared; the second are tests and others that stand back."""
_SATURATION: Final = 1.2
_LENGTH: Final = 0.75
"""The usual parameters of BM25."""
_NAME: Final = 3.0
_PARENTS: Final = 1.0
_PATH: Final = 1.0
"""How often a word of the name, of the names around it or of the file's path counts as one of the
body does."""
_CHUNK: Final = 0.25
_FILE: Final = 0.5
"""Weights of the best chunk inside a definition and of its file, beside the words with 1."""
_ACTS: Final = frozenset(("function", "method", "class", "struct", "trait", "impl", "interface"))
_HOLDS_ALL: Final = frozenset(("function", "method", "macro"))
"""Kinds whose text includes what is defined inside; a class is its text without its methods."""
_DECLARED: Final = 0.7
"""Factor for constants, types and other definitions that do nothing."""
_NAMED: Final = 0.5
"""What a definition gains whose name the question contains."""
_ASIDE: Final = 0.5
_MIGRATION: Final = re.compile(r"(?:^|/)migrations?/")
_MIGRATION_TERM: Final = analyse("migration")
_CROWDING: Final = 0.975
"""Factor for each better definition of the same file, so that more files are named."""
_SPREAD: Final = 6
"""So many times the definitions that are wanted are looked at for that."""
_DEFINITIONS: Final = 3
"""So many definitions are named for each section of a document."""
_WITH_LINES: Final = 5
"""Units that come with their text and lines."""
_MOST_BYTES: Final = 32 << 20
_BYTES_PER_CHARACTER: Final = 3
_BYTES_PER_PART: Final = 400
"""What a file takes in the cache."""
_MOST_ABOVE: Final = 60
"""Lines in which the name of a definition is looked for."""
_WORD: Final = re.compile(r"\w")
_COMMENTED: Final = re.compile(r"\s*(?:[#@*]|//|/\*|--|\"\"\"|'''|$)")
"""The start of a comment or decorator, which does not name a definition."""


class _File(NamedTuple):
    """The definitions of a file, and its words; definition 0 is what is outside of all others."""

    sections: Sequence[Section | None]
    kinds: Sequence[SymbolKind | Literal["file"]]
    lengths: Sequence[int]
    """The number of words of each."""
    starts: Sequence[int]
    """Where the parts of the text begin that belong to different definitions."""
    holders: Sequence[tuple[int, ...]]
    """The definitions that each part belongs to, innermost first."""
    words: NDArray[np.int64]
    """The hashes of all terms, in their order."""
    bounds: NDArray[np.int64]
    """The position of the first of these of each part."""
    names: NDArray[np.int64]
    """The hashes of the terms of all names, and of the names around them."""
    named: NDArray[np.int64]
    """The definition of each of these, negative for a name around it."""


@dataclass(slots=True)
class _Definition:
    """A definition while it is ranked; without a section, what a file has outside of all."""

    at: int
    """Position of its best chunk in the ranking, or of the best one of its file."""
    section: Section | None
    kind: SymbolKind | Literal["file"]
    length: int
    chunk: float | None = None
    """The score of its best chunk, if one is a candidate."""
    words: dict[str, int] = field(default_factory=dict)
    """How often its text has words of the question."""
    names: dict[str, float] = field(default_factory=dict)
    """The weight of those in its name, and in the names around it."""


_recent: Final[RecentValues[tuple[str, str], _File]] = RecentValues(_MOST_BYTES)
"""By path and whole text, so that none is ever stale."""


def forget_files() -> None:
    """Release the files that were split lately."""
    _recent.clear()


def rank_definitions(ranking: Ranking, sources: Sequence[Source], most: int) -> list[Passage]:
    """Return the best definitions of the best files of code as passages, best first."""
    terms = [term for term, rarity in ranking.rarity.items() if rarity > 0]
    definitions: list[_Definition] = []
    files = _choose_files(ranking)
    texts: dict[Document, str] = {}
    for number, source in enumerate(sources):
        here = {key: chunks for key, chunks in files.items() if key[0] == number}
        uris = [ranking.candidates[chunks[0]].place.uri for chunks in here.values()]
        for uri, (key, chunks) in zip(uris, here.items(), strict=True):
            texts[key] = source.snapshot.text(uri) or ""
            file = _split_file(source.snapshot, key[1], uri, texts[key])
            definitions += _read_definitions(ranking, chunks, file, terms)
    scores = _score(ranking, files, definitions, terms)
    before: Counter[Document] = Counter()
    spread = []
    for at in sorted(range(len(scores)), key=scores.__getitem__, reverse=True)[: _SPREAD * most]:
        document = ranking.candidates[definitions[at].at].document
        spread.append((definitions[at], scores[at] * _CROWDING ** before[document]))
        before[document] += 1
    best: list[Passage] = []
    copies: set[str] = set()
    for definition, score in sorted(spread, key=partial(_rank_key, ranking)):
        if len(best) == most:
            break
        passage = _make_passage(ranking, definition, score, texts)
        text = texts[ranking.candidates[definition.at].document][passage.start : passage.end]
        if text not in copies:
            copies.add(text)
            best.append(passage)
    return best


def _rank_key(ranking: Ranking, scored: tuple[_Definition, float]) -> tuple[float, str, int, int]:
    definition, score = scored
    candidate = ranking.candidates[definition.at]
    start = definition.section.span.start if definition.section else 0
    return -score, candidate.place.uri, start, candidate.source


def _make_passage(
    ranking: Ranking, definition: _Definition, score: float, texts: Mapping[Document, str]
) -> Passage:
    """Return a whole definition; of what is outside of all in its file, the best chunk."""
    candidate, section = ranking.candidates[definition.at], definition.section
    place = candidate.place
    if section is None:
        return Passage(
            definition.at, score, place, candidate.source, place.start, place.end,
            place.start_line, place.end_line, definition="file", named_line=place.start_line,
        )  # fmt: skip
    span = section.span
    return Passage(
        definition.at, score, place, candidate.source, span.start, span.end,
        span.start_line, span.end_line, path=section.path, definition=definition.kind,
        named_line=_find_line(section, texts[candidate.document]),
    )  # fmt: skip


def _last_name(section: Section) -> str:
    return BETWEEN_NAMES.split(section.title)[-1]


def _find_line(section: Section, text: str) -> int:
    """Return the line that names a definition, which comments and decorators may precede."""
    name = _last_name(section)
    lines = text[section.span.start : section.span.end].split("\n", _MOST_ABOVE)
    for number, line in enumerate(lines[:_MOST_ABOVE], section.span.start_line):
        at = line.find(name)
        beside = line[max(at - 1, 0) : at] + line[at + len(name) : at + len(name) + 1]
        if at >= 0 and not _WORD.search(beside) and not _COMMENTED.match(line):
            return number
    return section.span.start_line


def mix_kinds(
    definitions: Sequence[Passage], others: Sequence[Passage], *, code_leads: bool
) -> Iterator[Passage]:
    """Yield passages of both kinds: the third is of the kind that does not lead.

    After these, one of ``others`` follows each three definitions.
    """
    code, rest = iter(definitions), iter(others)
    lead, second = (code, rest) if code_leads else (rest, code)
    yield from islice(lead, 2)
    yield from islice(second, 1)
    while some := [*islice(code, _DEFINITIONS), *islice(rest, 1)]:
        yield from some


def make_units(
    passages: Sequence[Passage], hits: Sequence[Hit], sources: Sequence[Source]
) -> list[Unit]:
    """Return what passages are; the first ones, for which there are hits, with text and lines."""
    units = []
    for at, passage in enumerate(passages):
        hit = hits[at] if at < min(len(hits), _WITH_LINES) else None
        units.append(
            Unit(
                collection=sources[passage.source].collection,
                uri=passage.place.uri,
                path=passage.place.path if passage.path is None else passage.path,
                kind=passage.definition or "section",
                lane=passage.place.lane,
                span=Span(passage.start, passage.end, passage.start_line, passage.end_line),
                score=round(passage.score, 6),
                line=passage.named_line or passage.start_line,
                lines=tuple(_list_lines(hit)) if hit else (),
                text=hit.text if hit else "",
            )
        )
    return units


def _list_lines(hit: Hit) -> Iterator[UnitLine]:
    """Yield the lines of a hit that answer best, in the order of the document."""
    lines = hit.text.split("\n")
    for focus in sorted(hit.focus, key=lambda focus: focus.start):
        for number in range(focus.start_line, focus.end_line + 1):
            yield UnitLine(number, lines[number - hit.span.start_line])


def _choose_files(ranking: Ranking) -> dict[Document, list[int]]:
    """Return the best files of code, each with the positions of its candidates, best first."""
    tests = asks_about_tests(ranking.plan)
    files: dict[Document, list[int]] = {}
    left = {False: _FILES, True: _FILES_ASIDE}
    for at in ranking.order():
        candidate = ranking.candidates[at]
        if candidate.place.lane != "code":
            continue
        if candidate.document not in files:
            aside = not tests and is_aside(candidate.place.uri)
            if not left[aside]:
                continue
            left[aside] -= 1
        files.setdefault(candidate.document, []).append(at)
    return files


def _split_file(snapshot: Snapshot, document: int, uri: str, text: str) -> _File:
    """Split a file of code into its definitions, and analyse their words."""
    known = _recent.get((uri, text))
    if known is not None:
        return known
    import numpy as np

    recorded = snapshot.definitions([document]).get(document, ())
    by_start = {definition.start: definition.kind for definition in recorded}
    sections: list[Section | None] = [None]
    kinds: list[SymbolKind | Literal["file"]] = ["file"]
    starts = [0]
    holders: list[tuple[int, ...]] = [(0,)]
    around: list[tuple[int, tuple[int, ...]]] = [(len(text) + 1, (0,))]
    for section in [*snapshot.sections(uri), None]:
        begin = section.span.start if section else len(text)
        while around[-1][0] <= begin:
            starts.append(around.pop()[0])
            holders.append(around[-1][1])
        if section is None or not section.level:
            continue
        held = tuple(at for at in around[-1][1] if kinds[at] in _HOLDS_ALL)
        around.append((section.span.end, (len(sections), *held)))
        starts.append(begin)
        holders.append(around[-1][1])
        sections.append(section)
        kinds.append(by_start.get(begin) or "type")
    ends = [*starts[1:], len(text)]
    words = [analyse(text[start:end]).split() for start, end in zip(starts, ends, strict=True)]
    lengths = [0] * len(sections)
    for here, part in zip(holders, words, strict=True):
        for at in here:
            lengths[at] += len(part)
    counts = np.array([len(part) for part in words])
    hashes = np.fromiter(map(hash, chain.from_iterable(words)), np.int64, int(counts.sum()))
    bounds = np.cumsum(counts) - counts
    names: list[tuple[int, int]] = []
    terms_above: dict[tuple[str, ...], list[str]] = {}  # Members have the same names around them.
    for at, named in enumerate(sections):
        *around_it, title = named.path if named else ("",)
        above = tuple(around_it)
        if above not in terms_above:
            terms_above[above] = terms_of(" ".join(above))
        names += ((hash(term), at) for term in terms_of(title))
        names += ((hash(term), -at) for term in terms_above[above])
    name_hashes, owners = np.array(names or [(0, 0)], np.int64).T.copy()
    file = _File(sections, kinds, lengths, starts, holders, hashes, bounds, name_hashes, owners)
    _recent.add((uri, text), file, _BYTES_PER_CHARACTER * len(text) + _BYTES_PER_PART * len(starts))
    return file


def _read_definitions(
    ranking: Ranking, chunks: Sequence[int], file: _File, terms: Sequence[str]
) -> list[_Definition]:
    """Return the definitions of one file that have words of the question, or are in its chunks."""
    import numpy as np

    found = [
        _Definition(chunks[0], section, kind, length)
        for section, kind, length in zip(file.sections, file.kinds, file.lengths, strict=True)
    ]
    for at in reversed(chunks):  # The best chunk of a definition is the last to be noted.
        place = ranking.candidates[at].place
        first, last = (
            bisect_right(file.starts, place.start) - 1,
            bisect_left(file.starts, place.end),
        )
        for holder in chain.from_iterable(file.holders[first:last]):
            found[holder].at, found[holder].chunk = at, ranking.scores[at]
    for term in terms:
        hashed = hash(term)
        positions = np.flatnonzero(file.words == hashed)
        parts = np.searchsorted(file.bounds, positions, "right") - 1
        for part in parts.tolist():
            for holder in file.holders[part]:
                words = found[holder].words
                words[term] = words.get(term, 0) + 1
        for owner in file.named[file.names == hashed].tolist():
            names = found[abs(owner)].names
            names[term] = names.get(term, 0.0) + (_NAME if owner > 0 else _PARENTS)
    filters = ranking.plan.filters
    # These are filters on passages, and only the candidates have passed them.
    strict = bool(filters.heading or filters.phrases or filters.without)
    return [
        definition
        for definition in found
        if definition.chunk is not None or (definition.words and not strict)
    ]


def _score(
    ranking: Ranking,
    files: Mapping[Document, Sequence[int]],
    definitions: Sequence[_Definition],
    terms: Sequence[str],
) -> list[float]:
    """Score definitions: BM25 over name, path and body, and what is known of chunk and file."""
    if not definitions:
        return []
    average = sum(definition.length for definition in definitions) / len(definitions) or 1.0
    rarity = ranking.rarity
    in_path: dict[str, frozenset[str]] = {}
    by_path: dict[str, float] = {}
    by_words = []
    for definition in definitions:
        uri = ranking.candidates[definition.at].place.uri
        if uri not in in_path:
            in_path[uri] = frozenset(terms_of(uri)).intersection(terms)
            by_path[uri] = sum(rarity[term] for term in terms if term in in_path[uri])
            by_path[uri] *= _saturate(_PATH)
        long = 1 - _LENGTH + _LENGTH * definition.length / average
        total = by_path[uri]
        for term in dict.fromkeys((*definition.words, *definition.names)):
            count = definition.words.get(term, 0) / long + definition.names.get(term, 0.0)
            more = _PATH if term in in_path[uri] else 0.0
            total += rarity[term] * (_saturate(count + more) - _saturate(more))
        by_words.append(total)
    most = max(by_words) or 1.0
    file_scores = {key: ranking.scores[chunks[0]] for key, chunks in files.items()}
    best_file = max(file_scores.values()) or 1.0
    best_chunk = max(definition.chunk or 0.0 for definition in definitions) or 1.0
    tests = asks_about_tests(ranking.plan)
    migrations = _MIGRATION_TERM in ranking.rarity
    plans = [ranking.plan, *([ranking.plan.title] if ranking.plan.title else [])]
    named = {name.last for plan in plans for name in (*find_names(plan), *find_members(plan))}
    aside: dict[str, float] = {}
    scores = []
    for definition, words in zip(definitions, by_words, strict=True):
        candidate = ranking.candidates[definition.at]
        uri = candidate.place.uri
        if uri not in aside:
            back = is_marginal(uri) or (is_test(uri) and not tests)
            aside[uri] = _ASIDE if back or (_MIGRATION.search(uri) and not migrations) else 1.0
        score = words / most + _CHUNK * (definition.chunk or 0.0) / best_chunk
        score += _FILE * file_scores[candidate.document] / best_file
        score *= 1.0 if definition.kind in _ACTS else _DECLARED
        if named and definition.section and _last_name(definition.section) in named:
            score += _NAMED
        scores.append(score * aside[uri])
    return scores


def _saturate(count: float) -> float:
    return count * (_SATURATION + 1) / (count + _SATURATION)
