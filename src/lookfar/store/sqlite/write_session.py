"""A write session: everything of one pass, invisible until it is activated.

Takes: an epoch, in the hands of the holder of the writer lock. Gives: one new
generation, or nothing. Refuses: to be half done; whatever goes wrong before the
catalogue's one commit leaves the generation before it as it was.

In an epoch that nobody points at yet there is nothing to leave as it was, so such a
session may make checkpoints: after a death the next one goes on from the last of them.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookfar.errors import wrong_dimensions
from lookfar.ports import Known, LeftOut, Version
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

_BUFFERED_ROWS = 4096
_GROWN = 1.25
"""By how much an index has grown when the coarse pass over its vectors is measured again."""
_LINKS_PER_CHANGE = 1000
"""Communities take some 10 ms for so many links; a session spends that on each document that
it stores, and no more, so that one edit among a hundred thousand pages stays quick."""


class EpochWriter:
    """A write session: one transaction, invisible until ``activate``."""

    _moved = False
    """Whether it gave a stored document another time."""
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
        self._epoch = epoch
        self._retain = retain
        self._siblings = siblings
        self.fresh = fresh
        """Whether nobody points at this epoch yet."""
        self.resumed = resumed
        """Whether it holds what a session before this one had stored when it was stopped."""
        self._blank = fresh and not resumed
        self.activated = False
        self.embedded = 0
        """Vectors added by this session."""
        self._done = False
        self._new: dict[bytes, int] = {}
        self._texts: set[bytes] = set()
        self._put: set[str] = set()
        self._buffer: list[bytes] = []
        self._signed: list[Signed] = []
        self._connection = connect(epoch.catalogue, write=True)
        try:
            with typed_errors(epoch.catalogue):
                self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        if self.resumed:
            self._connection.execute("PRAGMA journal_mode=WAL")  # Workers look up vectors beside.
        # A blank epoch keeps SQLite's own rollback journal: what is only ever appended to
        # leaves next to nothing in it, where a log would hold every page a second time.
        self._connection.execute("BEGIN IMMEDIATE")
        if not self.fresh:
            self._epoch.check_before_writing(self._connection)
        if self.resumed:
            create_indexes(self._connection)
            generations.withdraw(self._connection)
        after = generations.active(self._connection)
        self._links_changed = self.fresh or graph.links_changed(self._connection, after)
        self._changes = 0
        self._generation = generations.highest(self._connection) + 1
        self._inserts = rows.Inserts(self._connection)
        marks = rows.highest_numbers(self._connection)
        self._next_document, self._next_key, self._next_row = (mark + 1 for mark in marks)
        # In a new epoch nothing was counted yet.
        self._since = None if self.fresh else generations.Since(after, self._next_document)
        # Rows appended behind a cut would make the file look whole again.
        self._epoch.vectors.rows(marks.row + 1)
        self._epoch.vectors.coarse.forget(marks.row + 1)
        self._new_bits = False
        self._epoch.keywords.open_writer(marks.document)
        # Only what an earlier commit of the catalogue has purged: until this session's own
        # commit readers may still ask for what it drops.
        self._graves = generations.graves(self._connection)
        self._epoch.keywords.remove_documents(self._graves)
        if not self.fresh:
            generations.drop_rolled_back(self._connection)
        if self._epoch.journal is not None:
            self._journal = JournalWriter(
                self._epoch.journal, self._connection, self._generation, served=not self.fresh
            )

    @property
    def catalogue(self) -> Path | None:
        """Where other processes may look up existing vectors; there are none in a blank epoch."""
        return None if self._blank else self._epoch.catalogue

    @property
    def siblings(self) -> Siblings | None:
        """Where vectors of the same model may lie besides."""
        return self._siblings

    def known(self, uris: Collection[str] | None = None) -> dict[str, Known]:
        with typed_errors(self._epoch.catalogue):
            self._inserts.flush()
            return rows.known(self._connection, self._generation, uris)

    def missing(self, contents: Iterable[bytes]) -> set[bytes]:
        """Which contents have no vector yet; what a sibling index has is taken over at once."""
        lacking = {content for content in contents if content not in self._new}
        if not self._blank:
            with typed_errors(self._epoch.catalogue):
                lacking = rows.find_unembedded(self._connection, lacking)
        if self._siblings is not None:
            for content, vector in self._siblings.vectors(lacking).items():
                self._add(content, vector)
                lacking.discard(content)
        return lacking

    def put(self, version: Version) -> None:
        """Store a version in place of the live one of the same URI, if there is one."""
        with typed_errors(self._epoch.catalogue):
            self._changes += 1
            if not self._links_changed:
                self._links_changed = not graph.same_links(self._connection, version)
            self._bury(version.uri)
            self._put.add(version.uri)
            for content, vector in version.adopted.items():
                if content not in self._new:
                    self._add(content, vector)
            self._embed(version.embedded)
            if self._is_new_text(version.text_sha):
                self._inserts.text(version.text_sha, version.text)
            self._sign(version)
            self._inserts.version(
                self._next_document, version, self._generation, self._next_key, self._row_of
            )
        if self._journal is not None:
            self._journal.put(version)
        self._epoch.keywords.add(
            self._next_key, self._next_document, version.name_terms, version.entries
        )
        self._next_key += len(version.chunks)
        self._next_document += 1

    def _sign(self, version: Version) -> None:
        signature = version.signature or sign(zlib.decompress(version.text))
        self._signed.append(Signed(self._next_document, version.text_sha, signature))

    def _bury(self, uri: str) -> None:
        """What was live until now is not part of this generation, even if this session put it."""
        if uri in self._put:
            self._inserts.flush()
        elif self._blank:
            return
        rows.mark_dead(self._connection, uri, self._generation)

    def _is_new_text(self, text_sha: bytes) -> bool:
        if text_sha in self._texts:
            return False
        self._texts.add(text_sha)
        return self._blank or not rows.has_text(self._connection, text_sha)

    def _embed(self, vectors: Mapping[bytes, bytes]) -> None:
        for content, vector in vectors.items():
            if content not in self._new:
                self.embedded += 1
                self._add(content, vector)

    def _add(self, content: bytes, vector: bytes) -> None:
        wanted, found = self._epoch.vectors.dimensions, len(vector) // 2
        if found != wanted:  # Rows of another length would make the whole file unreadable.
            raise wrong_dimensions(found, wanted)
        row = self._next_row
        self._next_row += 1
        self._new[content] = row
        self._buffer.append(vector)
        self._inserts.embedding(row, content, checksum(content, vector))
        if len(self._buffer) >= _BUFFERED_ROWS:
            self._flush_vectors()

    def _flush_vectors(self) -> None:
        if self._buffer:
            first = self._next_row - len(self._buffer)
            self._epoch.vectors.append(first, b"".join(self._buffer))
            self._buffer.clear()

    def _row_of(self, content: bytes) -> int | None:
        if content in self._new:
            return self._new[content]
        if self._blank:
            return None
        found = self._connection.execute(
            "SELECT row FROM embeddings WHERE content = ?", (content,)
        ).fetchone()
        return None if found is None else int(found[0])

    def touch(self, document: int, fingerprint: Fingerprint, settled: bool) -> None:
        with typed_errors(self._epoch.catalogue):
            if not self._moved:
                before = rows.modified_times(self._connection, [document])
                self._moved = before != {document: fingerprint.mtime_ns}
                if self._moved:
                    rows.record_move(self._connection)
            rows.touch(self._connection, document, fingerprint, settled)

    def remove(self, uri: str) -> None:
        self._changes += 1
        self._links_changed = True
        if self._journal is not None:
            self._journal.erase(uri)
        with typed_errors(self._epoch.catalogue):
            self._bury(uri)

    def erase(self, uris: Sequence[str], *, dead: bool = False) -> int:
        """Remove documents from every generation, or of them the versions that have ``dead``;
        gives how many chunks the live ones had. What is left of them in the files is the
        business of :func:`lookfar.store.sqlite.erase.remove_traces`.
        """
        with typed_errors(self._epoch.catalogue):
            self._inserts.flush()  # What was put in this session may share their vectors.
            self._links_changed = True
            graph.forget_communities(self._connection, uris)
            if self._journal is not None and not dead:
                for uri in uris:
                    self._journal.erase(uri)
            return erase_rows(self._connection, uris, dead)

    def left_out(self) -> dict[str, LeftOut]:
        with typed_errors(self._epoch.catalogue):
            return rows.left_out(self._connection)

    def leave_out(self, files: Sequence[LeftOut]) -> None:
        with typed_errors(self._epoch.catalogue):
            rows.replace_left_out(self._connection, files)

    def commit_touches(self) -> int:
        """Keep what was learnt of the disk when no document changed: the generation stays."""
        if self._new:  # Of a sibling index, for documents that then were not stored.
            self._flush_vectors()
            self._epoch.vectors.sync()
        self._extend_coarse()
        with typed_errors(self._epoch.catalogue):
            self._inserts.flush()
            active = generations.active(self._connection)
            self._record_recall()
            seal(self._connection)
            commit(self._connection)
        self.close()
        return active

    def checkpoint(self) -> None:
        """Make durable what was stored so far in an epoch that nobody points at, and go on."""
        assert self.fresh
        stamp = self._derived()
        with typed_errors(self._epoch.catalogue):
            self._inserts.flush()
            self._record(stamp)
            seal(self._connection)
            commit(self._connection)
            self._connection.execute("BEGIN IMMEDIATE")

    def _derived(self) -> int:
        """Vectors, keywords and the journal, durable before the catalogue names them."""
        self._flush_vectors()
        self._epoch.vectors.sync()
        self._extend_coarse()
        self._epoch.signatures.append(self._signed)
        self._signed.clear()
        if self._journal is not None:
            self._journal.sync()
        return self._epoch.keywords.commit()

    def _extend_coarse(self) -> None:
        """Bits of what has been appended, and of what lacked them, since it is a moment's work."""
        self._new_bits |= self._epoch.vectors.extend_coarse(self._next_row)

    def _record_recall(self) -> None:
        """How good the coarse pass is now, for whoever asks for the status."""
        before = rows.recall(self._connection)
        if not self._new_bits or (before and self._next_row < before.rows * _GROWN):
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
        """Derived indexes first, durable; then the catalogue, in one commit."""
        stamp = self._derived()
        with typed_errors(self._epoch.catalogue):
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
            retired = generations.retire(self._connection, self._retain)
            generations.purge(self._connection, retired)
            seal(self._connection)
            commit(self._connection)
            self.activated = True
            if self.fresh:
                files.fault_point("commit", self._epoch.catalogue.name)
                self._connection.execute("PRAGMA journal_mode=WAL")
        self._done = True
        self._connection.close()
        self._epoch.keywords.close_writer()
        if self.fresh:
            files.sync_folder(self._epoch.folder)
        return self._generation

    def _record_links(self, links: int) -> None:
        """That links changed, if they did, and their communities, if that is quick."""
        if self._links_changed:
            graph.record_links(self._connection, self._generation)
            if self.fresh or links <= self._changes * _LINKS_PER_CHANGE:
                graph.store_communities(self._connection, self._generation)

    def close(self) -> None:
        """Leave; without ``activate`` nothing has happened."""
        if self._done:
            return
        self._done = True
        # The transaction ends with its connection; a failing roll-back must not hide its cause.
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        self._connection.close()
        self._epoch.keywords.abandon()
