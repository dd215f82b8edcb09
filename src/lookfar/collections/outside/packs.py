"""A pack as a source: its files and vectors, checked and stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lookfar.collections.outside.fetching import SAME_PATH, Admission, Fetched
from lookfar.collections.outside.given_vectors import take_over_given, write_given
from lookfar.collections.outside.shelf import compute_digest, hash_files, write_incoming
from lookfar.errors import InvalidArgument, how_many
from lookfar.sources.pack_format import NAME_BYTES, PackReader
from lookfar.sources.signing import describe_key, is_valid, read_trusted_keys
from lookfar.store.ground import files

if TYPE_CHECKING:
    from typing import NoReturn

    from lookfar.collections.outside.fetching import Request
    from lookfar.model import IndexReport, OutsideSource
    from lookfar.ports import Embedder
    from lookfar.sources.pack_format import Body

FILE_OPTION: Final = "file"
"""Where the pack was added from; an update looks there for a newer one."""
KEY_OPTION: Final = "key"
MODEL_OPTION: Final = "packed_model"
KIND_OPTION: Final = "packed_kind"


def fetch_pack(request: Request) -> Fetched:
    """Check a pack and store what it contains; nothing changes if any of it is refused."""
    source, path = request.source, str(request.source.options[FILE_OPTION])
    if not Path(path).is_file():
        raise InvalidArgument(
            f"The pack {path} is no longer there.",
            hint="Add the newer pack: lookfar add FILE",
        )
    with PackReader(path) as pack:
        pack.verify()
        key, signer = _check_signature(pack, request)
        if pack.sha256 == source.pack and request.files.is_dir():
            return Fetched(unchanged=True)
        _check_same_signer(source, key, signer, path)
        storing = _Storing(pack, request)
        pack.read(storing.take, storing.take_vectors)
        storing.finish()
    manifest = pack.manifest
    options = {
        **source.options, MODEL_OPTION: manifest.model_name, KIND_OPTION: manifest.kind,
        KEY_OPTION: key,
    }  # fmt: skip
    described = replace(
        source, origin=manifest.origin, version=manifest.version, fetched=manifest.fetched,
        pack=pack.sha256, signer=signer, options=options,
    )  # fmt: skip
    notes = [*storing.admission.notes(), _note_signer(key, signer)]
    if source.pack and manifest.fetched < source.fetched:
        notes.append(f"this pack is older than the previous one ({source.fetched[:10]})")
    return Fetched(origins=storing.origins, notes=tuple(notes), described=described)


def describe_pack(path: str) -> tuple[str, str]:
    """Return the name and the origin that a pack gives its source."""
    with PackReader(path) as pack:
        return pack.manifest.name, pack.manifest.origin


def note_embedded(
    source: OutsideSource, report: IndexReport, embedder: Embedder | None
) -> tuple[str, ...]:
    """Return a note if passages of a pack had to be embedded, and why."""
    number = report.chunks_embedded
    if not number or embedder is None:
        return ()
    made_by = str(source.options.get(MODEL_OPTION, ""))
    again = f"{how_many(number, 'passage')} embedded again on this machine"
    if not made_by:
        return (f"{again}: the pack has no vectors",)
    if made_by != embedder.name:
        return (f"{again}: the pack has vectors of {made_by}, and this is {embedder.name}",)
    return (f"{again}: the pack was made with other settings or another version of the model",)


class _Storing:
    """Writes the files of a pack into the next state of its source."""

    def __init__(self, pack: PackReader, request: Request) -> None:
        self._pack = pack
        self._request = request
        self._incoming = request.incoming
        self.admission = Admission(request.settings, pack.path)
        self._done = 0
        self.origins: dict[str, dict[str, Any]] = {}
        most, manifest = request.settings.outside, pack.manifest
        vector_bytes = manifest.vectors * (NAME_BYTES + manifest.dimensions * 2)
        for limit, value in (("max_files", manifest.files), ("max_bytes", manifest.bytes),
                             ("max_bytes", vector_bytes)):  # fmt: skip
            if value > getattr(most, limit):
                raise InvalidArgument(
                    f"{pack.path} is larger than outside.{limit} allows.",
                    hint=f"Raise outside.{limit} if you trust the pack. Nothing was added.",
                )
        files.remove(self._incoming)

    def take(self, uri: str, url: str, size: int, body: Body) -> None:
        self._done += 1
        reason = self.admission.refuse(uri, size)
        if reason == SAME_PATH:  # No source has such files, so none was packed.
            self._refuse(reason)
        if reason:
            return
        if (self._incoming / uri).exists():
            self._refuse("it contains a file twice")
        self._request.on_fetch(uri, self._done, self._pack.manifest.files)
        self.admission.count(size)
        write_incoming(self._incoming, uri, body.read())
        if url:
            self.origins[uri] = {"url": url}

    def take_vectors(self, body: Body) -> None:
        write_given(self._incoming.parent, self._pack.manifest, body, self._refuse)

    def finish(self) -> None:
        """Compare the files with the manifest, unless the user's settings skipped some."""
        digest = compute_digest(hash_files(self._incoming))
        if not self.admission.skipped and digest != self._pack.manifest.digest:
            self._refuse("its files do not match its manifest")
        take_over_given(self._incoming.parent)

    def _refuse(self, reason: str) -> NoReturn:
        raise InvalidArgument(
            f"{self._pack.path} cannot be used: {reason}.",
            hint="Nothing was added. Copy or download the pack again.",
        )


def _check_signature(pack: PackReader, request: Request) -> tuple[str, str]:
    """Return the key that signed a pack, in hex, and its name; both empty without a signature."""
    outside, signature = request.settings.outside, pack.signature
    trusted = read_trusted_keys(outside.trusted_keys)
    key, name = "", ""
    if signature is not None:
        if not is_valid(signature, pack.hash):
            raise InvalidArgument(
                f"The signature of {pack.path} is wrong.",
                hint="The pack was changed after it was signed. Nothing was added. Get it again.",
            )
        key, name = signature.key.hex(), trusted.get(signature.key, "")
    if outside.require_signed and not name:
        found, hint = "not signed", "Ask its author to sign it: lookfar pack NAME --sign KEY"
        if signature is not None:
            found = f"signed by the unknown key {describe_key(signature.key)}"
            hint = "Ask its author for the public key, and add it to outside.trusted_keys."
        raise InvalidArgument(
            f"{pack.path} is {found}, and outside.require_signed is set.",
            hint=hint,
        )
    return key, name or (describe_key(signature.key) if signature else "")


def _check_same_signer(source: OutsideSource, key: str, signer: str, path: str) -> None:
    """Refuse to replace a signed pack with one that has another signature or none."""
    before = source.options.get(KEY_OPTION, "")
    if before and before != key:
        found = f"signed by {signer}" if signer else "not signed"
        raise InvalidArgument(
            f"{source.name} was signed by {source.signer}, and {path} is {found}.",
            hint=f"If you expected this, first run: lookfar sources remove {source.name}",
        )


def _note_signer(key: str, signer: str) -> str:
    if not key:
        return "not signed: only its hash was checked"
    if signer.startswith("SHA256:"):
        return f"signed by {signer}, a key that is not in outside.trusted_keys"
    return f"signed by {signer}"
