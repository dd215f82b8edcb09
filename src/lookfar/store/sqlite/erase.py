"""Erasing documents for good: text, terms and vectors leave the files, not only the answers.

Takes: the URIs of documents whose only home is this store. Gives: files in which nothing of
them is left, in no generation. Refuses: to be half done; what a death interrupts, the next
writer finishes.

It happens in two steps. The first is one commit of the catalogue: rows go, names of vectors
become blank, and ``meta`` says that traces are left. From then on nobody can be answered
with what was erased. The second removes the traces: vectors are overwritten, the segments of
the keyword index that hold terms of what was erased are written anew without it, and SQLite
rewrites its file, because what it moves inside its pages it does not clean up behind it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from lookfar.ports import Streams
from lookfar.store.catalogue import generations, journal
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.erasing import (
    TRACES,
    UNSETTLED,
    ChunkedDocument,
    MakeTerms,
    blank_name,
    has_traces,
)
from lookfar.store.catalogue.seals import seal
from lookfar.store.ground import files
from lookfar.store.ground.database import commit, connect, typed_errors
from lookfar.store.vectors.vector_file import checksum

if TYPE_CHECKING:
    from lookfar.store.sqlite.epoch import Epoch

_PATIENCE = 10.0


def remove_traces(epoch: Epoch, again: MakeTerms) -> None:
    """The second step, for the holder of the writer lock; does nothing where none are left."""
    with typed_errors(epoch.catalogue), closing(connect(epoch.catalogue, write=True)) as connection:
        if not has_traces(connection):
            return
        rows = [
            row
            for (row,) in connection.execute(
                "SELECT row FROM embeddings WHERE checksum = ? ORDER BY row", (UNSETTLED,)
            )
        ]
        epoch.vectors.blank(rows, catalog.vector_rows(connection))
        epoch.renew_signatures(connection)
        graves = generations.graves(connection)
        stamp = epoch.keywords.rewrite(
            catalog.highest_numbers(connection).document,
            graves,
            lambda documents: _entries(connection, documents, again),
        )
        if epoch.journal is not None:
            # Or a death between its new bytes and the commit below would look like damage.
            connection.execute("BEGIN IMMEDIATE")
            journal.disown(connection)
            seal(connection)
            commit(connection)
        blank = bytes(epoch.vectors.dimensions * 2)
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "UPDATE embeddings SET checksum = ? WHERE row = ?",
            [(checksum(blank_name(row), blank), row) for row in rows],
        )
        catalog.record_keywords(connection, stamp)
        generations.close_graves(connection, graves)
        if epoch.journal is not None:
            journal.renew(epoch.journal, connection)
        # The new signatures and the new journal must not give way to the old ones again.
        files.sync_folder(epoch.folder)
        seal(connection)
        commit(connection)
        # Not into a file elsewhere, where it would be a trace again.
        connection.execute("PRAGMA temp_store=MEMORY")
        files.fault_point("commit", epoch.catalogue.name)
        connection.execute("VACUUM")
        # Where a reader would not let go in time, the next writer finishes it.
        files.fault_point("commit", epoch.catalogue.name)
        if _empty_log(connection):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DELETE FROM meta WHERE key = ?", (TRACES,))
            seal(connection)
            commit(connection)
    epoch.keywords.reload()
    epoch.keywords.remove_leftovers()


def _empty_log(connection: sqlite3.Connection) -> bool:
    """Bring the log into the database and cut it to nothing; readers are waited for, a while."""
    connection.execute("PRAGMA busy_timeout=50")
    deadline = time.monotonic() + _PATIENCE
    while True:
        (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if not busy:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)


def _entries(
    connection: sqlite3.Connection, documents: Sequence[int], again: MakeTerms
) -> Iterator[tuple[int, int, Streams]]:
    """First key, number and streams of documents that share a segment with what was erased."""
    for identifier in documents:
        row = connection.execute(
            "SELECT title, metadata, text_sha FROM documents WHERE id = ?", (identifier,)
        ).fetchone()
        chunks = connection.execute(
            'SELECT key, start, "end" FROM chunks WHERE document = ? ORDER BY ordinal',
            (identifier,),
        ).fetchall()
        if row is None or not chunks:
            continue
        title, metadata, text_sha = row
        text = catalog.text(connection, text_sha)
        spans = [(start, end) for _, start, end in chunks]
        yield chunks[0][0], identifier, again(ChunkedDocument(title, metadata, text, spans))
