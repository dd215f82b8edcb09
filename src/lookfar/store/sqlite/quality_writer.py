"""Fill in the vectors of a second model, a few documents at a time.

One process at a time does this for a collection, under a lock of its own: indexing and searching go
on meanwhile. Vectors are durable when ``put`` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import TYPE_CHECKING

from lookfar.errors import IndexBusy
from lookfar.ports import ComposePassage, LackingDocument, QualityPassage
from lookfar.store.catalogue import rows as catalog
from lookfar.store.vectors.quality_vectors import QualityRow, QualityVectors, remove_others

if TYPE_CHECKING:
    from lookfar.store.sqlite.epoch import Epoch

Lock = Callable[[], AbstractContextManager[None]]


class EpochQualityWriter:
    """Writes the vectors of one model for one epoch, for the holder of the lock on them."""

    def __init__(self, epoch: Epoch, vectors: QualityVectors, lock: Lock) -> None:
        """``lock`` is held while files change, so that an erasure can come between two batches."""
        self._epoch = epoch
        self.vectors = vectors
        self._lock = lock
        with lock():
            vectors.create()
            remove_others(epoch.folder, vectors)

    def list_documents(self) -> list[LackingDocument]:
        """Return the documents with chunks that were not dealt with, the newest first."""
        with self._epoch.snapshot() as snapshot:
            rows = snapshot.list_vector_rows()
        lacking = self._find_lacking({row.vector: row.content for row in rows})
        return list(
            dict.fromkeys(
                LackingDocument(row.document, row.uri) for row in rows if row.vector in lacking
            )
        )

    def read(self, documents: Sequence[int], compose: ComposePassage) -> list[QualityPassage]:
        """Return the passages of these documents that have no vector yet, each text once."""
        passages: dict[int, QualityPassage] = {}
        with self._epoch.snapshot() as snapshot:
            texts = {number: text.decode("utf-8") for number, text in snapshot.texts(documents)}
            places = list(
                chain.from_iterable(
                    snapshot.neighbours(number, 0, catalog.END) for number in documents
                )
            )
            rows = sorted({place.vector for place in places if place.vector is not None})
            contents = snapshot.read_contents(rows)
        lacking = self._find_lacking(contents)
        for place in places:
            row = place.vector
            if row is not None and row in lacking and row not in passages:
                text = texts.get(place.document, "")
                passages[row] = QualityPassage(row, contents[row], compose(place, text))
        return list(passages.values())

    def _find_lacking(self, contents: Mapping[int, bytes]) -> set[int]:
        """Return which of these rows were not dealt with."""
        embedded, unreadable = self.vectors.mark_done(contents)
        return contents.keys() - embedded - unreadable

    def put(self, rows: Sequence[tuple[QualityPassage, bytes | None]]) -> None:
        """Store vectors durably; those of chunks that were erased meanwhile are dropped.

        ``IndexBusy`` if another epoch has replaced this one.
        """
        with self._lock():
            if not self._epoch.catalogue.is_file():
                raise IndexBusy(
                    "The index was rebuilt while its passages were being embedded.",
                    hint="Try again: what was embedded before is kept.",
                )
            with self._epoch.snapshot() as snapshot:
                contents = snapshot.read_contents([passage.row for passage, _ in rows])
            kept = [
                QualityRow(passage.row, passage.content, vector)
                for passage, vector in rows
                if contents.get(passage.row) == passage.content
            ]
            if kept:
                self.vectors.create()  # Where they were deleted meanwhile.
                self.vectors.put(kept)
