"""Boost the pages that overviews describe in the words of the question.

A page often matches because it lists the topic, and the page that answers is the one its entry
links to: if the item ``- [Keys](keys.md): how to rotate them`` matches, ``keys.md`` answers. On the
page of a folder, such as ``guide.md`` or ``guide/index.md``, an entry may also name a page in that
folder without a link.

Entries are items with what is indented below them, rows of a table, and paragraphs. An item
contains its nested items, which are entries as well.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from lookfar.common.recent import RecentValues
from lookfar.ports import Place
from lookfar.retrieve.ranking import LINKS, Candidate, Document, Ranking, read_parts
from lookfar.store.catalogue.link_names import fold, page_path, parent_folder
from lookfar.store.keywords.analyser import analyse

DESCRIBED: Final = 0.65
"""Share of its score that a page passes on to one that it describes with all words of the
question; for fewer words, proportionally less."""
OVERVIEWS: Final = 16
"""Best documents whose entries are read."""
_PASSAGES: Final = 3
"""Best passages of each of them that are read."""
_MARKED: Final = re.compile(r"(?P<heading>#{1,6}[ \t])|(?P<item>(?:[-*+•]|\d{1,9}[.)])[ \t]|\|)")
_MARKS: Final = frozenset("#-*+•|")
"""What a heading or an item begins with, besides numbers."""
_SEPARATORS: Final = re.compile(r"[\W_]+")
_MOST_BYTES: Final = 24 << 20
_BYTES: Final = 700
_BYTES_PER_CHARACTER: Final = 3
"""Of a passage with the words and names of its entries, in the cache."""


def boost_described(ranking: Ranking) -> Ranking:
    """Boost documents that entries of the best pages describe, by a share of the page's score."""
    best = best_by_document(ranking)
    overviews = choose_seeds(best, OVERVIEWS)
    total = sum(ranking.rarity.values())
    if not overviews or not total:
        return ranking
    scored: dict[Document, list[tuple[float, int]]] = {document: [] for document in overviews}
    for at, document in enumerate(ranking.candidates.documents):
        if document in scored:
            scored[document].append((-ranking.scores[at], at))
    passages = {
        document: [ranking.candidates[at].place for _, at in sorted(chunks)[:_PASSAGES]]
        for document, chunks in scored.items()
    }
    links = _find_links(ranking, passages, best)
    below = _find_below(best, overviews)
    needed = [
        (document, place, within)
        for document, places in passages.items()
        for place in places
        if (
            within := [
                (start - place.start, target)
                for start, target in links.get(document, ())
                if place.start <= start < place.end
            ]
        )
        or document in below
    ]
    chunks = [(document[0], place) for document, place, _ in needed]
    entries = read_parts(
        ranking.sources, chunks, PassageEntries, RECENT_ENTRIES, _BYTES, _BYTES_PER_CHARACTER
    )
    terms = [(f" {term} ", weight) for term, weight in ranking.rarity.items()]
    lifts: dict[Document, tuple[float, str]] = {}
    for document, place, within in needed:
        here = entries[place.sha]
        naming: dict[int, list[Document]] = defaultdict(list)
        for start, target in within:
            number = here.find_innermost(start)
            if number is not None:
                naming[number].append(target)
        if document in below:
            first_lines = here.spell_first_lines()
            present = [pair for pair in below[document].items() if pair[0] in first_lines]
            for number, line in enumerate(first_lines.split("\n") if present else ()):
                for name, target in present:
                    if name in line:
                        naming[number].append(target)
        score, page = best[document]
        for number, targets in naming.items():
            share = here.weigh(number, terms) / total
            value = DESCRIBED * share * score
            for target in targets:
                if value > lifts.get(target, (0.0, ""))[0]:
                    lifts[target] = (value, f"{share:.0%} described in {page.place.uri}")
    if not lifts:
        return ranking
    return ranking.add_step(
        LINKS,
        [lifts.get(document, (0.0, ""))[0] for document in ranking.candidates.documents],
        lambda c: lifts[c.document][1],
        whole_document=True,
    )


def best_by_document(ranking: Ranking) -> dict[Document, tuple[float, Candidate]]:
    """Return the best chunk score of each document, and the first chunk that has it."""
    best: dict[Document, tuple[float, Candidate]] = {}
    candidates = ranking.candidates
    rows = zip(candidates.documents, ranking.scores, candidates, strict=True)
    for document, score, candidate in rows:
        known = best.get(document)
        if known is None or score > known[0]:
            best[document] = (score, candidate)
    return best


def choose_seeds(best: Mapping[Document, tuple[float, Candidate]], seeds: int) -> list[Document]:
    """Return the best documents of prose, best first."""
    prose = sorted(
        (-score, candidate.place.uri, document)
        for document, (score, candidate) in best.items()
        if candidate.place.lane not in ("code", "commits")
    )
    return [document for _, _, document in prose[:seeds]]


