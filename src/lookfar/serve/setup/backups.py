"""What setup changed, kept so that it can be taken back.

Takes: an edit that somebody agreed to. Gives: the file replaced at once and whole, its original
bytes and their hash kept in our own data folder, and the way back: those very bytes where
nobody changed the file since, and otherwise the file without our part. Refuses (``Conflict``):
to write over what changed between showing and writing.
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
from lookfar.serve.setup.edits import Edit, Target
from lookfar.store.ground import files

_RECORD: Final = "record.json"
_ORIGINAL: Final = "original"


@dataclass(frozen=True, slots=True)
class Record:
    """An edit that was made."""

    target: Target
    real: str
    before: str | None
    """The hash of the original bytes; None where there was no file."""
    after: str
    made: tuple[str, ...]
    """Folders that were made for the file, the outermost first."""
    at: str


@dataclass(frozen=True, slots=True)
class Undo:
    """How an edit would be taken back."""

    record: Record
    edit: Edit
    exact: bool
    """Whether the original bytes come back."""
    kept: str
    """Where the original bytes lie, if they stay there."""


class Kept:
    """The records of this user."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or data_dir() / "setup"

    def apply(self, edit: Edit) -> Record:
        """Carry out an edit. The way back is on the disk before the file changes."""
        target, real = edit.target, edit.target.real
        assert edit.after is not None, "what is set up is written"
        edits.refuse_unwritable(real)
        home = self._home(real)
        known = self._read(home)
        first = self._original(known) if known is not None else None
        original, before, made = edit.before, _sha(edit.before), _missing(real.parent)
        if known is not None and edit.before is not None:
            if _sha(edit.before) == known.after:  # Nobody was here since: the first bytes count.
                original, before, made = first, known.before, known.made
            elif edits.has_entry(target, text := edits.text_of(target, edit.before)):
                original = edits.bytes_of(edit.before, edits.without_entry(target, text))
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

    def records(self) -> list[Record]:
        """All edits that were made and not taken back, by the paths of their files."""
        homes = list_folder(self._folder)
        found = [record for home in homes if (record := self._read(home)) is not None]
        return sorted(found, key=lambda each: each.real)

    def undoing(self, record: Record) -> Undo:
        """What taking a record back would change."""
        target = replace(record.target, path=Path(record.real))
        now = edits.read(Path(record.real))
        original = self._original(record)
        if now is None or _sha(now) == record.before:
            return Undo(record, Edit(target, now, now), True, "")
        if _sha(now) == record.after:
            return Undo(record, Edit(target, now, original), True, "")
        text = edits.text_of(target, now)
        after = edits.bytes_of(now, edits.without_entry(target, text))
        kept = str(self._home(Path(record.real)) / _ORIGINAL) if original is not None else ""
        return Undo(record, Edit(target, now, after), False, kept)

    def undo(self, undo: Undo) -> None:
        """Take a record back, and forget it."""
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
        files.remove(home / _RECORD if undo.kept else home)

    # --- on the disk --------------------------------------------------------------------------

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
            return Record(**shape, made=made, target=Target(**target))
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
        hint="Take Lookfar out of the client's settings by hand, then delete that folder.",
        details={"folder": str(home)},
    )


def _sha(raw: bytes | None) -> str | None:
    return None if raw is None else hashlib.sha256(raw).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _missing(folder: Path) -> tuple[str, ...]:
    """The folders on the way to a file that are not there, the outermost first."""
    found: list[str] = []
    while not folder.exists():
        found.append(str(folder))
        folder = folder.parent
    return tuple(reversed(found))


@contextmanager
def _opened(folder: Path) -> Iterator[int | str]:
    """A folder by which files in it are named, whatever its path leads to by then."""
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
    """Put ``data`` in the place of ``old``, at once, with the mode and owner that it has."""
    for each in _missing(path.parent):
        files.make_subfolder(str(Path(each).parent), Path(each).name)
    staged = f".{path.name}.{os.getpid()}.lookfar"
    with _opened(path.parent) as folder:
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
    with _opened(path.parent) as folder:
        if edits.read(path) != old:
            raise changed(path)
        files.remove_entry(folder, path.name)
        files.sync_open_folder(folder)


def changed(path: Path) -> Conflict:
    return Conflict(
        f"{path} changed while you were looking at it.",
        hint="Run the command again; nothing in that file was changed.",
        details={"file": str(path)},
    )
