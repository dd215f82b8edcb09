"""A collection's folder: which epoch serves, who may write, how a new epoch takes over.

Takes: a folder and the fingerprint that the caller's settings ask for. Gives:
snapshots of the serving epoch and write sessions on the right one. Refuses: to
read a folder that holds no finished index, and a second writer.

    <folder>/CURRENT            the name of the serving epoch
    <folder>/writer.lock        held by the one writer
    <folder>/collection.json    what this is an index of
    <folder>/epoch-N/           catalogue.db, keywords/, vectors.f16
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from lookfar.errors import IndexCorrupt, LookfarError, NotIndexed
from lookfar.store import files
from lookfar.store.database import damaged
from lookfar.store.epoch import Epoch, EpochSnapshot
from lookfar.store.generations import Generation
from lookfar.store.session import EpochWriter
from lookfar.store.verify import Problem

_CURRENT = "CURRENT"
_ABOUT = "collection.json"
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

    def verify(self) -> list[Problem]:
        """Everything stored that is not as it was written."""
        try:
            return self._try(Epoch.verify)
        except IndexCorrupt as error:
            return [Problem("index", error.developer)]

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
        about: Mapping[str, Any],
        retain: int,
        rebuild: bool = False,
        wait_seconds: float = 0.0,
    ) -> Iterator[EpochWriter]:
        """A session on the serving epoch if it has ``fingerprint``, else on a new one beside it."""
        files.make_folder(self.folder)
        lock = files.WriterLock(self.folder / "writer.lock")
        lock.acquire(wait_seconds)
        with lock:
            epoch = None if rebuild else self._fitting(fingerprint)
            if epoch is not None:
                with closing(EpochWriter(epoch, retain, fresh=False)) as session:
                    yield session
                return
            with self._new_epoch(fingerprint, dimensions) as epoch:
                with closing(EpochWriter(epoch, retain, fresh=True)) as session:
                    yield session
                if session.activated:
                    self._publish(epoch, about)

    def _fitting(self, fingerprint: str) -> Epoch | None:
        if not self.exists:
            return None
        epoch = self._serving()
        return epoch if epoch.fingerprint == fingerprint else None

    @contextmanager
    def _new_epoch(self, fingerprint: str, dimensions: int) -> Iterator[Epoch]:
        """An empty epoch; if it is not published, it goes, and its disk space with it."""
        serving, after = self._succeeded()
        old = self._epoch_folders()
        for path in old:
            if path.name != serving:
                files.remove(path)
        highest = max((_number(name) for name in (serving, *(p.name for p in old))), default=0)
        folder = self.folder / f"epoch-{highest + 1}"
        try:
            with closing(Epoch.create(folder, fingerprint, dimensions, after)) as epoch:
                yield epoch
        finally:
            with suppress(LookfarError):
                if self._serving_name() != folder.name:
                    files.remove(folder)

    def _succeeded(self) -> tuple[str, int]:
        """The name and the active generation of the epoch to be replaced, as far as it can tell."""
        try:
            serving = self._serving_name()
        except IndexCorrupt:
            return "", 0
        try:
            return serving, self._serving().active() if serving else 0
        except LookfarError:
            return serving, 0

    def _publish(self, epoch: Epoch, about: Mapping[str, Any]) -> None:
        files.write_atomic(
            self.folder / _ABOUT, json.dumps(about, indent=2, sort_keys=True).encode()
        )
        files.write_atomic(self.folder / _CURRENT, epoch.folder.name.encode())
        for path in self._epoch_folders():
            if path != epoch.folder:
                # A reader elsewhere may still map it (Windows); the next epoch clears it away.
                with suppress(LookfarError):
                    files.remove(path)

    def _epoch_folders(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("epoch-*") if _EPOCH.fullmatch(path.name))

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


def _number(epoch_name: str) -> int:
    return int(epoch_name.removeprefix("epoch-") or 0)
