"""The embedded store of one collection: snapshots of the serving epoch, and its one writer.

A change of model or chunking builds a new epoch beside the serving one, which takes over when it
is complete. See :mod:`lookfar.store.sqlite.folder` for the files.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path
from sqlite3 import Connection
from threading import Lock
from typing import Any, TypeVar

from lookfar.common.folders import folder_bytes
from lookfar.errors import (
    IndexCorrupt,
    IndexHeld,
    InvalidArgument,
    LookfarError,
    NotIndexed,
    being_rebuilt,
)
from lookfar.model import Damage, GenerationDiff
from lookfar.ports import Digest, Generation, Maker, OnStep, StoredDocument
from lookfar.store.catalogue import generations
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.diff import diff
from lookfar.store.catalogue.erasing import has_traces, stored_documents
from lookfar.store.ground import files
from lookfar.store.ground.database import (
    CATALOGUE,
    connect,
    corrupt_error,
    read_beginning,
    typed_errors,
)
from lookfar.store.health.check import refuse_damage
from lookfar.store.health.repair import repair, repair_quality
from lookfar.store.health.salvage import Rescue
from lookfar.store.health.verify import FROM_DAMAGE
from lookfar.store.sqlite.builds import Builds, Recipe
from lookfar.store.sqlite.epoch import Epoch, Mirror
from lookfar.store.sqlite.erase import remove_traces
from lookfar.store.sqlite.folder import CURRENT, CollectionFolder, has_documents
from lookfar.store.sqlite.quality_writer import EpochQualityWriter
from lookfar.store.sqlite.snapshot import EpochSnapshot
from lookfar.store.sqlite.write_session import EpochWriter
from lookfar.store.vectors.quality_vectors import carry_over, open_all
from lookfar.store.vectors.vector_file import COARSE_ABOVE

T = TypeVar("T")

_WITHOUT_LOG = b"\1\1"
"""Bytes 18 and 19 of a SQLite file that does not use a write-ahead log."""


class CollectionStore:
    outdated = ""
    """Empty: all writers are on this machine."""

    def __init__(
        self,
        folder: Path,
        coarse_above: int = COARSE_ABOVE,
        *,
        only_copy: bool = False,
        mirror: Mirror | None = None,
    ) -> None:
        """Open the store lazily.

        With more than ``coarse_above`` vectors a coarse pass chooses which to score; 0 turns it
        off. A store that is the ``only_copy`` of its documents is checked before it answers, and
        only :meth:`erase` and :meth:`delete` remove any of them.
        """
        self.folder = folder
        self._files = CollectionFolder(folder, only_copy=only_copy)
        self._builds = Builds(self._files, coarse_above, mirror)
        self._only_copy = only_copy
        self._epoch: Epoch | None = None
        self._opening = Lock()

    # -- reading -------------------------------------------------------------------

    @property
    def place(self) -> str:
        return str(self.folder)

    @property
    def file(self) -> Path | None:
        """The SQLite file of the serving index, if there is one."""
        serving = self._files.serving_name()
        return self.folder / serving / CATALOGUE if serving else None

    @property
    def present(self) -> bool:
        return self.folder.is_dir()

    @property
    def exists(self) -> bool:
        """Whether there is a finished index to read, or was one that has no other copy."""
        return self._files.has_index

    def fingerprint(self) -> str:
        return self._ask(lambda epoch: epoch.fingerprint)

    @contextmanager
    def snapshot(self, generation: int | None = None) -> Iterator[EpochSnapshot]:
        with ExitStack() as stack:
            yield self._ask(lambda epoch: stack.enter_context(epoch.snapshot(generation)))

    def written(self) -> Iterator[StoredDocument]:
        """Yield every live document straight from the catalogue, whatever state its vectors and
        keywords are in.

        Raises ``IndexCorrupt`` where a document cannot be read or differs from its hash: there may
        be no other copy to compare it with.
        """
        path = self.folder / self._files.serving_name() / CATALOGUE
        with typed_errors(path), closing(connect(path, write=False)) as connection:
            connection.execute("BEGIN")
            refuse_damage(connection, path)
            yield from stored_documents(connection)

    def about(self) -> dict[str, Any]:
        return self._files.about()

    def disk_bytes(self) -> int:
        return folder_bytes(self.folder)

    def close(self) -> None:
        with self._opening:
            epoch, self._epoch = self._epoch, None
        if epoch is not None:
            epoch.close()

    def _read(self, ask: Callable[[Connection], T]) -> T:
        return self._ask(lambda epoch: epoch.read(ask))

    def _ask(self, ask: Callable[[Epoch], T]) -> T:
        """Ask the serving epoch; again if another took over while it was being opened."""
        while True:
            name = self._files.serving_name()
            try:
                return ask(self._serving(name))
            except LookfarError:
                if name == self._files.serving_name():
                    raise

    def _serving(self, name: str | None = None) -> Epoch:
        """Return the epoch that ``CURRENT`` names, reopened if another process changed it.

        ``name`` is what ``CURRENT`` contains, if the caller has just read it.
        """
        if name is None:
            name = self._files.serving_name()
        if not name and self.damage() and not self._only_copy:
            raise being_rebuilt()
        if not name:
            raise NotIndexed(
                "This folder has not been indexed yet.",
                hint="Run: lookfar index PATH",
                developer=f"no {CURRENT} in {self.folder}",
            )
        with self._opening:
            epoch = self._epoch
            if epoch is None or epoch.folder.name != name or epoch.replaced:
                opened = self._builds.open(self.folder / name)
                if epoch is not None:
                    epoch.close()
                self._epoch = epoch = opened
            return epoch

    # -- generations ---------------------------------------------------------------

    def generations(self) -> list[Generation]:
        return self._read(generations.list_generations)

    def history(self) -> tuple[int, list[Generation]]:
        """Return the active number and every kept generation, read at one moment."""
        return self._read(lambda c: (generations.active(c), generations.list_generations(c)))

    def held(self) -> int | None:
        """Return the generation that a rollback holds the collection at, if any."""
        return self._read(generations.read_held_generation)

    def diff(self, older: int, newer: int) -> GenerationDiff:
        return self._read(lambda c: diff(c, *(generations.resolve(c, n) for n in (older, newer))))

    def roll_back(self, number: int, *, wait_seconds: float = 0.0) -> None:
        """Serve a kept generation to all readers until the next write session."""
        with self._changing(wait_seconds) as connection:
            generations.roll_back(connection, number)

    def pin(self, number: int, *, pinned: bool = True, wait_seconds: float = 0.0) -> None:
        """Exempt a generation from retention, or no longer."""
        with self._changing(wait_seconds) as connection:
            generations.pin(connection, number, pinned)

    def prune(self, keep: int, *, wait_seconds: float = 0.0) -> tuple[int, int]:
        """Apply retention now; return how many generations and document versions were removed."""
        if keep < 1:
            raise InvalidArgument(
                f"Cannot keep {keep} generations.", hint="Keep 1 or more; 1 is the serving one."
            )
        with self._changing(wait_seconds) as connection:
            return generations.prune(connection, keep)

    # -- writing -------------------------------------------------------------------

    @contextmanager
    def _changing(self, wait_seconds: float) -> Iterator[sqlite3.Connection]:
        self._serving()  # Creates nothing: what was never indexed has no lock file either.
        with self._files.lock(wait_seconds), self._serving().changing() as connection:
            yield connection

    def refuse_busy(self) -> None:
        if self.folder.is_dir():
            with self._files.lock():
                pass

    @contextmanager
    def writer(
        self,
        fingerprint: str,
        dimensions: int,
        *,
        model: str = "",
        about: Mapping[str, Any],
        retain: int,
        rebuild: bool = False,
        wait_seconds: float = 0.0,
        let_go: bool = True,
    ) -> Iterator[EpochWriter]:
        files.make_folder(self.folder)
        with self._files.lock(wait_seconds):
            if not let_go and self.exists:
                self._serving().read(generations.require_not_held)
            if not rebuild and self.exists and self._serving().fingerprint == fingerprint:
                epoch = self._serving()
                self._files.clear({epoch.folder.name})
                with closing(self._builds.open_session(epoch, retain, model)) as session:
                    yield session
                return
            serving, after = self._find_replaced()
            recipe = Recipe(fingerprint, dimensions, model, after)
            unfinished = None if rebuild else self._builds.find_unfinished(recipe)
            epoch = unfinished or self._builds.begin(recipe, serving)
            with self._builds.discard_unfinished(epoch):
                session = self._builds.open_session(
                    epoch, retain, model, fresh=True, resumed=unfinished is not None
                )
                with closing(session):
                    yield session
                if session.activated:
                    self._carry_quality(serving, epoch)
                    self._files.publish(epoch.folder, about)
                    session.mark_served()

    def _carry_quality(self, serving: str, epoch: Epoch) -> None:
        """Copy the vectors of second models from the epoch that is being replaced."""
        source = self.folder / serving
        # They can be made again: whatever is wrong with them must not stop the new epoch.
        with suppress(LookfarError):
            if serving and open_all(source):
                carry_over(source, epoch.folder, epoch.read(catalog.list_contents))

    def _find_replaced(self) -> tuple[str, int]:
        """Return the name and the highest generation of the epoch that a new one will replace."""
        try:
            serving = self._files.serving_name()
        except IndexCorrupt:
            if self._only_copy:
                raise  # Every epoch would look unfinished, and be removed.
            return "", 0
        if self._only_copy and serving and not (self.folder / serving / CATALOGUE).is_file():
            raise corrupt_error(
                self.folder / serving, f"{CURRENT} names {serving}, which is not there"
            )
        try:
            return serving, self._serving().read(generations.require_replaceable) if serving else 0
        except IndexHeld:
            raise
        except LookfarError:
            return serving, 0

    # -- the second model ----------------------------------------------------------

    def has_quality(self, model: str, dimensions: int) -> bool:
        return self._ask(lambda epoch: not epoch.open_quality(model, dimensions).is_empty)

    @contextmanager
    def quality_writer(self, model: str, dimensions: int) -> Iterator[EpochQualityWriter]:
        self._serving()  # Creates nothing: what was never indexed has no lock file either.
        with self._files.lock_embedding():
            epoch = self._serving()
            vectors = epoch.open_quality(model, dimensions)
            yield EpochQualityWriter(epoch, vectors, self._files.lock_quality)

    # -- removing ------------------------------------------------------------------

    def erase(
        self, uris: Sequence[str], manifest: Mapping[str, Any], *,
        retain: int, wait_seconds: float = 0.0,
    ) -> int:  # fmt: skip
        """Remove documents and every trace of them from all files; return how many chunks went."""
        self._serving()  # Creates nothing: what was never indexed has no lock file either.
        with self._files.lock(wait_seconds):
            epoch = self._serving()
            self._files.clear_for_erasing(epoch.folder.name)
            with closing(self._builds.open_session(epoch, retain, "")) as session:
                chunks = session.erase(uris)
                session.activate(manifest)
            remove_traces(epoch, self._files.lock_quality)
        return chunks

    def finish_erasing(self, *, wait_seconds: float = 0.0) -> None:
        if not self.exists or not self._read(has_traces):
            return
        with self._files.lock(wait_seconds):
            remove_traces(self._serving(), self._files.lock_quality)

    def delete(self, besides: Collection[str] = (), wait_seconds: float = 0.0) -> None:
        """Remove the index, the files ``besides`` that others keep there, and the folder unless
        something else is in it."""
        if not self.folder.is_dir():
            return
        with self._files.lock(wait_seconds):
            self.close()
            self._files.remove_contents(besides)
        self._files.remove_empty()

    # -- damage --------------------------------------------------------------------

    def verify(self, on_step: OnStep | None = None) -> list[Damage]:
        try:
            problems = self._ask(lambda epoch: epoch.verify(on_step))
        except IndexCorrupt as error:
            problems = [Damage("index", error.developer)]
        records = self._files.damaged_records()
        return [*problems, *(Damage("beside", f"{path.name}: {why}") for path, why in records)]

    def damage(self) -> str:
        return self._files.last_damage()

    @property
    def kept_aside(self) -> list[str]:
        return [str(path) for path in self._files.set_aside_epochs()]

    def mend_beside(self, about: Mapping[str, Any], wait_seconds: float = 0.0) -> None:
        with self._files.lock(wait_seconds):
            self._files.mend_records(about)

    def set_aside(self, why: str, wait_seconds: float = 0.0) -> None:
        """Take a damaged epoch out of service, and keep its files until the next damage; if they
        are the only copy, for good.

        Does nothing if another process has replaced it meanwhile.
        """
        name = self._files.serving_name_or_damage()
        with self._files.lock(wait_seconds):
            if name != self._files.serving_name_or_damage():
                return
            self.close()
            self._files.set_aside(name, why)

    def repair(self, maker: Maker, why: str, wait_seconds: float = 0.0) -> list[str] | None:
        """Repair the epoch in place and point at it again.

        Returns the URIs of documents that had to be dropped, or ``None`` if only a new epoch
        helps.
        """
        if not self.folder.is_dir():
            return None
        with self._files.lock(wait_seconds):
            self.close()
            named = self._files.serving_name_or_damage()
            folders = self._files.epochs()
            # With a damaged pointer, the newest sound epoch is meant.
            folders = [folder for folder in folders if folder.name == named] or folders
            # First, since a crash after the repair would leave no sign of the damage.
            self._files.record_damage(why)
            for folder in reversed(folders):
                dropped = _repair_epoch(folder, maker, self._only_copy, self._files.lock_quality)
                if dropped is not None:
                    if folder.name != named:
                        self._files.point_at(folder.name)
                    return dropped
                if self._only_copy and has_documents(folder):
                    return None  # An older epoch may lack documents.
        return None

    @contextmanager
    def salvage(
        self, fingerprint: str, dimensions: int, digest: Digest, *, about: Mapping[str, Any],
        retain: int, why: str, wait_seconds: float = 0.0,
    ) -> Iterator[tuple[EpochWriter, Rescue]]:  # fmt: skip
        """Open a session on a new epoch, with the intact documents of the damaged one to fill it.

        Once it is activated, the damaged one is kept aside.
        """
        with self._files.lock(wait_seconds):
            self.close()
            self._files.record_damage(why)
            named = self._files.serving_name_or_damage()
            epochs = list(reversed(self._files.epochs()))
            named_first = sorted(epochs, key=lambda folder: folder.name != named)
            # If there are none, an earlier salvage was interrupted after setting them aside.
            sources = [
                folder for folder in named_first if folder.name == named or has_documents(folder)
            ] or list(reversed(self._files.set_aside_epochs()))
            rescue = Rescue(sources, digest)
            recipe = Recipe(fingerprint, dimensions, "", rescue.highest)
            epoch = self._builds.create(self._files.next_epoch(""), recipe)
            with self._builds.discard_unfinished(epoch):
                session = self._builds.open_session(epoch, retain, "", fresh=True)
                with closing(session):
                    yield session, rescue
                if session.activated:
                    for folder in epochs:
                        if folder in sources:
                            self._files.move_aside(folder)
                    self._files.publish(epoch.folder, about)
                    session.mark_served()


def _finish_first_commit(path: Path) -> None:
    """Switch a catalogue to its log, if a crash came between its first commit and that."""
    if path.is_file() and read_beginning(path, 20)[18:] == _WITHOUT_LOG:
        with typed_errors(path), closing(connect(path, write=True)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")


def _repair_epoch(
    folder: Path,
    maker: Maker,
    only_copy: bool,
    lock_quality: Callable[[], AbstractContextManager[None]],
) -> list[str] | None:
    try:
        _finish_first_commit(folder / CATALOGUE)
        dropped = repair(folder, maker) if (folder / CATALOGUE).is_file() else None
        if dropped is None:
            return None
        with lock_quality():
            repair_quality(folder)
        with closing(Epoch(folder, only_copy=only_copy)) as epoch:
            return None if epoch.verify() else dropped
    except (IndexCorrupt, *FROM_DAMAGE):
        return None
