"""The indexes of one source: one for each preset that its clients use.

Presets split documents differently, so two clients with different presets cannot share an index.
Each preset has a folder of its own, ``FOLDER-HASH.PRESET``, next to the one without a preset,
``FOLDER-HASH``; equal texts are embedded once, because an index reuses the vectors of its
neighbours. An index that has not been asked for some days is deleted while another is in use; it
can be rebuilt from its source.
"""

from __future__ import annotations

import logging
import re
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from lookfar.common.folders import list_folder
from lookfar.errors import IndexBusy, LookfarError
from lookfar.store.ground import files
from lookfar.store.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lookfar.config import Settings
    from lookfar.ports import Store

ASKED_FILE: Final = "ASKED"
"""Its time of modification is when the index was last asked."""

_NOTE_SECONDS: Final = 3600.0
_DAY_SECONDS: Final = 86_400.0

_log = logging.getLogger(__name__)


def place_index(name: str, source: str, settings: Settings) -> Path:
    """Return the folder of the index of a source; ``name`` makes it recognisable to people."""
    key = sha256(source.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "folder"
    preset = f".{settings.preset}" if settings.preset else ""
    return Path(settings.index.dir) / f"{slug}-{key}{preset}"


def list_extra_files() -> tuple[str, ...]:
    """Return the names of files that belong to an index and are not written by its store."""
    from lookfar.collections.drift_marks import DRIFT_FILE
    from lookfar.collections.receipts import RECEIPTS_FILE, RECEIPTS_LOCK
    from lookfar.freshness.changed_names import DIRTY_FILE, SEEN_FILE
    from lookfar.freshness.inventory import AGREEMENT_FILE, INVENTORY_FILE
    from lookfar.store.vectors.reuse import FOREIGN_FILE

    followed = (DIRTY_FILE, SEEN_FILE, AGREEMENT_FILE, INVENTORY_FILE)
    return *followed, RECEIPTS_FILE, RECEIPTS_LOCK, ASKED_FILE, DRIFT_FILE, FOREIGN_FILE


def strip_preset(folder: Path) -> Path:
    """Return the folder of the index without a preset, where what no preset changes is kept."""
    return folder.with_name(folder.name.partition(".")[0])


class Variants:
    """One index among those of its source. May be shared by threads."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder = folder
        self._settings = settings
        self._noted = 0.0
        self._lock = Lock()

    def note_asked(self) -> None:
        """Record that the index is in use, and delete others that are not, once an hour."""
        store = self._settings.store
        if store.url or store.read_only or not self._folder.is_dir():
            return  # Other machines may use the indexes of a server.
        with self._lock:
            now = time.monotonic()
            if self._noted and now - self._noted < _NOTE_SECONDS:
                return
            self._noted = now
        try:
            files.write_atomic(self._folder / ASKED_FILE, b"", sync=False)
            self._drop_unused()
        except LookfarError as error:
            _log.warning("cannot delete unused indexes of %s: %s", self._folder, error)

    def list_others(self) -> Iterator[Store]:
        """Yield the stores of the same source for other presets."""
        base = strip_preset(self._folder).name
        for folder in list_folder(self._folder.parent, f"{base}*"):
            if folder != self._folder and folder.name.partition(".")[0] == base:
                yield open_store(folder, self._settings)

    def _drop_unused(self) -> None:
        days = self._settings.index.drop_after_days
        for store in self.list_others() if days else ():
            idle = time.time() - _last_asked(store.folder)
            if store.exists and idle > days * _DAY_SECONDS and not _is_kept(store):
                with suppress(IndexBusy):
                    store.delete(list_extra_files())
                    _log.info("deleted the unused index %s", store.folder)
            store.close()


def _is_kept(store: Store) -> bool:
    """Return whether someone asked to keep a generation of an index."""
    return store.held() is not None or any(entry.pinned for entry in store.generations())


def _last_asked(folder: Path) -> float:
    """Return when an index was last asked, or else when it was last built, in Unix time."""
    times = [0.0]
    for name in (ASKED_FILE, "CURRENT"):
        try:
            times.append((folder / name).stat().st_mtime)
        except OSError:
            continue
    return max(times)
