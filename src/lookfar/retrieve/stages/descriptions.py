"""Find the pages that entries of the best pages describe in the words of the question.

If the item ``- [Keys](keys.md): how to rotate them`` of an overview matches, ``keys.md`` answers.
On the page of a folder, an entry may also name a page of that folder without a link.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from lookfar.model import LinkKind
from lookfar.ports import Place
from lookfar.retrieve.ranking import Candidate, Document, Ranking, Source
from lookfar.retrieve.stages.entries import Entry, find_innermost, split_entries
from lookfar.store.catalogue.link_names import page_path
from lookfar.store.keywords.analyser import split_words, terms_of_word

OVERVIEWS: Final = 16
"""Best documents whose entries are read."""
_PASSAGES: Final = 3
"""Best passages of each of them that are read."""
_SEPARATORS: Final = re.compile(r"[\W_]+")


class Link(NamedTuple):
    """A link of a document to another one."""

    start: int
    kind: LinkKind
    target: Document


def find_described(
    ranking: Ranking,
    best: Mapping[Document, tuple[float, Candidate]],
    passages: Mapping[Document, Sequence[Place]],
    links: Mapping[Document, Sequence[Link]],
    below: Sequence[tuple[Document, Document]],
    sources: Sequence[Source],
) -> Iterator[tuple[Document, Document, float]]:
    """Yield documents that entries of these passages describe, each with the page and the share
    of the question's words in the entry, weighted by how rare they are."""
    total = sum(ranking.rarity.values())
    if not total:
        return
    names: dict[Document, dict[str, Document]] = defaultdict(dict)
    for document, head in below:
        name = page_path(best[document][1].place.uri).rpartition("/")[2]
        names[head][_spell_out(name)] = document
    linked = {
        document: [_list_within(links.get(document, ()), place) for place in places]
        for document, places in passages.items()
    }
    naming = [document for document in linked if document in names or any(linked[document])]
    for number, source in enumerate(sources):
        source.snapshot.preload_texts([best[d][1].place.uri for d in naming if d[0] == number])
    measure = _make_measure(ranking.rarity)
    for document in naming:
        text = sources[document[0]].snapshot.text(best[document][1].place.uri) or ""
        for place, within in zip(passages[document], linked[document], strict=True):
            passage = text[place.start : place.end]
            for entry, targets in _read_entries(passage, within, names[document]).items():
                share = measure(passage[entry.start : entry.end])
                for target in targets if share else ():
                    yield target, document, share / total


def _list_within(links: Sequence[Link], place: Place) -> list[tuple[int, Document]]:
    """Return the offset and target of each link in a passage, counted from its start."""
    start, end = place.start, place.end
    return [(link.start - start, link.target) for link in links if start <= link.start < end]


def _make_measure(rarity: Mapping[str, float]) -> Callable[[str], float]:
    """Return a function that adds up the weights of the question's terms in a text."""
    # Entries repeat their words, and few of these are words of the question.
    seen: set[str] = set()
    matching: dict[str, frozenset[str]] = {}

    def measure(text: str) -> float:
        words = set(split_words(text))
        for word in words - seen:
            if terms := rarity.keys() & terms_of_word(word):
                matching[word] = frozenset(terms)
        seen.update(words)
        present = frozenset().union(*(matching[word] for word in words & matching.keys()))
        # In the order of the question, since the order of a sum changes its last digits.
        return sum(value for term, value in rarity.items() if term in present)

    return measure


def best_passages(ranking: Ranking, documents: Collection[Document]) -> dict[Document, list[Place]]:
    """Return the best few passages of each of these documents."""
    scored: dict[Document, list[tuple[float, int]]] = {document: [] for document in documents}
    for at, document in enumerate(ranking.candidates.documents):
        if document in scored:
            scored[document].append((-ranking.scores[at], at))
    return {
        document: [ranking.candidates[at].place for _, at in sorted(passages)[:_PASSAGES]]
        for document, passages in scored.items()
    }


def _read_entries(
    passage: str, links: Sequence[tuple[int, Document]], below: Mapping[str, Document]
) -> dict[Entry, list[Document]]:
    """Return the entries of a passage that name documents, with these documents."""
    naming: dict[Entry, list[Document]] = defaultdict(list)
    entries = split_entries(passage) if links or below else []
    for start, target in links:
        entry = find_innermost(entries, start)
        if entry is not None:
            naming[entry].append(target)
    for entry in entries if below else ():
        named = f" {_spell_out(passage[entry.start : entry.first_line_end])} "
        for name, target in below.items():
            if f" {name} " in named:
                naming[entry].append(target)
    return naming


def _spell_out(name: str) -> str:
    """Return the words of a name, in lower case and separated by spaces."""
    return _SEPARATORS.sub(" ", name.lower()).strip()
