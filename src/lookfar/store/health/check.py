"""Check a catalogue that is the only copy of its documents, before it answers.

Damage raises ``IndexCorrupt``: an empty answer would look like an empty database. The small tables
are compared with their hashes on every read. Once per process, all versions and vectors are, up to
``_MOST_CHECKED``; in a larger database each version is compared when it is first read.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from lookfar.store.catalogue import generations
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.journal import JOURNAL, is_commit_lost, recorded_end
from lookfar.store.catalogue.migrations import FORMAT_WITH_CHECKS, check
from lookfar.store.catalogue.seals import broken_tables, broken_version, broken_versions
from lookfar.store.ground.database import corrupt_error
from lookfar.store.health.verify import (
    FROM_DAMAGE,
    LOST_COMMIT,
    check_form,
    check_keyword_entries,
    check_pointer,
    check_serving,
    find_wrong_rows,
)
from lookfar.store.keywords.keyword_index import KEYWORDS

if TYPE_CHECKING:
    from sqlite3 import Connection

    from lookfar.store.keywords.keyword_index import KeywordView
    from lookfar.store.vectors.vector_file import VectorFile

_MOST_CHECKED = 20_000
"""Up to this many versions, all are checked before the first answer of a process."""


def refuse_miscount(connection: Connection) -> None:
    """Raise if the serving generation is missing, or its document count is not the recorded one."""
    for problem in check_serving(connection):
        raise catalog.corrupt_row_error(connection, problem.detail)


def refuse_damage(connection: sqlite3.Connection, path: Path) -> None:
    """Raise if any row of a document or a small table differs from its hash, or one is missing."""
    _refuse_tables(connection, path)
    _refuse_lost_commit(connection, path)
    for problem in check_pointer(connection):
        raise corrupt_error(path, problem.detail)
    if check(connection) >= FORMAT_WITH_CHECKS:
        for _, why in broken_versions(connection):
            raise corrupt_error(path, why)


def _refuse_tables(connection: sqlite3.Connection, path: Path) -> None:
    if check(connection) >= FORMAT_WITH_CHECKS:
        for table in broken_tables(connection):
            raise corrupt_error(path, f"the table {table} differs from what was written")


def _refuse_lost_commit(connection: sqlite3.Connection, path: Path) -> None:
    if is_commit_lost(path.with_name(JOURNAL), path, connection):
        raise corrupt_error(path, LOST_COMMIT)


class Watch:
    """Remembers what this process has already checked in one epoch."""

    def __init__(self, path: Path, vectors: VectorFile) -> None:
        self._path = path
        self._vectors = vectors
        self._opened = False
        self._up_to = -1
        """Versions up to this number were compared with their hashes."""
        self._texts_up_to = -1
        self._checked: set[int] = set()
        self._keywords = -1
        """The commit of newer keywords that was compared with the catalogue."""
        self._journal = path.with_name(JOURNAL)
        self._journal_state: tuple[int | None, ...] = ()
        """Size and time of the journal, its recorded end and the serving generation, when the
        journal was last compared with the catalogue."""

    def check(self, connection: sqlite3.Connection) -> None:
        """Raise if what is about to be read is damaged."""
        try:
            self._check(connection)
        except FROM_DAMAGE as error:
            raise corrupt_error(self._path, f"{type(error).__name__}: {error}") from error

    def _check(self, connection: sqlite3.Connection) -> None:
        _refuse_tables(connection, self._path)
        if check(connection) < FORMAT_WITH_CHECKS:
            return
        self._check_journal(connection)
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

    def _check_journal(self, connection: sqlite3.Connection) -> None:
        """Compare journal and catalogue, unless nothing changed since the last time."""
        try:
            status = self._journal.stat()
        except OSError:
            return
        serving = generations.active(connection)
        state = (status.st_size, status.st_mtime_ns, recorded_end(connection), serving)
        if state != self._journal_state:
            _refuse_lost_commit(connection, self._path)
            self._journal_state = state

    def check_keywords(self, connection: sqlite3.Connection, view: KeywordView) -> None:
        """Raise if keywords that are newer than the catalogue lack some of its documents.

        After a crash they lack none; they may if the catalogue is an earlier copy of itself.
        """
        if view.stamp in (self._keywords, catalog.keywords_stamp(connection)):
            return
        for problem in check_keyword_entries(view, connection):
            raise corrupt_error(self._path.with_name(KEYWORDS), problem.detail)
        self._keywords = view.stamp

    def _check_all(self, connection: sqlite3.Connection) -> None:
        for problem in check_form(connection):
            raise corrupt_error(self._path, problem.detail)
        for _, why in broken_versions(connection):
            raise corrupt_error(self._path, why)
        for problem in check_pointer(connection):
            raise corrupt_error(self._path, problem.detail)
        for row in find_wrong_rows(self._vectors, connection):
            raise corrupt_error(self._vectors.path, f"row {row} differs from what was written")

    def check_texts(self, connection: sqlite3.Connection) -> None:
        """Raise if a stored text is damaged, before anything is written; readers check the texts
        that they return."""
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
        """Raise if the rows of a version differ from their hash."""
        if document <= self._up_to or document in self._checked:
            return
        if check(connection) >= FORMAT_WITH_CHECKS and broken_version(connection, document):
            why = f"document {document}: its rows differ from what was written"
            raise corrupt_error(self._path, why)
        self._checked.add(document)
