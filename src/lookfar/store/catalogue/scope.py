"""What filters admit: documents, and under a heading the spans of its sections.

A language admits what is written in it: source files, and of prose the passages with a
program in it.

Takes: filters and a generation. Gives: a test for one chunk, cheap enough to run
before the best are chosen. Refuses: globs, which whoever plans a query spells out
as URIs; and words, which only the keyword index knows the places of.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lookfar.model import Filters
from lookfar.ports import Place
from lookfar.store.catalogue import rows as catalog
from lookfar.store.ground.sql import Connection


@dataclass(frozen=True, slots=True)
class Scope:
    """Admitted documents; with a heading asked for, where in each it applies."""

    documents: frozenset[int]
    spans: Mapping[int, Sequence[tuple[int, int]]] | None
    blocks: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """Of documents that are in another language, the programs in the one asked for."""
    only: frozenset[int] | None = None
    """With a phrase asked for, the chunks that hold it."""
    without: frozenset[int] = frozenset()
    """Chunks that hold what must not be there."""

    def admits(self, place: Place) -> bool:
        if place.document not in self.documents or not self.admits_words(place.key):
            return False
        if place.document in self.blocks and not _touches(place, self.blocks[place.document]):
            return False
        return self.spans is None or _touches(place, self.spans[place.document])

    def parts(self, document: int) -> list[tuple[int, int]] | None:
        """Where in an admitted document the heading and the language apply; None for all of it."""
        spans = None if self.spans is None else list(self.spans[document])
        if document not in self.blocks:
            return spans
        blocks = list(self.blocks[document])
        return blocks if spans is None else overlaps(spans, blocks)

    def admits_words(self, key: int) -> bool:
        """Whether a chunk holds what it must, and nothing of what it must not."""
        return key not in self.without and (self.only is None or key in self.only)


def _touches(place: Place, spans: Sequence[tuple[int, int]]) -> bool:
    return any(place.start < end and start < place.end for start, end in spans)


def overlaps(
    some: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """What is in one of ``some`` and in one of ``others``."""
    shared = [(max(a, c), min(b, d)) for a, b in some for c, d in others]
    return [(start, end) for start, end in shared if start < end]


def resolve(connection: Connection, generation: int, filters: Filters) -> Scope:
    """All that ``filters`` admit in ``generation``."""
    documents = _documents(connection, generation, filters)
    blocks: dict[int, list[tuple[int, int]]] = {}
    if filters.languages:
        blocks = _with_programs(connection, generation, filters)
        documents |= frozenset(blocks)
    if not filters.heading:
        return Scope(documents, None, blocks)
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for document, start, end in _sections(connection, generation, filters.heading):
        if document in documents:
            spans[document].append((start, end))
    return Scope(documents.intersection(spans), spans, blocks)


def _with_programs(
    connection: Connection, generation: int, filters: Filters
) -> dict[int, list[tuple[int, int]]]:
    """Documents of prose with programs in one of the languages, and where those stand."""
    admitted = _documents(connection, generation, replace(filters, languages=()))
    if not admitted:
        return {}
    # Metadata is taken apart here: a server's JSON refuses what ours allows, such as a zero.
    rows = connection.execute(
        f"SELECT d.id, d.metadata FROM documents d WHERE {catalog.ALIVE}"
        " AND d.metadata LIKE '%\"programs\": {%'",
        {"g": generation},
    )
    wanted = frozenset(filters.languages)
    found: dict[int, list[tuple[int, int]]] = {}
    for identifier, metadata in rows:
        if identifier not in admitted:
            continue
        spans = [
            (start, end)
            for language, places in _programs(connection, identifier, metadata).items()
            if language in wanted
            for start, end in places
        ]
        if spans:
            found[identifier] = spans
    return found


def _programs(
    connection: Connection, document: int, metadata: str
) -> Mapping[str, Sequence[tuple[int, int]]]:
    try:
        found: Mapping[str, Sequence[tuple[int, int]]] = json.loads(metadata).get("programs") or {}
    except (AttributeError, TypeError, ValueError) as error:
        raise catalog.corrupt_row_error(connection, f"document {document}: {error}") from error
    return found


def _documents(connection: Connection, generation: int, filters: Filters) -> frozenset[int]:
    values: dict[str, Any] = {
        "g": generation,
        "prefix": filters.prefix,
        "after": filters.after,
        "before": filters.before,
    }
    where = [catalog.ALIVE]
    if filters.prefix:
        where.append("substr(d.uri, 1, length(:prefix)) = :prefix")
    for number, tag in enumerate(filters.tags):
        values[f"tag{number}"] = tag
        where.append(
            f"EXISTS (SELECT 1 FROM tags t WHERE t.document = d.id AND t.tag = :tag{number})"
        )
    for column, wanted_values in (("lane", filters.lanes), ("language", filters.languages)):
        if wanted_values:
            named = {f"{column}{number}": value for number, value in enumerate(wanted_values)}
            values.update(named)
            where.append(f"d.{column} IN ({','.join(f':{name}' for name in named)})")
    if filters.after is not None:
        where.append("d.mtime_ns >= :after")
    if filters.before is not None:
        where.append("d.mtime_ns < :before")
    rows = connection.execute(
        f"SELECT d.id, d.uri FROM documents d WHERE {' AND '.join(where)}", values
    )
    wanted = frozenset(filters.uris)
    found = frozenset(identifier for identifier, uri in rows if not wanted or uri in wanted)
    return found & _written_by(connection, filters.authors) if filters.authors else found


def _written_by(connection: Connection, authors: Sequence[str]) -> frozenset[int]:
    """Commits of which one of ``authors`` is part of the author's name or address."""
    rows = connection.execute(
        "SELECT id, json_extract(metadata, '$.commit.author') FROM documents WHERE lane = 'commits'"
    )
    wanted = [each.casefold() for each in authors]
    return frozenset(
        identifier
        for identifier, author in rows
        if author and any(each in author.casefold() for each in wanted)
    )


def _sections(
    connection: Connection, generation: int, heading: str
) -> Iterator[tuple[int, int, int]]:
    """Document and span of every section whose heading path contains ``heading``.

    A section's span covers what stands under it, so its subsections need no look.
    """
    *outer, last = (part.casefold() for part in _split(heading))
    rows = connection.execute(
        "SELECT s.document, s.ordinal, s.title, s.start, s.end FROM sections s"
        f" JOIN documents d ON d.id = s.document WHERE {catalog.ALIVE} AND s.level > 0",
        {"g": generation},
    )
    found = [
        (document, ordinal, start, end)
        for document, ordinal, title, start, end in rows
        if last in title.casefold()
    ]
    for document, ordinal, start, end in found:
        if not outer or _stands_under(connection, document, ordinal, outer):
            yield document, start, end


def _split(heading: str) -> list[str]:
    """Headings, outermost first. Where arrows stand between them, ``>`` belongs to a title."""
    if "→" not in heading:
        return [part.strip() for part in heading.split(">")]
    outer, _, last = heading.rpartition("→")
    return [*(part.strip() for part in outer.split("→") if part.strip()), last.strip()]


def _stands_under(
    connection: Connection, document: int, ordinal: int, outer: Sequence[str]
) -> bool:
    path = catalog.sections(connection, document)[ordinal].path[:-1]
    return len(path) >= len(outer) and all(
        part in title.casefold() for part, title in zip(outer, path[-len(outer) :], strict=True)
    )
