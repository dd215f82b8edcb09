"""Boost documents that the best ones lead to: by links, by folders, by community.

A page often matches because it lists the topic, and the page that answers is the one it links to.
So a link counts from source to target and not back. A page such as ``guide.md`` or
``guide/index.md`` also leads to the pages in ``guide``. Only one link is followed.

A page that an entry of the best pages describes in the words of the question counts more than
others (:mod:`lookfar.retrieve.stages.descriptions`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from lookfar.model import Relation
from lookfar.ports import Place
from lookfar.retrieve.neighbours.related import classify_link, find_headings
from lookfar.retrieve.question.admission import resolve_globs
from lookfar.retrieve.question.field_weights import CHUNK_WEIGHTS
from lookfar.retrieve.ranking import LINKS, Candidate, Document, Ranking, Source, Stage
from lookfar.retrieve.stages.descriptions import OVERVIEWS, Link, best_passages, find_described
from lookfar.store.catalogue.link_names import fold, page_path, parent_folder

_END = 1 << 62
"""A position beyond the last character of any text."""
_MOST_JOINING = 20
"""Documents that may be found by links alone."""

Edge = tuple[Document, Document, "Relation"]


def boost_linked(
    seeds: int,
    link_lift: float,
    below_lift: float,
    weights: Mapping[Relation, float],
    sources: Sequence[Source],
    described_lift: float = 0.0,
) -> Stage:
    """Boost documents that the best ``seeds`` lead to, by a share of the score of the seed.

    The share ``described_lift`` is for what an entry of the best pages describes with all words of
    the question, and proportionally less for fewer words.
    """

    def lift(ranking: Ranking) -> Ranking:
        best = _best_by_document(ranking)
        overviews = _choose_seeds(best, max(seeds, OVERVIEWS if described_lift else 0))
        leading = overviews[:seeds]
        passages = best_passages(ranking, overviews) if described_lift else {}
        whole = leading if link_lift else ()
        links = _find_links(whole, passages, best, sources) if whole or passages else {}
        below = _find_below(best, overviews) if below_lift or described_lift else []
        lifts: dict[Document, tuple[float, str]] = {}

        def offer(target: Document, source: Document, share: float, reason: str) -> None:
            value = share * best[source][0]
            if value > lifts.get(target, (0.0, ""))[0]:
                lifts[target] = (value, f"{reason} {best[source][1].place.uri}")

        if below_lift:
            for document, head in below:
                if head in leading:
                    offer(document, head, below_lift, "below")
        if link_lift:
            for source, target, relation in _find_edges(best, leading, links, sources):
                reason = "linked from" if relation == "links_to" else f"{relation}, linked from"
                offer(target, source, link_lift * weights[relation], reason)
        if described_lift:
            described = find_described(ranking, best, passages, links, below, sources)
            for target, source, share in described:
                offer(target, source, described_lift * share, f"{share:.0%} described in")
        if not lifts:
            return ranking
        return ranking.add_step(
            LINKS,
            [lifts.get(document, (0.0, ""))[0] for document in ranking.candidates.documents],
            lambda c: lifts[c.document][1],
            whole_document=True,
        )

    return lift


def add_linked(
    seeds: int, share: float, weights: Mapping[Relation, float], sources: Sequence[Source]
) -> Stage:
    """Add documents that the best ``seeds`` link to, with a share of the score of the seed.

    They must pass the filters of the question. Of each document, the chunk with most words of the
    question is added, otherwise the first. A document that is a candidate already gets at least
    that share.
    """

    def join(ranking: Ranking) -> Ranking:
        best = _best_by_document(ranking)
        offers: dict[Document, tuple[float, str]] = {}
        leading = _choose_seeds(best, seeds)
        links = _find_links(leading, {}, None, sources)
        for source, target, relation in _find_edges(best, leading, links, sources):
            score, seed = best[source]
            value = share * weights[relation] * score
            own = best[target][0] if target in best else 0.0
            if value > max(own, offers.get(target, (0.0, ""))[0]):
                offers[target] = (value, f"linked from {seed.place.uri}")
        ranking = _raise_to_offers(ranking, best, offers)
        added_candidates: list[Candidate] = []
        for number, (_, plan, snapshot, *_) in enumerate(sources):
            wanted = sorted(
                document for at, document in offers if at == number and (at, document) not in best
            )
            if wanted:
                filters = resolve_globs(plan.filters, snapshot)
                places = snapshot.best_of_each(plan.terms, CHUNK_WEIGHTS, wanted, filters)
                added_candidates += (
                    Candidate(place, score, 0.0, 0.0, number) for place, score in places
                )
        added_candidates.sort(
            key=lambda candidate: (
                -offers[candidate.document][0],
                candidate.place.uri,
                candidate.source,
            )
        )
        del added_candidates[_MOST_JOINING:]
        if not added_candidates:
            return ranking
        added = [0.0] * len(ranking.candidates) + [
            offers[candidate.document][0] for candidate in added_candidates
        ]
        return ranking.add_candidates(added_candidates).add_step(
            "neighbour", added, lambda c: offers[c.document][1]
        )

    return join


def _raise_to_offers(
    ranking: Ranking,
    best: Mapping[Document, tuple[float, Candidate]],
    offers: Mapping[Document, tuple[float, str]],
) -> Ranking:
    """Raise the candidates of each document until the best one has the score of its offer."""
    lifts = {
        document: offers[document][0] - score
        for document, (score, _) in best.items()
        if document in offers
    }
    if not lifts:
        return ranking
    return ranking.add_step(
        "neighbour",
        [lifts.get(candidate.document, 0.0) for candidate in ranking.candidates],
        lambda c: offers[c.document][1],
        whole_document=True,
    )


def boost_community(seeds: int, factor: float, sources: Sequence[Source]) -> Stage:
    """Multiply the scores of documents in the communities of the best ``seeds``."""

    def lift(ranking: Ranking) -> Ranking:
        best = _best_by_document(ranking)
        among: dict[Document, tuple[int, int]] = {}
        for number, source in enumerate(sources):
            uris = {
                candidate.place.uri: doc for doc, (_, candidate) in best.items() if doc[0] == number
            }
            communities = source.snapshot.communities(uris) if uris else {}
            among.update((uris[uri], (number, community)) for uri, community in communities.items())
        favoured = {among[seed] for seed in _choose_seeds(best, seeds) if seed in among}
        if not favoured:
            return ranking
        # The same for all chunks, since the position of the document is what counts.
        added = [
            (factor - 1) * best[candidate.document][0]
            if among.get(candidate.document) in favoured
            else 0.0
            for candidate in ranking.candidates
        ]
        return ranking.add_step(
            "community", added, lambda _: "in a community of the best hits", whole_document=True
        )

    return lift


def _best_by_document(ranking: Ranking) -> dict[Document, tuple[float, Candidate]]:
    """Return the best chunk score of each document, and the first chunk that has it."""
    best: dict[Document, tuple[float, Candidate]] = {}
    candidates = ranking.candidates
    rows = zip(candidates.documents, ranking.scores, candidates, strict=True)
    for document, score, candidate in rows:
        known = best.get(document)
        if known is None or score > known[0]:
            best[document] = (score, candidate)
    return best


def _choose_seeds(best: Mapping[Document, tuple[float, Candidate]], seeds: int) -> list[Document]:
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
    whole: Sequence[Document],
    passages: Mapping[Document, Sequence[Place]],
    among: Collection[Document] | None,
    sources: Sequence[Source],
) -> dict[Document, list[Link]]:
    """Return the links of these whole documents, and those in passages of others.

    Only links to ``among`` are returned, if it is given. All are looked up at once, because most of
    the documents are asked for twice: as a whole, and for what their passages describe.
    """
    links: dict[Document, list[Link]] = {}
    for number, source in enumerate(sources):
        spans = {
            document: [(place.start, place.end) for place in places]
            for (at, document), places in passages.items()
            if at == number
        }
        spans |= {document: [(0, _END)] for at, document in whole if at == number}
        wanted = None if among is None else {document for at, document in among if at == number}
        for lead in source.snapshot.leads([*spans], wanted, spans) if spans else ():
            link = Link(lead.start, lead.kind, (number, lead.target))
            links.setdefault((number, lead.source), []).append(link)
    return links


def _find_edges(
    best: Mapping[Document, tuple[float, Candidate]],
    leading: Sequence[Document],
    links: Mapping[Document, Sequence[Link]],
    sources: Sequence[Source],
) -> Iterator[Edge]:
    """Yield the links of the seeds, best first, with the relation that each expresses."""
    for document in leading:
        if document not in links:
            continue
        uri = best[document][1].place.uri
        sections = sources[document[0]].snapshot.sections(uri)
        for link in links[document]:
            relation = classify_link(link.kind, uri, find_headings(sections, link.start))
            yield document, link.target, relation
