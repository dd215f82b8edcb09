"""The link graph of one generation: outgoing links, backlinks, and communities.

A link and its target share a name (see :mod:`lookfar.store.catalogue.link_names`), by which links
are resolved when they are asked for. So no document is rewritten when another appears or moves.
Computing communities needs all links. Where a ranking reads them, they are stored until a link
changes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from math import log
from operator import itemgetter
from sqlite3 import Connection
from typing import Any

from lookfar.errors import NotIndexed
from lookfar.ports import Edge, Member, MovedDocument, Version
from lookfar.store.catalogue import link_names
from lookfar.store.catalogue.communities import louvain
from lookfar.store.catalogue.migrations import FORMAT_WITH_COMMUNITIES, FORMAT_WITH_NAMES, check
from lookfar.store.catalogue.rows import ALIVE, batches, placeholders, read_number, record
from lookfar.store.catalogue.seals import seal

_EDGE = """
    SELECT l.name, d.uri, d.title, l.kind, l.target, l.anchor, l.text, l.start, l.end
    FROM links l JOIN documents d ON d.id = l.document
"""

_LINKS_CHANGED = "links_changed"
"""The key in ``meta`` of the first generation with the newest links."""
COMMUNITIES_OF = "communities_of"
"""The key in ``meta`` of that generation when the communities were stored."""


_LOCATED = 1024
"""Documents whose place is kept; the links of one follow each other."""

Locate = Callable[[str], link_names.Origin]
"""Says where a live document is, and in which Sphinx project."""


def require_link_names(connection: Connection) -> None:
    """Raise ``NotIndexed`` for an index that is too old to resolve links."""
    if check(connection) < FORMAT_WITH_NAMES:
        raise NotIndexed(
            "This index was made by an older Lookfar, which did not follow links.",
            hint="Run: lookfar index PATH",
        )


def links_from(
    connection: Connection, generation: int, document: int, start: int, end: int
) -> list[Edge]:
    """Return the links of a live document in ``start``..``end``, in order.

    External links, links within the document, and attachments that are not indexed are omitted.
    """
    rows = connection.execute(
        f"{_EDGE} WHERE l.document = ? AND l.start >= ? AND l.start < ? AND l.name != ''"
        " ORDER BY l.ordinal",
        (document, start, end),
    ).fetchall()
    targets = find_candidates(connection, generation, {row[0] for row in rows})
    origins = make_locator(connection, generation)
    edges: list[Edge] = []
    for name, uri, title, kind, target, *rest in rows:
        candidates = targets.get(name)
        best = candidates.resolve(origins(uri), kind, target) if candidates else None
        if best is None:
            if link_names.is_reported(kind, target):
                edges.append(Edge(uri, title, "", "", kind, target, *rest))
        elif best.document != document:
            edges.append(Edge(uri, title, best.uri, best.title, kind, target, *rest))
    return edges


def links_to(connection: Connection, generation: int, document: int) -> list[Edge]:
    """Return the links of other live documents to this one, by URI and position."""
    names = connection.execute("SELECT DISTINCT name FROM names WHERE document = ?", (document,))
    origins = make_locator(connection, generation)
    edges: list[Edge] = []
    for (name,) in names.fetchall():
        rows = connection.execute(
            # The second condition lets SQLite use the partial index on names.
            f"{_EDGE} WHERE l.name = :name AND l.name != '' AND l.document != :document"
            f" AND {ALIVE}",
            {"name": name, "document": document, "g": generation},
        ).fetchall()
        if not rows:
            continue
        candidates = find_candidates(connection, generation, {name})[name]
        for _, uri, title, kind, target, *rest in rows:
            best = candidates.resolve(origins(uri), kind, target)
            if best is not None and best.document == document:
                edges.append(Edge(uri, title, best.uri, best.title, kind, target, *rest))
    edges.sort(key=lambda edge: (edge.source, edge.start))
    return edges


def links_named(
    connection: Connection, generation: int, names: Iterable[str]
) -> list[tuple[str, Edge]]:
    """Return the links of live documents to one of these names, each with its name.

    They are not resolved: the target may be in another collection.
    """
    links: list[tuple[str, Edge]] = []
    for some in batches(sorted(set(names) - {""})):
        rows = connection.execute(
            f"{_EDGE} WHERE l.name IN ({placeholders(some)}) AND l.name != ''"
            " AND d.born <= ? AND (d.died IS NULL OR d.died > ?)",
            (*some, generation, generation),
        )
        for name, uri, title, *rest in rows:
            links.append((name, Edge(uri, title, "", "", *rest)))
    links.sort(key=lambda link: (link[1].source, link[1].start))
    return links


def resolve_links(
    connection: Connection,
    generation: int,
    links: Iterable[tuple[str, str, str]],
    absent: str = "",
) -> dict[tuple[str, str, str], tuple[str, str]]:
    """Return URI and title of the live document that each link leads to, seen from the root.

    A link is its name, its kind and its target as written. ``absent`` is the URI of a document
    that does not exist but is considered too. Links without a target here are omitted.
    """
    unique = list(dict.fromkeys(links))
    targets_by_name = _find_targets(connection, generation, {name for name, _, _ in unique})
    absent_names: dict[str, list[tuple[int, str]]] = {}
    for name, way, whole in link_names.list_names(absent, "", ()) if absent else ():
        absent_names.setdefault(name, []).append((way, whole))
    for name, ways in absent_names.items():
        path = link_names.Path.parse(absent)
        target = link_names.LinkTarget(0, absent, "", path, tuple(ways))
        targets_by_name.setdefault(name, []).append(target)
    candidates = {name: link_names.Candidates(some) for name, some in targets_by_name.items()}
    resolved: dict[tuple[str, str, str], tuple[str, str]] = {}
    for link in unique:
        name, kind, written = link
        best = (
            candidates[name].resolve(link_names.Origin(""), kind, written)
            if name in candidates
            else None
        )
        if best is not None:
            resolved[link] = (best.uri, best.title)
    return resolved


def resolve_from(
    connection: Connection,
    generation: int,
    links: Sequence[tuple[str, str, str]],
    moved: MovedDocument | None = None,
) -> list[str]:
    """Return the URI that each link (source, kind, target) leads to; empty if it leads nowhere.

    With ``moved``, as if that document were already at its new path.
    """
    names = [link_names.link_name(source, kind, target) for source, kind, target in links]
    targets = _find_targets(connection, generation, set(names) - {""})
    if moved is not None:
        for name in set(names) - {""}:
            others = [other for other in targets.get(name, []) if other.uri != moved.old]
            own = link_names.name_target(name, moved.new, moved.title, moved.aliases)
            targets[name] = [*others, *([own] if own is not None else [])]
    candidates = {name: link_names.Candidates(some) for name, some in targets.items()}
    origins = make_locator(connection, generation)
    uris: list[str] = []
    for name, (source, kind, target) in zip(names, links, strict=True):
        best = (
            candidates[name].resolve(origins(source), kind, target) if name in candidates else None
        )
        uris.append(best.uri if best is not None else "")
    return uris


def find_notes(connection: Connection, generation: int, name: str) -> list[tuple[str, str]]:
    """Return URI and title of the live documents that a name can mean, seen from the root."""
    key = link_names.link_name("", "wikilink", name)
    candidates = find_candidates(connection, generation, {key}).get(key) if key else None
    if candidates is None:
        return []
    return [(target.uri, target.title) for target in candidates.find_notes(name)]


def list_note_names(connection: Connection, generation: int) -> list[tuple[str, str, str]]:
    """Return every folded file name, alias and title, with URI and title of its document."""
    rows = connection.execute(
        "SELECT n.name, n.way, n.whole, d.uri, d.title"
        " FROM names n JOIN documents d ON d.id = n.document"
        f" WHERE n.way != {link_names.BY_LABEL} AND {ALIVE}",
        {"g": generation},
    )
    return [
        (name if way == link_names.BY_PATH else whole, uri, title)
        for name, way, whole, uri, title in rows
    ]


def find_candidates(
    connection: Connection, generation: int, names: Iterable[str]
) -> dict[str, link_names.Candidates]:
    """Return the live documents with each of these names, ready to resolve links."""
    targets_by_name = _find_targets(connection, generation, names)
    return {name: link_names.Candidates(targets) for name, targets in targets_by_name.items()}


def make_locator(connection: Connection, generation: int) -> Locate:
    projects = _find_targets(connection, generation, {link_names.PROJECT_FILE})
    folders = [
        link_names.parent_folder(target.uri)
        for target in projects.get(link_names.PROJECT_FILE, ())
        if target.path.whole.endswith(link_names.PROJECT_FILE)
    ]
    return lru_cache(_LOCATED)(lambda uri: link_names.locate(uri, folders))


def _find_targets(
    connection: Connection, generation: int, names: Iterable[str]
) -> dict[str, list[link_names.LinkTarget]]:
    targets: dict[str, list[link_names.LinkTarget]] = {}
    for some in batches(sorted(names)):
        rows = connection.execute(
            "SELECT n.name, n.document, n.way, n.whole, d.uri, d.title"
            " FROM names n JOIN documents d ON d.id = n.document"
            f" WHERE n.name IN ({placeholders(some)})"
            " AND d.born <= ? AND (d.died IS NULL OR d.died > ?)"
            " ORDER BY n.name, n.document",
            (*some, generation, generation),
        )
        for name, named in groupby(rows, itemgetter(0)):
            targets[name] = list(_make_targets(named))
    return targets


def _make_targets(rows: Iterable[tuple[Any, ...]]) -> Iterator[link_names.LinkTarget]:
    for document, group in groupby(rows, itemgetter(1)):
        same = list(group)
        uri, title = same[0][4:]
        ways = tuple((way, whole) for _, _, way, whole, _, _ in same)
        yield link_names.LinkTarget(document, uri, title, link_names.Path.parse(uri), ways)


# --- the whole graph ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Graph:
    """The links between the documents of one generation, without direction."""

    uris: Sequence[str]
    """Documents in URI order; the other fields refer to them by position."""
    titles: Sequence[str]
    neighbours: Sequence[Sequence[int]]
    communities: Sequence[int]
    """The number of each document's community."""

    def communities_of(self, uris: Collection[str]) -> dict[str, int]:
        """Return the community of each of these documents that has links."""
        communities: dict[str, int] = {}
        for uri in uris:
            position = bisect_left(self.uris, uri)
            if (
                position < len(self.uris)
                and self.uris[position] == uri
                and self.neighbours[position]
            ):
                communities[uri] = self.communities[position]
        return communities

    def around(self, uri: str) -> list[Member]:
        """Return the other members of a document's community, closest first.

        A shared neighbour counts more if it has few neighbours itself: a page that links to
        everything says nothing.
        """
        position = bisect_left(self.uris, uri)
        if position == len(self.uris) or self.uris[position] != uri:
            return []
        near = self.neighbours[position]
        closeness: dict[int, float] = dict.fromkeys(near, 1.0)
        for neighbour in near:
            worth = 1.0 / log(1.0 + len(self.neighbours[neighbour]))
            for other in self.neighbours[neighbour]:
                closeness[other] = closeness.get(other, 0.0) + worth
        own = self.communities[position]
        members = [
            Member(
                self.uris[other],
                self.titles[other],
                closeness.get(other, 0.0),
                len(self.neighbours[other]),
            )
            for other, community in enumerate(self.communities)
            if community == own and other != position
        ]
        members.sort(key=lambda neighbour: (-neighbour.closeness, -neighbour.links, neighbour.uri))
        return members


