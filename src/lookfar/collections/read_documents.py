"""Read the documents of a collection: texts, outlines, pages, links and the document list.

Every function heals a damaged index on the way and asks again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection as Several
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import sha256

from lookfar.collections.collection import Collection, note_held
from lookfar.collections.current_texts import parse_text
from lookfar.common.lines import Lines
from lookfar.errors import Ambiguous, InvalidArgument, NotFound
from lookfar.model import (
    Document,
    Incomplete,
    LinkGraph,
    Listed,
    Outline,
    Page,
    PageChunk,
    PageInfo,
    Reading,
    Related,
    RelatedKind,
    Section,
    Span,
    State,
    Target,
    display_path,
)
from lookfar.ports import Place, Snapshot
from lookfar.retrieve.locate.nearest import unknown_document
from lookfar.retrieve.locate.places import list_places, stored_places, warn_of_more
from lookfar.retrieve.locate.resolve import Meaning, is_path, resolve_target
from lookfar.retrieve.locate.resolve import find_meaning as find_meaning_in
from lookfar.retrieve.locate.symbols import is_symbol_name
from lookfar.retrieve.locate.target import check_citation, locate, widen_to_lines
from lookfar.retrieve.neighbours import drawing
from lookfar.retrieve.neighbours.call_relations import Part, find_similar_names
from lookfar.retrieve.neighbours.related import (
    ALL_KINDS,
    KINDS,
    SYMBOL_KINDS,
    list_definitions,
)
from lookfar.retrieve.neighbours.related import find_related as rank_related
from lookfar.text.extract.formats import extractor_for


def read(collection: Collection, target: str | Target, *, name: str = "") -> Reading:
    """Return a document, a part of it, or a citation checked against the source.

    ``name`` is what the library calls the collection.
    """
    _refuse_lone_surrogates(target if isinstance(target, str) else target.uri)

    def look(snapshot: Snapshot) -> tuple[Target, Document, bool, str | None]:
        wanted = resolve_target(snapshot, target)
        indexed = snapshot.text(wanted.uri) if wanted.chars else None
        return wanted, *collection.read_current(snapshot, wanted.uri), indexed

    try:
        wanted, document, same, indexed = collection.ask(look)
    except NotFound:
        if isinstance(target, str) or target.chars is None:
            raise
        start, end = target.chars
        return Reading(name or collection.name, target.uri, "", (), Span(start, end, 0, 0),
                       sha256(b"").hexdigest(), "", "gone")  # fmt: skip
    state: State = "same" if same else "changed"
    if wanted.chars:
        path, span, state = check_citation(document, wanted, indexed)
    else:
        path, span = locate(document, wanted)
        if wanted.heading and document.lane == "code":
            span = widen_to_lines(document.text, span)
    text = document.text[span.start : span.end]
    places = list_places(document.places, span.start, span.end)
    return Reading(
        collection=name or collection.name,
        uri=document.uri,
        title=document.title,
        heading_path=path,
        span=span,
        sha256=sha256(text.encode("utf-8")).hexdigest(),
        text=text,
        state=state,
        extracted=extractor_for(document.uri) is not None and document.lane == "docs",
        places=places,
        warnings=(*document.warnings, *warn_of_more(document.places, wanted.heading, places)),
        also=wanted.also,
    )


def titles(collection: Collection, prefix: str = "") -> list[tuple[str, str]]:
    """Return URI and title of every indexed document whose URI starts with ``prefix``."""
    if not collection.was_indexed:
        return []
    return collection.ask(lambda snapshot: snapshot.titles(prefix))


def contains(collection: Collection, target: str) -> bool:
    """Return whether a target is the path of an indexed document, perhaps with a part of it."""
    _refuse_lone_surrogates(target)
    return collection.was_indexed and collection.ask(lambda snapshot: is_path(snapshot, target))


def find_meaning(collection: Collection, target: str) -> Meaning | None:
    """Return what a target means in this collection; None if it means nothing."""
    _refuse_lone_surrogates(target)
    if not collection.was_indexed:
        return None
    return collection.ask(lambda snapshot: find_meaning_in(snapshot, target))


def find_uri(collection: Collection, target: str | Target) -> str:
    """Return the URI of the document that a target means, as it is indexed."""
    _refuse_lone_surrogates(target if isinstance(target, str) else target.uri)

    def look(snapshot: Snapshot) -> str:
        uri = resolve_target(snapshot, target).uri
        if snapshot.document(uri) is None:
            raise unknown_document(snapshot, uri)
        return uri

    return collection.ask(look)


def outline(collection: Collection, target: str | Target, *, name: str = "") -> Outline:
    """Return the heading tree of a document, or what a source file defines."""
    _refuse_lone_surrogates(target if isinstance(target, str) else target.uri)

    def look(snapshot: Snapshot) -> Document:
        return collection.read_current(snapshot, resolve_target(snapshot, target).uri)[0]

    document = collection.ask(look)
    lines = Lines(document.text)
    return Outline(
        collection=name or collection.name,
        uri=document.uri,
        title=document.title,
        language=document.language,
        lines=document.text.count("\n"),
        tags=document.tags,
        sections=tuple(section for section in document.sections if section.level),
        symbols=document.symbols,
        places=tuple((lines.line_of(start), label) for start, label in document.places),
    )


def read_page(
    collection: Collection,
    uri: str,
    *,
    as_of: int | None = None,
    name: str = "",
) -> Page:
    """Return a document as it is indexed, as up to date as for a search, or in a generation."""
    _refuse_lone_surrogates(uri)

    def look() -> Page:
        notes = collection.freshen() if as_of is None else []
        with collection.store.snapshot(as_of) as snapshot:
            row, text = snapshot.document(uri), snapshot.text(uri)
            if row is None or text is None:
                raise unknown_document(snapshot, uri)
            sections = tuple(snapshot.sections(uri))
            return Page(
                collection=name or collection.name,
                uri=uri,
                text=text,
                modified_ns=row["mtime_ns"],
                sections=sections,
                chunks=tuple(_page_chunks(snapshot.chunks(uri), sections)),
                incomplete=tuple(notes),
            )

    return collection.run_healed(look)


def list_pages(collection: Collection) -> tuple[list[PageInfo], list[Incomplete]]:
    def look() -> tuple[list[PageInfo], list[Incomplete]]:
        notes = collection.freshen()
        with collection.store.snapshot() as snapshot:
            return snapshot.pages(), notes

    return collection.run_healed(look)


def find_related(
    collection: Collection,
    target: str | Target,
    *,
    kinds: Several[RelatedKind] = KINDS,
    limit: int = 10,
    as_of: int | None = None,
    name: str = "",
) -> Related:
    """Return the links, backlinks, similar documents and link community of a document or part.

    At most ``limit`` of each kind.
    """
    _refuse_lone_surrogates(target if isinstance(target, str) else target.uri)
    _refuse_unknown_kinds(kinds)
    if limit < 1:
        raise InvalidArgument(f"limit is {limit}.", hint="Ask for 1 or more.")

    def look() -> Related:
        notes = collection.freshen() if as_of is None and collection.was_indexed else []
        with collection.store.snapshot(as_of) as snapshot:
            try:
                wanted = resolve_target(snapshot, target)
            except Ambiguous as error:
                if "documents" in error.details or not isinstance(target, str):
                    raise  # Several notes, and not definitions, have the name.
                return _list_candidates(snapshot, target, limit, name or collection.name)
            row = snapshot.document(wanted.uri)
            if row is None:
                if isinstance(target, str) and is_symbol_name(target):
                    return _list_candidates(snapshot, target, limit, name or collection.name)
                raise unknown_document(snapshot, wanted.uri)
            path, part = _find_part(snapshot, wanted)
            asked = (*kinds, *SYMBOL_KINDS) if part.name and set(KINDS) <= set(kinds) else kinds
            entries, totals = rank_related(snapshot, part, asked, limit)
            return Related(
                collection=name or collection.name,
                uri=wanted.uri,
                title=row["title"],
                heading_path=path,
                entries=tuple(entries),
                totals=totals,
                generation=snapshot.generation,
                incomplete=(*(note_held(snapshot) if as_of is None else ()), *notes),
            )

    return collection.run_healed(look)


def link_targets(collection: Collection, uri: str) -> dict[str, str]:
    """Return the documents that a document links to, by the target as written; not itself."""

    def look(snapshot: Snapshot) -> dict[str, str]:
        edges = snapshot.links_from(uri)
        return {edge.written: edge.target for edge in edges if edge.target}

    return collection.ask(look) if collection.was_indexed else {}


def _list_candidates(snapshot: Snapshot, target: str, limit: int, collection: str) -> Related:
    """Return the definitions that an ambiguous name can mean, or those with a similar name."""
    entries, total = list_definitions(snapshot, target, limit)
    detail = f"{total} definitions are called {target!r}; name one by its path or lines"
    if not entries:
        near = find_similar_names(snapshot, target, limit)
        entries = [entry for name in near for entry in list_definitions(snapshot, name, 3)[0]]
        entries, total = entries[:limit], len(entries)
        detail = f"no definition is called {target!r}"
        detail += "; these have similar names" if entries else ""
    return Related(
        collection=collection,
        uri="",
        title=target,
        heading_path=(),
        entries=tuple(entries),
        totals={"definitions": total},
        generation=snapshot.generation,
        incomplete=(Incomplete("candidates", detail),),
    )


def locate_part(snapshot: Snapshot, target: str | Target) -> Part:
    """Return the part of a document that a target names."""
    _refuse_lone_surrogates(target if isinstance(target, str) else target.uri)
    wanted = resolve_target(snapshot, target)
    if snapshot.document(wanted.uri) is None:
        near = find_similar_names(snapshot, wanted.uri, 5)
        if isinstance(target, str) and is_symbol_name(target) and near:
            raise NotFound(
                f"Nothing here is called {target!r}.",
                hint=f"Similar names: {', '.join(near)}.",
                details={"candidates": list(near)},
            )
        raise unknown_document(snapshot, wanted.uri)
    return _find_part(snapshot, wanted)[1]


def list_indexed(collection: Collection, *, name: str = "") -> list[Listed]:
    """Return every indexed document, by URI, without indexing anything first."""

    def look(snapshot: Snapshot) -> list[Listed]:
        documents = (
            Listed(
                name or collection.name, fact.uri, fact.title, fact.lane, fact.language,
                fact.modified_ns, fact.tags, day=fact.day,
            )
            for fact in snapshot.cached("listed", snapshot.facts)
        )  # fmt: skip
        return sorted(documents, key=lambda document: document.uri)

    return collection.ask(look) if collection.was_indexed else []


def draw_graph(
    collection: Collection,
    *,
    most: int = 300,
    around: str | Target | None = None,
    depth: int | None = None,
    community: int | None = None,
    name: str = "",
) -> LinkGraph:
    """Return linked documents: those with the most links, near a document, or of a community."""
    if around is not None:
        _refuse_lone_surrogates(around if isinstance(around, str) else around.uri)

    def look(snapshot: Snapshot) -> LinkGraph:
        center = "" if around is None else resolve_target(snapshot, around).uri
        if center and snapshot.document(center) is None:
            raise unknown_document(snapshot, center)
        return drawing.draw_graph(
            snapshot.graph(),
            most,
            center,
            community,
            depth=depth,
            collection=name or collection.name,
            generation=snapshot.generation,
        )

    return collection.ask(look)


def stored_document(snapshot: Snapshot, uri: str) -> Document:
    """Return a document as it is stored, for collections whose documents never change."""
    row, text = snapshot.document(uri), snapshot.text(uri)
    if row is None or text is None:
        raise unknown_document(snapshot, uri)
    return Document(
        uri=uri,
        text=text,
        title=row["title"],
        lane=row["lane"],
        language=row["language"],
        body=0,
        sections=tuple(snapshot.sections(uri)),
        tags=tuple(row["tags"]),
    )


def _refuse_lone_surrogates(name: str) -> None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            "The name contains a lone surrogate.", hint="Send valid Unicode text."
        ) from error


def _refuse_unknown_kinds(kinds: Several[str]) -> None:
    if isinstance(kinds, str):
        raise InvalidArgument("kinds is a str.", hint="Pass a tuple of kinds.")
    known = (*ALL_KINDS, "commits")
    unknown = sorted(set(kinds).difference(known))
    if unknown or not kinds:
        raise InvalidArgument(
            f"Unknown kind of relation: {unknown[0]!r}." if unknown else "kinds is empty.",
            hint=f"Kinds: {', '.join(known)}.",
            details={"candidates": list(known)},
        )


def _find_part(snapshot: Snapshot, wanted: Target) -> tuple[tuple[str, ...], Part]:
    """Locate a target in the indexed text, because its links are those of that text."""
    if not (wanted.heading or wanted.lines or wanted.chars):
        return (), Part(wanted.uri)
    row = snapshot.document(wanted.uri) or {}
    text = snapshot.text(wanted.uri) or ""
    document = parse_text(wanted.uri, text, as_source=bool(row.get("as_source")))
    document = replace(document, places=stored_places(snapshot, wanted.uri))
    if wanted.chars:
        path, span, _ = check_citation(document, wanted, document.text)
    else:
        path, span = locate(document, wanted)
    name = ".".join(path) if wanted.heading and document.lane == "code" else ""
    return path, Part(wanted.uri, span.start, span.end, name)


def _page_chunks(places: Iterable[Place], sections: Iterable[Section]) -> Iterator[PageChunk]:
    by_path = defaultdict(list)
    for section in sections:
        by_path[section.path].append(section)
    for place in places:
        start = place.start + place.overlap
        # Small sections share a chunk under their common heading. Several sections may have that
        # path: take the one that the chunk overlaps.
        named = by_path[place.path] if place.path else []
        overlapping = (s for s in named if s.span.start < place.end and start < s.span.end)
        level = next(overlapping, named[0]).level if named else 0
        yield PageChunk(
            id=place.id.hex(),
            heading_path=display_path(place.path, place.part, place.parts),
            level=level,
            start=start,
            end=place.end,
        )
