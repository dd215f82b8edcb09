"""Erase documents from every generation of a catalogue, in one transaction.

The rows are deleted, the vectors lose their names, and ``meta`` records that traces are left. Each
store then removes the traces from its files; if it is interrupted, its next writer finishes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from sqlite3 import Connection

from lookfar.ports import StoredDocument
from lookfar.store.catalogue import generations
from lookfar.store.catalogue import rows as catalog

TRACES = "erasing"
"""The key in ``meta`` that exists while traces of erased documents are left."""
UNSETTLED = -1
"""The checksum of a vector that is about to be overwritten."""


def stored_documents(connection: Connection) -> Iterator[StoredDocument]:
    """Yield the documents of the serving generation, by URI, in the caller's transaction."""
    rows = connection.execute(
        # The expression avoids the index, whose copies of the URIs have no checksum.
        f"SELECT d.uri, d.metadata, d.text_sha FROM documents d WHERE {catalog.ALIVE}"
        " ORDER BY d.uri || ''",
        {"g": generations.active(connection)},
    )
    for uri, metadata, sha in rows:
        yield StoredDocument(uri, metadata, catalog.text(connection, sha))


def erase_rows(connection: Connection, uris: Sequence[str], dead: bool = False) -> int:
    """Delete every version of these documents, or only ``dead`` ones, from all generations.

    Runs in the caller's transaction. Return how many chunks the live versions had.
    """
    gone = (identifier for uri in uris for identifier, _ in _versions(connection, uri, dead))
    generations.subtract_from_totals(connection, list(dict.fromkeys(gone)))
    chunks = 0
    for uri in uris:
        versions = _versions(connection, uri, dead)
        rows: set[int] = set()
        for identifier, died in versions:
            vectors = connection.execute(
                "SELECT vector FROM chunks WHERE document = ?", (identifier,)
            ).fetchall()
            rows.update(row for (row,) in vectors if row is not None)
            chunks += len(vectors) if died is None else 0
        generations.purge(connection, [identifier for identifier, _ in versions])
        for row in rows:
            shared = connection.execute("SELECT 1 FROM chunks WHERE vector = ? LIMIT 1", (row,))
            if shared.fetchone() is None:
                # The row stays, so that its number is never used for another vector.
                connection.execute(
                    "UPDATE embeddings SET content = ?, checksum = ? WHERE row = ?",
                    (blank_name(row), UNSETTLED, row),
                )
    catalog.record(connection, TRACES, 1)
    return chunks


def _versions(connection: Connection, uri: str, dead: bool) -> list[tuple[int, int | None]]:
    """Return number and end of each version of a document, or only of the dead ones."""
    rows = connection.execute("SELECT id, died FROM documents WHERE uri = ?", (uri,))
    return [row for row in rows.fetchall() if not dead or row[1] is not None]


def blank_name(row: int) -> bytes:
    """Return the content name of an erased vector."""
    return b"erased" + row.to_bytes(8, "big")


def has_traces(connection: Connection) -> bool:
    """Whether bytes of erased documents may still be in the files."""
    return catalog.read_number(connection, TRACES) != 0
