"""Write a source with the vectors of its index into a pack (:mod:`lookfar.sources.pack_format`).

Packed are the files that are indexed, not the index itself: the other machine parses them again,
which is quick and leaves nothing to trust but texts and vectors. Paths of this machine are not
packed, and secrets in the user's own files are masked as they are in the index.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lookfar.collections.outside.opened import SUFFIXES
from lookfar.collections.outside.shelf import FileHashes, compute_digest
from lookfar.errors import InvalidArgument, IOFailed, LookfarError, how_many
from lookfar.index.recipe import secrets_from
from lookfar.model import OutsideSource, PackReport
from lookfar.sources.confine import Refused
from lookfar.sources.fingerprints import content_hash, is_binary
from lookfar.sources.pack_format import SUFFIX, Manifest, PackedFile, Sign, encode_pack, is_pack
from lookfar.sources.secrets.values import MASK
from lookfar.sources.signing import write_public_key
from lookfar.store.ground import files
from lookfar.text.normalise import decode

if TYPE_CHECKING:
    from lookfar.collections.outside.collection import Outside
    from lookfar.ports import CollectionSnapshot

_MASKED: Final = MASK * 4


def suggest_file(source: OutsideSource) -> str:
    """Return the usual name for the pack of a source."""
    return _strip_suffix(source.name).replace("/", "-").strip("-.") + SUFFIX


def pack_source(collection: Outside, path: Path, sign: Sign | None = None) -> PackReport:
    """Write the pack of a source to ``path``; a pack that is there is replaced."""
    if path.exists() and not (path.is_file() and is_pack(str(path))):
        raise InvalidArgument(f"{path} exists and is not a pack.", hint="Choose another file name.")
    if not path.parent.is_dir():
        raise InvalidArgument(
            f"The folder {path.parent} does not exist.", hint="Create it, or choose another one."
        )
    collection.freshen()
    with collection.store.snapshot() as snapshot:
        packing = _Packing(collection, snapshot)
        manifest = packing.survey()
        if not manifest.files:
            raise InvalidArgument(
                f"{collection.name} has no indexed files.", hint="lookfar update fetches them."
            )
        size, total, last = 0, sha256(), b""

        def pieces() -> Iterator[bytes]:
            nonlocal size, last
            vectors = sorted(packing.vectors.items())
            for piece in encode_pack(manifest, packing.read_files(), vectors, sign):
                size += len(piece)
                total.update(piece)
                last = piece
                yield piece

        files.write_pieces(path, pieces())
    return PackReport(
        source=collection.name,
        path=str(path),
        bytes=size,
        sha256=total.hexdigest(),
        files=manifest.files,
        vectors=manifest.vectors,
        model=manifest.model_name,
        key=write_public_key(last[:32]) if sign else "",
        notes=packing.notes(),
    )


class _Packing:
    """One source on its way into a pack: read once to count, and once more to write."""

    def __init__(self, collection: Outside, snapshot: CollectionSnapshot) -> None:
        self._collection = collection
        self._snapshot = snapshot
        self._source = collection.described
        self._secrets = secrets_from(collection.settings)
        self._origins = collection.shelf.origins(collection.name)
        self._hashes: FileHashes = {}
        self._skipped: Counter[str] = Counter()
        self.vectors: dict[bytes, bytes] = {}
        """By content name."""

    def survey(self) -> Manifest:
        """Read everything once; return what the pack will contain."""
        for uri in self._snapshot.uris():
            version = self._snapshot.version(uri)
            data = None if version is None else self._read(uri)
            if version is None or data is None:
                continue
            if content_hash(data) != version.raw_sha:
                self._skipped["changed since it was indexed"] += 1
                continue
            data = self._mask(uri, data)
            if data is not None:
                self._hashes[uri] = sha256(data).hexdigest(), len(data)
                self.vectors.update(version.embedded)
        source, embedder = self._source, self._collection.embedder
        dimensions = self._snapshot.dimensions if self.vectors else 0
        return Manifest(
            name=_strip_suffix(source.name),
            kind=str(source.options.get("packed_kind") or source.kind),
            origin=_hide_path(source),
            version=source.version,
            fetched=source.fetched,
            digest=compute_digest(self._hashes),
            files=len(self._hashes),
            bytes=sum(size for _, size in self._hashes.values()),
            model=self._snapshot.model() if self.vectors else "",
            model_name=embedder.name if embedder and self.vectors else "",
            dimensions=dimensions,
            vectors=len(self.vectors),
        )

    def read_files(self) -> Iterator[PackedFile]:
        """Yield the files that were counted, by name."""
        for uri in sorted(self._hashes):
            data = self._read(uri)
            data = None if data is None else self._mask(uri, data)
            if data is None or sha256(data).hexdigest() != self._hashes[uri][0]:
                raise IOFailed(f"{uri} was changed while it was packed.", hint="Pack it again.")
            yield PackedFile(uri, str(self._origins.get(uri, {}).get("url", "")), data)

    def notes(self) -> tuple[str, ...]:
        return tuple(
            f"{how_many(number, 'file')} skipped: {reason}"
            for reason, number in sorted(self._skipped.items())
        )

    def _read(self, uri: str) -> bytes | None:
        limit = self._collection.policy.size_limit(uri)
        try:
            return self._collection.root.read(uri, limit)[0]
        except (Refused, LookfarError):
            self._skipped["cannot be read"] += 1
            return None

    def _mask(self, uri: str, data: bytes) -> bytes | None:
        """Return a file as others may see it; None if its secrets cannot be masked."""
        if _is_public(self._source):
            return data
        if is_binary(data, known=False):
            if _MASKED not in (self._snapshot.text(uri) or ""):
                return data
        else:
            text = decode(data).text
            screened = self._secrets.screen(uri, text)
            if not screened.refused:
                return (
                    screened.text.encode("utf-8", "surrogateescape") if screened.findings else data
                )
        self._skipped["contains what looks like a secret"] += 1
        return None


def _strip_suffix(name: str) -> str:
    suffix = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")
    return name.removesuffix(suffix)


def _is_public(source: OutsideSource) -> bool:
    """Return whether a source came over the network, so that others have seen it."""
    return source.kind == "pack" or (source.remote and "file://" not in source.origin)


def _hide_path(source: OutsideSource) -> str:
    """Return the origin of a source without folders of this machine."""
    if source.kind == "package":
        return _strip_suffix(source.name)
    if _is_public(source):
        return source.origin
    return re.split(r"[/\\]", source.origin.rstrip("/\\"))[-1] or source.name
