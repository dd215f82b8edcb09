"""The link graph of one generation: who links where, who links here, who belongs together.

Takes: a connection and a generation. Gives: the links of a document with the document that
each means, the links that mean a document, and for the whole generation the neighbours and
community of each document. Refuses: to store what a link resolves to; it is found when it is
asked for, so a document that appears, moves or goes needs no other to be written again.

Communities alone are stored, because they take all links at once. They follow from the links
and from nothing else, so the stored ones serve until a link changes; whoever asks after that
has them made anew, and gets the same as if everything had been indexed afresh.

A link and its target have a name in common (see :mod:`lookfar.store.catalogue.link_names`), which
is indexed on both sides. So a question reads the links and documents of a few names only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import log
from operator import itemgetter
from typing import Any

from lookfar.errors import NotIndexed
from lookfar.ports import Edge, Lead, Member, Version
from lookfar.store.catalogue import link_names
from lookfar.store.catalogue.communities import louvain
from lookfar.store.catalogue.migrations import FORMAT_WITH_COMMUNITIES, FORMAT_WITH_NAMES, check
from lookfar.store.catalogue.rows import ALIVE, batches, marks, number, record
from lookfar.store.catalogue.seals import seal
from lookfar.store.ground.sql import Connection

_EDGE = """
    SELECT l.name, d.uri, d.title, l.kind, l.target, l.anchor, l.text, l.start, l.end
    FROM links l JOIN documents d ON d.id = l.document
