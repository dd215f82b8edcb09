"""A write session: one transaction that becomes a new generation, or nothing.

Everything derived is durable before the catalogue names it, in one commit. Whatever fails before
leaves the previous generation as it was. A collection that nothing points at yet may also make
checkpoints: after a crash the next session continues from the last of them.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookfar.errors import wrong_dimensions
from lookfar.ports import NO_ENTRIES, ChunkRow, Known, LeftOut, StoredEntries, Version
from lookfar.store.catalogue import generations, graph, rows
from lookfar.store.catalogue.erasing import erase_rows
from lookfar.store.catalogue.journal import JournalWriter
from lookfar.store.catalogue.migrations import create_indexes
from lookfar.store.catalogue.seals import seal
from lookfar.store.ground import files
from lookfar.store.ground.database import commit, connect, typed_errors
from lookfar.store.keywords.signatures import Signed, sign
from lookfar.store.vectors.vector_file import checksum

if TYPE_CHECKING:
    from lookfar.model import Fingerprint
    from lookfar.store.sqlite.epoch import Epoch
    from lookfar.store.vectors.reuse import Siblings

_LINKS_PER_CHANGE = 1000
"""Communities are recomputed only if there are at most this many links for each changed document:
it takes about 10 ms per thousand links, and one edit among 100,000 pages must stay fast."""
_BUFFERED_ROWS = 4096
_GROWN = 1.25
"""By how much an index has grown when the recall of the coarse pass is measured again."""


class EpochWriter:
    """The one writer of a collection, which holds its lock; nothing it does is visible before
    ``activate``."""

    _inserts: rows.Inserts
    _generation: int
    _next_document: int
    _next_key: int
    _next_row: int
    _links_changed: bool
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
        self._connection = connect(epoch.catalogue, write=True)
        self._epoch = epoch
        self._dimensions = epoch.vectors.dimensions
        self._retain = retain
        self.retain_days = 0
        self.communities = True
        self.fresh = fresh
        """Whether nothing points at this collection's rows yet."""
        self.resumed = resumed
        """Whether it continues from a checkpoint of an interrupted session."""
        self._blank = fresh and not resumed
        self.activated = False
        self.base = 0
        self.embedded = 0
        """Vectors added by this session that no other index had."""
        self.changes = 0
        """Documents put or removed."""
        self._moved = False
        self._closed = False
        self._new_rows: dict[bytes, int] = {}
        self._new_texts: set[bytes] = set()
        self._put_uris: set[str] = set()
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

    def _read_numbers(self, inserts: rows.Inserts) -> tuple[int, rows.Marks]:
        """Read which numbers to continue from; return the active generation and the marks."""
        after = self.base = generations.active(self._connection)
        self._links_changed = self.fresh or graph.links_changed(self._connection, after)
        self._generation = generations.highest(self._connection) + 1
        self._inserts = inserts
        marks = rows.highest_numbers(self._connection)
        self._next_document, self._next_key, self._next_row = (mark + 1 for mark in marks)
        return after, marks

    def known(self, uris: Collection[str] | None = None) -> dict[str, Known]:
        with self._errors():
            self._inserts.flush()
            return rows.known(self._connection, self._generation, uris)

    def missing(self, contents: Iterable[bytes]) -> set[bytes]:
        """Return the contents that have no vector yet, after copying those a sibling index has."""
        lacking = {content for content in contents if content not in self._new_rows}
        if not self._blank:
            with self._errors():
                lacking = rows.find_unembedded(self._connection, lacking)
        if self._siblings is not None:
            for content, vector in self._siblings.vectors(lacking).items():
                self._add_vector(content, vector)
                lacking.discard(content)
        return lacking

    def put(self, version: Version) -> None:
        """Store a version in place of the live one with the same URI, if there is one."""
        with self._errors():
            self.changes += 1
            if not self._links_changed:
                self._links_changed = not graph.same_links(self._connection, version)
            self._bury(version.uri)
            self._put_uris.add(version.uri)
            for content, vector in version.adopted.items():
                if content not in self._new_rows:
                    self._add_vector(content, vector)
            self._embed(version.embedded)
            if self._is_new_text(version.text_sha):
                self._inserts.text(version.text_sha, version.text)
            vectors = self._find_rows(version.chunks)
            self._inserts.version(
                self._next_document, version, self._generation, self._next_key, vectors
            )
        self._derive(version)
        self._next_key += len(version.chunks)
        self._next_document += 1

    def _bury(self, uri: str) -> None:
        """End the live version of a document, even one that this session put."""
        if uri in self._put_uris:
            self._inserts.flush()
        elif self._blank:
            return
        rows.mark_dead(self._connection, uri, self._generation)

    def _is_new_text(self, text_sha: bytes) -> bool:
        if text_sha in self._new_texts:
            return False
        self._new_texts.add(text_sha)
        return self._blank or not rows.has_text(self._connection, text_sha)

    def _embed(self, vectors: Mapping[bytes, bytes]) -> None:
        for content, vector in vectors.items():
            if content not in self._new_rows:
                self.embedded += 1
                self._add_vector(content, vector)

    def _add_vector(self, content: bytes, vector: bytes) -> None:
        length = len(vector) // 2
        if length != self._dimensions:  # Rows of another length would break the whole file.
            raise wrong_dimensions(length, self._dimensions)
        row = self._next_row
        self._next_row += 1
        self._new_rows[content] = row
        self._inserts.embedding(row, content, checksum(content, vector))
        self._store_vector(row, vector)

    def _find_rows(self, chunks: Sequence[ChunkRow]) -> Mapping[bytes, int]:
        """Return the vector rows of chunks, by content."""
        if self._blank:
            return self._new_rows
        contents = {content for _, content, *_ in chunks}
        new = {name: self._new_rows[name] for name in contents if name in self._new_rows}
        return new | rows.find_vectors(self._connection, contents - new.keys())

    def touch(self, document: int, fingerprint: Fingerprint, settled: bool) -> None:
        with self._errors():
            if not self._moved:
                before = rows.modified_times(self._connection, [document])
                self._moved = before != {document: fingerprint.mtime_ns}
                if self._moved:
                    rows.record_move(self._connection)
            rows.touch(self._connection, document, fingerprint, settled)

    def remove(self, uri: str) -> None:
        if self._journal is not None:
            self._journal.erase(uri)
        self.changes += 1
        self._links_changed = True
        with self._errors():
            self._bury(uri)

    def erase(self, uris: Sequence[str], *, dead: bool = False) -> int:
        if self._journal is not None and not dead:
            for uri in uris:
                self._journal.erase(uri)
        with self._errors():
            self._inserts.flush()  # What this session put may share their vectors.
            self._links_changed = True
            graph.forget_communities(self._connection, uris)
            return erase_rows(self._connection, uris, dead)

    def left_out(self) -> dict[str, LeftOut]:
        with self._errors():
            return rows.left_out(self._connection)

    def leave_out(self, files: Sequence[LeftOut]) -> None:
        with self._errors():
            rows.replace_left_out(self._connection, files)

    def _record_links(self, links: int) -> None:
        """Record that links changed; recompute communities if they are read and that is fast."""
        if self._links_changed:
            graph.record_links(self._connection, self._generation)
            is_fast = self.fresh or links <= self.changes * _LINKS_PER_CHANGE
            if self.communities and is_fast:
                graph.store_communities(self._connection, self._generation)

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
