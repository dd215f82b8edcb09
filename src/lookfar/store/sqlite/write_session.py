"""The write session of the SQLite store: rows, vectors, keywords, signatures and the journal.

Everything derived is durable before the catalogue names it, in one commit.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookfar.ports import NO_ENTRIES, StoredEntries, Version
from lookfar.store.catalogue import generations, rows
from lookfar.store.catalogue.journal import JournalWriter
from lookfar.store.catalogue.migrations import create_indexes
from lookfar.store.catalogue.seals import seal
from lookfar.store.ground import files
from lookfar.store.ground.database import commit, connect, typed_errors
from lookfar.store.keywords.signatures import Signed, sign
from lookfar.store.shared.write_session import WriteSession

if TYPE_CHECKING:
    from lookfar.store.sqlite.epoch import Epoch
    from lookfar.store.vectors.reuse import Siblings

_BUFFERED_ROWS = 4096
_GROWN = 1.25
"""By how much an index has grown when the recall of the coarse pass is measured again."""


class EpochWriter(WriteSession):
    """A write session on one epoch, for the holder of the writer lock."""

    _connection: sqlite3.Connection
    _journal: JournalWriter | None = None
    """The second copy of documents that have no other home."""

    def __init__(
        self,
        epoch: Epoch,
        retain: int,
        *,
        fresh: bool,
        resumed: bool = False,
        siblings: Siblings | None = None,
    ) -> None:
        connection = connect(epoch.catalogue, write=True)
        super().__init__(connection, epoch.vectors.dimensions, retain, fresh=fresh, resumed=resumed)
        self._epoch = epoch
        self._siblings = siblings
        self._buffer: list[bytes] = []
        self._signed: list[Signed] = []
        try:
            with self._errors():
                self._begin()
        except BaseException:
            self.close()
            raise

    def _errors(self) -> AbstractContextManager[None]:
        return typed_errors(self._epoch.catalogue)

    def _begin(self) -> None:
        if self.resumed:
            self._connection.execute("PRAGMA journal_mode=WAL")  # Workers look up vectors beside.
        # A blank epoch keeps SQLite's rollback journal: appending leaves next to nothing in it,
        # where a write-ahead log would hold every page a second time.
        self._connection.execute("BEGIN IMMEDIATE")
        if not self.fresh:
            self._epoch.check_before_writing(self._connection)
        if self.resumed:
            create_indexes(self._connection)
            generations.withdraw(self._connection)
        after, marks = self._read_numbers(rows.Inserts(self._connection))
        # Nothing was counted yet in a new epoch.
        self._since = None if self.fresh else generations.Since(after, self._next_document)
        # Rows appended behind a cut would make the file look whole again.
        self._epoch.vectors.rows(marks.row + 1)
        self._epoch.vectors.coarse.forget(marks.row + 1)
        self._new_codes = False
        self._epoch.keywords.open_writer(marks.document)
        # Only what an earlier commit of the catalogue has purged: until this session's own
        # commit, readers may still ask for what it drops.
        self._graves = generations.graves(self._connection)
        self._epoch.keywords.remove_documents(self._graves)
        self._prepare_changes()
        if self._epoch.journal is not None:
            self._journal = JournalWriter(
                self._epoch.journal, self._connection, self._generation, served=not self.fresh
            )

    def _prepare_changes(self) -> None:
        if self._epoch.mirror is not None:
            self._epoch.mirror.begin(self._connection, fresh=self.fresh)
        if not self.fresh:
            generations.drop_rolled_back(self._connection)

    def _mirror(self) -> None:
        """Commit first where this epoch is a copy of."""
        if self._epoch.mirror is not None:
            self._epoch.keywords.reload()
            self._epoch.mirror.push(self._connection, self._epoch, fresh=self.fresh)

    @property
    def catalogue(self) -> Path | None:
        return None if self._blank else self._epoch.catalogue

    @property
    def siblings(self) -> Siblings | None:
        return self._siblings

    def missing(self, contents: Iterable[bytes]) -> set[bytes]:
        """Return the contents that have no vector yet, after copying those a sibling index has."""
        lacking = super().missing(contents)
        if self._siblings is not None:
            for content, vector in self._siblings.vectors(lacking).items():
                self._add_vector(content, vector)
                lacking.discard(content)
        return lacking

    def _derive(self, version: Version) -> None:
        signature = version.signature or sign(zlib.decompress(version.text))
        self._signed.append(Signed(self._next_document, version.text_sha, signature))
        if self._journal is not None:
            self._journal.put(version)
        self._epoch.keywords.add(
            self._next_key, self._next_document, version.name_terms, version.entries,
            version.sources, version.stored, version.copied,
        )  # fmt: skip

    def stored_entries(self, uri: str) -> StoredEntries:
        with self._errors():
            document = None if self._blank else rows.find_live(self._connection, uri)
        if document is None:
            return NO_ENTRIES
        return StoredEntries(document, self._epoch.keywords.list_sources(document))

    def _store_vector(self, row: int, vector: bytes) -> None:  # noqa: ARG002
        self._buffer.append(vector)
        if len(self._buffer) >= _BUFFERED_ROWS:
            self._flush_vectors()

    def _flush_vectors(self) -> None:
        if self._buffer:
            first = self._next_row - len(self._buffer)
            self._epoch.vectors.append(first, b"".join(self._buffer))
            self._buffer.clear()

    def remove(self, uri: str) -> None:
        if self._journal is not None:
            self._journal.erase(uri)
        super().remove(uri)

    def erase(self, uris: Sequence[str], *, dead: bool = False) -> int:
        if self._journal is not None and not dead:
            for uri in uris:
                self._journal.erase(uri)
        return super().erase(uris, dead=dead)

    def commit_touches(self) -> int:
        if self._new_rows:  # Copied from a sibling index for documents that were not stored.
            self._flush_vectors()
            self._epoch.vectors.sync()
        self._extend_coarse()
        with self._errors():
            self._inserts.flush()
            active = generations.active(self._connection)
            self._record_recall()
            self._mirror()
            seal(self._connection)
            commit(self._connection)
        self.close()
        return active

    def checkpoint(self) -> None:
        assert self.fresh
        stamp = self._save_derived()
        with self._errors():
            self._inserts.flush()
            self._record(stamp)
            seal(self._connection)
            commit(self._connection)
            self._connection.execute("BEGIN IMMEDIATE")

    def _save_derived(self) -> int:
        """Make vectors, keywords and the journal durable before the catalogue names them."""
        self._flush_vectors()
        self._epoch.vectors.sync()
        self._extend_coarse()
        self._epoch.signatures.append(self._signed)
        self._signed.clear()
        if self._journal is not None:
            self._journal.sync()
        return self._epoch.keywords.commit()

    def _extend_coarse(self) -> None:
        """Add the missing codes of all rows, which takes a moment."""
        self._new_codes |= self._epoch.vectors.extend_coarse(self._next_row)

    def _record_recall(self) -> None:
        """Measure how good the coarse pass is now, for the status."""
        before = rows.recall(self._connection)
        if not self._new_codes or (before and self._next_row < before.rows * _GROWN):
            return  # It takes a second or two, and hardly changes.
        measured = self._epoch.vectors.recall(self._next_row)
        if measured is not None:
            rows.record_recall(self._connection, measured)

    def _record(self, stamp: int) -> None:
        rows.record_keywords(self._connection, stamp)
        rows.record_marks(self._connection, self._next_document - 1, self._next_key - 1)
        generations.close_graves(self._connection, self._graves)
        if self._journal is not None:
            self._journal.record(self._connection)

    def activate(self, manifest: Mapping[str, Any]) -> int:
        stamp = self._save_derived()
        with self._errors():
            self._inserts.flush()
            create_indexes(self._connection)
            self._epoch.tend_signatures(self._connection)
            totals = generations.compute_totals(self._connection, self._since)
            self._record_links(totals["links"])
            generations.activate(
                self._connection,
                self._generation,
                datetime.now(UTC).isoformat(timespec="seconds"),
                {**manifest, **totals},
            )
            self._record(stamp)
            self._record_recall()
            retired = generations.retire(self._connection, self._retain, self.retain_days)
            generations.purge(self._connection, retired)
            self._mirror()
            seal(self._connection)
            commit(self._connection)
            self.activated = True
            if not self.fresh:
                self.mark_served()
            if self.fresh:
                files.fault_point("commit", self._epoch.catalogue.name)
                self._connection.execute("PRAGMA journal_mode=WAL")
        self._closed = True
        self._connection.close()
        self._epoch.keywords.close_writer()
        if self.fresh:
            files.sync_folder(self._epoch.folder)
        return self._generation

    def mark_served(self) -> None:
        """Mark the commit in the journal; in a new epoch, once it serves."""
        if self._journal is not None:
            self._journal.mark_committed()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        # The transaction ends with its connection; a failing rollback must not hide its cause.
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        self._connection.close()
        self._epoch.keywords.abandon()
