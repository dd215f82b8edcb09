"""Moving collections from one store to another: a folder of this machine, or a server.

Takes: two places, and names. Gives: in the target what serves in the source, document by
document, with its vectors; and a report of counts and hashes. Refuses: to call it done where a
hash differs; and histories of repositories that lie in folders, whose terms are not kept there
and which are read from the repository again.

What is copied is the serving generation. A copy that was interrupted goes on where it was, and
one that is made again copies what changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lookfar.common.folders import list_folder
from lookfar.errors import InvalidArgument, IOFailed, NotFound
from lookfar.index.inserted import streams
from lookfar.index.prepare import terms_of
from lookfar.index.progress import CheckpointTimer
from lookfar.model import Chunk, Span
from lookfar.ports import PATH_SEPARATOR
from lookfar.store.catalogue.erasing import ChunkedDocument
from lookfar.store.catalogue.exports import digest
from lookfar.store.sqlite.epochs import CollectionStore
from lookfar.text.parse.formats import parser_for

if TYPE_CHECKING:
    from lookfar.ports import Streams, Version
    from lookfar.store.opening import Store
    from lookfar.store.sqlite.epoch import EpochSnapshot

DOCUMENTS: Final = "documents"
"""The folder, and on a server the beginning of the names, of inserted documents."""
_SCHEMES: Final = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True)
class Copied:
    """What became of one collection."""

    collection: str
    documents: int
    chunks: int
    copied: int
    """Documents that were not there yet."""
    sha256: str
    """Of all that its documents say; the same in both places."""
    generation: int
    """That it is in the target."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A collection that was left where it is."""

    collection: str
    why: str


OnCopied = Callable[[str, int, int], None]
"""Told the collection, how many documents are done, and of how many."""


class Shelves:
    """All collections of one place."""

    def __init__(self, place: str) -> None:
        """``place`` is the folder of indexes, or the address of a server."""
        self.place = place

    @property
    def on_server(self) -> bool:
        return self.place.startswith(_SCHEMES)

    def names(self) -> list[str]:
        """What serves there."""
        if self.on_server:
            from lookfar.store.postgres.server import server_at

            return server_at(self.place).names()
        folder = Path(self.place)
        if not folder.is_dir():
            raise NotFound(
                f"There is no folder {self.place!r}.",
                hint="Name the folder of the indexes (lookfar status shows it), or a server.",
            )
        homes = [*list_folder(folder), *list_folder(folder / DOCUMENTS)]
        serving = (home for home in homes if (home / "CURRENT").is_file())
        return sorted(home.relative_to(folder).as_posix() for home in serving)

    def store(self, name: str) -> Store:
        if self.on_server:
            from lookfar.store.postgres.registry import PostgresStore
            from lookfar.store.postgres.server import server_at

            return PostgresStore(server_at(self.place), name, Path(name))
        return CollectionStore(Path(self.place) / name, only_copy=name.startswith(f"{DOCUMENTS}/"))


def chosen(source: Shelves, names: Sequence[str]) -> list[str]:
    """The collections to copy: those named, also by their beginning, or all."""
    there = source.names()
    found: list[str] = []
    for name in names:
        fitting = [each for each in there if each == name] or [
            each for each in there if each.startswith(name)
        ]
        if len(fitting) != 1:
            raise NotFound(
                f"There is no collection {name!r} there."
                if not fitting
                else f"{name!r} may be any of {len(fitting)} collections.",
                hint=f"Collections: {', '.join(fitting or there) or 'none'}.",
                details={"candidates": fitting or there},
            )
        found += fitting
    return found if names else there


def copy(
    source: Shelves,
    target: Shelves,
    names: Sequence[str] = (),
    on_copied: OnCopied | None = None,
    wait_seconds: float = 0.0,
) -> Iterator[Copied | Skipped]:
    """Copy collections, one after the other."""
    if source.place == target.place:
        raise InvalidArgument(
            "Source and target are the same place.", hint="Name two different ones."
        )
    tell = on_copied or (lambda *_: None)
    for name in chosen(source, names):
        with _lent(source.store(name)) as one, _lent(target.store(name)) as other:
            done = _copied(name, one, other, tell, wait_seconds)
        yield done


