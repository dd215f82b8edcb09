"""Derive keyword entries and vectors again from the stored texts, for a repair.

:mod:`lookfar.store.health.repair` compares the result with what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from lookfar.config import Settings
from lookfar.index.content import restore_content
from lookfar.index.prepare import Prepared, Stages, embed, prepare
from lookfar.index.recipe import epoch_fingerprint, sizes_from
from lookfar.index.reconcile import NO_FINGERPRINT
from lookfar.index.words import Words
from lookfar.model import Lane
from lookfar.ports import Embedder, Made, Maker, StoredDocument


def file_maker(settings: Settings, embedder: Embedder | None, lane: Lane | None) -> Maker:
    """Return a maker that derives entries and vectors from the texts of files."""
    sizes = sizes_from(settings)
    stages = Stages(sizes, Words(embedder, by_length=sizes.by_length), lane=lane)

    def prepare_stored(stored: StoredDocument) -> Prepared | None:
        content = restore_content(stored.text, stored.metadata)
        prepared = prepare(stored.uri, content, NO_FINGERPRINT, settled=True, stages=stages)
        return prepared if isinstance(prepared, Prepared) else None

    return make_maker(epoch_fingerprint(settings, embedder), prepare_stored, embedder, sources=True)


def make_maker(
    fingerprint: str,
    prepare_stored: Callable[[StoredDocument], Prepared | None],
    embedder: Embedder | None,
    *,
    sources: bool,
) -> Maker:
    """Return a maker for documents that ``prepare_stored`` prepares from their stored text."""

    def make(stored: StoredDocument) -> Made | None:
        prepared = prepare_stored(stored)
        if prepared is None:
            return None
        version = prepared.version
        return Made([row[0] for row in version.chunks], (version.name_terms, version.entries))

    def make_vectors(
        documents: Sequence[StoredDocument], wanted: Collection[bytes]
    ) -> dict[bytes, bytes]:
        batch = [
            prepared for stored in documents if (prepared := prepare_stored(stored)) is not None
        ]
        embed(batch, embedder, lambda contents: set(contents).intersection(wanted))
        return {name: vector for item in batch for name, vector in item.version.embedded.items()}

    return Maker(fingerprint, sources, make, make_vectors)
