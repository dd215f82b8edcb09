"""Remove the traces of erased documents from the files of an epoch.

The catalogue has already erased their rows in one commit (see
:mod:`lookfar.store.catalogue.erasing`). Here vectors of both models are overwritten, keyword
segments with terms of erased documents are rewritten without them, and SQLite rewrites its file,
because it does not clear what it moves inside its pages. If this is interrupted, the next writer
finishes it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING

from lookfar.store.catalogue import generations, journal
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.erasing import TRACES, UNSETTLED, blank_name, has_traces
from lookfar.store.catalogue.seals import seal
from lookfar.store.ground import files
from lookfar.store.ground.database import commit, connect, typed_errors
from lookfar.store.keywords.earlier import EARLIER
from lookfar.store.vectors.quality_vectors import open_all
from lookfar.store.vectors.vector_file import checksum

if TYPE_CHECKING:
    from lookfar.store.sqlite.epoch import Epoch

_PATIENCE = 10.0


def remove_traces(epoch: Epoch, lock_quality: Callable[[], AbstractContextManager[None]]) -> None:
    """Remove all traces, for the holder of the writer lock; does nothing if there are none."""
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
        with lock_quality():
            for vectors in open_all(epoch.folder):
                vectors.blank(rows)
        epoch.renew_signatures(connection)
        graves = generations.graves(connection)
        stamp = epoch.keywords.rewrite(catalog.highest_numbers(connection).document, graves)
        if epoch.journal is not None:
            # Otherwise a crash between rewriting it and the commit below would look like damage.
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
        files.remove(epoch.folder / EARLIER)
        # A crash must not bring back the old signatures, the old journal and earlier keywords.
        files.sync_folder(epoch.folder)
        seal(connection)
        commit(connection)
        # Not into a temporary file, which would be another trace.
        connection.execute("PRAGMA temp_store=MEMORY")
        files.fault_point("commit", epoch.catalogue.name)
        connection.execute("VACUUM")
        # If a reader does not finish in time, the next writer does this.
        files.fault_point("commit", epoch.catalogue.name)
        if _empty_log(connection):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DELETE FROM meta WHERE key = ?", (TRACES,))
            seal(connection)
            commit(connection)


def _empty_log(connection: sqlite3.Connection) -> bool:
    """Copy the log into the database and truncate it, waiting a while for readers."""
    connection.execute("PRAGMA busy_timeout=50")
    deadline = time.monotonic() + _PATIENCE
    while True:
        (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if not busy:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