@contextmanager
def _lent(store: Store) -> Iterator[Store]:
    try:
        yield store
    finally:
        with suppress(IOFailed):  # What was copied is committed and read back by then.
            store.close()


def _copied(
    name: str, source: Store, target: Store, tell: OnCopied, wait_seconds: float
) -> Copied | Skipped:
    fingerprint, about = source.fingerprint(), source.about()
    retain = max(1, len(source.generations()))
    with source.snapshot() as snapshot:
        uris = snapshot.uris()
        manifest = dict(snapshot.manifest())
        lane = next((each.lane for each in snapshot.facts()), "")
        if lane == "commits" and uris and snapshot.streams(uris[0]) is None:
            return Skipped(name, "histories are read from their repository again")
        wanted, copied = sha256(), 0
        with target.writer(
            fingerprint,
            snapshot.dimensions,
            model=snapshot.model(),
            about=about,
            retain=retain,
            wait_seconds=wait_seconds,
        ) as writer:
            there, checkpoints = writer.known(), CheckpointTimer()
            known = snapshot.known()
            for uri in sorted(there.keys() - known.keys()):
                writer.remove(uri)
            changed = bool(there.keys() - known.keys())
            for number, uri in enumerate(uris, 1):
                version = snapshot.version(uri)
                if version is None:
                    raise _differs(name, f"{uri} cannot be read")
                wanted.update(digest(version))
                before, now = there.get(uri), known[uri]
                if before is not None and before.raw_sha == now.raw_sha:
                    writer.touch(before.document, now.fingerprint, now.settled)
                else:
                    lacking = writer.missing(version.embedded)
                    made = _with_terms(snapshot, version)
                    made.embedded = {each: version.embedded[each] for each in lacking}
                    writer.put(made)
                    copied += 1
                    if writer.fresh:
                        checkpoints.run_if_due(writer.checkpoint)
                tell(name, number, len(uris))
            writer.leave_out(list(snapshot.left_out().values()))
            if copied or changed or writer.fresh:
                generation = writer.activate(manifest)
            else:
                generation = writer.commit_touches()
        chunks = snapshot.counts().chunks
    found, there_chunks = _hash_of(target)
    if (found, there_chunks) != (wanted.hexdigest(), chunks):
        raise _differs(name, f"{there_chunks} chunks of {chunks}, {found} for {wanted.hexdigest()}")
    return Copied(name, len(uris), chunks, copied, found, generation)


def _hash_of(store: Store) -> tuple[str, int]:
    """Of everything that serves, read back; and how many chunks that has."""
    hashed = sha256()
    with store.snapshot() as snapshot:
        for uri in snapshot.uris():
            version = snapshot.version(uri)
            if version is not None:
                hashed.update(digest(version))
        return hashed.hexdigest(), snapshot.counts().chunks


def _differs(name: str, developer: str) -> IOFailed:
    return IOFailed(
        f"What was copied of {name} is not what the source has.",
        hint="Copy it again; if that does not help, index it there from its source.",
        developer=developer,
    )


def _with_terms(snapshot: EpochSnapshot, version: Version) -> Version:
    """With what the keyword index is to see of it: as it was stored, or made of it again."""
    names, entries = snapshot.streams(version.uri) or _made_again(snapshot, version)
    return replace(version, name_terms=tuple(names), entries=[tuple(each) for each in entries])


def _made_again(snapshot: EpochSnapshot, version: Version) -> Streams:
    text = snapshot.text(version.uri) or ""
    spans = [(row[4], row[5]) for row in version.chunks]
    parse = parser_for(version.uri)
    if version.lane == "documents" or parse is None:
        return streams(ChunkedDocument(version.title, version.metadata, text, spans))
    chunks = [
        Chunk(
            id=row[0].hex(),
            content=row[1],
            ordinal=ordinal,
            section=row[2],
            path=tuple(row[3].split(PATH_SEPARATOR)) if row[3] else (),
            span=Span(*row[4:8]),
            overlap=row[8],
            part=row[9],
            parts=row[10],
        )
        for ordinal, row in enumerate(version.chunks)
    ]
    return terms_of(parse(version.uri, text), chunks)
