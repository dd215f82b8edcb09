"""Boost the pages that overviews describe in the words of the question.

A page often matches because it lists the topic, and the page that answers is the one its entry
links to. On the page of a folder, such as ``guide.md`` or ``guide/index.md``, an entry may also
name a page in that folder without a link (:mod:`lookfar.retrieve.stages.descriptions`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from lookfar.ports import Place
from lookfar.retrieve.ranking import LINKS, Candidate, Document, Ranking, Source, Stage
from lookfar.retrieve.stages.descriptions import OVERVIEWS, Link, best_passages, find_described
from lookfar.store.catalogue.link_names import fold, page_path, parent_folder

DESCRIBED: Final = 0.65
"""Share of its score that a page passes on to one that it describes with all words of the
question; for fewer words, proportionally less."""


def boost_described(sources: Sequence[Source]) -> Stage:
    """Boost documents that entries of the best pages describe, by a share of the page's score."""

    def lift(ranking: Ranking) -> Ranking:
        best = best_by_document(ranking)
        overviews = choose_seeds(best, OVERVIEWS)
        passages = best_passages(ranking, overviews)
        if not passages:
            return ranking
        links = _find_links(passages, best, sources)
        below = _find_below(best, overviews)
        lifts: dict[Document, tuple[float, str]] = {}
        described = find_described(ranking, best, passages, links, below, sources)
        for target, page, share in described:
            value = DESCRIBED * share * best[page][0]
            if value > lifts.get(target, (0.0, ""))[0]:
                lifts[target] = (value, f"{share:.0%} described in {best[page][1].place.uri}")
        if not lifts:
            return ranking
        return ranking.add_step(
            LINKS,
            [lifts.get(document, (0.0, ""))[0] for document in ranking.candidates.documents],
            lambda c: lifts[c.document][1],
            whole_document=True,
        )

    return lift


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
) -> list[tuple[Document, Document]]:
    """Return the pages in the folder of a seed, each with that seed."""
    heads = {(seed[0], page_path(best[seed][1].place.uri)): seed for seed in reversed(leading)}
    folders = tuple(f"{page}/" for _, page in heads if page)
    pairs: list[tuple[Document, Document]] = []
    for document, (_, candidate) in best.items():
        place = candidate.place
        uri = place.uri
        # Few match, and comparing the prefix is cheaper than parsing the path.
        folded = uri if uri.isascii() and uri.islower() else fold(uri)
        if not folded.startswith(folders):
            continue
        head = heads.get((document[0], parent_folder(page_path(place.uri))))
        if head is not None and head != document and place.lane not in ("code", "commits"):
            pairs.append((document, head))
    return pairs


def _find_links(
    passages: Mapping[Document, Sequence[Place]],
    among: Collection[Document],
    sources: Sequence[Source],
) -> dict[Document, list[Link]]:
    """Return the links to ``among`` in these passages of documents."""
    links: dict[Document, list[Link]] = {}
    for number, source in enumerate(sources):
        spans = {
            document: [(place.start, place.end) for place in places]
            for (at, document), places in passages.items()
            if at == number
        }
        wanted = {document for at, document in among if at == number}
        for lead in source.snapshot.leads([*spans], wanted, spans) if spans else ():
            link = Link(lead.start, lead.kind, (number, lead.target))
            links.setdefault((number, lead.source), []).append(link)
    return links
