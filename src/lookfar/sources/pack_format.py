"""The format of packs: the files of a source and the vectors of its passages, in one file.

    lookfar-pack 1\\n
    {manifest}\\n                what it contains, as one line of JSON
    zlib stream                 a line of JSON before each file, and before the vectors
    32 bytes                    SHA-256 of everything above
    32 + 64 bytes               Ed25519 key and signature of that hash; zeros if it is not signed

The same contents give the same bytes. A pack is untrusted: its hash and signature are
checked before anything is decompressed, every size is limited, and nothing in it is a path, a
program or a database that would be opened as such.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from types import TracebackType
from typing import IO, Any, Final, NamedTuple, NoReturn, TypeGuard

from lookfar.errors import InvalidArgument, from_os_error

FORMAT: Final = 1
SUFFIX: Final = ".lookpack"
_MAGIC: Final = b"lookfar-pack "
_LONGEST_MANIFEST: Final = 100_000
_LONGEST_LINE: Final = 100_000
_LONGEST_TEXT: Final = 2_000
_MOST_DIMENSIONS: Final = 16_384
_HASH_BYTES: Final = 32
_TRAILER: Final = 32 + 32 + 64
_PIECE: Final = 1 << 18
_LEVEL: Final = 6
NAME_BYTES: Final = 16
"""The length of the content name before each vector."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a pack says about itself."""

    name: str
    kind: str
    """What the source was before it was packed: a site, a repository, ..."""
    origin: str
    version: str
    fetched: str
    """When its files were last compared with the origin, in ISO format."""
    digest: str
    """SHA-256 over the names and contents of all files."""
    files: int
    bytes: int
    """Of all files together."""
    model: str
    """The fingerprint of the model that made the vectors; empty without vectors."""
    model_name: str
    dimensions: int
    vectors: int


class PackedFile(NamedTuple):
    uri: str
    url: str
    """The address of the page; empty if the file has none of its own."""
    data: bytes


class Signature(NamedTuple):
    key: bytes
    signature: bytes


Sign = Callable[[bytes], Signature]
"""Signs the hash of a pack."""


def encode_pack(
    manifest: Manifest,
    contents: Iterable[PackedFile],
    vectors: Iterable[tuple[bytes, bytes]],
    sign: Sign | None = None,
) -> Iterator[bytes]:
    """Yield the bytes of a pack; the counts in the manifest must be true."""
    total = sha256()
    compressor = zlib.compressobj(_LEVEL)
    head = _MAGIC + b"%d\n" % FORMAT + _encode_line(asdict(manifest))
    total.update(head)
    yield head
    for piece in _encode_records(manifest, contents, vectors):
        if compressed := compressor.compress(piece):
            total.update(compressed)
            yield compressed
    rest = compressor.flush()
    total.update(rest)
    yield rest
    yield total.digest()
    signed = sign(total.digest()) if sign else Signature(bytes(32), bytes(64))
    yield signed.key + signed.signature


def _encode_records(
    manifest: Manifest, contents: Iterable[PackedFile], vectors: Iterable[tuple[bytes, bytes]]
) -> Iterator[bytes]:
    for file in contents:
        line: dict[str, Any] = {"file": file.uri, "size": len(file.data)}
        yield _encode_line({**line, "url": file.url} if file.url else line)
        yield file.data
    yield _encode_line({"vectors": manifest.vectors, "dimensions": manifest.dimensions})
    for name, vector in vectors:
        yield name + vector


def _encode_line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode("ascii") + b"\n"


def is_pack(path: str) -> bool:
    """Return whether a file begins as packs do, of any format."""
    if not os.path.isfile(path):  # To open a named pipe would wait for a writer.
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