"""

_LINKS_CHANGED = "links_changed"
"""The key in ``meta`` of the first generation that has the links of the newest."""
COMMUNITIES_OF = "communities_of"
"""The same, as it was when the communities were stored."""


def refuse_older(connection: Connection) -> None:
    """An index that was made before links had names cannot say where they lead."""
    if check(connection) < FORMAT_WITH_NAMES:
        raise NotIndexed(
            "This index was made by an older Lookfar, which did not follow links.",
            hint="Run: lookfar index PATH",
        )


def links_from(
    connection: Connection, generation: int, document: int, start: int, end: int
) -> list[Edge]:
    """The links that a live document has in ``start``..``end``, in order.

    Links to addresses elsewhere and within the document itself are no edges, nor are
    pictures and other attachments that are no documents here.
    """
    rows = connection.execute(
        f"{_EDGE} WHERE l.document = ? AND l.start >= ? AND l.start < ? AND l.name != ''"
        " ORDER BY l.ordinal",
        (document, start, end),
    ).fetchall()
    targets = _targets(connection, generation, {row[0] for row in rows})
    edges: list[Edge] = []
    for name, uri, title, kind, target, *rest in rows:
        bearers = targets.get(name)
        found = bearers.meant_by(link_names.folder_of(uri), kind, target) if bearers else None
        if found is None:
            if not link_names.is_attachment(kind, target):
                edges.append(Edge(uri, title, "", "", kind, target, *rest))
        elif found.document != document:
            edges.append(Edge(uri, title, found.uri, found.title, kind, target, *rest))
    return edges


def links_to(connection: Connection, generation: int, document: int) -> list[Edge]:
    """The links of other live documents that mean this one, by URI and place."""
    names = connection.execute("SELECT DISTINCT name FROM names WHERE document = ?", (document,))
    edges: list[Edge] = []
    for (name,) in names.fetchall():
        rows = connection.execute(
            # Said twice, because the index leaves out what has no name.
            f"{_EDGE} WHERE l.name = :name AND l.name != '' AND l.document != :document"
            f" AND {ALIVE}",
            {"name": name, "document": document, "g": generation},
        ).fetchall()
        if not rows:
            continue
        bearers = _targets(connection, generation, {name})[name]
        for _, uri, title, kind, target, *rest in rows:
            found = bearers.meant_by(link_names.folder_of(uri), kind, target)
            if found is not None and found.document == document:
                edges.append(Edge(uri, title, found.uri, found.title, kind, target, *rest))
    edges.sort(key=lambda edge: (edge.source, edge.start))
    return edges


def links_named(
    connection: Connection, generation: int, names: Iterable[str]
) -> list[tuple[str, Edge]]:
    """The links of live documents that look for one of these names, and for which; where they
    lead is left open: it may be a document of another collection."""
    found: list[tuple[str, Edge]] = []
    for some in batches(sorted(set(names) - {""})):
        rows = connection.execute(
            f"{_EDGE} WHERE l.name IN ({marks(some)}) AND l.name != ''"
            " AND d.born <= ? AND (d.died IS NULL OR d.died > ?)",
            (*some, generation, generation),
        )
        for name, uri, title, *rest in rows:
            found.append((name, Edge(uri, title, "", "", *rest)))
    found.sort(key=lambda each: (each[1].source, each[1].start))
    return found


def leads(
    connection: Connection,
    generation: int,
    documents: Sequence[int],
    among: Collection[int] | None = None,
) -> list[Lead]:
    """The links of some live documents that mean other ones, in the order of the documents.

    With ``among`` only links to these are followed, which is quicker: most links of a page
    look for names that none of them has.
    """
    rows: list[tuple[Any, ...]] = []
    for some in batches(documents):
        rows += connection.execute(
            "SELECT l.name, l.document, d.uri, l.kind, l.target, l.start"
            " FROM links l JOIN documents d ON d.id = l.document"
            f" WHERE l.document IN ({marks(some)}) AND l.name != ''"
            " ORDER BY l.document, l.ordinal",
            some,
        )
    names = {row[0] for row in rows}
    if among is not None:
        listed = ",".join(map(str, among))  # Integers of our own: nothing to escape.
        held: set[str] = set()
        for few in batches(sorted(names)) if listed else ():
            found = connection.execute(
                # By their names, which are fewer; the plus keeps SQLite from the other way.
                f"SELECT DISTINCT name FROM names WHERE name IN ({marks(few)})"
                f" AND +document IN ({listed})",
                few,
            )
            held.update(name for (name,) in found)
        names = held
    targets = _targets(connection, generation, names)
    leading: list[Lead] = []
    for name, document, uri, kind, target, start in rows:
        bearers = targets.get(name)
        best = bearers.meant_by(link_names.folder_of(uri), kind, target) if bearers else None
        if best is None or best.document == document:
            continue
        if among is None or best.document in among:
            leading.append(Lead(document, best.document, kind, start))
    return leading


def meant(
    connection: Connection,
    generation: int,
    links: Iterable[tuple[str, str, str]],
    absent: str = "",
) -> dict[tuple[str, str, str], tuple[str, str]]:
    """URI and title of the live document that each link means, seen from the root.

    A link is its name, its kind and its target as written. ``absent`` is the URI of a document
    that is not there and yet could be meant. Links that mean nothing here are left out.
    """
    wanted = list(dict.fromkeys(links))
    held = _bearing(connection, generation, {name for name, _, _ in wanted})
    ghosts: dict[str, list[tuple[int, str]]] = {}
    for name, way, whole in link_names.names_of(absent, "", ()) if absent else ():
        ghosts.setdefault(name, []).append((way, whole))
    for name, ways in ghosts.items():
        path = link_names.Path.of(absent)
        held.setdefault(name, []).append(link_names.Target(0, absent, "", path, tuple(ways)))
    bearers = {name: link_names.Bearers(targets) for name, targets in held.items()}
    found: dict[tuple[str, str, str], tuple[str, str]] = {}
    for link in wanted:
        name, kind, target = link
        best = bearers[name].meant_by("", kind, target) if name in bearers else None
        if best is not None:
            found[link] = (best.uri, best.title)
    return found


def _targets(
    connection: Connection, generation: int, names: Iterable[str]
) -> dict[str, link_names.Bearers]:
    """The live documents that have each of these names, ready to be chosen from."""
    held = _bearing(connection, generation, names)
    return {name: link_names.Bearers(targets) for name, targets in held.items()}


def _bearing(
    connection: Connection, generation: int, names: Iterable[str]
) -> dict[str, list[link_names.Target]]:
    """The live documents that have each of these names."""
    found: dict[str, list[link_names.Target]] = {}
    for some in batches(sorted(names)):
        rows = connection.execute(
            "SELECT n.name, n.document, n.way, n.whole, d.uri, d.title"
            " FROM names n JOIN documents d ON d.id = n.document"
            f" WHERE n.name IN ({marks(some)}) AND d.born <= ? AND (d.died IS NULL OR d.died > ?)"
            " ORDER BY n.name, n.document",
            (*some, generation, generation),
        )
        for name, held in groupby(rows, itemgetter(0)):
            found[name] = list(_targets_of(held))
    return found


def _targets_of(rows: Iterable[tuple[Any, ...]]) -> Iterator[link_names.Target]:
    for document, held in groupby(rows, itemgetter(1)):
        same = list(held)
        uri, title = same[0][4:]
        ways = tuple((way, whole) for _, _, way, whole, _, _ in same)
        yield link_names.Target(document, uri, title, link_names.Path.of(uri), ways)


# -- the whole graph ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Graph:
    """Who is linked with whom, whichever way, in one generation."""

    uris: Sequence[str]
    """Documents in the order of their URIs; elsewhere here they are numbers in it."""
    titles: Sequence[str]
    neighbours: Sequence[Sequence[int]]
    communities: Sequence[int]
    """The community of each document; equal numbers belong together."""

    def communities_of(self, uris: Collection[str]) -> dict[str, int]:
        """The community of each of these documents that has links."""
        found: dict[str, int] = {}
        for uri in uris:
            at = bisect_left(self.uris, uri)
            if at < len(self.uris) and self.uris[at] == uri and self.neighbours[at]:
                found[uri] = self.communities[at]
        return found

    def around(self, uri: str) -> list[Member]:
        """The other members of a document's community, the closest first.

        A neighbour in common says the more, the fewer neighbours it has: the page that
        links to everything says nothing.
        """
        at = bisect_left(self.uris, uri)
        if at == len(self.uris) or self.uris[at] != uri:
            return []
        near = self.neighbours[at]
        closeness: dict[int, float] = dict.fromkeys(near, 1.0)
        for each in near:
            worth = 1.0 / log(1.0 + len(self.neighbours[each]))
            for other in self.neighbours[each]:
                closeness[other] = closeness.get(other, 0.0) + worth
        mine = self.communities[at]
        members = [
            Member(
                self.uris[other],
                self.titles[other],
                closeness.get(other, 0.0),
                len(self.neighbours[other]),
            )
            for other, its in enumerate(self.communities)
            if its == mine and other != at
        ]
        members.sort(key=lambda each: (-each.closeness, -each.links, each.uri))
        return members


def graph_of(
    connection: Connection, generation: int, communities: Mapping[str, int] | None = None
) -> Graph:
    """The graph of all live documents, with its communities, unless these are known."""
    documents = connection.execute(
        f"SELECT d.id, d.uri, d.title FROM documents d WHERE {ALIVE} ORDER BY d.uri",
        {"g": generation},
    ).fetchall()
    count = len(documents)
    place = {document: at for at, (document, _, _) in enumerate(documents)}
    # A pair as one number: of these hundreds of thousands are counted and sorted at once.
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
        found = louvain(count, edges)
    else:  # Those without links are each one by itself, and stored nowhere.
        found = [communities.get(uri, -1 - at) for at, uri in enumerate(uris)]
    return Graph(uris, [title for _, _, title in documents], neighbours, found)


def _pairs(
    connection: Connection,
    generation: int,
    documents: Sequence[tuple[int, str, str]],
    place: Mapping[int, int],
) -> Iterator[tuple[int, int]]:
    """Of each link that leads somewhere the places of its document and of its target."""
    rows = connection.execute(
        "SELECT name, document, kind, target FROM links WHERE name != ''"
    ).fetchall()
    targets = _targets(connection, generation, {row[0] for row in rows})
    folders = [link_names.folder_of(uri) for _, uri, _ in documents]
    for name, document, kind, target in rows:
        source, bearers = place.get(document), targets.get(name)
        if source is not None and bearers is not None:
            found = bearers.meant_by(folders[source], kind, target)
            if found is not None:
                yield source, place[found.document]


# -- communities that are stored ---------------------------------------------


def same_links(connection: Connection, version: Version) -> bool:
    """Whether a version has the links and the names of the one that it replaces."""
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
    """Whether a session that follows generation ``after`` starts from other links than those
    of the newest: somebody rolled back beyond the last change of a link."""
    return after < number(connection, _LINKS_CHANGED)


def record_links(connection: Connection, generation: int) -> None:
    """Links are from this generation on not what they were; stored communities do not serve."""
    record(connection, _LINKS_CHANGED, generation)


def store_communities(connection: Connection, generation: int) -> None:
    """Make the communities of a generation that has just been given its links, and keep them."""
    connection.execute("DELETE FROM communities")
    # Inserted documents have no links, and many generations.
    if connection.execute("SELECT 1 FROM links LIMIT 1").fetchone() is not None:
        graph = graph_of(connection, generation)
        connection.executemany(
            "INSERT INTO communities VALUES (?, ?)", graph.communities_of(graph.uris).items()
        )
    record(connection, COMMUNITIES_OF, generation)
    seal(connection, "communities")


def forget_communities(connection: Connection, uris: Iterable[str]) -> None:
    """Leave no trace of documents that are erased."""
    connection.executemany("DELETE FROM communities WHERE uri = ?", [(uri,) for uri in uris])
    seal(connection, "communities")


def stored_communities(
    connection: Connection, generation: int, uris: Collection[str] | None = None
) -> dict[str, int] | None:
    """The community of each document that has links, or of each of ``uris``; ``None`` where
    what is stored is not of this generation's links."""
    if check(connection) < FORMAT_WITH_COMMUNITIES:
        return None
    since = number(connection, _LINKS_CHANGED)
    if not since or generation < since or number(connection, COMMUNITIES_OF) != since:
        return None
    if uris is None:
        return dict(connection.execute("SELECT uri, community FROM communities").fetchall())
    found: dict[str, int] = {}
    for some in batches(sorted(uris)):
        found.update(
            connection.execute(
                f"SELECT uri, community FROM communities WHERE uri IN ({marks(some)})", some
            ).fetchall()
        )
    return found
