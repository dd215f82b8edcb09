"""Erase documents from every generation of a catalogue, in one transaction.

This is the first of two steps: the rows are deleted, the vectors lose their names, and ``meta``
records that traces are left. From the commit on, no answer contains what was erased. Removing the
traces from the files is each store's own second step; a store that was interrupted finishes it in
its next write session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from lookfar.ports import Streams
from lookfar.store.catalogue import generations
from lookfar.store.catalogue import rows as catalog
from lookfar.store.ground.sql import Connection

TRACES = "erasing"
"""The key in ``meta`` that is there while traces of erased documents are left."""
UNSETTLED = -1
"""The checksum of a vector that is about to be overwritten."""


class ChunkedDocument(NamedTuple):
    """A document as the catalogue has it, to make its keyword entries again."""

    title: str
    metadata: str
    text: str
    spans: Sequence[tuple[int, int]]


class StoredDocument(NamedTuple):
    """A live document with all that was given for it."""

    uri: str
    metadata: str
    text: str


MakeTerms = Callable[[ChunkedDocument], Streams]


def stored_documents(connection: Connection) -> Iterator[StoredDocument]:
    """The documents of the serving generation, by URI, in the caller's transaction."""
    rows = connection.execute(
        # Not by the index, whose names are a copy that no hash is kept of.
        f"SELECT d.uri, d.metadata, d.text_sha FROM documents d WHERE {catalog.ALIVE}"
        " ORDER BY d.uri || ''",
        {"g": generations.active(connection)},
    )
    for uri, told, sha in rows:
        yield StoredDocument(uri, told, catalog.text(connection, sha))


def erase_rows(connection: Connection, uris: Sequence[str], dead: bool = False) -> int:
    """Remove every version of these documents, whichever generation shows it, or only ``dead``
    ones, inside the caller's transaction; gives how many chunks the live ones had.
    """
    gone = (identifier for uri in uris for identifier, _ in _versions(connection, uri, dead))
    generations.discount(connection, list(dict.fromkeys(gone)))
    chunks = 0
    for uri in uris:
        versions = _versions(connection, uri, dead)
        rows: set[int] = set()
        for identifier, died in versions:
            having = connection.execute(
                "SELECT vector FROM chunks WHERE document = ?", (identifier,)
            ).fetchall()
            rows.update(row for (row,) in having if row is not None)
            chunks += len(having) if died is None else 0
        generations.purge(connection, [identifier for identifier, _ in versions])
        for row in rows:
            shared = connection.execute("SELECT 1 FROM chunks WHERE vector = ? LIMIT 1", (row,))
            if shared.fetchone() is None:
                # The row stays, so that its number is never given to another vector.
                connection.execute(
                    "UPDATE embeddings SET content = ?, checksum = ? WHERE row = ?",
                    (blank_name(row), UNSETTLED, row),
                )
    catalog.record(connection, TRACES, 1)
    return chunks


def _versions(connection: Connection, uri: str, dead: bool) -> list[tuple[int, int | None]]:
    """Number and end of each version of a document, or of those that have ended."""
    found = connection.execute("SELECT id, died FROM documents WHERE uri = ?", (uri,))
    return [row for row in found.fetchall() if not dead or row[1] is not None]


def blank_name(row: int) -> bytes:
    """What the content of an erased vector is called."""
    return b"erased" + row.to_bytes(8, "big")


def has_traces(connection: Connection) -> bool:
    """Whether something was erased whose bytes may still lie in the files."""
    return catalog.read_number(connection, TRACES) != 0
