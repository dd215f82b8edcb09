"""A write session: one transaction that becomes a new generation, or nothing.

Whatever fails before the one commit of the catalogue leaves the previous generation as it was.
A collection that nothing points at yet may also make checkpoints: after a crash the next session
continues from the last of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookfar.errors import wrong_dimensions
from lookfar.ports import NO_ENTRIES, ChunkRow, Known, LeftOut, StoredEntries, Version
from lookfar.store.catalogue import generations, graph, rows
from lookfar.store.catalogue.erasing import erase_rows
from lookfar.store.ground.sql import Connection
from lookfar.store.vectors.vector_file import checksum

if TYPE_CHECKING:
    from lookfar.model import Fingerprint
    from lookfar.store.vectors.reuse import Siblings

_LINKS_PER_CHANGE = 1000
"""Communities are recomputed only if there are at most this many links for each changed document:
it takes about 10 ms per thousand links, and one edit among 100,000 pages must stay fast."""


class WriteSession(ABC):
    """The one writer of a collection; nothing it does is visible before ``activate``."""

    _inserts: rows.Inserts
    _generation: int
    _next_document: int
    _next_key: int
    _next_row: int
    _links_changed: bool

    def __init__(
        self,
        connection: Connection,
        dimensions: int,
        retain: int,
        *,
        fresh: bool,
        resumed: bool = False,
    ) -> None:
        self._connection = connection
        self._dimensions = dimensions
        self._retain = retain
        self.retain_days = 0
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

    # -- what each store does its own way ------------------------------------------

    def _errors(self) -> AbstractContextManager[None]:
        """Translate the database's errors."""
        return nullcontext()

    @abstractmethod
    def _store_vector(self, row: int, vector: bytes) -> None: ...

    @abstractmethod
    def _derive(self, version: Version) -> None:
        """Store what is derived from a version besides rows and vectors."""

    @abstractmethod
    def activate(self, manifest: Mapping[str, Any]) -> int:
        """Commit everything as one new generation."""

    @abstractmethod
    def commit_touches(self) -> int:
        """Save what was learnt about unchanged files; the generation stays the same."""

    @abstractmethod
    def checkpoint(self) -> None:
        """Make durable what was stored so far in a fresh collection, and go on."""

    @abstractmethod
    def close(self) -> None:
        """End the session; without ``activate`` nothing has happened."""

    @property
    def catalogue(self) -> Path | None:
        """Where worker processes may look up existing vectors."""
        return None

    @property
    def siblings(self) -> Siblings | None:
        """Other indexes that may have vectors of the same model."""
        return None

    # -- what both share -----------------------------------------------------------

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
        lacking = {content for content in contents if content not in self._new_rows}
        if not self._blank:
            with self._errors():
                lacking = rows.find_unembedded(self._connection, lacking)
        return lacking

    def stored_entries(self, uri: str) -> StoredEntries:  # noqa: ARG002
        """Return the entries of a document that a new version of it may copy: here none."""
        return NO_ENTRIES

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
        self.changes += 1
        self._links_changed = True
        with self._errors():
            self._bury(uri)

    def erase(self, uris: Sequence[str], *, dead: bool = False) -> int:
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
        """Record that links changed, and recompute communities where that is fast."""
        if self._links_changed:
            graph.record_links(self._connection, self._generation)
            if self.fresh or links <= self.changes * _LINKS_PER_CHANGE:
                graph.store_communities(self._connection, self._generation)
