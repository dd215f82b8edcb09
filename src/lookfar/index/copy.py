"""Copy collections from one store to another: a folder of this machine, or a server.

The serving generation is copied document by document, with its vectors, and then read back: a
copy whose hash differs raises an error. An interrupted copy continues where it stopped, and
copying again transfers only what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from lookfar import config
from lookfar.common.folders import list_folder
from lookfar.errors import InvalidArgument, IOFailed, NotFound
from lookfar.index.prepare import CheckpointTimer
from lookfar.ports import (
    CollectionSnapshot,
    Store,
    Version,
    Writer,
)
from lookfar.store.catalogue.exports import digest
from lookfar.store.opening import COPIES
from lookfar.store.sqlite.store import CollectionStore

DOCUMENTS: Final = "documents"
"""The folder of inserted documents; on a server, the prefix of their names."""
_SCHEMES: Final = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True)
class Copied:
    collection: str
    documents: int
    chunks: int
    copied: int
    """Documents that the target did not have."""
    sha256: str
    """A hash of the content of all documents; the same in both places."""
    generation: int
    """Its number in the target."""


OnCopied = Callable[[str, int, int], None]
"""Called with the collection, the number of documents done, and their total."""


class IndexLocation:
    """A folder of indexes or a server, with all its collections."""

    def __init__(self, place: str) -> None:
        """``place`` is the path of the folder or the address of the server."""
        self.place = place

    @property
    def on_server(self) -> bool:
        return self.place.startswith(_SCHEMES)

    def names(self) -> list[str]:
        if self.on_server:
            from lookfar.store.postgres.server import server_at

            return server_at(self.place).names()
        folder = Path(self.place)
        if not folder.is_dir():
            raise NotFound(
                f"There is no folder {self.place!r}.",
                hint="Give a folder of indexes (lookfar status shows it) or a server address.",
            )
        homes = [*list_folder(folder), *list_folder(folder / DOCUMENTS)]
        serving = (home for home in homes if (home / "CURRENT").is_file())
        return sorted(home.relative_to(folder).as_posix() for home in serving)

    def store(self, name: str) -> Store:
        if self.on_server:
            from lookfar.store.postgres.server import server_at
            from lookfar.store.postgres.store import PostgresStore

            copies = Path(config.load(None).index.dir) / COPIES
            return PostgresStore(server_at(self.place), name, Path(name), copies)
        return CollectionStore(Path(self.place) / name, only_copy=name.startswith(f"{DOCUMENTS}/"))


def select_collections(source: IndexLocation, names: Sequence[str]) -> list[str]:
    """Return the collections with these names or unique prefixes; without names, all of them."""
    existing = source.names()
    selected: list[str] = []
    for name in names:
        matching = (
            [name]
            if name in existing
            else [collection for collection in existing if collection.startswith(name)]
        )
        if len(matching) != 1:
            raise NotFound(
                f"There is no collection {name!r} there."
                if not matching
                else f"{name!r} matches {len(matching)} collections.",
                hint=f"Collections: {', '.join(matching or existing) or 'none'}.",
                details={"candidates": matching or existing},
            )
        selected += matching
    return selected if names else existing


def copy(
    source: IndexLocation,
    target: IndexLocation,
    names: Sequence[str] = (),
    on_copied: OnCopied | None = None,
    wait_seconds: float = 0.0,
) -> Iterator[Copied]:
    if source.place == target.place:
        raise InvalidArgument(
            "Source and target are the same.", hint="Choose two different places."
        )
    report = on_copied or (lambda *_: None)
    for name in select_collections(source, names):
        with _closing(source.store(name)) as one, _closing(target.store(name)) as other:
            result = _copy_collection(name, one, other, report, wait_seconds)
        yield result


@contextmanager
def _closing(store: Store) -> Iterator[Store]:
    try:
        yield store
    finally:
        with suppress(IOFailed):  # By then the copy is committed and has been read back.
            store.close()


def _copy_collection(
    name: str, source: Store, target: Store, report: OnCopied, wait_seconds: float
) -> Copied:
    fingerprint, about = source.fingerprint(), source.about()
    retain = max(1, len(source.generations()))
    with source.snapshot() as snapshot:
        uris = snapshot.uris()
        with target.writer(
            fingerprint,
            snapshot.dimensions,
            model=snapshot.model(),
            about=about,
            retain=retain,
            wait_seconds=wait_seconds,
        ) as writer:
            known, existing = snapshot.known(), writer.known()
            gone = sorted(existing.keys() - known.keys())
            for uri in gone:
                writer.remove(uri)
            expected, copied = sha256(), 0
            checkpoints = CheckpointTimer()
            for number, uri in enumerate(uris, 1):
                version = snapshot.version(uri)
                if version is None:
                    raise _copy_differs(name, f"{uri} cannot be read")
                expected.update(digest(version))
                before, now = existing.get(uri), known[uri]
                if before is not None and before[3:] == now[3:]:
                    writer.touch(before.document, now.fingerprint, now.settled)
                else:
                    _copy_document(writer, snapshot, version)
                    copied += 1
                    if writer.fresh:
                        checkpoints.run_if_due(writer.checkpoint)
                report(name, number, len(uris))
            writer.leave_out(list(snapshot.left_out().values()))
            if copied or gone or writer.fresh:
                generation = writer.activate(dict(snapshot.manifest()))
            else:
                generation = writer.commit_touches()
        chunks = snapshot.counts().chunks
    content, copied_chunks = _hash_content(target)
    if (content, copied_chunks) != (expected.hexdigest(), chunks):
        difference = f"{content} for {expected.hexdigest()}"
        raise _copy_differs(name, f"{copied_chunks} chunks of {chunks}, {difference}")
    return Copied(name, len(uris), chunks, copied, content, generation)


def _copy_document(writer: Writer, snapshot: CollectionSnapshot, version: Version) -> None:
    lacking = writer.missing(version.embedded)
    names, entries = snapshot.streams(version.uri) or ((), ())
    writer.put(
        replace(
            version,
            name_terms=tuple(names),
            entries=[tuple(entry) for entry in entries],
            embedded={content: version.embedded[content] for content in lacking},
        )
    )


def _hash_content(store: Store) -> tuple[str, int]:
    """Read back what a store serves; return a hash of it and the number of chunks."""
    hashed = sha256()
    with store.snapshot() as snapshot:
        for uri in snapshot.uris():
            version = snapshot.version(uri)
            if version is not None:
                hashed.update(digest(version))
        return hashed.hexdigest(), snapshot.counts().chunks


def _copy_differs(name: str, developer: str) -> IOFailed:
    return IOFailed(
        f"The copy of {name} differs from the source.",
        hint="Copy it again; if that does not help, index it there from its source.",
        developer=developer,
    )
