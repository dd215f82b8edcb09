"""Build a new epoch beside the serving one, or continue a build that was interrupted.

All of it is for the holder of the writer lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from lookfar.errors import DiskFull, IndexCorrupt, LookfarError
from lookfar.store.ground import files
from lookfar.store.sqlite.epoch import Epoch, Mirror
from lookfar.store.sqlite.folder import CollectionFolder
from lookfar.store.sqlite.write_session import EpochWriter
from lookfar.store.vectors.reuse import Siblings


class Recipe(NamedTuple):
    """What an epoch is built with, and the generation that its first one follows."""

    fingerprint: str
    dimensions: int
    model: str
    after: int


class Builds:
    """Opens and creates the epochs of one collection, and sessions on them."""

    def __init__(
        self, folder: CollectionFolder, coarse_above: int, mirror: Mirror | None = None
    ) -> None:
        self._folder = folder
        self._coarse_above = coarse_above
        self._mirror = mirror

    def open(self, folder: Path) -> Epoch:
        return Epoch(
            folder, self._coarse_above, only_copy=self._folder.only_copy, mirror=self._mirror
        )

    def create(self, folder: Path, recipe: Recipe) -> Epoch:
        return Epoch.create(
            folder,
            recipe.fingerprint,
            recipe.dimensions,
            model=recipe.model,
            after=recipe.after,
            coarse_above=self._coarse_above,
            only_copy=self._folder.only_copy,
            mirror=self._mirror,
        )

    def begin(self, recipe: Recipe, serving: str) -> Epoch:
        """Create an epoch beside the serving one, and remove all others."""
        folder = self._folder.next_epoch(serving)
        self._folder.clear({serving})
        return self.create(folder, recipe)

    def find_unfinished(self, recipe: Recipe) -> Epoch | None:
        """Return the epoch of an interrupted build with the same recipe, if it is sound."""
        serving = self._folder.serving_name_or_damage()
        for folder in reversed(self._folder.epochs()):
            if folder.name == serving:
                continue
            with suppress(LookfarError), ExitStack() as stack:
                epoch = stack.enter_context(closing(self.open(folder)))
                if epoch.continues(*recipe):
                    stack.pop_all()
                    self._folder.clear({serving, folder.name})
                    return epoch
        return None

    def open_session(
        self, epoch: Epoch, retain: int, model: str, *, fresh: bool = False, resumed: bool = False
    ) -> EpochWriter:
        """Open a write session; with a ``model``, it may copy vectors of other collections."""
        siblings = None
        if model:
            collections = self._folder.path.parent
            siblings = Siblings(collections, epoch.folder, model, epoch.vectors.dimensions)
        return EpochWriter(epoch, retain, fresh=fresh, resumed=resumed, siblings=siblings)

    @contextmanager
    def discard_unfinished(self, epoch: Epoch) -> Iterator[None]:
        """Remove an epoch that was not published when the block ends.

        It stays if its build made a checkpoint before it was interrupted: the next one continues
        it.
        """
        resumable = False
        try:
            with closing(epoch):
                try:
                    yield
                except (DiskFull, IndexCorrupt):
                    raise
                except BaseException:
                    with suppress(LookfarError):
                        resumable = epoch.checkpointed()
                    raise
        finally:
            with suppress(LookfarError):
                if not resumable and self._folder.serving_name_or_damage() != epoch.folder.name:
                    files.remove(epoch.folder)