def build_graph(
    connection: Connection, generation: int, communities: Mapping[str, int] | None = None
) -> Graph:
    """Build the graph of all live documents; compute its communities unless they are given."""
    documents = connection.execute(
        f"SELECT d.id, d.uri, d.title FROM documents d WHERE {ALIVE} ORDER BY d.uri",
        {"g": generation},
    ).fetchall()
    count = len(documents)
    place = {document: position for position, (document, _, _) in enumerate(documents)}
    # A pair is one number, because hundreds of thousands are counted and sorted.
    pairs = Counter(
        min(one, other) * count + max(one, other)
        for one, other in _pairs(connection, generation, documents, place)
        if one != other
    )
    edges = [(*divmod(pair, count), float(pairs[pair])) for pair in sorted(pairs)]
    neighbours: list[list[int]] = [[] for _ in documents]
    for one, other, _ in edges:
        neighbours[one].append(other)
        neighbours[other].append(one)
    uris = [uri for _, uri, _ in documents]
    if communities is None:
        numbers = louvain(count, edges)
    else:  # A document without links is a community of its own and is not stored.
        numbers = [communities.get(uri, -1 - position) for position, uri in enumerate(uris)]
    return Graph(uris, [title for _, _, title in documents], neighbours, numbers)


def _pairs(
    connection: Connection,
    generation: int,
    documents: Sequence[tuple[int, str, str]],
    place: Mapping[int, int],
) -> Iterator[tuple[int, int]]:
    """Yield the positions of source and target of each link that resolves."""
    rows = connection.execute(
        "SELECT name, document, kind, target FROM links WHERE name != ''"
    ).fetchall()
    targets = find_candidates(connection, generation, {row[0] for row in rows})
    locator = make_locator(connection, generation)
    origins = [locator(uri) for _, uri, _ in documents]
    for name, document, kind, target in rows:
        source, candidates = place.get(document), targets.get(name)
        if source is not None and candidates is not None:
            best = candidates.resolve(origins[source], kind, target)
            if best is not None:
                yield source, place[best.document]


