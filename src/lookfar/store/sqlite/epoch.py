"""One epoch: catalogue, keywords and vectors that share a model, a chunking and a format.

Takes: a folder. Gives: snapshots to read from; writing is
:mod:`lookfar.store.sqlite.write_session`'s business. Refuses: to mix; an epoch's fingerprint never
changes, another model or chunking is another epoch.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lookfar.model import (
    Damage,
    GenerationDiff,
)
from lookfar.store.catalogue import generations, journal
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.diff import diff
from lookfar.store.catalogue.erasing import has_traces
from lookfar.store.catalogue.generations import Generation
from lookfar.store.catalogue.migrations import (
    FORMAT,
    FORMAT_RECORD,
    check,
    migrate,
)
from lookfar.store.catalogue.owners import Owners
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
from lookfar.store.ground.sql import Connection
from lookfar.store.health.check import Watch
from lookfar.store.health.verify import OnStep, unfinished, verify
from lookfar.store.keywords.keyword_view import KeywordView
from lookfar.store.keywords.signatures import (
    SIGNATURES,
    SignatureFile,
    Signed,
    signed_texts,
)
from lookfar.store.keywords.tantivy_index import KEYWORDS, KeywordIndex
from lookfar.store.sqlite.snapshot import EpochSnapshot
from lookfar.store.vectors.vector_file import COARSE_ABOVE, VECTORS, VectorFile

if TYPE_CHECKING:
    pass

T = TypeVar("T")

_MOST_SIGNED = 2_000
"""Documents without a signature that a write session gives one, so that an edit stays quick."""
_MOST_SEGMENTS = 1_000
_SPARE_ROWS = 1_000


class Epoch:
    """The artefacts of one epoch, opened."""

    def __init__(
        self, folder: Path, coarse_above: int = COARSE_ABOVE, *, only_copy: bool = False
    ) -> None:
        """Of more than ``coarse_above`` vectors a coarse pass chooses what to score; 0: never.
        An epoch that is the ``only_copy`` of its documents is checked before it answers, and
        keeps a journal of them."""
        self.folder = folder
        self.catalogue = folder / CATALOGUE
        self._readers = Readers(self.catalogue)
        # Before they are opened: what is replaced in between shows later.
        self._opened = self._files()
        try:
            self.fingerprint, dimensions, version = self._identity()
            self.keywords = KeywordIndex(folder / KEYWORDS, older=version < FORMAT)
        except BaseException:
            self._readers.close()
            raise
        self.vectors = VectorFile(folder / VECTORS, dimensions, coarse_above)
        self.signatures = SignatureFile(folder / SIGNATURES)
        self.remembered = Remembered()
        self.owners = Owners()
        self.journal = folder / journal.JOURNAL if only_copy else None
        self._watch = Watch(self.catalogue, self.vectors) if only_copy else None

    @contextmanager
    def _borrow(self) -> Iterator[sqlite3.Connection]:
        """A connection for reading; refused where the only copy is not as it was written."""
        with self._readers.borrow() as connection:
            if self._watch is not None:
                self._watch.check(connection)
            yield connection

    def check_before_writing(self, connection: sqlite3.Connection) -> None:
        """Refuse to write beside damage, where there is no other copy of what is there."""
        if self._watch is not None:
            self._watch.check(connection)
            self._watch.check_texts(connection)

    def check_version(self, connection: Connection, document: int) -> None:
        """Refuse a version that is shown from the only copy and is not as it was written."""
        if self._watch is not None:
            self._watch.check_version(connection, document)

    def _files(self) -> list[tuple[int, int]] | None:
        """What the disk calls its files; ``None`` where one is not there."""
        try:
            found = [os.stat(self.folder / name) for name in (CATALOGUE, KEYWORDS, VECTORS)]
        except OSError:
            return None
        return [(each.st_dev, each.st_ino) for each in found]

    @property
    def replaced(self) -> bool:
        """Whether others have taken the places of its files: a repair in another process, or an
        index that was deleted and made again."""
        now = self._files()
        return now is not None and now != self._opened

    def _identity(self) -> tuple[str, int, int]:
        with self._readers.borrow() as connection:
            version = check(connection)
            meta = dict(connection.execute("SELECT key, value FROM meta"))
        if meta.get(FORMAT_RECORD, str(version)) != str(version):
            said = meta[FORMAT_RECORD]
            raise corrupt_error(
                self.catalogue, f"its header says format {version}, and meta {said}"
            )
        try:
            return meta["fingerprint"], int(meta["dimensions"]), version
        except (KeyError, ValueError) as error:
            raise corrupt_error(self.catalogue, f"meta: {type(error).__name__}: {error}") from error

    @classmethod
    def create(
        cls, folder: Path, fingerprint: str, dimensions: int, *, model: str = "", after: int = 0,
        coarse_above: int = COARSE_ABOVE, only_copy: bool = False,
    ) -> Epoch:  # fmt: skip
        """An empty epoch, which nobody sees before the collection points at it.

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
        return cls(folder, coarse_above, only_copy=only_copy)

    @contextmanager
    def snapshot(self, generation: int | None = None) -> Iterator[EpochSnapshot]:
        """One generation with all three artefacts pinned: whatever is activated, purged or
        even removed meanwhile does not show in it."""
        with self._borrow() as connection:
            view = self._pinned_keywords(connection)
            wanted = generations.resolve(connection, generation)
            rows = self.vectors.rows(catalog.vector_rows(connection))
            yield EpochSnapshot(self, connection, view, rows, wanted)

    def _pinned_keywords(self, connection: sqlite3.Connection) -> KeywordView:
        """The keywords of the state that ``connection`` has begun to read, or one commit ahead.

        What one commit adds, this catalogue does not know and skips; what it drops, this
        catalogue has purged. Two commits ahead could lack what the snapshot still shows, so
        the view is taken before the catalogue's state, and both again when it was too old.
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

    def generations(self) -> list[Generation]:
        with self._borrow() as connection:
            return generations.list_generations(connection)

    def highest(self) -> int:
        with self._borrow() as connection:
            return generations.highest(connection)

    def held(self) -> int | None:
        with self._borrow() as connection:
            return generations.held_generation(connection)

    def refuse_held(self) -> None:
        with self._borrow() as connection:
            generations.require_not_held(connection)

    def history(self) -> tuple[int, list[Generation]]:
        """The active number and all that are kept, of one moment."""
        with self._borrow() as connection:
            return generations.active(connection), generations.list_generations(connection)

    def diff(self, older: int, newer: int) -> GenerationDiff:
        with self._borrow() as connection:
            return diff(connection, *(generations.resolve(connection, n) for n in (older, newer)))

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction on the list of generations, for the holder of the writer lock."""
        with (
            typed_errors(self.catalogue),
            closing(connect(self.catalogue, write=True)) as connection,
        ):
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            seal(connection)
            commit(connection)

    def verify(self, on_step: OnStep | None = None) -> list[Damage]:
        with self._readers.borrow() as connection:
            view = self._pinned_keywords(connection)
            keywords = self.folder / KEYWORDS
            return verify(connection, self.vectors, keywords, view, on_step, self.journal)

    def tend_signatures(self, connection: Connection) -> None:
        """Give some documents that lack a signature one, and write the file anew where most of
        it is of documents that are gone; for the holder of the writer lock."""
        known = catalog.count_all_documents(connection)
        rows, segments = self.signatures.size()
        if known <= rows <= 2 * known + _SPARE_ROWS and segments <= _MOST_SEGMENTS:
            return
        signed, lacking = self._signed(connection)
        signed += signed_texts(connection, lacking[:_MOST_SIGNED])
        self.signatures.rewrite(signed)

    def _signed(self, connection: Connection) -> tuple[list[Signed], list[int]]:
        """All sound signatures of documents that are kept, and the documents that lack one."""
        kept = catalog.text_hashes(connection)
        documents = self.signatures.documents(list(kept), kept.values())
        signed = self.signatures.signatures(documents, list(kept.values()))
        have = {each.document for each in signed}
        return signed, [number for number in kept if number not in have]

    def renew_signatures(self, connection: Connection) -> None:
        """Write the file anew, of the documents that are kept and of nothing else; the caller
        syncs the folder."""
        signed, lacking = self._signed(connection)
        self.signatures.rewrite([*signed, *signed_texts(connection, lacking)])

    def has_traces(self) -> bool:
        """Whether something was erased whose bytes may still lie in the files."""
        with self._borrow() as connection:
            return has_traces(connection)

    def checkpointed(self) -> bool:
        """Whether an unfinished build left something to go on from."""
        with self._readers.borrow() as connection:
            return catalog.highest_numbers(connection).document > 0

    def continues(self, fingerprint: str, dimensions: int, model: str, after: int) -> bool:
        """Whether a build of this recipe may go on from the checkpoint found here: it is

        of the same recipe, follows the same generation, and all that it names is sound.
        """
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
            return not unfinished(connection, self.vectors, self.folder / KEYWORDS, view)

    def close(self) -> None:
        self._readers.close()
