"""Read a stored version with all its rows, to put it into another store.

The keyword terms are not included, nor are the numbers of documents, chunks and vectors, which
each store assigns itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from sqlite3 import Connection

from lookfar.model import Fingerprint
from lookfar.ports import ChunkRow, Place, Version
from lookfar.store.catalogue import property_rows
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.call_rows import read_facts

Vectors = Callable[[Sequence["Place"]], Sequence[bytes]]
"""Returns the float16 vector of each place."""


def read_version(
    connection: Connection, generation: int, uri: str, vectors: Vectors
) -> Version | None:
    """Return a live document with all its rows, except the keyword terms; None if there is none."""
    row = connection.execute(
        "SELECT d.id, d.lane, d.language, d.title, d.body, d.raw_sha, d.text_sha, d.metadata,"
        " d.warnings, d.size, d.mtime_ns, d.ctime_ns, d.inode, d.settled, t.body"
        f" FROM documents d JOIN texts t ON t.sha = d.text_sha WHERE d.uri = :uri"
        f" AND {catalog.ALIVE}",
        {"uri": uri, "g": generation},
    ).fetchone()
    if row is None:
        return None
    document, lane, language, title, body, raw_sha, text_sha, metadata, warnings = row[:9]

    def rows(columns: str, table: str, order: str) -> list[tuple[object, ...]]:
        statement = f"SELECT {columns} FROM {table} WHERE document = ? ORDER BY {order}"
        return [tuple(row) for row in connection.execute(statement, (document,))]

    places = catalog.neighbours(connection, document, 0, 1 << 62)
    chunks, embedded = _chunks(connection, document, places, vectors)
    return Version(
        uri=uri,
        lane=lane,
        language=language,
        title=title,
        body=body,
        metadata=metadata,
        warnings=tuple(json.loads(warnings)),
        tags=tuple(str(tag) for (tag,) in rows("tag", "tags", "tag")),
        fingerprint=Fingerprint(*row[9:13]),
        settled=bool(row[13]),
        raw_sha=raw_sha,
        text_sha=text_sha,
        text=bytes(row[14]),
        text_bytes=len(catalog.text(connection, text_sha).encode("utf-8")),
        sections=rows(
            'ordinal, parent, level, title, start, "end", start_line, end_line, body, kind,'
            " documented",
            "sections",
            "ordinal",
        ),  # type: ignore[arg-type]  # Rows as they were stored.
        chunks=chunks,
        links=rows('kind, target, anchor, text, start, "end", name', "links", "ordinal"),  # type: ignore[arg-type]
        names=rows("name, way, whole", "names", "name, way, whole"),  # type: ignore[arg-type]
        name_terms=(),
        entries=[],
        embedded=embedded,
        calls=read_facts(connection, [document]).get(document, b""),
        properties=property_rows.read_rows(connection, document),
    )


def _chunks(
    connection: Connection, document: int, places: Sequence[Place], vectors: Vectors
) -> tuple[list[ChunkRow], dict[bytes, bytes]]:
    rows = connection.execute(
        "SELECT c.id, e.content, c.section, c.path, c.start, c.end, c.start_line, c.end_line,"
        " c.overlap, c.part, c.parts, c.sha FROM chunks c"
        " LEFT JOIN embeddings e ON e.row = c.vector WHERE c.document = ? ORDER BY c.ordinal",
        (document,),
    )
    # A chunk without a vector has no content name.
    chunks = [(row[0], row[1] or b"", *row[2:]) for row in rows]
    embedded = [position for position, place in enumerate(places) if place.vector is not None]
    read = vectors([places[position] for position in embedded])
    return chunks, {
        chunks[position][1]: vector for position, vector in zip(embedded, read, strict=True)
    }


def digest(version: Version) -> bytes:
    """Return a hash of a version that is the same in every store."""
    disk = version.fingerprint
    content = (
        version.uri, version.lane, version.language, version.title, version.body,
        json.loads(version.metadata), version.warnings, sorted(version.tags),
        (disk.size, disk.mtime_ns, disk.ctime_ns, disk.inode), version.settled, version.raw_sha,
        version.text_sha, [tuple(map(_plain, row)) for row in version.sections], version.chunks,
        version.links, sorted(version.names), sorted(version.embedded.items()), version.calls,
        version.properties,
    )  # fmt: skip
    return sha256(repr(content).encode("utf-8", "surrogatepass")).digest()


def _plain(value: object) -> object:
    return int(value) if isinstance(value, bool) else value
