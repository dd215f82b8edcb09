"""Find where the links of documents lead, for ranking; links are read and resolved once.

Within one generation, neither the links of a document nor the documents with a name change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from sqlite3 import Connection
from typing import Any, Final, NamedTuple

from lookfar.common.recent import RecentTable
from lookfar.model import LinkKind
from lookfar.ports import Lead
from lookfar.store.catalogue import graph
from lookfar.store.catalogue.link_names import Origin
from lookfar.store.catalogue.rows import batches, placeholders

_MOST_LINKS: Final = 40_000
"""Links that are kept, at about 300 bytes each; a document counts as one more."""
_MOST_HOLDERS: Final = 60_000
"""Documents with the names of links that are kept, at about 100 bytes each; so for names."""

Spans = Mapping[int, Sequence[tuple[int, int]]]


class _KeptLink(NamedTuple):
    name: str
    kind: LinkKind
    target: str
    """As written."""
    start: int


class _Page(NamedTuple):
    """The links of one document that may lead to another one."""

    origin: Origin | None
    links: tuple[_KeptLink, ...]
    resolved: dict[int, int | None]
    """The document that the link at this position leads to, where that was found out."""


_NO_LINKS: Final = _Page(None, (), {})


class LeadReader:
    """Resolves the links of one generation. May be shared by threads."""

    def __init__(self) -> None:
        self._pages: RecentTable[int, _Page] = RecentTable(
            _MOST_LINKS, lambda page: 1 + len(page.links)
        )
        self._holders: RecentTable[str, frozenset[int]] = RecentTable(
            _MOST_HOLDERS, lambda documents: 2 + len(documents)
        )
        self._locate: graph.Locate | None = None

    def read(
        self,
        connection: Connection,
        generation: int,
        documents: Sequence[int],
        among: Collection[int] | None = None,
        within: Spans | None = None,
    ) -> list[Lead]:
        """Return the links from some live documents to others, in the order of their numbers.

        With ``among``, only links to these documents are followed. That is quicker, because most
        links of a page have names that none of these documents has. With ``within``, only links in
        these spans of each document are followed.
        """
        locate = self._locate
        if locate is None:
            locate = self._locate = graph.make_locator(connection, generation)
        pages = self._pages.look_up(
            documents, lambda missing: _read_pages(connection, missing, locate), _NO_LINKS
        )
        chosen = [
            (document, position)
            for document in sorted(documents)
            for position in _list_positions(pages[document].links, document, within)
        ]
        self._resolve(connection, generation, pages, chosen, among)
        leads: list[Lead] = []
        for document, position in chosen:
            _, links, resolved = pages[document]
            target = resolved.get(position)
            if target is None or target == document:
                continue
            if among is None or target in among:
                link = links[position]
                leads.append(Lead(document, target, link.kind, link.start))
        return leads

    def _resolve(
        self,
        connection: Connection,
        generation: int,
        pages: Mapping[int, _Page],
        chosen: Iterable[tuple[int, int]],
        among: Collection[int] | None,
    ) -> None:
        """Find out where these links lead, as far as they may lead to ``among``."""
        unresolved = [
            (pages[document], position)
            for document, position in chosen
            if position not in pages[document].resolved
        ]
        names = {page.links[position].name for page, position in unresolved}
        if among is not None and names:
            wanted = frozenset(among)
            holders = self._holders.look_up(
                sorted(names), lambda missing: _read_holders(connection, missing), frozenset()
            )
            names = {name for name in names if not wanted.isdisjoint(holders[name])}
        if not names:
            return
        targets = graph.find_candidates(connection, generation, names)
        for page, position in unresolved:
            link = page.links[position]
            if link.name not in names or page.origin is None:
                continue
            candidates = targets.get(link.name)
            best = candidates.resolve(page.origin, link.kind, link.target) if candidates else None
            page.resolved[position] = None if best is None else best.document


def _list_positions(
    links: Sequence[_KeptLink], document: int, within: Spans | None
) -> Iterable[int]:
    if within is None:
        return range(len(links))
    spans = within[document]
    return [
        position
        for position, link in enumerate(links)
        if any(first <= link.start < end for first, end in spans)
    ]


def _read_pages(
    connection: Connection, documents: Sequence[int], locate: graph.Locate
) -> dict[int, _Page]:
    rows: list[tuple[Any, ...]] = []
    for some in batches(documents):
        rows += connection.execute(
            "SELECT l.document, d.uri, l.name, l.kind, l.target, l.start"
            " FROM links l JOIN documents d ON d.id = l.document"
            f" WHERE l.document IN ({placeholders(some)}) AND l.name != ''"
            " ORDER BY l.document, l.ordinal",
            some,
        )
    origins: dict[int, str] = {}
    links: dict[int, list[_KeptLink]] = {}
    for document, uri, *link in rows:
        origins[document] = uri
        links.setdefault(document, []).append(_KeptLink._make(link))
    return {
        document: _Page(locate(origins[document]), tuple(of_document), {})
        for document, of_document in links.items()
    }


def _read_holders(connection: Connection, names: Sequence[str]) -> dict[str, frozenset[int]]:
    """Return the documents of any generation that have each of these names."""
    holders: dict[str, set[int]] = {}
    for some in batches(names):
        rows = connection.execute(
            f"SELECT name, document FROM names WHERE name IN ({placeholders(some)})", some
        )
        for name, document in rows:
            holders.setdefault(name, set()).add(document)
    return {name: frozenset(documents) for name, documents in holders.items()}
