"""Read the documents of a collection: texts, outlines, pages, links and the document list.

Every function heals a damaged index on the way and asks again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection as Several
from collections.abc import Iterable, Iterator
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from hashlib import sha256
from heapq import nlargest
from typing import Final
from unicodedata import normalize

from lookfar.collections.collection import Collection, note_held
from lookfar.common.lines import Lines
from lookfar.common.target import Target
from lookfar.errors import Ambiguous, InvalidArgument, NotFound
from lookfar.index.progress import OnProgress
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
    display_path,
)
from lookfar.ports import Place, Snapshot
from lookfar.retrieve.locate.places import list_places, stored_places
from lookfar.retrieve.locate.symbols import (
    describe_place,
    find_definitions,
    find_only_definition,
    is_symbol_name,
)
from lookfar.retrieve.locate.target import (
    check_citation,
    is_link,
    locate,
    parse_target,
    resolve_note,
    widen_to_lines,
)
from lookfar.retrieve.neighbours import drawing
from lookfar.retrieve.neighbours.call_relations import find_similar_names
from lookfar.retrieve.neighbours.related import (
    ALL_KINDS,
    KINDS,
    SYMBOL_KINDS,
    Part,
    list_definitions,
)
from lookfar.retrieve.neighbours.related import find_related as rank_related
from lookfar.text.extract.formats import extractor_for
from lookfar.text.parse.formats import text_parser_for

_MAX_NAME: Final = 300
"""Characters of a name that are compared with other names: comparing takes time."""
_MAX_COMPARED: Final = 300
"""URIs that a name is compared with letter by letter."""
_COMPARED_END: Final = 60
"""Characters at the end of a name by which these URIs are chosen."""
_HASH: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def read(collection: Collection, target: str | Target, *, name: str = "") -> Reading:
    """Return a document, a part of it, or a citation checked against the source.

    ``name`` is what the library calls the collection.
    """
    _refuse_lone_surrogates(target if isinstance(target, str) else target.uri)

    def look() -> tuple[Target, Document, bool, str | None]:
        with collection.store.snapshot() as snapshot:
            wanted = _resolve_target(snapshot, target)
            indexed = snapshot.text(wanted.uri) if wanted.chars else None
            return wanted, *collection.read_current(snapshot, wanted.uri), indexed

    try:
        wanted, document, same, indexed = collection.healing.run(look)
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
        places=list_places(document.places, span.start, span.end),
        warnings=document.warnings,
        also=wanted.also,
    )


def titles(collection: Collection, prefix: str = "") -> list[tuple[str, str]]:
    """Return URI and title of every indexed document whose URI starts with ``prefix``."""

    def look() -> list[tuple[str, str]]:
        with collection.store.snapshot() as snapshot:
            return snapshot.titles(prefix)

    return collection.healing.run(look) if collection.indexed else []


def contains(collection: Collection, target: str) -> bool:
    _refuse_lone_surrogates(target)

    def look() -> bool:
        with collection.store.snapshot() as snapshot:
            known = partial(_is_document, snapshot)
            uri = parse_target(target, False, known).uri
            return known(target) or known(uri) or resolve_note(snapshot, target) is not None

    return collection.indexed and collection.healing.run(look)


def defines(collection: Collection, name: str) -> bool:
    """Return whether code of this collection defines something with this name."""
    _refuse_lone_surrogates(name)

    def look() -> bool:
        with collection.store.snapshot() as snapshot:
            return bool(find_definitions(snapshot, name))

    return collection.indexed and collection.healing.run(look)


def outline(collection: Collection, uri: str, *, name: str = "") -> Outline:
    """Return the heading tree of a document, or what a source file defines."""
    _refuse_lone_surrogates(uri)

    def look() -> Document:
        with collection.store.snapshot() as snapshot:
            return collection.read_current(snapshot, _indexed_spelling(snapshot, uri))[0]

    document = collection.healing.run(look)
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
    on_progress: OnProgress | None = None,
) -> Page:
    """Return a document as it is indexed, as up to date as for a search, or in a generation."""
    _refuse_lone_surrogates(uri)

    def look() -> Page:
        notes = collection.freshen(on_progress) if as_of is None else []
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

    return collection.healing.run(look)


def list_pages(
    collection: Collection, on_progress: OnProgress | None = None
) -> tuple[list[PageInfo], list[Incomplete]]:
    def look() -> tuple[list[PageInfo], list[Incomplete]]:
        notes = collection.freshen(on_progress)
        with collection.store.snapshot() as snapshot:
            return snapshot.pages(), notes

    return collection.healing.run(look)


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
        notes = collection.freshen(None) if as_of is None and collection.indexed else []
        with collection.store.snapshot(as_of) as snapshot:
            try:
                wanted = _resolve_target(snapshot, target)
            except Ambiguous:
                assert isinstance(target, str)
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

    return collection.healing.run(look)


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
    wanted = _resolve_target(snapshot, target)
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

    def look() -> list[Listed]:
        with collection.store.snapshot() as snapshot:
            documents = (
                Listed(
                    name or collection.name, fact.uri, fact.title, fact.lane, fact.language,
                    fact.modified_ns, fact.tags,
                )
                for fact in snapshot.cached("listed", snapshot.facts)
            )  # fmt: skip
            return sorted(documents, key=lambda document: document.uri)

    return collection.healing.run(look) if collection.indexed else []


def draw_graph(
    collection: Collection,
    *,
    most: int = 300,
    around: str = "",
    community: int | None = None,
    name: str = "",
) -> LinkGraph:
    _refuse_lone_surrogates(around)

    def look() -> LinkGraph:
        with collection.store.snapshot() as snapshot:
            if around and snapshot.document(around) is None:
                raise unknown_document(snapshot, around)
            return drawing.draw_graph(
                snapshot.graph(),
                most,
                around,
                community,
                collection=name or collection.name,
                generation=snapshot.generation,
            )

    return collection.healing.run(look)


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


def unknown_document(snapshot: Snapshot, uri: str) -> NotFound:
    """Return the error for a URI that is not in the index, with the nearest ones."""
    candidates = _similar_uris(uri, snapshot.uris())
    # Hashes that look alike are unrelated commits.
    paths = [candidate for candidate in candidates if _HASH.fullmatch(candidate) is None]
    near = get_close_matches(uri[:_MAX_NAME], paths, n=3, cutoff=0.4)
    only_hashes = bool(candidates) and not paths
    hint = "Give its whole hash." if only_hashes else "Give its path below the folder."
    return NotFound(
        f"There is no document {uri!r} in this index.",
        hint=f"Nearest: {', '.join(near)}." if near else hint,
        details={"candidates": near},
    )


def _similar_uris(uri: str, known: list[str]) -> list[str]:
    """Return the URIs that share the most trigrams with one.

    A full comparison with every URI would take seconds in a large index.
    """
    if len(known) <= _MAX_COMPARED:
        return known
    end = uri[-_COMPARED_END:]
    trigrams = {end[at : at + 3] for at in range(max(1, len(end) - 2))}

    def similarity(candidate: str) -> tuple[int, int]:
        return sum(map(candidate.__contains__, trigrams)), -abs(len(candidate) - len(uri))

    return nlargest(_MAX_COMPARED, known, key=similarity)


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


def _resolve_target(snapshot: Snapshot, target: str | Target) -> Target:
    """Parse a target. What is not a URI may be the name of a definition or of a note."""
    if not isinstance(target, str):
        return target
    if is_link(target):
        return resolve_note(snapshot, target) or Target(target)
    spelled = _indexed_spelling(snapshot, target)
    is_uri = snapshot.document(spelled) is not None
    wanted = parse_target(spelled, is_uri, partial(_is_document, snapshot))
    wanted = replace(wanted, uri=_indexed_spelling(snapshot, wanted.uri))
    if snapshot.document(wanted.uri) is not None:
        return wanted
    definition = find_only_definition(snapshot, target)
    if definition is not None:
        main, others = definition
        also = tuple(describe_place(other) for other in others)
        return Target(main.uri, " > ".join(main.section.path), also=also)
    return resolve_note(snapshot, target) or wanted


def _find_part(snapshot: Snapshot, wanted: Target) -> tuple[tuple[str, ...], Part]:
    """Locate a target in the indexed text, because its links are those of that text."""
    if not (wanted.heading or wanted.lines or wanted.chars):
        return (), Part(wanted.uri)
    row = snapshot.document(wanted.uri) or {}
    parse = text_parser_for(wanted.uri, as_source=bool(row.get("as_source")))
    document = parse(wanted.uri, snapshot.text(wanted.uri) or "")
    document = replace(document, places=stored_places(snapshot, wanted.uri))
    if wanted.chars:
        path, span, _ = check_citation(document, wanted, document.text)
    else:
        path, span = locate(document, wanted)
    name = ".".join(path) if wanted.heading and document.lane == "code" else ""
    return path, Part(wanted.uri, span.start, span.end, name)


def _is_document(snapshot: Snapshot, uri: str) -> bool:
    return snapshot.document(_indexed_spelling(snapshot, uri)) is not None


def _indexed_spelling(snapshot: Snapshot, uri: str) -> str:
    """Return a URI in the Unicode form of the index: macOS stores names differently."""
    if uri.isascii() or snapshot.document(uri) is not None:
        return uri
    composed = normalize("NFC", uri)
    matches = [known for known in snapshot.uris() if normalize("NFC", known) == composed]
    return matches[0] if len(matches) == 1 else uri


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
