"""A collection's folder: which epoch serves, who may write, how a new epoch takes over.

Takes: a folder and the fingerprint that the caller's settings ask for. Gives:
snapshots of the serving epoch and write sessions on the right one. Refuses: to
read a folder that holds no finished index, and a second writer.

    <folder>/CURRENT            the name of the serving epoch
    <folder>/writer.lock        held by the one writer
    <folder>/collection.json    what this is an index of
    <folder>/damage.json        what was last found damaged
    <folder>/damaged-epoch-N/   and what became of it
    <folder>/epoch-N/           catalogue.db, keywords/, vectors.f16, vectors.bits if many, and
                                documents.log where the documents have no other home
    <folder>/kept-MODEL/        vectors of a model before, should it come back

An epoch that ``CURRENT`` does not name is unfinished: the next writer of the same
fingerprint goes on with it if it is sound, and any other writer removes it.
"""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from lookfar.common.folders import folder_bytes, list_folder
from lookfar.errors import DiskFull, IndexCorrupt, LookfarError, NotIndexed
from lookfar.model import Damage, GenerationDiff
from lookfar.store.catalogue.erasing import MakeTerms, StoredDocument, stored_documents
from lookfar.store.catalogue.generation_changes import Changing
from lookfar.store.catalogue.generations import Generation
from lookfar.store.ground import files
from lookfar.store.ground.database import CATALOGUE, connect, corrupt_error, typed_errors
from lookfar.store.ground.records import pack_record, unpack_record
from lookfar.store.health.check import refuse_damage
from lookfar.store.health.repair import Maker, repair
from lookfar.store.health.salvage import Digest, EpochRescue, Rescue
from lookfar.store.health.verify import FROM_DAMAGE, OnStep
from lookfar.store.sqlite.epoch import Epoch
from lookfar.store.sqlite.erase import remove_traces
from lookfar.store.sqlite.snapshot import EpochSnapshot
from lookfar.store.sqlite.write_session import EpochWriter
from lookfar.store.vectors.reuse import KEPT, Siblings, drop, keep, model_in, shelf_damage, shelf_of
from lookfar.store.vectors.vector_file import COARSE_ABOVE

_CURRENT = "CURRENT"
_ABOUT = "collection.json"
_DAMAGE = "damage.json"
_LOCK = "writer.lock"
_DAMAGED = "damaged-"
_MOST_KEPT = 2
"""Models before, whose vectors stay."""
_EPOCH = re.compile(r"epoch-[0-9]{1,9}")

T = TypeVar("T")


