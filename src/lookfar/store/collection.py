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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from lookfar.errors import LookfarError, NotIndexed
from lookfar.store import files
from lookfar.store.epoch import Epoch, EpochSnapshot, EpochWriter
from lookfar.store.generations import Generation
from lookfar.store.verify import Problem

_CURRENT = "CURRENT"
_ABOUT = "collection.json"


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
        return self._serving().fingerprint

    @contextmanager
    def snapshot(self, generation: int | None = None) -> Iterator[EpochSnapshot]:
        with self._serving().snapshot(generation) as snapshot:
            yield snapshot

    def generations(self) -> list[Generation]:
        return self._serving().generations()

    def verify(self) -> list[Problem]:
        """Everything stored that is not as it was written."""
        return self._serving().verify()

    def _serving(self) -> Epoch:
        """The epoch that ``CURRENT`` names, reopened when another process moved it."""
        try:
            name = (self.folder / _CURRENT).read_text("utf-8").strip()
        except FileNotFoundError as error:
            raise NotIndexed(
                "This folder has not been indexed yet.",
                hint="Run: lookfar index PATH",
                developer=f"no {_CURRENT} in {self.folder}",
            ) from error
        with self._opening:
            if self._epoch is None or self._epoch.folder.name != name:
                opened = Epoch(self.folder / name)
                if self._epoch is not None:
                    self._epoch.close()
                self._epoch = opened
            return self._epoch

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
            fresh = epoch is None
            if epoch is None:
                epoch = self._create(fingerprint, dimensions)
            session = EpochWriter(epoch, retain, fresh=fresh)
            try:
                yield session
            finally:
                session.close()
            if fresh and session.activated:
                self._publish(epoch, about)

    def _fitting(self, fingerprint: str) -> Epoch | None:
        if not self.exists:
            return None
        epoch = self._serving()
        return epoch if epoch.fingerprint == fingerprint else None

    def _create(self, fingerprint: str, dimensions: int) -> Epoch:
        numbers = [int(path.name.removeprefix("epoch-")) for path in self._epoch_folders()]
        serving = self._serving_name()
        for path in self._epoch_folders():
            if path.name != serving:
                files.remove(path)
        folder = self.folder / f"epoch-{max(numbers, default=0) + 1}"
        return Epoch.create(folder, fingerprint, dimensions)

    def _publish(self, epoch: Epoch, about: Mapping[str, Any]) -> None:
        files.write_atomic(
            self.folder / _ABOUT, json.dumps(about, indent=2, sort_keys=True).encode()
        )
        files.write_atomic(self.folder / _CURRENT, epoch.folder.name.encode())
        epoch.close()
        for path in self._epoch_folders():
            if path != epoch.folder:
                try:
                    files.remove(path)
                except LookfarError:
                    # A reader elsewhere still maps it (Windows); the next epoch clears it away.
                    continue

    def _serving_name(self) -> str:
        return (self.folder / _CURRENT).read_text("utf-8").strip() if self.exists else ""

    def _epoch_folders(self) -> list[Path]:
        return sorted(
            path
            for path in self.folder.glob("epoch-*")
            if path.name.removeprefix("epoch-").isdigit()
        )

    def about(self) -> dict[str, Any]:
        try:
            found = json.loads((self.folder / _ABOUT).read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def disk_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    def close(self) -> None:
        if self._epoch is not None:
            self._epoch.close()
            self._epoch = None
