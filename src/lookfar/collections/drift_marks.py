"""Remember the last drift report of a folder, so that hits with a drift can be marked.

The report is kept in a small file beside the index. A mark belongs to a line of a document: when
the line is edited, the mark is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

from lookfar.errors import LookfarError
from lookfar.model import Drift
from lookfar.store.ground import files
from lookfar.store.ground.records import pack_record, unpack_record

DRIFT_FILE: Final = "drift.json"
_MOST_SHOWN: Final = 5

Marks = Mapping[str, list[tuple[str, str]]]
"""Lines of each document by URI, with what to say about them."""


class DriftMarks:
    """The marks of one folder. May be shared by threads."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / DRIFT_FILE
        self._marks: Marks = {}
        self._read_at = 0
        self._lock = Lock()

    def save(self, drifts: Iterable[Drift]) -> None:
        """Replace the marks with those of a new report."""
        marks: dict[str, list[tuple[str, str]]] = {}
        for drift in drifts:
            note = f"{drift.name} is {drift.state} since {drift.commit[:8]}"
            marks.setdefault(drift.uri, []).append((drift.text, note))
        # Marks are only hints: a full disk, for example, must not make the report fail.
        with suppress(LookfarError):
            if self._path.parent.is_dir():
                files.write_atomic(self._path, pack_record({"marks": marks}), sync=False)

    def find(self, uri: str, text: str) -> tuple[str, ...]:
        """Return notes on what a passage of a document names that no longer exists."""
        try:
            written = self._path.stat().st_mtime_ns
        except OSError:
            return ()
        with self._lock:
            if written != self._read_at:
                try:
                    record = unpack_record(self._path.read_bytes())
                    self._marks = {
                        str(uri): [(str(line), str(note)) for line, note in lines]
                        for uri, lines in record["marks"].items()
                    }
                except (OSError, ValueError, KeyError, TypeError, AttributeError):
                    self._marks = {}
                self._read_at = written
            marks = self._marks.get(uri, ())
        notes = (note for line, note in marks if line and line in text)
        return tuple(dict.fromkeys(notes))[:_MOST_SHOWN]