class PackReader:
    """Reads one pack: first its manifest, then :meth:`verify`, then files and vectors in order."""

    def __init__(self, path: str, file: IO[bytes] | None = None) -> None:
        """``file`` is read instead of the path, if it is given."""
        self.path = path
        try:
            self._file = file or open(path, "rb")  # noqa: SIM115 - closed with the reader
        except OSError as error:
            raise from_os_error(error, f"opening {path}") from error
        try:
            self.manifest = self._read_manifest()
        except BaseException:
            self._file.close()
            raise
        self._body_at = self._file.tell()
        self._body_bytes = 0
        self._hash = b""
        self.signature: Signature | None = None
        self.sha256 = ""
        """The hash of the whole file; known after :meth:`verify`."""

    def __enter__(self) -> PackReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    @property
    def hash(self) -> bytes:
        """What a signature signs."""
        return self._hash

    def verify(self) -> None:
        """Compare the pack with its hash; raise ``InvalidArgument`` if they differ."""
        with _ErrorTranslator(self.path):
            size = self._file.seek(0, 2)
            self._body_bytes = size - self._body_at - _TRAILER
            if self._body_bytes <= 0:
                self._refuse("it is truncated")
            self._file.seek(0)
            total = sha256()
            for piece in _read_pieces(self._file, size - _TRAILER):
                total.update(piece)
            whole = total.copy()
            trailer = self._file.read(_TRAILER)
        self._hash = trailer[:_HASH_BYTES]
        if total.digest() != self._hash:
            self._refuse("its hash is wrong, so it was changed or truncated")
        whole.update(trailer)
        self.sha256 = whole.hexdigest()
        key, signature = trailer[32:64], trailer[64:]
        if any(trailer[32:]):
            self.signature = Signature(key, signature)

    def read(
        self, take: Callable[[str, str, int, Body], None], take_vectors: Callable[[Body], None]
    ) -> None:
        """Pass every file on with its URI, its address and its size, and then the vectors.

        What is not read from a body is skipped.
        """
        manifest = self.manifest
        self._file.seek(self._body_at)
        stream = _Stream(self._file, self._body_bytes, self._refuse)
        left = manifest.bytes
        for _ in range(manifest.files):
            record = self._read_line(stream)
            uri, url, size = record.get("file"), record.get("url", ""), record.get("size")
            if not isinstance(uri, str) or not isinstance(url, str) or not _is_count(size):
                self._refuse("a file in it has no name or size")
            left -= size
            if left < 0:
                self._refuse("its files are larger than its manifest says")
            with Body(stream, size) as body:
                take(uri, url[:_LONGEST_TEXT], size, body)
        record = self._read_line(stream)
        expected = (manifest.vectors, manifest.dimensions)
        if (record.get("vectors"), record.get("dimensions")) != expected:
            self._refuse("its vectors do not match its manifest")
        with Body(stream, manifest.vectors * (NAME_BYTES + 2 * manifest.dimensions)) as body:
            take_vectors(body)
        stream.finish()
        again = sha256()
        with _ErrorTranslator(self.path):
            self._file.seek(0)
            for piece in _read_pieces(self._file, self._body_at + self._body_bytes):
                again.update(piece)
        if again.digest() != self._hash:
            self._refuse("it was changed while it was read")

    def _read_line(self, stream: _Stream) -> dict[str, Any]:
        return self._parse(stream.read_line())

    def _read_manifest(self) -> Manifest:
        with _ErrorTranslator(self.path):
            head = self._file.readline(len(_MAGIC) + 12)
            if not head.startswith(_MAGIC) or not head.endswith(b"\n"):
                self._refuse("it is not a pack, or its beginning is missing")
            version = head[len(_MAGIC) : -1]
            if version != b"%d" % FORMAT:
                raise InvalidArgument(
                    f"{self.path} is a pack of format {version.decode('ascii', 'replace')!r},"
                    f" and this version of Lookfar reads format {FORMAT}.",
                    hint="Update Lookfar, or pack the source again with this version.",
                )
            line = self._file.readline(_LONGEST_MANIFEST)
        if not line.endswith(b"\n"):
            self._refuse("it is truncated")
        record = self._parse(line)
        for field in fields(Manifest):
            value = record.get(field.name)
            good = _is_count(value) if field.type == "int" else _is_text(value)
            if not good:
                self._refuse(f"its manifest has no usable {field.name!r}")
        manifest = Manifest(**{field.name: record[field.name] for field in fields(Manifest)})
        if manifest.dimensions > _MOST_DIMENSIONS:
            self._refuse("its vectors are too long")
        return manifest

    def _parse(self, line: bytes) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            self._refuse("a line in it is not a JSON object")
        return record

    def _refuse(self, reason: str) -> NoReturn:
        raise InvalidArgument(
            f"{self.path} cannot be used: {reason}.",
            hint="Nothing was added. Copy or download the pack again.",
        )


class _Stream:
    """Decompresses the body of a pack, never more at once than is asked for."""

    def __init__(self, file: IO[bytes], size: int, refuse: Callable[[str], NoReturn]) -> None:
        self._file = file
        self._left = size
        self._refuse = refuse
        self._decompressor = zlib.decompressobj()
        self._ready = b""
        self._at = 0
        """How much of ``_ready`` was read."""

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes and at least one."""
        self._fill()
        data = self._ready[self._at : self._at + size]
        self._at += len(data)
        return data

    def read_line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            self._fill()
            end = self._ready.find(b"\n", self._at) + 1 or len(self._ready)
            line += self._ready[self._at : end]
            self._at = end
            if len(line) > _LONGEST_LINE:
                self._refuse("a line in it is too long")
        return line

    def finish(self) -> None:
        """Refuse a body that goes on after its last record."""
        while self._at == len(self._ready) and not self._decompressor.eof:
            self._ready, self._at = self._decompress(at_end=True), 0
        if self._at < len(self._ready) or self._left or self._decompressor.unused_data:
            self._refuse("it contains more than its manifest says")

    def _fill(self) -> None:
        while self._at == len(self._ready):
            self._ready, self._at = self._decompress(), 0

    def _decompress(self, *, at_end: bool = False) -> bytes:
        decompressor = self._decompressor
        data = decompressor.unconsumed_tail
        if not data and not decompressor.eof:
            data = self._file.read(min(self._left, _PIECE))
            self._left -= len(data)
        if not data:
            self._refuse("it ends too early")
        try:
            ready = decompressor.decompress(data, _PIECE)
        except zlib.error:
            self._refuse("it cannot be decompressed")
        if decompressor.eof and not ready and not at_end:
            self._refuse("it ends too early")
        return ready


class Body:
    """The bytes of one record, which are read once."""

    def __init__(self, stream: _Stream, size: int) -> None:
        self._stream = stream
        self.left = size

    def __enter__(self) -> Body:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            for _ in self.pieces():
                pass

    def read(self) -> bytes:
        """Return the rest; only for what is known to be small enough."""
        return b"".join(self.pieces())

    def pieces(self, size: int = _PIECE) -> Iterator[bytes]:
        """Yield pieces of exactly ``size`` bytes, and a last one that may be shorter."""
        held = bytearray()
        while self.left:
            data = self._stream.read(min(self.left, size - len(held)))
            self.left -= len(data)
            held += data
            if len(held) == size:
                yield bytes(held)
                held.clear()
        if held:
            yield bytes(held)


class _ErrorTranslator:
    """Translates errors of the system while a pack is read."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise from_os_error(error, f"reading {self._path}") from error


def _read_pieces(file: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0 and (piece := file.read(min(size, _PIECE))):
        size -= len(piece)
        yield piece


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 48


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_TEXT