# --- stored communities ---------------------------------------------------------------------------


def same_links(connection: Connection, version: Version) -> bool:
    """Whether a version has the same links and names as the one it replaces."""
    row = connection.execute(
        "SELECT id FROM documents WHERE uri = ? AND died IS NULL", (version.uri,)
    ).fetchone()
    if row is None:
        return False
    names = connection.execute("SELECT name, way, whole FROM names WHERE document = ?", row)
    if set(names) != set(version.names):
        return False
    links = connection.execute(
        "SELECT kind, target, name FROM links WHERE document = ? AND name != ''", row
    )
    now = ((kind, target, name) for kind, target, _, _, _, _, name in version.links if name)
    return Counter(links) == Counter(now)


def links_changed(connection: Connection, after: int) -> bool:
    """Whether the links of generation ``after`` differ from the newest ones.

    That is so after a rollback beyond the last change of a link.
    """
    return after < read_number(connection, _LINKS_CHANGED)


def record_links(connection: Connection, generation: int) -> None:
    """Record that links changed with this generation, which makes stored communities stale."""
    record(connection, _LINKS_CHANGED, generation)


def store_communities(connection: Connection, generation: int) -> None:
    connection.execute("DELETE FROM communities")
    # Databases of inserted documents have no links but many generations.
    if connection.execute("SELECT 1 FROM links LIMIT 1").fetchone() is not None:
        graph = build_graph(connection, generation)
        connection.executemany(
            "INSERT INTO communities VALUES (?, ?)", graph.communities_of(graph.uris).items()
        )
    record(connection, COMMUNITIES_OF, generation)
    seal(connection, "communities")


def forget_communities(connection: Connection, uris: Iterable[str]) -> None:
    """Remove erased documents from the stored communities."""
    connection.executemany("DELETE FROM communities WHERE uri = ?", [(uri,) for uri in uris])
    seal(connection, "communities")


def stored_communities(
    connection: Connection, generation: int, uris: Collection[str] | None = None
) -> dict[str, int] | None:
    """Return the stored community of each document that has links, or of each of ``uris``.

    Return ``None`` if the stored communities are not those of this generation's links.
    """
    if check(connection) < FORMAT_WITH_COMMUNITIES:
        return None
    since = read_number(connection, _LINKS_CHANGED)
    if not since or generation < since or read_number(connection, COMMUNITIES_OF) != since:
        return None
    if uris is None:
        return dict(connection.execute("SELECT uri, community FROM communities").fetchall())
    communities: dict[str, int] = {}
    for some in batches(sorted(uris)):
        communities.update(
            connection.execute(
                f"SELECT uri, community FROM communities WHERE uri IN ({placeholders(some)})", some
            ).fetchall()
        )
    return communities
