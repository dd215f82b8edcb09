"""Apply the edits of setup, and keep what is needed to undo them.

Undoing restores the original bytes if the file has not changed since, and otherwise removes only
our part. A file that changed after its diff was shown is not overwritten (``Conflict``).
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from lookfar.common.folders import list_folder
from lookfar.config import data_dir
from lookfar.errors import Conflict, IndexCorrupt
from lookfar.serve.setup import edits
from lookfar.serve.setup.edits import ClientFile, Edit
from lookfar.store.ground import files

_RECORD: Final = "record.json"
_ORIGINAL: Final = "original"


@dataclass(frozen=True, slots=True)
class Record:
    """An edit that was applied. Stored as JSON, so the names of its fields are fixed."""

    target: ClientFile
    real: str
    before: str | None
    """The hash of the original bytes; None if there was no file."""
    after: str
    made: tuple[str, ...]
    """Folders that were created for the file, the outermost first."""
    at: str


@dataclass(frozen=True, slots=True)
class Undo:
    """What undoing an edit would change."""

    record: Record
    edit: Edit
    exact: bool
    """Whether the original bytes are restored."""
    original: str
    """The path of the original bytes, if they are kept after undoing."""


class Backups:
    """The records of all edits of this user."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or data_dir() / "setup"

    def apply(self, edit: Edit) -> Record:
        """Apply an edit. Its record is on disk before the file changes."""
        target, real = edit.target, edit.target.real
        assert edit.after is not None, "setup never removes a file"
        edits.refuse_unwritable(real)
        home = self._home(real)
        known = self._read(home)
        first = self._original(known) if known is not None else None
        original, before, made = edit.before, _sha(edit.before), _missing_folders(real.parent)
        if known is not None and edit.before is not None:
            if _sha(edit.before) == known.after:  # Unchanged since our first edit.
                original, before, made = first, known.before, known.made
            elif edits.has_entry(target, text := edits.decode(target, edit.before)):
                original = edits.encode(edit.before, edits.drop_entry(target, text))
                before = _sha(original)
        record = Record(target, str(real), before, _sha(edit.after) or "", made, _now())
        self._write(record, original)
        try:
            replace_file(real, edit.after, edit.before)
        except BaseException:
            if known is None:
                files.remove(home)
            else:
                self._write(known, first)
            raise
        return record

    def list_records(self) -> list[Record]:
        """Return the edits that were not undone, sorted by the paths of their files."""
        homes = list_folder(self._folder)
        records = [record for home in homes if (record := self._read(home)) is not None]
        return sorted(records, key=lambda record: record.real)

    def plan_undo(self, record: Record) -> Undo:
        target = replace(record.target, path=Path(record.real))
        now = edits.read(Path(record.real))
        original = self._original(record)
        if now is None or _sha(now) == record.before:
            return Undo(record, Edit(target, now, now), True, "")
        if _sha(now) == record.after:
            return Undo(record, Edit(target, now, original), True, "")
        text = edits.decode(target, now)
        after = edits.encode(now, edits.drop_entry(target, text))
        place = str(self._home(Path(record.real)) / _ORIGINAL) if original is not None else ""
        return Undo(record, Edit(target, now, after), False, place)

    def apply_undo(self, undo: Undo) -> None:
        real, edit = Path(undo.record.real), undo.edit
        if edit.changes:
            edits.refuse_unwritable(real)
            if edit.after is None:
                _remove(real, edit.before)
                for folder in reversed(undo.record.made):
                    files.remove_empty_folder(str(Path(folder).parent), Path(folder).name)
            else:
                replace_file(real, edit.after, edit.before)
        home = self._home(real)
        files.remove(home / _RECORD if undo.original else home)

    def _home(self, real: Path) -> Path:
        return self._folder / hashlib.sha256(os.fsencode(real)).hexdigest()[:24]

    def _write(self, record: Record, original: bytes | None) -> None:
        home = self._home(Path(record.real))
        files.make_folder(home)
        if original is None:
            files.remove(home / _ORIGINAL)
        else:
            files.write_atomic(home / _ORIGINAL, original)
        shape = asdict(record)
        shape["target"] |= {"path": str(record.target.path)}
        files.write_atomic(home / _RECORD, json.dumps(shape, indent=2).encode())

    def _read(self, home: Path) -> Record | None:
        raw = edits.read(home / _RECORD)
        if raw is None:
            return None
        try:
            shape: dict[str, Any] = json.loads(raw)
            target = shape.pop("target")
            target |= {"path": Path(target["path"]), "keys": tuple(target["keys"])}
            made = tuple(shape.pop("made"))
            return Record(**shape, made=made, target=ClientFile(**target))
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(home) from error

    def _original(self, record: Record) -> bytes | None:
        if record.before is None:
            return None
        home = self._home(Path(record.real))
        raw = edits.read(home / _ORIGINAL)
        if _sha(raw) != record.before:
            raise _damaged(home)
        return raw


def _damaged(home: Path) -> IndexCorrupt:
    return IndexCorrupt(
        f"The backup in {home} is damaged.",
        hint="Remove Lookfar from the client's settings by hand, then delete that folder.",
        details={"folder": str(home)},
    )


def _sha(raw: bytes | None) -> str | None:
    return None if raw is None else hashlib.sha256(raw).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _missing_folders(folder: Path) -> tuple[str, ...]:
    """Return a folder and its parents that do not exist, the outermost first."""
    missing: list[str] = []
    while not folder.exists():
        missing.append(str(folder))
        folder = folder.parent
    return tuple(reversed(missing))


@contextmanager
def _open_folder(folder: Path) -> Iterator[int | str]:
    """Open a folder, so that its files can be reached even if its path changes."""
    if sys.platform == "win32":
        yield str(folder)
        return
    with files.translate_errors(f"opening {folder}"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def replace_file(path: Path, data: bytes, old: bytes | None) -> None:
    """Replace the content ``old`` by ``data`` atomically, keeping mode and owner."""
    for folder_path in map(Path, _missing_folders(path.parent)):
        files.make_subfolder(str(folder_path.parent), folder_path.name)
    staged = f".{path.name}.{os.getpid()}.lookfar"
    with _open_folder(path.parent) as folder:
        files.remove_entry(folder, staged)
        try:
            files.stage(folder, staged, data, like=path.name if old is not None else "")
            if edits.read(path) != old:
                raise changed(path)
            if old is not None:
                files.replace_document(folder, staged, path.name)
            elif not files.create_document(folder, staged, path.name):
                raise changed(path)
        except BaseException:
            files.remove_entry(folder, staged)
            raise
        files.sync_open_folder(folder)


def _remove(path: Path, old: bytes | None) -> None:
    with _open_folder(path.parent) as folder:
        if edits.read(path) != old:
            raise changed(path)
        files.remove_entry(folder, path.name)
        files.sync_open_folder(folder)


def changed(path: Path) -> Conflict:
    return Conflict(
        f"{path} changed after its diff was shown.",
        hint="Run the command again; nothing in that file was changed.",
        details={"file": str(path)},
    )
