"""Read parts of ZIP-based documents within limits, and parse their XML without entities."""

from __future__ import annotations

import io
import posixpath
import struct
import zipfile
import zlib
from urllib.parse import unquote
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from lookfar.text.extract.extracted import CannotExtract, Limits

_CHUNK = 1 << 18
_SMALL = 1 << 20
"""The compression ratio of parts smaller than this (bytes) is not checked."""
_DEEPEST = 250
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""The first bytes of OLE files: old binary office files, and encrypted new ones."""
_BROKEN = (
    zipfile.BadZipFile, zlib.error, EOFError, struct.error, NotImplementedError, ValueError,
    OverflowError, OSError,
)  # fmt: skip


class Archive:
    """The parts of a ZIP-based document. The limit on bytes read covers all parts together."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        self._limits = limits
        self._left = limits.max_expanded_bytes
        if data.startswith(_OLE):
            raise _ole_refusal(data)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            entries = self._zip.infolist()
        except _BROKEN as error:
            raise CannotExtract("damaged", "the file is damaged") from error
        if len(entries) > limits.max_parts:
            raise CannotExtract("too_large", f"the file has more than {limits.max_parts:,} parts")
        self._entries = {entry.filename.replace("\\", "/"): entry for entry in entries}

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def names(self) -> list[str]:
        """Return the names of all parts, in the order of the file."""
        return list(self._entries)

    def read(self, name: str) -> bytes:
        """Return a part. Raises ``CannotExtract`` if it is missing, damaged or too large."""
        entry = self._entries.get(name)
        if entry is None:
            raise CannotExtract("damaged", f"the file has no part {name[:100]}")
        if entry.flag_bits & 1:
            raise CannotExtract("encrypted", "the file is encrypted with a password")
        chunks: list[bytes] = []
        size = 0
        try:
            with self._zip.open(entry) as part:
                while chunk := part.read(_CHUNK):
                    size += len(chunk)
                    self._check_size(size, entry.compress_size)
                    self._left -= len(chunk)
                    chunks.append(chunk)
        except _BROKEN as error:
            raise CannotExtract("damaged", "the file is damaged") from error
        return b"".join(chunks)

    def parse(self, name: str) -> Element:
        """Return the root element of a part that is XML."""
        return parse_xml(self.read(name))

    def parse_optional(self, name: str) -> Element | None:
        """Return the root element of a part, or ``None`` if there is no such part."""
        return self.parse(name) if name in self else None

    def _check_size(self, size: int, compressed: int) -> None:
        ratio = self._limits.max_ratio
        if size > _SMALL and size > ratio * max(1, compressed):
            raise CannotExtract(
                "too_large", f"a part grows more than {ratio:,} times (a zip bomb?)"
            )
        if self._left <= 0:
            most = self._limits.max_expanded_bytes // 1_000_000
            raise CannotExtract("too_large", f"the file holds more than {most:,} MB of data")


def _ole_refusal(data: bytes) -> CannotExtract:
    if "EncryptedPackage".encode("utf-16-le") in data:
        return CannotExtract("encrypted", "the file is encrypted with a password")
    reason = "an old binary office file; save it in the current format"
    return CannotExtract("unsupported", reason)


def parse_xml(data: bytes) -> Element:
    """Parse XML. Refuse XML that declares entities, and load nothing from outside the file."""
    builder = TreeBuilder()
    _read_xml(data, builder)
    try:
        return builder.close()
    except AssertionError as error:
        raise CannotExtract("damaged", "the file has damaged XML") from error


def check_xml(data: bytes) -> None:
    """Raise ``CannotExtract`` for XML that ``parse_xml`` would refuse."""
    _read_xml(data, None)


def _read_xml(data: bytes, builder: TreeBuilder | None) -> None:
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise CannotExtract("damaged", "elements are nested too deep")
        if builder is not None:
            builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        if builder is not None:
            builder.end(tag)

    def refuse_entity(*_: object) -> None:
        raise CannotExtract("damaged", "the file defines XML entities")

    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.EntityDeclHandler = refuse_entity
    if builder is not None:
        parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise CannotExtract("damaged", "the file has damaged XML") from error


def local_name(tag: str) -> str:
    """Return the name of an element or attribute without its namespace."""
    return tag.rpartition("}")[2]


def attribute(element: Element, name: str) -> str:
    """Return an attribute by its local name, or an empty text."""
    value = element.get(name)
    if value is not None:
        return value
    for key, value in element.items():
        if local_name(key) == name:
            return value
    return ""


def child(element: Element, *names: str) -> Element | None:
    """Return the first descendant along local names, or ``None``."""
    for name in names:
        following = next((item for item in element if local_name(item.tag) == name), None)
        if following is None:
            return None
        element = following
    return element


def resolve(base: str, target: str) -> str:
    """Return the name of a part that is given relative to another part."""
    target = unquote(target.partition("#")[0])
    if target.startswith("/"):
        return target.lstrip("/")
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), target)).lstrip("/")


def relations(archive: Archive, part: str) -> dict[str, tuple[str, str]]:
    """Return kind and target of the relations of a part in an Office Open XML file, by id."""
    folder, name = posixpath.split(part)
    root = archive.parse_optional(posixpath.join(folder, "_rels", f"{name}.rels"))
    targets: dict[str, tuple[str, str]] = {}
    for item in root if root is not None else ():
        kind, target = attribute(item, "Type").rpartition("/")[2], attribute(item, "Target")
        external = attribute(item, "TargetMode") == "External"
        targets[attribute(item, "Id")] = (kind, target if external else resolve(part, target))
    return targets
