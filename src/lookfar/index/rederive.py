"""What is derived from files, made again from the texts that are stored of them.

Takes: the settings and the model that an epoch was made with. Gives: a maker for
:mod:`lookfar.store.health.repair`. Refuses: nothing; what a text is made into now is compared
there with what is stored of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from lookfar.index.prepare import Prepared, embed, prepare
from lookfar.index.recipe import epoch_fingerprint, sizes_from
from lookfar.index.worker import counter_of
from lookfar.model import Fingerprint
from lookfar.store.health.repair import Made, Maker

if TYPE_CHECKING:
    from lookfar.config import Settings
    from lookfar.model import Lane
    from lookfar.ports import Embedder
    from lookfar.store.catalogue.erasing import StoredDocument

_NOWHERE = Fingerprint(0, 0, 0, 0)
"""What the disk says of a file is no part of what is derived from it."""


def maker_of_files(settings: Settings, embedder: Embedder | None, lane: Lane | None) -> Maker:
    """How texts of files become entries and vectors under these settings."""
    sizes, count = sizes_from(settings), counter_of(embedder)

    def prepared(stored: StoredDocument) -> Prepared | None:
        made = prepare(
            stored.uri, stored.text.encode("utf-8"), _NOWHERE, settled=True, sizes=sizes,
            count_tokens=count, lane=lane,
        )  # fmt: skip
        return made if isinstance(made, Prepared) else None

    return maker_of(epoch_fingerprint(settings, embedder), prepared, embedder, sources=True)


def maker_of(
    fingerprint: str,
    prepared: Callable[[StoredDocument], Prepared | None],
    embedder: Embedder | None,
    *,
    sources: bool,
) -> Maker:
    """The same for documents of any kind, from how one is prepared."""

    def made(stored: StoredDocument) -> Made | None:
        found = prepared(stored)
        if found is None:
            return None
        version = found.version
        return Made([row[0] for row in version.chunks], (version.name_terms, version.entries))

    def vectors(
        documents: Sequence[StoredDocument], wanted: Collection[bytes]
    ) -> dict[bytes, bytes]:
        found = [each for stored in documents if (each := prepared(stored)) is not None]
        embed(found, embedder, lambda contents: set(contents).intersection(wanted))
        return {name: row for each in found for name, row in each.version.embedded.items()}

    return Maker(fingerprint, sources, made, vectors)
