"""What is checked of a catalogue before it answers, where it is the only copy of its documents.

Takes: a connection that is about to be read. Gives: nothing, where all is as it was written.
Refuses: to answer from anything else, with ``IndexCorrupt``: a page of zeros may read as a table
without rows, and an empty answer would pass for an empty database.

The small tables are compared with their hashes every time, which takes some 0.2 ms. Once in a
process the live documents are counted; up to ``_MOST_CHECKED`` versions, SQLite checks its pages
and indexes, and each version and each vector is compared with its hash (70 ms for 5,000). What
others insert after that is checked when it appears. Of a larger database each version is checked
when it is first shown, and ``verify`` checks the rest.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from lookfar.store.catalogue import generations
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.migrations import FORMAT_WITH_CHECKS, check
from lookfar.store.catalogue.seals import broken_tables, broken_version, broken_versions
from lookfar.store.ground.database import corrupt_error
from lookfar.store.health.verify import FROM_DAMAGE, catalogue_form, check_pointer, wrong_rows

if TYPE_CHECKING:
    from lookfar.store.ground.sql import Connection
    from lookfar.store.vectors.vector_file import VectorFile

_MOST_CHECKED = 20_000
"""Versions that are all checked before the first answer of a process."""


def refuse_miscount(connection: Connection) -> None:
    """Refuse where the serving generation is unknown, or other documents are alive than it
    recorded. Of every store: the statements are those that both databases understand."""
    number = generations.active(connection)
    kept = [each for each in generations.list_generations(connection) if each.number == number]
    if not kept:
        raise catalog.corrupt_row_error(connection, f"generation {number} serves and is not kept")
    wanted = kept[0].manifest.get("documents")
    found = catalog.count_documents(connection, number)
    if wanted is not None and wanted != found:
        raise catalog.corrupt_row_error(connection, f"{found} of {wanted} documents are there")


def refuse_damage(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse where any row of a document, or a small table, is not what was written."""
    _refuse_tables(connection, path)
    refuse_miscount(connection)
    if check(connection) >= FORMAT_WITH_CHECKS:
        for _, why in broken_versions(connection):
            raise corrupt_error(path, why)


def _refuse_tables(connection: sqlite3.Connection, path: Path) -> None:
    if check(connection) >= FORMAT_WITH_CHECKS:
        for table in broken_tables(connection):
            raise corrupt_error(path, f"the table {table} differs from what was written")


class Watch:
    """What one process has already checked of one epoch."""

    def __init__(self, path: Path, vectors: VectorFile) -> None:
        self._path = path
        self._vectors = vectors
        self._opened = False
        self._up_to = -1
        """Each version up to this number was compared with its hash."""
        self._texts_up_to = -1
        self._shown: set[int] = set()

    def check(self, connection: sqlite3.Connection) -> None:
        """Refuse a state that is not as it was written."""
        try:
            self._check(connection)
        except FROM_DAMAGE as error:
            raise corrupt_error(self._path, f"{type(error).__name__}: {error}") from error

    def _check(self, connection: sqlite3.Connection) -> None:
        _refuse_tables(connection, self._path)
        if check(connection) < FORMAT_WITH_CHECKS:
            return
        highest = catalog.highest_numbers(connection).document
        if not self._opened:
            refuse_miscount(connection)
            if highest <= _MOST_CHECKED:
                self._check_all(connection)
                self._up_to = highest
        elif 0 <= self._up_to < highest:
            for _, why in broken_versions(connection, self._up_to):
                raise corrupt_error(self._path, why)
            self._up_to = highest
        self._opened = True

    def _check_all(self, connection: sqlite3.Connection) -> None:
        for problem in catalogue_form(connection):
            raise corrupt_error(self._path, problem.detail)
        for _, why in broken_versions(connection):
            raise corrupt_error(self._path, why)
        for problem in check_pointer(connection):
            raise corrupt_error(self._path, problem.detail)
        for row in wrong_rows(self._vectors, connection):
            raise corrupt_error(self._vectors.path, f"row {row} differs from what was written")

    def check_texts(self, connection: sqlite3.Connection) -> None:
        """Refuse to write beside a text that is not as it was written; readers compare those that
        they show."""
        if self._up_to <= self._texts_up_to:
            return
        rows = connection.execute(
            "SELECT d.text_sha, t.body FROM documents d LEFT JOIN texts t ON t.sha = d.text_sha"
            " WHERE d.id BETWEEN ? AND ?",
            (self._texts_up_to + 1, self._up_to),
        )
        for text_sha, body in rows:
            catalog.decode_text(connection, text_sha, body)
        self._texts_up_to = self._up_to

    def check_version(self, connection: Connection, document: int) -> None:
        """Refuse a version whose rows are not as they were written."""
        if document <= self._up_to or document in self._shown:
            return
        assert isinstance(connection, sqlite3.Connection)
        if check(connection) >= FORMAT_WITH_CHECKS and broken_version(connection, document):
            why = f"document {document}: its rows differ from what was written"
            raise corrupt_error(self._path, why)
        self._shown.add(document)