class CollectionStore(Changing):
    """The embedded store of one collection."""

    def __init__(
        self, folder: Path, coarse_above: int = COARSE_ABOVE, *, only_copy: bool = False
    ) -> None:
        """Of more than ``coarse_above`` vectors a coarse pass chooses what to score; 0: never.
        A store that is the ``only_copy`` of its documents is checked before it answers, and
        nothing but :meth:`erase` and :meth:`delete` removes any of them."""
        self.folder = folder
        self._only_copy = only_copy
        self._coarse_above = coarse_above
        self._epoch: Epoch | None = None
        self._opening = Lock()

    @property
    def place(self) -> str:
        """Where it lies, for people."""
        return str(self.folder)

    @property
    def present(self) -> bool:
        """Whether there is anything of it, finished or not."""
        return self.folder.is_dir()

    @property
    def exists(self) -> bool:
        """Whether there is a finished index to read, or was one that has no other copy."""
        return (self.folder / _CURRENT).is_file() or bool(self._only_copy and self._lost())

    def _lost(self) -> list[Path]:
        """Epochs with documents, or that cannot be read, although nothing points at them."""
        folders = [] if (self.folder / _CURRENT).is_file() else self._epoch_folders()
        return [folder for folder in folders if has_documents(folder)]

    @property
    def kept_aside(self) -> list[str]:
        """Where the damaged epochs are that were taken out of service."""
        return [str(path) for path in self._aside()]

    def _aside(self) -> list[Path]:
        return sorted(list_folder(self.folder, f"{_DAMAGED}*"))

    def fingerprint(self) -> str:
        return self._try(lambda epoch: epoch.fingerprint)

    @contextmanager
    def snapshot(self, generation: int | None = None) -> Iterator[EpochSnapshot]:
        with ExitStack() as stack:
            yield self._try(lambda epoch: stack.enter_context(epoch.snapshot(generation)))

    def generations(self) -> list[Generation]:
        return self._try(Epoch.generations)

    def history(self) -> tuple[int, list[Generation]]:
        """The active number and every kept generation, of one moment."""
        return self._try(Epoch.history)

    def held(self) -> int | None:
        """The generation that a roll-back holds the collection at; writing lets go of it."""
        return self._try(Epoch.held)

    def diff(self, older: int, newer: int) -> GenerationDiff:
        """What changed from one kept generation to another."""
        return self._try(lambda epoch: epoch.diff(older, newer))

    @contextmanager
    def _changing(self, wait_seconds: float) -> Iterator[sqlite3.Connection]:
        self._serving()  # Nothing is made here: what was never indexed has no lock either.
        lock = files.WriterLock(self.folder / _LOCK)
        lock.acquire(wait_seconds)
        with lock, self._serving().changing() as connection:
            yield connection

    def verify(self, on_step: OnStep | None = None) -> list[Damage]:
        """Everything stored that is not as it was written."""
        try:
            problems = self._try(lambda epoch: epoch.verify(on_step))
        except IndexCorrupt as error:
            problems = [Damage("index", error.developer)]
        return [
            *problems,
            *(Damage("beside", f"{path.name}: {why}") for path, why in self._beside()),
        ]

    def _beside(self) -> Iterator[tuple[Path, str]]:
        """What lies beside the epoch and is damaged, and how."""
        for path in list_folder(self.folder, "*.json"):
            try:
                unpack_record(path.read_bytes())
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                yield path, str(error)
        for folder in list_folder(self.folder, f"{KEPT}*"):
            why = shelf_damage(folder)
            if why:
                yield folder, why

    def mend_beside(self, about: Mapping[str, Any], wait_seconds: float = 0.0) -> None:
        """Remove what is damaged beside the epoch, and say anew what this is an index of."""
        lock = files.WriterLock(self.folder / _LOCK)
        lock.acquire(wait_seconds)
        with lock:
            for path, _ in list(self._beside()):
                files.remove(path)
            files.write_atomic(self.folder / _ABOUT, pack_record(about))

    def repair(self, maker: Maker, why: str, wait_seconds: float = 0.0) -> list[str] | None:
        """Mend the epoch where it is, and point at it again; gives the URIs of documents that
        were dropped for it, or ``None`` where only a new epoch helps."""
        if not self.folder.is_dir():
            return None
        lock = files.WriterLock(self.folder / _LOCK)
        lock.acquire(wait_seconds)
        with lock:
            self.close()
            named = self._serving_name_or_garbage()
            # Where the pointer is wrong, the newest that is sound is meant.
            folders = [each for each in self._epoch_folders() if each.name == named]
            # First of all: what is mended before a crash shows no more that it was damaged.
            self._note(why)
            for folder in reversed(folders or self._epoch_folders()):
                gone = self._repaired(folder, maker)
                if gone is not None:
                    if folder.name != named:
                        files.write_atomic(self.folder / _CURRENT, folder.name.encode())
                    return gone
                if self._only_copy and has_documents(folder):
                    return None  # An older one may lack documents.
        return None

    def _repaired(self, folder: Path, maker: Maker) -> list[str] | None:
        try:
            gone = repair(folder, maker) if (folder / CATALOGUE).is_file() else None
            if gone is None:
                return None
            with closing(Epoch(folder, only_copy=self._only_copy)) as epoch:
                return None if epoch.verify() else gone
        except (IndexCorrupt, *FROM_DAMAGE):
            return None

    def set_aside(self, why: str, wait_seconds: float = 0.0) -> None:
        """Take a damaged epoch out of service, keeping its files until the next damage; for good,
        where they are the only copy.

        Nothing happens when another process has replaced it meanwhile.
        """
        name = self._serving_name_or_garbage()
        lock = files.WriterLock(self.folder / _LOCK)
        lock.acquire(wait_seconds)
        with lock:
            if name != self._serving_name_or_garbage():
                return
            for old in () if self._only_copy else self._aside():
                files.remove(old)
            self._note(why)
            self.close()
            if _EPOCH.fullmatch(name):
                # Its name stays taken: who still waits for the lock means this epoch by it.
                aside = self.folder / f"{_DAMAGED}{name}"
                if (self.folder / name).is_dir():
                    # Should it come back, it is found damaged again.
                    files.rename(self.folder / name, aside, sync=False)
                else:
                    files.make_folder(aside, sync=False)
            files.remove(self.folder / _CURRENT)

    def _note(self, why: str) -> None:
        """Write down what was found damaged, and when."""
        record = {"why": why, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        files.write_atomic(self.folder / _DAMAGE, pack_record(record))

    def delete(self, besides: Collection[str] = (), wait_seconds: float = 0.0) -> None:
        """Remove the index: all that a store puts into its folder, the files ``besides`` that
        others keep there, and the folder itself unless something else lies in it.
        """
        if not self.folder.is_dir():
            return
        lock = files.WriterLock(self.folder / _LOCK)
        lock.acquire(wait_seconds)
        with lock:
            self.close()
            # First the pointer: without it nobody takes what is left for an index.
            files.remove(self.folder / _CURRENT)
            files.sync_folder(self.folder)
            for path in list_folder(self.folder):
                name = path.name.removeprefix(_DAMAGED)
                ours = _EPOCH.fullmatch(name) or name.startswith(KEPT)
                if ours or path.name in (_ABOUT, _DAMAGE, *besides):
                    files.remove(path)
            for left in list_folder(self.folder, ".*.tmp"):
                files.remove(left)
            if sys.platform != "win32":  # There, a file that is open cannot be removed.
                files.remove(self.folder / _LOCK)
        if sys.platform == "win32":
            with suppress(LookfarError):
                files.remove(self.folder / _LOCK)
        with suppress(OSError):
            self.folder.rmdir()

    def erase(
        self, uris: Sequence[str], again: MakeTerms, manifest: Mapping[str, Any], *,
        retain: int, wait_seconds: float = 0.0,
    ) -> int:  # fmt: skip
        """Remove documents and every trace of them from all files of this folder; gives how
        many chunks went. ``again`` makes keyword entries of documents that stay.
        """
        self._serving()  # Nothing is made here: what was never indexed has no lock either.
        lock = files.WriterLock(self.folder / _LOCK)
        lock.acquire(wait_seconds)
        with lock:
            epoch = self._serving()
            # Also what a build left unfinished, or what was found damaged, holds their text.
            self._clear({epoch.folder.name})
            for old in self._aside():
                files.remove(old)
            for old in list_folder(self.folder, f"{KEPT}*"):
                drop(old)
            with closing(self._session(epoch, retain, "")) as session:
                chunks = session.erase(uris)
                session.activate(manifest)
            remove_traces(epoch, again)
        return chunks

    def finish_erasing(self, again: MakeTerms, *, wait_seconds: float = 0.0) -> None:
        """Remove the traces that an interrupted erasing left; where there are none, do nothing."""
        if not self.exists or not self._try(Epoch.has_traces):
            return
        lock = files.WriterLock(self.folder / _LOCK)
        lock.acquire(wait_seconds)
        with lock:
            remove_traces(self._serving(), again)

    def written(self) -> Iterator[StoredDocument]:
        """Every live document, straight from the catalogue, whatever the state of the vectors
        and keywords that were made of it. ``IndexCorrupt`` where one cannot be read, or is not as
        it was written: there may be no other copy to compare it with.
        """
        path = self.folder / self._serving_name() / CATALOGUE
        with typed_errors(path), closing(connect(path, write=False)) as connection:
            connection.execute("BEGIN")
            refuse_damage(connection, path)
            yield from stored_documents(connection)

    def refuse_busy(self) -> None:
        """``IndexBusy`` where somebody writes at this moment."""
        if self.folder.is_dir():
            lock = files.WriterLock(self.folder / _LOCK)
            lock.acquire()
            lock.release()

    def damage(self) -> str:
        """What was last found damaged and set aside; empty if nothing ever was."""
        try:
            record = unpack_record((self.folder / _DAMAGE).read_bytes())
            return f"{record['at']}: {record['why']}"
        except (OSError, ValueError, KeyError):
            return ""

    def _serving_name_or_garbage(self) -> str:
        try:
            return self._serving_name()
        except IndexCorrupt as error:
            return error.developer

    def _try(self, ask: Callable[[Epoch], T]) -> T:
        """Ask the serving epoch; once more if another took over while it was being opened."""
        while True:
            name = self._serving_name()
            try:
                return ask(self._serving())
            except LookfarError:
                if name == self._serving_name():
                    raise

    def _serving(self) -> Epoch:
        """The epoch that ``CURRENT`` names, reopened when another process moved it."""
        name = self._serving_name()
        if not name:
            raise NotIndexed(
                "This folder has not been indexed yet.",
                hint="Run: lookfar index PATH",
                developer=f"no {_CURRENT} in {self.folder}",
            )
        with self._opening:
            epoch = self._epoch
            if epoch is None or epoch.folder.name != name or epoch.replaced:
                opened = Epoch(self.folder / name, self._coarse_above, only_copy=self._only_copy)
                if epoch is not None:
                    epoch.close()
                self._epoch = epoch = opened
            return epoch

    def _serving_name(self) -> str:
        """What ``CURRENT`` says; empty where there is no finished index."""
        with files.translate_errors(f"reading {_CURRENT}"):
            try:
                name = (self.folder / _CURRENT).read_bytes().strip().decode("ascii", "replace")
            except FileNotFoundError:
                if self._only_copy and self._lost():
                    raise corrupt_error(self.folder / _CURRENT, f"{_CURRENT} is missing") from None
                return ""
        if _EPOCH.fullmatch(name) is None:
            raise corrupt_error(self.folder / _CURRENT, f"{_CURRENT} names no epoch: {name[:40]!r}")
        return name

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
        """A session on the serving epoch if it has ``fingerprint``, else on a new one beside it,

        or on the one that an interrupted build of the same fingerprint left there. ``rebuild``
        always begins a new one.
        Without ``let_go`` a collection that a roll-back holds is refused: ``IndexHeld``.
        """
        files.make_folder(self.folder)
        lock = files.WriterLock(self.folder / _LOCK)
        lock.acquire(wait_seconds)
        with lock:
            if not let_go and self.exists:
                self._serving().refuse_held()
            epoch = None if rebuild else self._fitting(fingerprint)
            if epoch is not None:
                self._clear({epoch.folder.name})
                with closing(self._session(epoch, retain, model)) as session:
                    yield session
                return
            serving, after = self._succeeded()
            epoch = None if rebuild else self._unfinished(fingerprint, dimensions, model, after)
            resumed = epoch is not None
            if epoch is None:
                folder = self._next_folder(serving)
                self._clear({serving})
                epoch = Epoch.create(
                    folder, fingerprint, dimensions, model=model, after=after,
                    coarse_above=self._coarse_above, only_copy=self._only_copy,
                )  # fmt: skip
            with self._kept_if_worth_it(epoch):
                with closing(
                    self._session(epoch, retain, model, fresh=True, resumed=resumed)
                ) as session:
                    yield session
                if session.activated:
                    self._publish(epoch, about)

    @contextmanager
    def salvage(
        self, fingerprint: str, dimensions: int, digest: Digest, *, about: Mapping[str, Any],
        retain: int, why: str, wait_seconds: float = 0.0,
    ) -> Iterator[tuple[EpochWriter, Rescue]]:  # fmt: skip
        """A session on a new epoch, and the documents to fill it with: those of the damaged one
        that fit their hashes. Once it is activated the damaged one is kept aside."""
        lock = files.WriterLock(self.folder / _LOCK)
        lock.acquire(wait_seconds)
        with lock:
            self.close()
            self._note(why)
            named = self._serving_name_or_garbage()
            every = list(reversed(self._epoch_folders()))
            # Without any, a repair before this one was interrupted after it set them aside.
            sources = (
                [each for each in every if each.name == named]
                or [each for each in every if has_documents(each)]
                or list(reversed(self._aside()))
            )
            rescue = EpochRescue(sources, digest)
            epoch = Epoch.create(
                self._next_folder(""), fingerprint, dimensions, after=rescue.highest,
                coarse_above=self._coarse_above, only_copy=True,
            )  # fmt: skip
            with self._kept_if_worth_it(epoch):
                with closing(self._session(epoch, retain, "", fresh=True)) as session:
                    yield session, rescue
                if session.activated:
                    for folder in sources:
                        if not folder.name.startswith(_DAMAGED):
                            # Should it come back, it is found damaged again.
                            aside = self.folder / f"{_DAMAGED}{folder.name}"
                            files.rename(folder, aside, sync=False)
                    self._publish(epoch, about)

    def _session(
        self, epoch: Epoch, retain: int, model: str, *, fresh: bool = False, resumed: bool = False
    ) -> EpochWriter:
        dimensions = epoch.vectors.dimensions
        siblings = Siblings(self.folder.parent, epoch.folder, model, dimensions) if model else None
        return EpochWriter(epoch, retain, fresh=fresh, resumed=resumed, siblings=siblings)

    def _fitting(self, fingerprint: str) -> Epoch | None:
        if not self.exists:
            return None
        epoch = self._serving()
        return epoch if epoch.fingerprint == fingerprint else None

    def _unfinished(
        self, fingerprint: str, dimensions: int, model: str, after: int
    ) -> Epoch | None:
        """The epoch that an interrupted build of the same recipe left, if it is sound."""
        serving = self._serving_name_or_garbage()
        for folder in reversed(self._epoch_folders()):
            if folder.name == serving:
                continue
            with suppress(LookfarError), ExitStack() as stack:
                epoch = stack.enter_context(
                    closing(Epoch(folder, self._coarse_above, only_copy=self._only_copy))
                )
                if epoch.continues(fingerprint, dimensions, model, after):
                    stack.pop_all()
                    self._clear({serving, folder.name})
                    return epoch
        return None

    @contextmanager
    def _kept_if_worth_it(self, epoch: Epoch) -> Iterator[None]:
        """An epoch that is not published goes, and its disk space with it; but where its build

        was interrupted after a checkpoint, it stays for the next build to go on with.
        """
        worth_it = False
        try:
            with closing(epoch):
                try:
                    yield
                except (DiskFull, IndexCorrupt):
                    raise
                except BaseException:
                    with suppress(LookfarError):
                        worth_it = epoch.checkpointed()
                    raise
        finally:
            with suppress(LookfarError):
                if not worth_it and self._serving_name_or_garbage() != epoch.folder.name:
                    files.remove(epoch.folder)

    def _next_folder(self, serving: str) -> Path:
        """A name that no epoch here has had."""
        aside = (path.name for path in list_folder(self.folder, f"{_DAMAGED}*"))
        old = [name for each in aside if _EPOCH.fullmatch(name := each.removeprefix(_DAMAGED))]
        names = (serving, *old, *(path.name for path in self._epoch_folders()))
        return self.folder / f"epoch-{max(map(_number, names)) + 1}"

    def _clear(self, wanted: set[str]) -> None:
        """Remove every epoch but those ``wanted``: old ones, and what builds left unfinished."""
        for path in self._epoch_folders():
            if path.name not in wanted:
                # A reader elsewhere may still map it (Windows); the next writer tries again.
                with suppress(LookfarError):
                    self._keep_vectors(path, wanted)
                with suppress(LookfarError):
                    files.remove(path)

    def _keep_vectors(self, epoch: Path, wanted: set[str]) -> None:
        """What another model made stays, as far as the newest few: it may come back."""
        model = model_in(epoch)
        if not model or model in {model_in(self.folder / name) for name in wanted if name}:
            return
        keep(epoch, self.folder / shelf_of(model))
        for old in sorted(list_folder(self.folder, f"{KEPT}*"), key=_modified)[:-_MOST_KEPT]:
            drop(old)

    def _succeeded(self) -> tuple[str, int]:
        """The name and the highest generation of the epoch to be replaced, as far as it tells."""
        try:
            serving = self._serving_name()
        except IndexCorrupt:
            if self._only_copy:
                raise  # All that is there would be taken for unfinished, and removed.
            return "", 0
        if self._only_copy and serving and not (self.folder / serving / CATALOGUE).is_file():
            raise corrupt_error(
                self.folder / serving, f"{_CURRENT} names {serving}, which is not there"
            )
        try:
            return serving, self._serving().highest() if serving else 0
        except LookfarError:
            return serving, 0

    def _publish(self, epoch: Epoch, about: Mapping[str, Any]) -> None:
        files.write_atomic(
            self.folder / _ABOUT, pack_record(about), sync=False
        )  # With the pointer.
        files.write_atomic(self.folder / _CURRENT, epoch.folder.name.encode())
        self._clear({epoch.folder.name})
        with suppress(LookfarError):
            drop(self.folder / shelf_of(model_in(epoch.folder)))

    def _epoch_folders(self) -> list[Path]:
        found = (
            path for path in list_folder(self.folder, "epoch-*") if _EPOCH.fullmatch(path.name)
        )
        return sorted(found, key=lambda path: _number(path.name))

    def about(self) -> dict[str, Any]:
        """What this is an index of; empty where that is not known for sure."""
        try:
            return unpack_record((self.folder / _ABOUT).read_bytes())
        except (OSError, ValueError):
            return {}

    def disk_bytes(self) -> int:
        return folder_bytes(self.folder)

    def close(self) -> None:
        with self._opening:
            epoch, self._epoch = self._epoch, None
        if epoch is not None:
            epoch.close()


def has_documents(epoch: Path) -> bool:
    """Whether an epoch has a generation with documents, or cannot be read and so may have one."""
    path = epoch / CATALOGUE
    try:
        if not path.stat().st_size:
            return False  # Its making was interrupted at once.
        with typed_errors(path), closing(connect(path, write=False)) as connection:
            tables = dict(connection.execute("SELECT name, 1 FROM sqlite_master"))
            if not tables:
                return False
            (number,) = connection.execute(
                "SELECT count(*) FROM generations WHERE EXISTS (SELECT 1 FROM documents)"
            ).fetchone()
            return bool(number)
    except FileNotFoundError:
        return False
    except LookfarError as error:
        return isinstance(error, IndexCorrupt)


def _modified(path: Path) -> float:
    """When a folder was last changed; one that is gone is the oldest."""
    with files.translate_errors(f"reading {path.name}"):
        try:
            return path.stat().st_mtime
        except FileNotFoundError:
            return 0.0


def _number(epoch_name: str) -> int:
    return int(epoch_name.removeprefix("epoch-") or 0)