def _find_below(
    best: Mapping[Document, tuple[float, Candidate]], leading: Sequence[Document]
) -> dict[Document, dict[str, Document]]:
    """Return for each page of a folder the pages in it by their names, each between spaces."""
    heads = {(seed[0], page_path(best[seed][1].place.uri)): seed for seed in reversed(leading)}
    folders = tuple(f"{page}/" for _, page in heads if page)
    below: dict[Document, dict[str, Document]] = defaultdict(dict)
    for document, (_, candidate) in best.items():
        uri = candidate.place.uri
        # Few match, and comparing the prefix is cheaper than parsing the path.
        folded = uri if uri.isascii() and uri.islower() else fold(uri)
        if not folded.startswith(folders) or candidate.place.lane in ("code", "commits"):
            continue
        path = page_path(uri)
        head = heads.get((document[0], parent_folder(path)))
        if head is not None and head != document:
            below[head][f" {spell_out(path.rpartition('/')[2])} "] = document
    return below


def _find_links(
    ranking: Ranking,
    passages: Mapping[Document, Sequence[Place]],
    among: Iterable[Document],
) -> dict[Document, list[tuple[int, Document]]]:
    """Return the positions and targets of the links to ``among`` in these passages."""
    links: dict[Document, list[tuple[int, Document]]] = {}
    for number, source in enumerate(ranking.sources):
        spans = {
            document: [(place.start, place.end) for place in places]
            for (at, document), places in passages.items()
            if at == number
        }
        wanted = {document for at, document in among if at == number}
        for lead in source.snapshot.leads([*spans], wanted, spans) if spans else ():
            target = (number, lead.target)
            links.setdefault((number, lead.source), []).append((lead.start, target))
    return links


class Entry(NamedTuple):
    """A part of a passage, by character offsets."""

    start: int
    first_line_end: int
    end: int


def split_entries(text: str) -> list[Entry]:
    """Return the entries of a passage in the order of their starts, outer ones first."""
    begun: list[tuple[int, int]] = []
    ends: list[int] = []
    opened: list[tuple[int, int]] = []
    """The indentation and number of each entry whose end has not been found yet."""

    def close_until(indent: int, end: int) -> None:
        """Close the open entries that do not contain a line with this indentation."""
        while opened and opened[-1][0] >= indent:
            ends[opened.pop()[1]] = end

    after_blank, next_start = True, 0
    for line in text.split("\n"):
        start, next_start = next_start, next_start + len(line) + 1
        content = line.lstrip(" \t")
        if not content:
            after_blank = True
            continue
        indent = len(line) - len(content)
        marked = None
        # Most lines are neither, and looking at a character is cheaper than matching.
        if content[0] in _MARKS or content[0].isdecimal():
            marked = _MARKED.match(content)
        is_heading = marked is not None and marked.lastgroup == "heading"
        if is_heading:
            close_until(0, start)
        # A line that is not an item continues the entry above it. Text below a heading begins one.
        elif marked is not None or after_blank or not opened:
            close_until(indent, start)
            opened.append((indent, len(begun)))
            begun.append((start, start + len(line)))
            ends.append(start)
        after_blank = False
    close_until(0, len(text))
    return [Entry(*first_line, end) for first_line, end in zip(begun, ends, strict=True)]


class PassageEntries:
    """The entries of one passage, and the words of those that were asked for.

    Words are analysed once: questions of one topic read the same overviews.
    """

    __slots__ = ("_ends", "_first_lines", "_line_ends", "_starts", "_terms", "_text")

    def __init__(self, text: str) -> None:
        entries = split_entries(text)
        self._text = text
        # Arrays, because thousands of passages are kept.
        self._starts = array("I", [entry.start for entry in entries])
        self._line_ends = array("I", [entry.first_line_end for entry in entries])
        self._ends = array("I", [entry.end for entry in entries])
        self._terms: dict[int, str] = {}
        self._first_lines: str | None = None

    def find_innermost(self, at: int) -> int | None:
        """Return the number of the smallest entry that contains an offset."""
        for number in range(bisect_right(self._starts, at) - 1, -1, -1):
            if at < self._ends[number]:
                return number
        return None

    def weigh(self, number: int, terms: Iterable[tuple[str, float]]) -> float:
        """Add up the weights of the terms in an entry; each is given between spaces."""
        have = self._terms.get(number)
        if have is None:
            text = self._text[self._starts[number] : self._ends[number]]
            have = self._terms[number] = f" {analyse(text)} "
        return sum([weight for term, weight in terms if term in have])

    def spell_first_lines(self) -> str:
        """Return a line for each entry: the words of its first line, each between spaces."""
        if self._first_lines is None:
            spans = zip(self._starts, self._line_ends, strict=True)
            lines = (f" {spell_out(self._text[start:end])} " for start, end in spans)
            self._first_lines = "\n".join(lines)
        return self._first_lines


RECENT_ENTRIES: Final[RecentValues[bytes, PassageEntries]] = RecentValues(_MOST_BYTES)
"""By the hash of the passage, so that an entry is never stale."""


def spell_out(name: str) -> str:
    """Return the words of a name, in lower case and separated by spaces."""
    return _SEPARATORS.sub(" ", name.lower()).strip()
