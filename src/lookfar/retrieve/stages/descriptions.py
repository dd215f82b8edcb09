"""Find the pages that entries of the best pages describe in the words of the question.

If the item ``- [Keys](keys.md): how to rotate them`` of an overview matches, ``keys.md`` answers.
On the page of a folder, an entry may also name a page of that folder without a link.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from lookfar.model import LinkKind
from lookfar.ports import Place
from lookfar.retrieve.ranking import Candidate, Document, Ranking, Source
from lookfar.retrieve.stages.entries import (
    NO_ENTRIES,
    PassageEntries,
    find_known,
    spell_out,
    split_passage,
)
from lookfar.store.catalogue.link_names import page_path

OVERVIEWS: Final = 16
"""Best documents whose entries are read."""
_PASSAGES: Final = 3
"""Best passages of each of them that are read."""


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
        names[head][f" {spell_out(name)} "] = document
    needed = [
        (document, place, within, names.get(document, {}))
        for document, places in passages.items()
        for place in places
        if (within := _list_within(links.get(document, ()), place)) or document in names
    ]
    entries = _read_entries([(document, place) for document, place, _, _ in needed], sources)
    terms = [(f" {term} ", weight) for term, weight in ranking.rarity.items()]
    for document, place, within, named in needed:
        here = entries[place.sha]
        for number, targets in _find_naming(here, within, named).items():
            share = here.weigh(number, terms)
            for target in targets if share else ():
                yield target, document, share / total


def _read_entries(
    passages: Sequence[tuple[Document, Place]], sources: Sequence[Source]
) -> dict[bytes, PassageEntries]:
    """Return the entries of these passages by their hashes; only unknown ones are read."""
    entries: dict[bytes, PassageEntries] = {}
    unread: dict[Document, list[Place]] = defaultdict(list)
    for document, place in passages:
        known = find_known(place.sha)
        if known is None:
            unread[document].append(place)
        else:
            entries[place.sha] = known
    for number, source in enumerate(sources):
        uris = [places[0].uri for document, places in unread.items() if document[0] == number]
        source.snapshot.preload_texts(uris)
    for document, places in unread.items():
        text = sources[document[0]].snapshot.text(places[0].uri)
        for place in places:
            entries[place.sha] = (
                NO_ENTRIES
                if text is None
                else split_passage(place.sha, text[place.start : place.end])
            )
    return entries


def _list_within(links: Sequence[Link], place: Place) -> list[tuple[int, Document]]:
    """Return the offset and target of each link in a passage, counted from its start."""
    start, end = place.start, place.end
    return [(link.start - start, link.target) for link in links if start <= link.start < end]


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


def _find_naming(
    entries: PassageEntries, links: Sequence[tuple[int, Document]], below: Mapping[str, Document]
) -> dict[int, list[Document]]:
    """Return the numbers of the entries that name documents, with these documents.

    ``below`` has the documents by their names, each between spaces.
    """
    naming: dict[int, list[Document]] = defaultdict(list)
    for start, target in links:
        number = entries.find_innermost(start)
        if number is not None:
            naming[number].append(target)
    first_lines = entries.spell_first_lines() if below else ""
    present = [(name, target) for name, target in below.items() if name in first_lines]
    for number, line in enumerate(first_lines.split("\n") if present else ()):
        for name, target in present:
            if name in line:
                naming[number].append(target)
    return naming
