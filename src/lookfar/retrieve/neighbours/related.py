"""Find what is related to a document or a definition in it: links, similar documents, mentions.

Several links to one document are one entry with a count.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from lookfar.common.lines import Lines
from lookfar.model import (
    USUAL_KINDS,
    Filters,
    LinkKind,
    RelatedEntry,
    RelatedKind,
    Relation,
    Section,
)
from lookfar.ports import Edge, Snapshot
from lookfar.ports import Place as Passage
from lookfar.retrieve.calls.code_files import Place, is_test_file
from lookfar.retrieve.locate.symbols import find_definitions, split_name
from lookfar.retrieve.neighbours.call_relations import (
    CALL_KINDS,
    Part,
    find_call_relations,
    find_place,
)
from lookfar.store.keywords.analyser import terms_of

_IMPLEMENTS = re.compile(r"implement(ed|ation|ations|s)\b", re.IGNORECASE)
_RELATED = re.compile(r"(see also|related|further reading)\b", re.IGNORECASE)
_REFACTORS = re.compile(r"\brefactor(s|ed|ing)?\b", re.IGNORECASE)


def classify_link(kind: LinkKind, uri: str, headings: Sequence[str]) -> Relation:
    """Return the relation by the innermost telling heading, otherwise by the file."""
    if kind in ("embed", "image"):
        return "transclusion"
    for heading in reversed(headings):
        if _IMPLEMENTS.match(heading):
            return "implements"
        if _RELATED.match(heading):
            return "related"
    return "tests" if is_test_file(uri) else "links_to"


def classify_memory_link(relation: Relation | None, type: str, context: str) -> Relation:
    """Return the relation of a link in a memory, also by the words around it."""
    if relation not in (None, "links_to", "tests"):
        return relation
    if _REFACTORS.search(context):
        return "refactors"
    return "plans" if type == "plan" else "mentions"


KINDS = USUAL_KINDS
SYMBOL_KINDS: tuple[RelatedKind, ...] = ("definitions", "mentions", "callers", "callees")
"""For definitions in source code; included by default if one was asked about."""
ALL_KINDS: tuple[RelatedKind, ...] = (*KINDS, "definitions", "mentions", *CALL_KINDS)
"""Everything that one collection can answer."""

_AROUND = 50
"""Characters of context before and after a link."""
_LONGEST_TEXT = 80
_MOST_MENTIONS = 300
"""Chunks searched for a name."""
_FIELDS = {"body": 1.0, "code": 1.0}
_SPACE = re.compile(r"\s+")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")


Entries = tuple[list[RelatedEntry], int]
"""Entries, and their number without the limit."""


def find_related(
    snapshot: Snapshot, part: Part, kinds: Iterable[RelatedKind], limit: int
) -> tuple[list[RelatedEntry], dict[RelatedKind, int]]:
    """Return entries of each kind, in the order of the kinds, and their totals."""
    wanted = frozenset(kinds)
    entries: list[RelatedEntry] = []
    totals: dict[RelatedKind, int] = {}
    place: Place | None = None
    if not wanted.isdisjoint(CALL_KINDS):
        place = find_place(snapshot, part.uri, part.start, part.name)
    for kind in ALL_KINDS:
        if kind in wanted:
            if kind in CALL_KINDS:
                listed, totals[kind] = find_call_relations(snapshot, place, kind, limit)
            else:
                listed, totals[kind] = _FINDERS[kind](snapshot, part, limit)
            entries += listed
    return entries, totals


def _find_links(snapshot: Snapshot, part: Part, limit: int) -> Entries:
    """Return the documents that a part links to, in the order of its text."""
    groups: dict[str, list[Edge]] = {}
    for edge in snapshot.links_from(part.uri, part.start, part.end):
        # A broken link is grouped by its text; the prefix keeps it apart from URIs.
        groups.setdefault(edge.target or f"\0{edge.written.casefold()}", []).append(edge)
    sources = LinkSources(snapshot)
    entries = [make_link_entry("links", edges, sources) for edges in list(groups.values())[:limit]]
    return entries, len(groups)


def _find_backlinks(snapshot: Snapshot, part: Part, limit: int) -> Entries:
    """Return the documents that link to a part's document, most links first."""
    groups: dict[str, list[Edge]] = {}
    for edge in snapshot.links_to(part.uri):
        groups.setdefault(edge.source, []).append(edge)
    sources = LinkSources(snapshot)
    ranked = sorted(groups.values(), key=lambda edges: (-len(edges), edges[0].source))
    return [make_link_entry("backlinks", edges, sources) for edges in ranked[:limit]], len(groups)


