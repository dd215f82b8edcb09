"""A collection's folder: which epoch serves, who may write, how a new epoch takes over.

Takes: a folder and the fingerprint that the caller's settings ask for. Gives:
snapshots of the serving epoch and write sessions on the right one. Refuses: to
read a folder that holds no finished index, and a second writer.

    <folder>/CURRENT            the name of the serving epoch
    <folder>/writer.lock        held by the one writer
    <folder>/collection.json    what this is an index of
    <folder>/damage.json        what was last found damaged
    <folder>/damaged-epoch-N/   and what became of it
    <folder>/epoch-N/           catalogue.db, keywords/, vectors.f16
    <folder>/kept-MODEL/        vectors of a model before, should it come back

An epoch that ``CURRENT`` does not name is unfinished: the next writer of the same
fingerprint goes on with it if it is sound, and any other writer removes it.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from lookfar.errors import DiskFull, IndexCorrupt, InvalidArgument, LookfarError, NotIndexed
from lookfar.model import GenerationDiff
from lookfar.store import files, generations
from lookfar.store.database import connect, damaged, typed_errors
from lookfar.store.epoch import CATALOGUE, Epoch, EpochSnapshot
from lookfar.store.erase import Again, Kept, kept, remove_traces
from lookfar.store.generations import Generation
from lookfar.store.session import EpochWriter
from lookfar.store.siblings import KEPT, Siblings, keep, model_in, shelf_of
from lookfar.store.verify import Problem

_CURRENT = "CURRENT"
_ABOUT = "collection.json"
_DAMAGE = "damage.json"
_LOCK = "writer.lock"
_DAMAGED = "damaged-"
_MOST_KEPT = 2
"""Models before, whose vectors stay."""
_EPOCH = re.compile(r"epoch-[0-9]{1,9}")

T = TypeVar("T")


class CollectionStore:
    """The embedded store of one collection."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._epoch: Epoch | None = None
        self._opening = Lock()

    @property
    def exists(self) -> bool:
        """Whether there is a finished index to read."""
        return (self.folder / _CURRENT).is_file()

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

    def roll_back(self, number: int, *, wait_seconds: float = 0.0) -> None:
        """Serve a kept generation, at once and for all readers, until the next write session."""
        with self._changing(wait_seconds) as connection:
            generations.roll_back(connection, number)

    def pin(self, number: int, *, pinned: bool = True, wait_seconds: float = 0.0) -> None:
        """Keep a generation whatever retention says."""
        with self._changing(wait_seconds) as connection:
            generations.pin(connection, number, pinned)

    def unpin(self, number: int, *, wait_seconds: float = 0.0) -> None:
        """Leave a generation to retention again."""
        self.pin(number, pinned=False, wait_seconds=wait_seconds)

    def prune(self, keep: int, *, wait_seconds: float = 0.0) -> tuple[int, int]:
        """Retention now: how many generations and how many document versions went."""
        if keep < 1:
            raise InvalidArgument(
                f"{keep} generations cannot be kept.", hint="Keep 1 or more; 1 is the serving one."
            )
        with self._changing(wait_seconds) as connection:
            return generations.prune(connection, keep)

    @contextmanager
    def _changing(self, wait_seconds: float) -> Iterator[sqlite3.Connection]:
        self._serving()  # Nothing is made here: what was never indexed has no lock either.
        lock = files.WriterLock(self.folder / _LOCK)
        lock.acquire(wait_seconds)
        with lock, self._serving().changing() as connection:
            yield connection

    def verify(self) -> list[Problem]:
        """Everything stored that is not as it was written."""
        try:
            return self._try(Epoch.verify)
        except IndexCorrupt as error:
            return [Problem("index", error.developer)]

    def set_aside(self, why: str, wait_seconds: float = 0.0) -> None:
        """Take a damaged epoch out of service, keeping its files until the next damage.

        Nothing happens when another process has replaced it meanwhile.
        """
        name = self._serving_name_or_garbage()
        lock = files.WriterLock(self.folder / _LOCK)
        lock.acquire(wait_seconds)
        with lock:
            if name != self._serving_name_or_garbage():
                return
            for old in self.folder.glob(f"{_DAMAGED}*"):
                files.remove(old)
            record = {"why": why, "at": datetime.now(UTC).isoformat(timespec="seconds")}
            files.write_atomic(self.folder / _DAMAGE, json.dumps(record).encode())
            self.close()
            if _EPOCH.fullmatch(name) and (self.folder / name).is_dir():
                files.rename(self.folder / name, self.folder / f"{_DAMAGED}{name}")
            files.remove(self.folder / _CURRENT)

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
            for path in self.folder.iterdir():
                name = path.name.removeprefix(_DAMAGED)
                ours = _EPOCH.fullmatch(name) or name.startswith(KEPT)
                if ours or path.name in (_ABOUT, _DAMAGE, *besides):
                    files.remove(path)
            for left in self.folder.glob(".*.tmp"):
                files.remove(left)
            if sys.platform != "win32":  # There, a file that is open cannot be removed.
                files.remove(self.folder / _LOCK)
        if sys.platform == "win32":
            with suppress(LookfarError):
                files.remove(self.folder / _LOCK)
        with suppress(OSError):
            self.folder.rmdir()

    def erase(
        self, uris: Sequence[str], again: Again, manifest: Mapping[str, Any], *,
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
            for old in (*self.folder.glob(f"{_DAMAGED}*"), *self.folder.glob(f"{KEPT}*")):
                files.remove(old)
            with closing(self._session(epoch, retain, "")) as session:
                chunks = session.erase(uris)
                session.activate(manifest)
            remove_traces(epoch, again)
        return chunks

    def finish_erasing(self, again: Again, *, wait_seconds: float = 0.0) -> None:
        """Remove the traces that an interrupted erasing left; where there are none, do nothing."""
        if not self.exists or not self._try(Epoch.has_traces):
            return
        lock = files.WriterLock(self.folder / _LOCK)
        lock.acquire(wait_seconds)
        with lock:
            remove_traces(self._serving(), again)

    def written(self) -> Iterator[Kept]:
        """Every live document, straight from the catalogue, whatever the state of the vectors
        and keywords that were made of it. ``IndexCorrupt`` where one cannot be read.
        """
        path = self.folder / self._serving_name() / CATALOGUE
        with typed_errors(path), closing(connect(path, write=False)) as connection:
            yield from kept(connection)

    def refuse_busy(self) -> None:
        """``IndexBusy`` where somebody writes at this moment."""
        if self.folder.is_dir():
            lock = files.WriterLock(self.folder / _LOCK)
            lock.acquire()
            lock.release()

    def damage(self) -> str:
        """What was last found damaged and set aside; empty if nothing ever was."""
        try:
            record = json.loads((self.folder / _DAMAGE).read_bytes())
            return f"{record['at']}: {record['why']}"
        except (OSError, ValueError, KeyError, TypeError):
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
            if self._epoch is None or self._epoch.folder.name != name:
                opened = Epoch(self.folder / name)
                if self._epoch is not None:
                    self._epoch.close()
                self._epoch = opened
            return self._epoch

    def _serving_name(self) -> str:
        """What ``CURRENT`` says; empty where there is no finished index."""
        with files.disk(f"reading {_CURRENT}"):
            try:
                name = (self.folder / _CURRENT).read_bytes().strip().decode("ascii", "replace")
            except FileNotFoundError:
                return ""
        if _EPOCH.fullmatch(name) is None:
            raise damaged(self.folder / _CURRENT, f"{_CURRENT} names no epoch: {name[:40]!r}")
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
                epoch = Epoch.create(folder, fingerprint, dimensions, model=model, after=after)
            with self._kept_if_worth_it(epoch):
                with closing(
                    self._session(epoch, retain, model, fresh=True, resumed=resumed)
                ) as session:
                    yield session
                if session.activated:
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
                epoch = stack.enter_context(closing(Epoch(folder)))
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
                if not worth_it and self._serving_name() != epoch.folder.name:
                    files.remove(epoch.folder)

    def _next_folder(self, serving: str) -> Path:
        """A name that no epoch here has had."""
        names = (serving, *(path.name for path in self._epoch_folders()))
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
        for old in sorted(self.folder.glob(f"{KEPT}*"), key=_modified)[:-_MOST_KEPT]:
            files.remove(old)

    def _succeeded(self) -> tuple[str, int]:
        """The name and the highest generation of the epoch to be replaced, as far as it tells."""
        try:
            serving = self._serving_name()
        except IndexCorrupt:
            return "", 0
        try:
            return serving, self._serving().highest() if serving else 0
        except LookfarError:
            return serving, 0

    def _publish(self, epoch: Epoch, about: Mapping[str, Any]) -> None:
        files.write_atomic(
            self.folder / _ABOUT, json.dumps(about, indent=2, sort_keys=True).encode()
        )
        files.write_atomic(self.folder / _CURRENT, epoch.folder.name.encode())
        self._clear({epoch.folder.name})
        with suppress(LookfarError):
            files.remove(self.folder / shelf_of(model_in(epoch.folder)))

    def _epoch_folders(self) -> list[Path]:
        found = (path for path in self.folder.glob("epoch-*") if _EPOCH.fullmatch(path.name))
        return sorted(found, key=lambda path: _number(path.name))

    def about(self) -> dict[str, Any]:
        try:
            found = json.loads((self.folder / _ABOUT).read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def disk_bytes(self) -> int:
        return files.size_of(self.folder)

    def close(self) -> None:
        if self._epoch is not None:
            self._epoch.close()
            self._epoch = None


def _modified(path: Path) -> float:
    with files.disk(f"reading {path.name}"):
        return path.stat().st_mtime


def _number(epoch_name: str) -> int:
    return int(epoch_name.removeprefix("epoch-") or 0)
