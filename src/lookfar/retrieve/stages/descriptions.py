"""Find the pages that entries of the best pages describe in the words of the question.

If the item ``- [Keys](keys.md): how to rotate them`` of an overview matches, ``keys.md`` answers.
On the page of a folder, an entry may also name a page of that folder without a link.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from lookfar.ports import Place
from lookfar.retrieve.ranking import Candidate, Document, Ranking, Source
from lookfar.retrieve.stages.entries import Entry, find_innermost, split_entries
from lookfar.store.catalogue.link_names import page_path
from lookfar.store.keywords.analyser import analyse

OVERVIEWS: Final = 16
"""Best documents whose entries are read."""
_PASSAGES: Final = 3
"""Best passages of each of them that are read."""
_SEPARATORS: Final = re.compile(r"[\W_]+")


def find_described(
    ranking: Ranking,
    best: Mapping[Document, tuple[float, Candidate]],
    overviews: Sequence[Document],
    below: Sequence[tuple[Document, Document]],
    sources: Sequence[Source],
) -> Iterator[tuple[Document, Document, float]]:
    """Yield documents that entries of the best pages describe, each with the page and the share
    of the question's words in the entry, weighted by how rare they are."""
    total = sum(ranking.rarity.values())
    if not total:
        return
    passages = _best_passages(ranking, overviews)
    names: dict[Document, dict[str, Document]] = defaultdict(dict)
    for document, head in below:
        name = page_path(best[document][1].place.uri).rpartition("/")[2]
        names[head][_spell_out(name)] = document
    linked = _find_links_within(passages, best, sources)
    naming = [document for document in overviews if document in names or document in linked]
    for number, source in enumerate(sources):
        source.snapshot.preload_texts([best[d][1].place.uri for d in naming if d[0] == number])
    for document in naming:
        text = sources[document[0]].snapshot.text(best[document][1].place.uri) or ""
        for place in passages[document]:
            passage = text[place.start : place.end]
            links = [
                (start - place.start, target)
                for start, target in linked[document]
                if place.start <= start < place.end
            ]
            for entry, targets in _read_entries(passage, links, names[document]).items():
                terms = frozenset(analyse(passage[entry.start : entry.end]).split())
                share = sum(value for term, value in ranking.rarity.items() if term in terms)
                for target in targets if share else ():
                    yield target, document, share / total


def _find_links_within(
    passages: Mapping[Document, Sequence[Place]],
    best: Collection[Document],
    sources: Sequence[Source],
) -> dict[Document, list[tuple[int, Document]]]:
    """Return the links in these passages to other candidates, with their offsets."""
    linked: dict[Document, list[tuple[int, Document]]] = defaultdict(list)
    for number, source in enumerate(sources):
        spans = {
            document: [(place.start, place.end) for place in places]
            for (at, document), places in passages.items()
            if at == number
        }
        among = {document for at, document in best if at == number}
        for lead in source.snapshot.leads([*spans], among, spans) if spans else ():
            linked[number, lead.source].append((lead.start, (number, lead.target)))
    return linked


def _best_passages(
    ranking: Ranking, documents: Collection[Document]
) -> dict[Document, list[Place]]:
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
