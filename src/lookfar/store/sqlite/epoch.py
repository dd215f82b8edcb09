"""One epoch: a catalogue, keywords and vectors made with one model, chunking and format."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import Protocol, TypeVar

from lookfar.model import Damage
from lookfar.ports import OnStep
from lookfar.store.catalogue import generations, journal
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.migrations import (
    FORMAT,
    FORMAT_RECORD,
    check,
    migrate,
)
from lookfar.store.catalogue.remembered import Remembered
from lookfar.store.catalogue.seals import TABLES, seal
from lookfar.store.ground import files
from lookfar.store.ground.database import (
    CATALOGUE,
    Readers,
    commit,
    connect,
    corrupt_error,
    typed_errors,
)
from lookfar.store.health.check import Watch
from lookfar.store.health.verify import verify, verify_unfinished
from lookfar.store.keywords.earlier import make_keywords
from lookfar.store.keywords.keyword_index import KEYWORDS, KeywordIndex, KeywordView
from lookfar.store.keywords.live_keywords import LiveKeywords
from lookfar.store.keywords.signatures import (
    SIGNATURES,
    SignatureFile,
    Signed,
    signed_texts,
)
from lookfar.store.sqlite.snapshot import EpochSnapshot
from lookfar.store.sqlite.vector_queries import Owners
from lookfar.store.vectors.quality_vectors import QualityVectors
from lookfar.store.vectors.vector_file import COARSE_ABOVE, VECTORS, VectorFile

T = TypeVar("T")

_MOST_SIGNED = 2_000
"""Documents without a signature that one write session signs, so that an edit stays fast."""
_MOST_SEGMENTS = 1_000
_SPARE_ROWS = 1_000


class Mirror(Protocol):
    """Writes what is committed here to another place first."""

    def begin(self, connection: sqlite3.Connection, *, fresh: bool) -> None:
        """Note from now on what a transaction changes."""

    def push(self, connection: sqlite3.Connection, epoch: Epoch, *, fresh: bool) -> None:
        """Commit there what this transaction is about to commit."""


class Epoch:
    def __init__(
        self,
        folder: Path,
        coarse_above: int = COARSE_ABOVE,
        *,
        only_copy: bool = False,
        mirror: Mirror | None = None,
    ) -> None:
        """Open an epoch.

        With more than ``coarse_above`` vectors a coarse pass chooses which to score; 0 turns it
        off. An epoch that is the ``only_copy`` of its documents is checked before it answers, and
        keeps a journal of them.
        """
        self.folder = folder
        self.mirror = mirror
        self.catalogue = folder / CATALOGUE
        self._readers = Readers(self.catalogue)
        self._paths = [os.fspath(folder / name) for name in (CATALOGUE, KEYWORDS, VECTORS)]
        # Before they are opened, so that a replacement in between is noticed later.
        self._opened = self._file_ids()
        try:
            self.fingerprint, dimensions, version = self._read_identity()
            if version < FORMAT and not (folder / KEYWORDS).exists():
                with self._readers.borrow() as connection:
                    make_keywords(connection, folder / KEYWORDS)
            self.keywords = KeywordIndex(folder / KEYWORDS)
        except BaseException:
            self._readers.close()
            raise
        self.vectors = VectorFile(folder / VECTORS, dimensions, coarse_above)
        self.signatures = SignatureFile(folder / SIGNATURES)
        self._quality: dict[str, QualityVectors] = {}
        self.remembered = Remembered()
        self.owners = Owners()
        self._live: dict[int, tuple[tuple[object, ...], LiveKeywords]] = {}
        self.journal = folder / journal.JOURNAL if only_copy else None
        self._watch = Watch(self.catalogue, self.vectors) if only_copy else None

    @contextmanager
    def _borrow(self) -> Iterator[sqlite3.Connection]:
        """Borrow a connection for reading; raises if the only copy is damaged."""
        with self._readers.borrow() as connection:
            if self._watch is not None:
                self._watch.check(connection)
            yield connection

    def check_before_writing(self, connection: sqlite3.Connection) -> None:
        """Raise if the only copy of the documents is damaged."""
        if self._watch is not None:
            self._watch.check(connection)
            self._watch.check_texts(connection)

    def check_version(self, connection: Connection, document: int) -> None:
        if self._watch is not None:
            self._watch.check_version(connection, document)

    def open_quality(self, model: str, dimensions: int) -> QualityVectors:
        """Return the vectors of a second model, which may have none yet."""
        if model not in self._quality:
            self._quality[model] = QualityVectors(self.folder, model, dimensions)
        return self._quality[model]

    def _file_ids(self) -> list[tuple[int, int]] | None:
        """Return device and inode of each file; ``None`` if one is missing."""
        try:
            stats = [os.stat(path) for path in self._paths]
        except OSError:
            return None
        return [(stat.st_dev, stat.st_ino) for stat in stats]

    @property
    def replaced(self) -> bool:
        """Whether its files were replaced: repaired by another process, or deleted and rebuilt."""
        now = self._file_ids()
        return now is not None and now != self._opened

    def _read_identity(self) -> tuple[str, int, int]:
        with self._readers.borrow() as connection:
            version = check(connection)
            meta = dict(connection.execute("SELECT key, value FROM meta"))
        if meta.get(FORMAT_RECORD, str(version)) != str(version):
            recorded = meta[FORMAT_RECORD]
            raise corrupt_error(
                self.catalogue, f"its header says format {version}, and meta {recorded}"
            )
        try:
            return meta["fingerprint"], int(meta["dimensions"]), version
        except (KeyError, ValueError) as error:
            raise corrupt_error(self.catalogue, f"meta: {type(error).__name__}: {error}") from error

    @classmethod
    def create(
        cls, folder: Path, fingerprint: str, dimensions: int, *, model: str = "", after: int = 0,
        coarse_above: int = COARSE_ABOVE, only_copy: bool = False, mirror: Mirror | None = None,
    ) -> Epoch:  # fmt: skip
        """Create an empty epoch, which readers do not see before the collection points at it.

        ``after`` is the generation that the first one here follows: numbers only grow.
        """
        files.make_folder(folder, sync=False)  # Activation and publication sync all of it.
        path = folder / CATALOGUE
        with typed_errors(path), closing(connect(path, write=True)) as connection:
            files.fault_point("commit", path.name)
            migrate(connection)
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO meta VALUES (?, ?)",
                [
                    ("fingerprint", fingerprint),
                    ("dimensions", str(dimensions)),
                    (catalog.MODEL, model),
                    (generations.ACTIVE, str(after)),
                    (FORMAT_RECORD, str(FORMAT)),
                ],
            )
            seal(connection, *TABLES)
            commit(connection)
        KeywordIndex(folder / KEYWORDS, create=True)
        VectorFile(folder / VECTORS, dimensions).create()
        if only_copy:
            journal.create(folder / journal.JOURNAL)
        return cls(folder, coarse_above, only_copy=only_copy, mirror=mirror)

    @contextmanager
    def snapshot(self, generation: int | None = None) -> Iterator[EpochSnapshot]:
        """Pin one generation of catalogue, keywords and vectors: whatever is activated, purged or
        removed meanwhile does not change it."""
        with self._borrow() as connection:
            view = self._pin_keywords(connection)
            if self._watch is not None:
                self._watch.check_keywords(connection, view)
            wanted = generations.resolve(connection, generation)
            rows = self.vectors.rows(catalog.vector_rows(connection))
            keywords = self._read_live(connection, view, wanted)
            yield EpochSnapshot(self, connection, keywords, rows, wanted)

    def _pin_keywords(self, connection: sqlite3.Connection) -> KeywordView:
        """Return the keywords of the state that ``connection`` reads, or of one commit later.

        One commit later is harmless: readers skip what it adds, and what it drops was purged from
        this catalogue. Two commits later could lack what the snapshot still shows, so the view is
        taken before the catalogue's state, and both again if the view was too old.
        """
        while True:
            view, recorded = self.keywords.view, catalog.keywords_stamp(connection)
            if view.stamp >= recorded:
                return view
            connection.execute("COMMIT")
            self.keywords.reload()
            if self.keywords.view.stamp < recorded:  # It was durable before that was recorded.
                raise corrupt_error(self.folder / KEYWORDS, "the keywords are behind the catalogue")
            connection.execute("BEGIN")

    def _read_live(
        self, connection: sqlite3.Connection, view: KeywordView, generation: int
    ) -> LiveKeywords:
        """Return the keywords of a generation; the same as before until something is committed."""
        last = catalog.last_document(connection)
        state = view.stamp, view.segments, last, generation
        known = self._live.get(generation)
        if known is None or known[0] != state:
            dead = catalog.dead_documents(connection, generation)
            live = view.live([*dead, *generations.graves(connection)], last)
            # Only the last two: an earlier generation is seldom asked about for long.
            self._live = dict([*self._live.items()][-1:]) | {generation: (state, live)}
            return live
        return known[1]

    def read(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        with self._borrow() as connection:
            return ask(connection)

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction on the list of generations, for the holder of the writer lock."""
        with (
            typed_errors(self.catalogue),
            closing(connect(self.catalogue, write=True)) as connection,
        ):
            connection.execute("BEGIN IMMEDIATE")
            if self.mirror is not None:
                self.mirror.begin(connection, fresh=False)
            yield connection
            if self.mirror is not None:
                self.mirror.push(connection, self, fresh=False)
            seal(connection)
            commit(connection)

    def verify(self, on_step: OnStep | None = None) -> list[Damage]:
        with self._readers.borrow() as connection:
            view = self._pin_keywords(connection)
            keywords = self.folder / KEYWORDS
            return verify(connection, self.vectors, keywords, view, on_step, self.journal)

    def tend_signatures(self, connection: Connection) -> None:
        """Sign some documents that lack a signature, and rewrite the file if most of it belongs to
        documents that are gone; for the holder of the writer lock."""
        known = catalog.count_all_documents(connection)
        rows, segments = self.signatures.size()
        if known <= rows <= 2 * known + _SPARE_ROWS and segments <= _MOST_SEGMENTS:
            return
        signed, lacking = self._read_signatures(connection)
        signed += signed_texts(connection, lacking[:_MOST_SIGNED])
        self.signatures.rewrite(signed)

    def _read_signatures(self, connection: Connection) -> tuple[list[Signed], list[int]]:
        """Return all sound signatures of stored documents, and the documents that lack one."""
        hashes = catalog.text_hashes(connection)
        documents = self.signatures.documents(list(hashes), hashes.values())
        signed = self.signatures.signatures(documents, list(hashes.values()))
        present = {signature.document for signature in signed}
        return signed, [number for number in hashes if number not in present]

    def renew_signatures(self, connection: Connection) -> None:
        """Rewrite the file with the signatures of stored documents only; the caller syncs the
        folder."""
        signed, lacking = self._read_signatures(connection)
        self.signatures.rewrite([*signed, *signed_texts(connection, lacking)])

    def checkpointed(self) -> bool:
        """Return whether an unfinished build left a checkpoint."""
        with self._readers.borrow() as connection:
            return catalog.highest_numbers(connection).document > 0

    def continues(self, fingerprint: str, dimensions: int, model: str, after: int) -> bool:
        """Return whether a build with this recipe can continue the checkpoint that is here: it has
        the same recipe, follows the same generation, and is sound."""
        if (self.fingerprint, self.vectors.dimensions) != (fingerprint, dimensions):
            return False
        with self._readers.borrow() as connection:
            if (
                catalog.read_model(connection) != model
                or not catalog.highest_numbers(connection).document
            ):
                return False
            view = self.keywords.view
            behind = view.stamp < catalog.keywords_stamp(connection)
            if behind or not generations.never_served(connection, after):
                return False
            return not verify_unfinished(connection, self.vectors, self.folder / KEYWORDS, view)

    def close(self) -> None:
        self._readers.close()