def make_link_entry(kind: RelatedKind, edges: Sequence[Edge], sources: LinkSources) -> RelatedEntry:
    """Return one entry for all links between two documents, with the text of the first."""
    first = edges[0]
    text, lines, sections = sources.read(first.source)
    headings = find_headings(sections, first.start)
    backwards = kind in ("backlinks", "memories")
    return RelatedEntry(
        kind=kind,
        uri=first.source if backwards else first.target,
        title=first.source_title if backwards else first.target_title,
        target=first.written,
        resolved=bool(first.target),
        relation=classify_link(first.kind, first.source, headings),
        count=len(edges),
        score=float(len(edges)),
        anchor=first.anchor,
        heading_path=headings,
        line=lines.line_of(first.start),
        text=_shorten(first.text),
        context=_quote_context(text, first),
    )


class LinkSources:
    """Texts and headings of documents with links, each read once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._read: dict[str, tuple[str, Lines, Sequence[Section]]] = {}

    def read(self, uri: str) -> tuple[str, Lines, Sequence[Section]]:
        if uri not in self._read:
            text = self._snapshot.text(uri) or ""
            self._read[uri] = (text, Lines(text), self._snapshot.sections(uri))
        return self._read[uri]


def find_headings(sections: Sequence[Section], offset: int) -> tuple[str, ...]:
    """Return the headings of the last section that begins before an offset."""
    at = bisect_right(sections, offset, key=lambda section: section.span.start) - 1
    return sections[at].path if at >= 0 else ()


def _quote_context(text: str, edge: Edge) -> str:
    """Return the text around a link, with the link as it is displayed."""
    before = _BLANK_LINE.split(text[max(0, edge.start - 2 * _AROUND) : edge.start])[-1]
    behind = _BLANK_LINE.split(text[edge.end : edge.end + 2 * _AROUND])[0]
    before, behind = (_SPACE.sub(" ", part) for part in (before, behind))
    if len(before) > _AROUND:
        before = "…" + before[-_AROUND:].partition(" ")[2]
    if len(behind) > _AROUND:
        behind = behind[:_AROUND].rpartition(" ")[0] + "…"
    return f"{before}{_shorten(edge.text or edge.written)}{behind}".strip()


def _shorten(text: str, most: int = _LONGEST_TEXT) -> str:
    text = _SPACE.sub(" ", text).strip()
    return text if len(text) <= most else text[: most - 1] + "…"


def _find_similar(snapshot: Snapshot, part: Part, limit: int) -> Entries:
    """Return the documents with the passages nearest to the mean vector of a part."""
    centre = snapshot.centre(part.uri, part.start, part.end)
    if centre is None:
        return [], 0
    fetch = 4 * limit + 16
    while True:
        near = snapshot.vector_search(centre, fetch, Filters())
        best: dict[str, tuple[Passage, float]] = {}
        for place, score in near:
            if place.uri != part.uri:
                best.setdefault(place.uri, (place, score))
        if len(best) >= limit or len(near) < fetch:
            break
        fetch *= 4
    ranked = sorted(best.values(), key=lambda pair: (-pair[1], pair[0].uri))[:limit]
    return [_make_similar_entry(snapshot, place, score) for place, score in ranked], len(ranked)


def _make_similar_entry(snapshot: Snapshot, place: Passage, score: float) -> RelatedEntry:
    passage = (snapshot.text(place.uri) or "")[place.start : place.end]
    words = _SPACE.sub(" ", passage).strip()
    if len(words) > 2 * _AROUND:
        words = words[: 2 * _AROUND].rpartition(" ")[0] + "…"
    return _make_entry(
        "similar", place.uri, place.title, score, place.path, place.start_line, words
    )


def _find_community(snapshot: Snapshot, part: Part, limit: int) -> Entries:
    """Return the documents that link to each other more than to the rest."""
    members = snapshot.community(part.uri)
    entries = [
        _make_entry("community", member.uri, member.title, member.closeness)
        for member in members[:limit]
    ]
    return entries, len(members)


def _list_same_name(snapshot: Snapshot, part: Part, limit: int) -> Entries:
    """Return all definitions with the name of a part, including the part itself."""
    return list_definitions(snapshot, part.name, limit) if part.name else ([], 0)


def list_definitions(snapshot: Snapshot, full_name: str, limit: int) -> Entries:
    """Return all definitions that a name can mean."""
    definitions = find_definitions(snapshot, full_name)
    name = split_name(full_name)[-1] if definitions else ""
    sources = LinkSources(snapshot)
    entries = []
    for uri, section in definitions[:limit]:
        text, lines, _ = sources.read(uri)
        start = section.span.start
        # Comments and decorators above may contain the name; the signature has it last.
        at = text.rfind(name, start, section.body)
        first = lines.line_of(at if at >= 0 else start)
        line = text[lines.start_of(first) :].partition("\n")[0]
        entries.append(
            _make_entry(
                "definitions", uri, "", 1.0, section.path, first, _shorten(line, 2 * _AROUND)
            )
        )
    return entries, len(definitions)


def _find_mentions(snapshot: Snapshot, part: Part, limit: int) -> Entries:
    """Return other occurrences of the name by document: whole words, case-sensitive; tests last."""
    if not part.name:
        return [], 0
    name = split_name(part.name)[-1]
    terms = terms_of(name)[:1]  # Only the whole name: its parts occur everywhere.
    written = re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])")
    own = {
        (uri, section.span.start, section.body) for uri, section in find_definitions(snapshot, name)
    }
    mentions: dict[str, tuple[Passage, set[int]]] = {}
    sources = LinkSources(snapshot)
    for place, _ in snapshot.keyword_search(terms, _FIELDS, _MOST_MENTIONS, Filters()):
        text, _, _ = sources.read(place.uri)
        for match in written.finditer(text, place.start, place.end):
            at = match.start()
            if not any(uri == place.uri and start <= at < body for uri, start, body in own):
                mentions.setdefault(place.uri, (place, set()))[1].add(at)
    ranked = sorted(
        mentions.items(), key=lambda item: (is_test_file(item[0]), -len(item[1][1]), item[0])
    )
    entries = [
        _make_mention(sources, place, sorted(offsets)) for _, (place, offsets) in ranked[:limit]
    ]
    return entries, len(ranked)


def _make_mention(sources: LinkSources, place: Passage, offsets: Sequence[int]) -> RelatedEntry:
    text, lines, sections = sources.read(place.uri)
    first = lines.line_of(offsets[0])
    line = text[lines.start_of(first) :].partition("\n")[0]
    entry = _make_entry(
        "mentions", place.uri, place.title, float(len(offsets)),
        find_headings(sections, offsets[0]), first, _shorten(line, 2 * _AROUND),
    )  # fmt: skip
    return replace(entry, count=len(offsets))


def _make_entry(
    kind: RelatedKind,
    uri: str,
    title: str,
    score: float,
    heading_path: tuple[str, ...] = (),
    line: int = 0,
    context: str = "",
) -> RelatedEntry:
    return RelatedEntry(
        kind=kind, uri=uri, title=title, target="", resolved=True, relation=None, count=0,
        score=round(score, 6), anchor="", heading_path=heading_path, line=line, text="",
        context=context,
    )  # fmt: skip


_FINDERS: Mapping[RelatedKind, Callable[[Snapshot, Part, int], Entries]] = {
    "links": _find_links,
    "backlinks": _find_backlinks,
    "similar": _find_similar,
    "community": _find_community,
    "definitions": _list_same_name,
    "mentions": _find_mentions,
}
