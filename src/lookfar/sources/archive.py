"""Read the files of a tar or zip archive that a user names. Nothing is unpacked by the archive's
own rules: links, devices and paths that lead elsewhere are not files."""

from __future__ import annotations

import bz2
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Final, cast

from lookfar.errors import InvalidArgument, from_os_error

_BROKEN: Final = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError,
    NotImplementedError, RuntimeError, ValueError, OSError,
)  # fmt: skip
_CHUNK: Final = 1 << 20

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


def read_limited(stream: IO[bytes], limit: int) -> bytes | None:
    """Return the bytes of a member; None if there are more than ``limit``."""
    pieces: list[bytes] = []
    size = 0
    while piece := stream.read(_CHUNK):
        size += len(piece)
        if size > limit:
            return None
        pieces.append(piece)
    return b"".join(pieces)


def _read_zip(file: IO[bytes]) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            is_link = entry.external_attr >> 28 == 0xA
            if entry.is_dir() or is_link:
                continue
            if entry.flag_bits & 1:  # Encrypted.
                yield entry.filename, entry.file_size, None
                continue
            with archive.open(entry) as stream:
                yield entry.filename, entry.file_size, stream


def _read_tar(file: IO[bytes]) -> Iterator[Member]:
    with tarfile.open(fileobj=_decompress(file), mode="r|") as archive:
        for entry in archive:
            if entry.isreg():
                yield entry.name, entry.size, archive.extractfile(entry)


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
