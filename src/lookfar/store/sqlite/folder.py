"""The folder of one collection: which epoch serves, and what is beside it.

    <folder>/CURRENT            the name of the serving epoch
    <folder>/writer.lock        held by the one writer
    <folder>/embedding.lock     held by the one process that embeds with a second model
    <folder>/quality.lock       held while the files of a second model are changed
    <folder>/collection.json    what this is an index of
    <folder>/damage.json        the damage that was last found
    <folder>/damaged-epoch-N/   a damaged epoch, taken out of service
    <folder>/epoch-N/           catalogue.db, keywords/, vectors.f16, vectors.codes if many, and
                                documents.log where the documents have no other home,
                                quality-MODEL.f16 and .log with vectors of a second model
    <folder>/kept-MODEL/        vectors of an earlier model, in case it is used again

An epoch that ``CURRENT`` does not name is unfinished: the next writer with the same fingerprint
continues it if it is sound, and any other writer removes it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lookfar.common.folders import list_folder
from lookfar.errors import IndexCorrupt, LookfarError
from lookfar.store.catalogue.journal import JOURNAL, has_served
from lookfar.store.ground import files
from lookfar.store.ground.database import CATALOGUE, connect, corrupt_error, typed_errors
from lookfar.store.ground.records import pack_record, unpack_record
from lookfar.store.vectors.reuse import (
    KEPT,
    describe_kept_damage,
    drop,
    keep,
    model_in,
    name_kept_folder,
)

CURRENT = "CURRENT"
_ABOUT = "collection.json"
_DAMAGE = "damage.json"
_LOCK = "writer.lock"
_EMBEDDING_LOCK = "embedding.lock"
_QUALITY_LOCK = "quality.lock"
_QUALITY_PATIENCE = 30.0
"""Seconds to wait for a lock that is never held longer than a write takes."""
_LOCKS = (_LOCK, _EMBEDDING_LOCK, _QUALITY_LOCK)
_DAMAGED = "damaged-"
_MOST_KEPT = 2
"""Earlier models whose vectors are kept."""
_EPOCH = re.compile(r"epoch-[0-9]{1,9}")


class CollectionFolder:
    """The files of one collection; where it says so, only for the holder of the writer lock."""

    def __init__(self, path: Path, *, only_copy: bool) -> None:
        self.path = path
        self._current = os.fspath(path / CURRENT)
        self.only_copy = only_copy

    @contextmanager
    def lock(self, wait_seconds: float = 0.0) -> Iterator[None]:
        """Hold the writer lock; ``IndexBusy`` where another writer does not release it in time."""
        lock = files.WriterLock(self.path / _LOCK)
        lock.acquire(wait_seconds)
        with lock:
            yield

    @contextmanager
    def lock_embedding(self) -> Iterator[None]:
        """Hold the lock on embedding by a second model; ``IndexBusy`` if another process does."""
        lock = files.WriterLock(self.path / _EMBEDDING_LOCK)
        lock.acquire(
            0.0,
            "Another process is embedding the passages of this index.",
            "Searching works meanwhile, and improves with every passage.",
        )
        with lock:
            yield

    @contextmanager
    def lock_quality(self) -> Iterator[None]:
        """Hold the lock on the files of second models, for the moment of a change."""
        lock = files.WriterLock(self.path / _QUALITY_LOCK)
        lock.acquire(_QUALITY_PATIENCE)
        with lock:
            yield

    # -- the serving epoch ---------------------------------------------------------

    @property
    def has_index(self) -> bool:
        """Whether there is a finished index, or was one that has no other copy."""
        return self._has_pointer() or bool(self.only_copy and self._lost())

    def _has_pointer(self) -> bool:
        return (self.path / CURRENT).is_file()

    def _lost(self) -> list[Path]:
        """List epochs with documents, or unreadable ones, if nothing points at any epoch."""
        folders = [] if self._has_pointer() else self.epochs()
        return [folder for folder in folders if has_documents(folder)]

    def serving_name(self) -> str:
        """Return the name that ``CURRENT`` contains; empty without a finished index."""
        with files.translate_errors(f"reading {CURRENT}"):
            try:
                with open(self._current, "rb", buffering=0) as file:
                    name = file.read().strip().decode("ascii", "replace")
            except FileNotFoundError:
                if self.only_copy and self._lost():
                    raise corrupt_error(self.path / CURRENT, f"{CURRENT} is missing") from None
                return ""
        if _EPOCH.fullmatch(name) is None:
            raise corrupt_error(self.path / CURRENT, f"{CURRENT} names no epoch: {name[:40]!r}")
        if self.only_copy:
            self._refuse_older_pointer(name)
        return name

    def _refuse_older_pointer(self, name: str) -> None:
        """Raise if a newer epoch has served: then the pointer is an earlier copy of itself."""
        for newer in self.epochs():
            if _number(newer.name) <= _number(name):
                continue
            # An unfinished epoch has a journal, and no mark in it.
            journal = newer / JOURNAL
            if has_served(journal) if journal.is_file() else has_documents(newer):
                why = f"{CURRENT} names {name}, and {newer.name} has served since"
                raise corrupt_error(self.path / CURRENT, why)

    def serving_name_or_damage(self) -> str:
        """Return the name of the serving epoch, or of its damage: then a text that no epoch is
        called."""
        try:
            return self.serving_name()
        except IndexCorrupt as error:
            return error.developer

    def point_at(self, epoch: str) -> None:
        files.write_atomic(self.path / CURRENT, epoch.encode())

    def publish(self, epoch: Path, about: Mapping[str, Any]) -> None:
        """Make an epoch the serving one, and remove what it replaces."""
        files.write_atomic(self.path / _ABOUT, pack_record(about), sync=False)  # With the pointer.
        self.point_at(epoch.name)
        self.clear({epoch.name})
        with suppress(LookfarError):
            drop(self.path / name_kept_folder(model_in(epoch)))

    # -- epochs --------------------------------------------------------------------

    def epochs(self) -> list[Path]:
        """List the epochs that were not set aside, oldest first."""
        folders = (path for path in list_folder(self.path, "epoch-*") if is_epoch(path.name))
        return sorted(folders, key=lambda path: _number(path.name))

    def set_aside_epochs(self) -> list[Path]:
        """List the damaged epochs that were taken out of service."""
        return sorted(list_folder(self.path, f"{_DAMAGED}*"))

    def next_epoch(self, serving: str) -> Path:
        """Return a name that no epoch here has had."""
        aside = (path.name.removeprefix(_DAMAGED) for path in self.set_aside_epochs())
        names = (serving, *filter(is_epoch, aside), *(path.name for path in self.epochs()))
        return self.path / f"epoch-{max(map(_number, names)) + 1}"

    def clear(self, wanted: set[str]) -> None:
        """Remove all epochs but those ``wanted``: old ones, and unfinished builds."""
        for path in self.epochs():
            if path.name not in wanted:
                # On Windows another process may still map it; the next writer tries again.
                with suppress(LookfarError):
                    self._keep_vectors(path, wanted)
                with suppress(LookfarError):
                    files.remove(path)

    def _keep_vectors(self, epoch: Path, wanted: set[str]) -> None:
        """Keep the vectors of the last few models: a model may be used again."""
        model = model_in(epoch)
        if not model or model in {model_in(self.path / name) for name in wanted if name}:
            return
        keep(epoch, self.path / name_kept_folder(model))
        for old in sorted(list_folder(self.path, f"{KEPT}*"), key=_modified)[:-_MOST_KEPT]:
            drop(old)

    def clear_for_erasing(self, serving: str) -> None:
        """Remove everything besides the serving epoch that may contain text or vectors."""
        self.clear({serving})
        for old in self.set_aside_epochs():
            files.remove(old)
        for old in list_folder(self.path, f"{KEPT}*"):
            drop(old)

    def move_aside(self, epoch: Path) -> None:
        """Take an epoch out of service."""
        # Not synced: if a crash brings it back, it is found damaged again.
        files.rename(epoch, self.path / f"{_DAMAGED}{epoch.name}", sync=False)

    def set_aside(self, name: str, why: str) -> None:
        """Take the serving epoch, called ``name``, out of service; replaces what was aside before,
        unless it is the only copy."""
        for old in () if self.only_copy else self.set_aside_epochs():
            files.remove(old)
        self.record_damage(why)
        if is_epoch(name):
            # The name stays taken: a process waiting for the lock means this epoch by it.
            if (self.path / name).is_dir():
                self.move_aside(self.path / name)
            else:
                files.make_folder(self.path / f"{_DAMAGED}{name}", sync=False)
        files.remove(self.path / CURRENT)

    # -- records -------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Return what this is an index of; empty where that is not known for sure."""
        try:
            return unpack_record((self.path / _ABOUT).read_bytes())
        except (OSError, ValueError):
            return {}

    def record_damage(self, why: str) -> None:
        record = {"why": why, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        files.write_atomic(self.path / _DAMAGE, pack_record(record))

    def last_damage(self) -> str:
        try:
            record = unpack_record((self.path / _DAMAGE).read_bytes())
            return f"{record['at']}: {record['why']}"
        except (OSError, ValueError, KeyError):
            return ""

    def damaged_records(self) -> Iterator[tuple[Path, str]]:
        """Yield what is damaged beside the epochs, and how."""
        for path in list_folder(self.path, "*.json"):
            try:
                unpack_record(path.read_bytes())
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                yield path, str(error)
        for folder in list_folder(self.path, f"{KEPT}*"):
            why = describe_kept_damage(folder)
            if why:
                yield folder, why

    def mend_records(self, about: Mapping[str, Any]) -> None:
        """Remove what is damaged beside the epochs, and rewrite what this is an index of."""
        for path, _ in list(self.damaged_records()):
            files.remove(path)
        files.write_atomic(self.path / _ABOUT, pack_record(about))

    # -- deleting ------------------------------------------------------------------

    def remove_contents(self, besides: Collection[str]) -> None:
        """Remove all that a store puts here, and the files ``besides``."""
        # The pointer first: without it, what is left does not count as an index.
        files.remove(self.path / CURRENT)
        files.sync_folder(self.path)
        for path in list_folder(self.path):
            name = path.name.removeprefix(_DAMAGED)
            ours = is_epoch(name) or name.startswith(KEPT)
            if ours or path.name in (_ABOUT, _DAMAGE, *besides):
                files.remove(path)
        for left in list_folder(self.path, ".*.tmp"):
            files.remove(left)
        if sys.platform != "win32":  # Windows cannot remove an open file.
            for name in _LOCKS:
                files.remove(self.path / name)

    def remove_empty(self) -> None:
        """Remove the folder unless something else is in it, once the lock is released."""
        if sys.platform == "win32":
            for name in _LOCKS:
                with suppress(LookfarError):
                    files.remove(self.path / name)
        with suppress(OSError):
            self.path.rmdir()


def is_epoch(name: str) -> bool:
    return _EPOCH.fullmatch(name) is not None


def has_documents(epoch: Path) -> bool:
    """Return whether an epoch has a generation with documents; true if it cannot be read."""
    if has_served(epoch / JOURNAL):
        return True
    path = epoch / CATALOGUE
    try:
        if not path.stat().st_size:
            return False  # Creating it was interrupted at once.
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
    """Return when a folder was last changed; one that is gone counts as the oldest."""
    with files.translate_errors(f"reading {path.name}"):
        try:
            return path.stat().st_mtime
        except FileNotFoundError:
            return 0.0


def _number(epoch_name: str) -> int:
    return int(epoch_name.removeprefix("epoch-") or 0)
