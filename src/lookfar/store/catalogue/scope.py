"""Resolve filters to the documents they admit, and to spans where a heading is given.

A language filter admits source files in that language, and passages of prose with a code block
in it. The result tests one chunk cheaply, before the best are chosen. Globs are expanded to URIs
and words are looked up before this module is called.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sqlite3 import Connection
from typing import Any

from lookfar.common.conditions import parse_conditions
from lookfar.model import Filters
from lookfar.ports import Place
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.property_rows import PropertyTable


@dataclass(frozen=True, slots=True)
class Scope:
    """The admitted documents, and with a heading filter the admitted spans of each."""

    documents: frozenset[int]
    spans: Mapping[int, Sequence[tuple[int, int]]] | None
    blocks: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """In documents of another language, the code blocks in the requested one."""
    only: frozenset[int] | None = None
    """With a required phrase, the chunks that contain it."""
    without: frozenset[int] = frozenset()
    """Chunks that contain an excluded word."""

    def admits(self, place: Place) -> bool:
        if place.document not in self.documents or not self.admits_words(place.key):
            return False
        if place.document in self.blocks and not _touches(place, self.blocks[place.document]):
            return False
        return self.spans is None or _touches(place, self.spans[place.document])

    def parts(self, document: int) -> list[tuple[int, int]] | None:
        """Return the admitted parts of an admitted document, or None for all of it."""
        spans = None if self.spans is None else list(self.spans[document])
        if document not in self.blocks:
            return spans
        blocks = list(self.blocks[document])
        return blocks if spans is None else overlaps(spans, blocks)

    def admits_words(self, key: int) -> bool:
        """Whether a chunk has the required words and none of the excluded ones."""
        return key not in self.without and (self.only is None or key in self.only)


def _touches(place: Place, spans: Sequence[tuple[int, int]]) -> bool:
    return any(place.start < end and start < place.end for start, end in spans)


def overlaps(
    some: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the intersections of two lists of spans."""
    shared = [(max(a, c), min(b, d)) for a, b in some for c, d in others]
    return [(start, end) for start, end in shared if start < end]


def resolve(connection: Connection, generation: int, filters: Filters) -> Scope:
    documents = _find_documents(connection, generation, filters)
    blocks: dict[int, list[tuple[int, int]]] = {}
    if filters.languages:
        blocks = _find_code_blocks(connection, generation, filters)
        documents |= frozenset(blocks)
    if not filters.heading:
        return Scope(documents, None, blocks)
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for document, start, end in _find_sections(connection, generation, filters.heading):
        if document in documents:
            spans[document].append((start, end))
    return Scope(documents.intersection(spans), spans, blocks)


def _find_code_blocks(
    connection: Connection, generation: int, filters: Filters
) -> dict[int, list[tuple[int, int]]]:
    """Return the code blocks in one of the languages, by document of prose."""
    admitted = _find_documents(connection, generation, replace(filters, languages=()))
    if not admitted:
        return {}
    rows = connection.execute(
        f"SELECT d.id, d.metadata FROM documents d WHERE {catalog.ALIVE}"
        " AND d.metadata LIKE '%\"programs\": {%'",
        {"g": generation},
    )
    wanted = frozenset(filters.languages)
    blocks: dict[int, list[tuple[int, int]]] = {}
    for identifier, metadata in rows:
        if identifier not in admitted:
            continue
        spans = [
            (start, end)
            for language, places in _parse_code_blocks(connection, identifier, metadata).items()
            if language in wanted
            for start, end in places
        ]
        if spans:
            blocks[identifier] = spans
    return blocks


def _parse_code_blocks(
    connection: Connection, document: int, metadata: str
) -> Mapping[str, Sequence[tuple[int, int]]]:
    try:
        blocks: Mapping[str, Sequence[tuple[int, int]]] = json.loads(metadata).get("programs") or {}
    except (AttributeError, TypeError, ValueError) as error:
        raise catalog.corrupt_row_error(connection, f"document {document}: {error}") from error
    return blocks


def _find_documents(connection: Connection, generation: int, filters: Filters) -> frozenset[int]:
    values: dict[str, Any] = {"g": generation, "prefix": filters.prefix}
    where = [catalog.ALIVE]
    timed = filters.after is not None or filters.before is not None
    if timed or filters.tags or filters.where:
        table = PropertyTable(connection, generation)
        clauses = [table.match(filters.tags, parse_conditions(filters.where))]
        clauses += [table.match_time(filters.after, filters.before)] * timed
        for clause in clauses:
            where += clause.sql
            values |= clause.values
    if filters.prefix:
        where.append("substr(d.uri, 1, length(:prefix)) = :prefix")
    for column, wanted_values in (("lane", filters.lanes), ("language", filters.languages)):
        if wanted_values:
            parameters = {f"{column}{number}": value for number, value in enumerate(wanted_values)}
            values.update(parameters)
            where.append(f"d.{column} IN ({','.join(f':{name}' for name in parameters)})")
    # A row has the whole front matter; without the URI, an index has all that is needed.
    columns = "d.id, d.uri" if filters.uris else "d.id, ''"
    rows = connection.execute(
        f"SELECT {columns} FROM documents d WHERE {' AND '.join(where)}", values
    )
    wanted = frozenset(filters.uris)
    documents = frozenset(number for number, uri in rows if not wanted or uri in wanted)
    return (
        documents & _find_by_author(connection, filters.authors) if filters.authors else documents
    )


def _find_by_author(connection: Connection, authors: Sequence[str]) -> frozenset[int]:
    """Return the commits whose author's name or address contains one of ``authors``."""
    rows = connection.execute(
        "SELECT id, json_extract(metadata, '$.commit.author') FROM documents WHERE lane = 'commits'"
    )
    wanted = [part.casefold() for part in authors]
    return frozenset(
        identifier
        for identifier, author in rows
        if author and any(part in author.casefold() for part in wanted)
    )


def _find_sections(
    connection: Connection, generation: int, heading: str
) -> Iterator[tuple[int, int, int]]:
    """Yield document and span of every section whose heading path contains ``heading``.

    A section's span covers its subsections, so these need not be checked.
    """
    *outer, last = (part.casefold() for part in _split_heading(heading))
    rows = connection.execute(
        "SELECT s.document, s.ordinal, s.title, s.start, s.end FROM sections s"
        f" JOIN documents d ON d.id = s.document WHERE {catalog.ALIVE} AND s.level > 0",
        {"g": generation},
    )
    matches = [
        (document, ordinal, start, end)
        for document, ordinal, title, start, end in rows
        if last in title.casefold()
    ]
    for document, ordinal, start, end in matches:
        if not outer or _is_under(connection, document, ordinal, outer):
            yield document, start, end


def _split_heading(heading: str) -> list[str]:
    """Split a path into headings, outermost first; between arrows, ``>`` is part of a title."""
    if "→" not in heading:
        return [part.strip() for part in heading.split(">")]
    outer, _, last = heading.rpartition("→")
    return [*(part.strip() for part in outer.split("→") if part.strip()), last.strip()]


def _is_under(connection: Connection, document: int, ordinal: int, outer: Sequence[str]) -> bool:
    path = catalog.sections(connection, document)[ordinal].path[:-1]
    return len(path) >= len(outer) and all(
        part in title.casefold() for part, title in zip(outer, path[-len(outer) :], strict=True)
    )
