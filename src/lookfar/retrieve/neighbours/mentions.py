"""Find the memories that link to a document, and the targets of links in memories.

A link in a memory is resolved as if the memory were in the root of the folder, unless it means
another memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lookfar.model import RelatedEntry
from lookfar.ports import Edge, Snapshot
from lookfar.retrieve.neighbours.related import LinkSources, classify_memory_link, make_link_entry
from lookfar.store.catalogue.link_names import link_name, list_names

ABOUT = "About: "
"""Start of the line of links at the end of a memory."""
_SAYS_LITTLE = 40
"""Characters; with less context than this, the start of the memory is shown as well."""
_BEGINNING = 80


def find_mentions(
    memories: Snapshot, home: Snapshot, uri: str, limit: int
) -> tuple[list[RelatedEntry], int]:
    """Return the memories that link to a document of ``home``, most links first, and how many."""
    known = home.document(uri)
    title, aliases = (known["title"], known.get("aliases", ())) if known else ("", ())
    names = {link.name for link in list_names(uri, title, aliases)}
    links = [((name, e.kind, e.written), e) for name, e in memories.links_named(names)]
    own = memories.resolve_links(link for link, _ in links)
    there = home.resolve_links((link for link, _ in links), absent="" if known else uri)
    groups: dict[str, list[Edge]] = {}
    for link, edge in links:
        if link not in own and there.get(link, ("",))[0] == uri:
            resolved = edge._replace(target=uri if known else "", target_title=title)
            groups.setdefault(edge.source, []).append(resolved)
    sources = LinkSources(memories)
    ranked = sorted(groups.values(), key=lambda edges: (-len(edges), edges[0].source))
    return [_make_entry(memories, edges, sources) for edges in ranked[:limit]], len(ranked)


def _make_entry(memories: Snapshot, edges: list[Edge], sources: LinkSources) -> RelatedEntry:
    entry = make_link_entry("memories", edges, sources)
    type = read_front_matter(memories, entry.uri).get("type")
    relation = classify_memory_link(entry.relation, str(type), entry.context)
    context = entry.context
    if context.startswith(ABOUT) or len(context) < _SAYS_LITTLE:
        known = memories.document(entry.uri)
        text = (memories.text(entry.uri) or "")[known["body"] if known else 0 :]
        context = f"{' '.join(text[:_BEGINNING].split())}… {context}"
    return replace(entry, relation=relation, context=context)


def resolve_outgoing(memories: Snapshot, home: Snapshot, uri: str) -> dict[str, tuple[str, str]]:
    """Return URI and title of the documents that a memory links to, by target as written."""
    ghosts = [edge for edge in memories.links_from(uri) if not edge.target]
    links = {edge: (link_name("", edge.kind, edge.written), edge.kind, edge.written)
             for edge in ghosts}  # fmt: skip
    there = home.resolve_links(links.values())
    return {edge.written: there[link] for edge, link in links.items() if link in there}


def read_front_matter(snapshot: Snapshot, uri: str) -> Mapping[str, Any]:
    known = snapshot.document(uri)
    values = known.get("front_matter", {}) if known else {}
    return values if isinstance(values, dict) else {}
