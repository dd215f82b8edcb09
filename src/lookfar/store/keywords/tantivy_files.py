"""The files of a tantivy index: which belong to a commit, their checksums, and their errors."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO
from zlib import crc32

import tantivy

from lookfar.errors import IndexCorrupt, LookfarError, from_os_error
from lookfar.store.ground import files

META = "meta.json"
_FOOTER_MAGIC = 1337
_LONGEST_FOOTER = 4096
_PIECE = 1 << 20
_PARTS = ("fast", "fieldnorm", "idx", "pos", "store", "term")
_OS_ERROR = re.compile(r"\bos error (\d+)|\bcode: (\d+)")


def segment_files(folder: Path) -> list[Path]:
    """Return the files of the last commit, without any left by a crash."""
    paths: list[Path] = []
    for segment in json.loads((folder / META).read_bytes())["segments"]:
        name = segment["segment_id"].replace("-", "")
        paths += (folder / f"{name}.{part}" for part in _PARTS)
        if segment["deletes"]:
            paths.append(folder / f"{name}.{segment['deletes']['opstamp']}.del")
    return paths


def describe_file_damage(path: Path) -> str:
    """Compare a tantivy file with the checksum in its footer; describe any difference."""
    try:
        with path.open("rb") as file:
            return _check_footer(file)
    except OSError as error:
        return error.strerror or str(error)


def _check_footer(file: BinaryIO) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _LONGEST_FOOTER))
    end = file.read()
    if len(end) < 8 or int.from_bytes(end[-4:], "little") != _FOOTER_MAGIC:
        return "its footer is missing"
    length = int.from_bytes(end[-8:-4], "little")
    try:
        footer = json.loads(end[-8 - length : -8])
        expected = footer["crc"]
    except (ValueError, KeyError, TypeError):
        return "its footer is unreadable"
    if set(footer) != {"version", "crc"}:
        return "its footer differs from what was written"
    # In pieces, because a file may be larger than memory.
    file.seek(0)
    remaining, checksum = size - 8 - length, 0
    while remaining > 0 and (piece := file.read(min(remaining, _PIECE))):
        remaining -= len(piece)
        checksum = crc32(piece, checksum)
    return "" if checksum == expected else "its checksum differs"


def file_version() -> dict[str, int]:
    numbers = map(int, re.findall(r"\d+", tantivy.__version__))  # type: ignore[attr-defined]
    return dict(zip(("major", "minor", "patch", "index_format_version"), numbers, strict=True))


class reading:  # noqa: N801  # Used like a function.
    """Report what tantivy cannot read as damage, unless the operating system caused it.

    A class, because a question enters it some fifty times and a generator takes longer.
    """

    __slots__ = ("_folder",)

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, (LookfarError, MemoryError)):
            return
        # A panic of the native code is a BaseException, but not a request to exit.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            return
        number = error.errno if isinstance(error, OSError) else parse_errno(error)
        if number and number != errno.ENOENT:
            cause = OSError(number, os.strerror(number), str(self._folder))
            raise from_os_error(cause, "reading the keyword index") from error
        raise IndexCorrupt(
            "The keyword index is damaged.",
            hint="Rebuild it from the sources: lookfar index PATH --rebuild.",
            developer=f"{self._folder.name}: {type(error).__name__}: {error}",
            details={"path": str(self._folder)},
        ) from error


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Restore the error number that tantivy reports as text or not at all."""
    with files.translate_errors("writing the keyword index"):
        try:
            yield
        except (ValueError, RuntimeError) as error:
            number = parse_errno(error)
            if not number:  # An error in tantivy's own threads has no cause.
                files.probe_write(folder)
            raise OSError(number or errno.EIO, str(error)) from error


def parse_errno(error: BaseException) -> int:
    """Return the error number in one of tantivy's messages, or 0."""
    match = _OS_ERROR.search(str(error))
    return int(match[1] or match[2]) if match else 0
