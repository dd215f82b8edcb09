"""The metrics that are not about requests: collections, workers and the process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lookfar import __version__
from lookfar.common.folders import list_folder
from lookfar.errors import LookfarError
from lookfar.serve.http.metrics import Family, Kind, Labels
from lookfar.serve.tools.tool import Session

if TYPE_CHECKING:
    from lookfar.collections.folder import Folder
    from lookfar.model.status import Status, Watching

_STARTED: Final = time.time()
_PROCESS: Final = Path("/proc/self")
_KIBIBYTE: Final = 1024

_COLLECTION_ROWS: Final[tuple[tuple[str, str, Kind, Callable[[Status], float]], ...]] = (
    ("documents", "Documents in the index.", "gauge", lambda s: s.counts.documents),
    ("passages", "Passages in the index.", "gauge", lambda s: s.counts.chunks),
    ("generation", "Number of the active generation.", "gauge", lambda s: s.generation),
    ("generations", "Generations that are kept.", "gauge", lambda s: len(s.generations)),
    ("index_bytes", "Size of the index on disk.", "gauge", lambda s: s.disk_bytes),
    ("index_exists", "Whether there is an index.", "gauge", lambda s: s.indexed),
    (
        "index_current",
        "Whether the index was built with the current settings.",
        "gauge",
        lambda s: s.current,
    ),
    ("index_held", "Whether a rollback holds the index.", "gauge", lambda s: s.held is not None),
    ("failed_files", "Files that could not be indexed.", "gauge", lambda s: len(s.failures)),
)
_WATCHER_ROWS: Final[tuple[tuple[str, str, Kind, Callable[[Watching], float]], ...]] = (
    ("watcher_running", "Whether the folder is watched.", "gauge", lambda w: w.running),
    ("watcher_healthy", "Whether every change is noticed.", "gauge", lambda w: w.healthy),
    ("watcher_queued", "Changes that are not indexed yet.", "gauge", lambda w: w.queued),
    ("watcher_passes_total", "Indexing passes after changes.", "counter", lambda w: w.passes),
)
_WORKER_ROWS: Final[tuple[tuple[str, str, str, Kind], ...]] = (
    ("wanted", "workers_wanted", "Workers that should run.", "gauge"),
    ("running", "workers_running", "Workers that run.", "gauge"),
    ("answered", "worker_answers_total", "Questions that workers answered.", "counter"),
    ("replaced", "workers_replaced_total", "Workers that died and were replaced.", "counter"),
)


def read_states(session: Session) -> list[Family]:
    """Return the states of the collections that the request may see, and of the process."""
    library = session.library
    folders = {name: library.folder(name) for name in library.collections}
    families = [*_read_collections(folders), *_read_process()]
    if session.readers is not None:
        described = session.readers.describe()
        families += [
            Family(f"lookfar_{name}", help_text, kind, [((), described[key])])
            for key, name, help_text, kind in _WORKER_ROWS
        ]
    return families


def describe_fetches(fetches: Mapping[str, int]) -> Family:
    """Return how often the keys of the issuer were fetched."""
    samples: list[tuple[Labels, float]] = [
        ((("result", result),), count) for result, count in sorted(fetches.items())
    ]
    return Family(
        "lookfar_issuer_fetches_total", "Fetches of the issuer's keys.", "counter", samples
    )


def _read_collections(folders: Mapping[str, Folder]) -> Iterator[Family]:
    statuses: dict[str, Status] = {}
    for name, folder in folders.items():
        try:
            statuses[name] = folder.status(collection=name, check=False)
        except LookfarError:  # It is damaged, or its store cannot be reached.
            continue
    yield _make_family(
        "index_readable", "Whether the index can be read.", "gauge",
        {name: name in statuses for name in folders},
    )  # fmt: skip
    yield _make_family(
        "index_building", "Whether a pass is running.", "gauge",
        {name: bool(folder.building_since) for name, folder in folders.items()},
    )  # fmt: skip
    yield _make_family(
        "index_failed", "Whether the last pass failed.", "gauge",
        {name: folder.failure is not None for name, folder in folders.items()},
    )  # fmt: skip
    for key, help_text, kind, read in _COLLECTION_ROWS:
        values = {name: read(status) for name, status in statuses.items()}
        yield _make_family(key, help_text, kind, values)
    created = {
        name: datetime.fromisoformat(status.created_at).timestamp()
        for name, status in statuses.items()
        if status.created_at
    }
    yield _make_family(
        "generation_created_timestamp_seconds", "When the active generation was made.", "gauge",
        created,
    )  # fmt: skip
    watchers = {name: status.watcher for name, status in statuses.items() if status.watcher}
    for key, help_text, kind, observe in _WATCHER_ROWS:
        states = {name: observe(watcher) for name, watcher in watchers.items()}
        yield _make_family(key, help_text, kind, states)


def _make_family(name: str, help_text: str, kind: Kind, values: Mapping[str, Any]) -> Family:
    samples: list[tuple[Labels, float]] = [
        ((("collection", collection),), float(value)) for collection, value in values.items()
    ]
    return Family(f"lookfar_{name}", help_text, kind, samples)


def _read_process() -> Iterator[Family]:
    """Return the metrics of a process that dashboards expect, under their usual names."""
    version: Labels = (("version", __version__),)
    yield Family("lookfar_build_info", "The running version.", "gauge", [(version, 1)])
    yield _make_single("process_start_time_seconds", "When the process started.", _STARTED)
    yield _make_single(
        "process_cpu_seconds_total",
        "Processor time of the process.",
        time.process_time(),
        "counter",
    )
    try:
        status = (_PROCESS / "status").read_text(encoding="ascii", errors="replace")
        opened = len(list_folder(_PROCESS / "fd"))
    except (OSError, LookfarError):
        return  # Only Linux has these files.
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            resident = int(line.split()[1]) * _KIBIBYTE
            yield _make_single("process_resident_memory_bytes", "Memory in use.", resident)
    yield _make_single("process_open_fds", "Open file descriptors.", opened)


def _make_single(name: str, help_text: str, value: float, kind: Kind = "gauge") -> Family:
    return Family(name, help_text, kind, [((), value)])
