"""Read the files of a tar or zip archive that a user names. Nothing is unpacked by the archive's
own rules: links, devices and paths that lead elsewhere are not files."""

from __future__ import annotations

import bz2
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Final, cast

from lookfar.errors import InvalidArgument, from_os_error

_BROKEN: Final = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError,
    NotImplementedError, RuntimeError, ValueError, OSError,
)  # fmt: skip
_CHUNK: Final = 1 << 20
_BOUNDED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""``zipfile`` decompresses everything else without a limit, such as 1 KB of bzip2 to 1 GB."""
_LONGEST_HEADER: Final = 1 << 20
"""The most bytes that describe one file of a tar archive, such as its name."""
_UNREADABLE: Final = "encrypted or damaged"
_MOST_ENTRIES: Final = 1_000_000
_MOST_EXPANDED: Final = 16 << 30

Member = tuple[str, int, IO[bytes] | None]
"""The path of a file in an archive, its size as the archive says, and its bytes; None if it cannot
be read."""


def read_archive(path: str) -> Iterator[Member]:
    """Yield the files of an archive, each to be read before the next."""
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise from_os_error(error, f"opening {path}") from error
    with file:
        try:
            if zipfile.is_zipfile(file):
                yield from _read_zip(file)
            else:
                file.seek(0)
                yield from _read_tar(file)
        except _BROKEN as error:
            raise InvalidArgument(
                f"{path} cannot be read as a tar or zip archive.",
                hint="Check that it is whole; tar, tar.gz, tar.bz2, tar.xz and zip can be read.",
                developer=f"{type(error).__name__}: {error}",
            ) from error


def read_limited(stream: IO[bytes] | None, limit: int) -> tuple[bytes, str]:
    """Return the bytes of a member, or why they cannot be used."""
    if stream is None:
        return b"", _UNREADABLE
    data = bytearray()
    try:
        while piece := stream.read(_CHUNK):
            data += piece
            if len(data) > limit:
                return b"", "too large"
    except _BROKEN:
        return b"", _UNREADABLE
    return bytes(data), ""


def _read_zip(file: IO[bytes]) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            is_link = entry.external_attr >> 28 == 0xA
            if entry.filename.endswith("/") or is_link:
                continue
            stream = None
            if entry.compress_type in _BOUNDED:
                with suppress(*_BROKEN):
                    stream = archive.open(entry)
            yield entry.filename, entry.file_size, stream


def _read_tar(file: IO[bytes]) -> Iterator[Member]:
    stream = _TarStream(_decompress(file))
    with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r:") as archive:
        for number, entry in enumerate(iter(archive.next, None)):
            if number == _MOST_ENTRIES or archive.offset > _MOST_EXPANDED:
                raise _too_large(f"{_MOST_ENTRIES:,} entries or {_MOST_EXPANDED:,} bytes")
            stream.left = entry.size
            if entry.isreg():
                yield entry.name, entry.size, archive.extractfile(entry)
            stream.left = _LONGEST_HEADER
            # They are kept for looking up names, and would grow with every entry.
            archive.members.clear()  # type: ignore[attr-defined]
            archive.pax_headers = {}


class _TarStream:
    """Reads forward only, and no more than is ``left``: ``tarfile`` reads headers of any size."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.tell = stream.tell
        self.left = _LONGEST_HEADER

    def read(self, size: int) -> bytes:
        self.left -= size
        if size < 0 or self.left < 0:
            raise _too_large(f"{_LONGEST_HEADER:,} bytes for one name")
        return self._stream.read(size)

    def seek(self, position: int) -> None:
        if position < self._stream.tell():
            raise tarfile.ReadError("an entry has a negative size")
        self._stream.seek(position)


def _too_large(limit: str) -> InvalidArgument:
    return InvalidArgument(
        f"The archive has more than {limit}.", hint="Unpack it, and add a folder of it."
    )


def _decompress(file: IO[bytes]) -> IO[bytes]:
    """Return the stream of a tar archive, whatever compressed it."""
    import gzip

    start = file.read(6)
    file.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=file))
    if start.startswith(b"BZh"):
        return bz2.BZ2File(file)
    if start.startswith(b"\xfd7zXZ"):
        return lzma.LZMAFile(file)
    return file
