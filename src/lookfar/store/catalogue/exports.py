"""A stored version with all its rows, as it would be given to a store again.

Takes: a connection in a snapshot, a live document, and a way to its vectors. Gives: the version
but for its terms, and a hash of all that it says. Refuses: numbers; which ones a document, a
chunk or a vector has is each store's own business.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from lookfar.model import Fingerprint
from lookfar.ports import Version
from lookfar.store.catalogue import rows as catalog

if TYPE_CHECKING:
    from lookfar.ports import ChunkRow, Place
    from lookfar.store.ground.sql import Connection

Vectors = Callable[[Sequence["Place"]], Sequence[bytes]]
"""Places with a vector to its float16 numbers."""


def version_of(
    connection: Connection, generation: int, uri: str, vectors: Vectors
) -> Version | None:
    """A live document; ``None`` where there is none of that name."""
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
        return [tuple(each) for each in connection.execute(statement, (document,))]

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
        ),  # type: ignore[arg-type]  # Rows as they were given.
        chunks=chunks,
        links=rows('kind, target, anchor, text, start, "end", name', "links", "ordinal"),  # type: ignore[arg-type]
        names=rows("name, way, whole", "names", "name, way, whole"),  # type: ignore[arg-type]
        name_terms=(),
        entries=[],
        embedded=embedded,
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
    # What has no vector has no name for it either.
    chunks = [(row[0], row[1] or b"", *row[2:]) for row in rows]
    having = [at for at, place in enumerate(places) if place.vector is not None]
    numbers = vectors([places[at] for at in having])
    return chunks, {chunks[at][1]: vector for at, vector in zip(having, numbers, strict=True)}


def digest(version: Version) -> bytes:
    """Equal for versions that say the same, whichever store has them."""
    disk = version.fingerprint
    said = (
        version.uri, version.lane, version.language, version.title, version.body,
        json.loads(version.metadata), version.warnings, sorted(version.tags),
        (disk.size, disk.mtime_ns, disk.ctime_ns, disk.inode), version.settled, version.raw_sha,
        version.text_sha, [tuple(map(_plain, row)) for row in version.sections], version.chunks,
        version.links, sorted(version.names), sorted(version.embedded.items()),
    )  # fmt: skip
    return sha256(repr(said).encode("utf-8", "surrogatepass")).digest()


def _plain(value: object) -> object:
    return int(value) if isinstance(value, bool) else value
