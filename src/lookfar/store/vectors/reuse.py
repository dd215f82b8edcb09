"""Vectors that exist already: in worktrees, clones and older epochs, and of models before.

Takes: the folder of all indexes and the model's fingerprint. Gives: the vectors of
contents that any serving epoch of the same model has, or one that was replaced by another
model's; those are kept, so that going back embeds nothing. Refuses: to fail; a sibling that
is damaged, busy or gone is passed over, and what it had is simply embedded again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from hashlib import sha256
from itertools import chain
from pathlib import Path
from zlib import crc32

from lookfar.common.folders import list_folder
from lookfar.errors import LookfarError
from lookfar.store.catalogue import rows as catalog
from lookfar.store.ground import files
from lookfar.store.ground.database import CATALOGUE, commit, connect, typed_errors
from lookfar.store.vectors.vector_file import VECTORS, VectorFile, checksum, dimensions_in

_MOST_SIBLINGS = 16
_EMBEDDINGS = "SELECT row, content, checksum FROM embeddings"

KEPT = "kept-"
"""Begins the names of folders with vectors of models before."""


class Siblings:
    """The serving epochs of one model under one folder, but for the one being written."""

    def __init__(self, index_dir: Path, besides: Path, model: str, dimensions: int) -> None:
        self._index_dir = index_dir
        self._besides = besides
        self._model = model
        self._dimensions = dimensions

    def vectors(self, contents: Collection[bytes]) -> dict[bytes, bytes]:
        """Float16 rows of those ``contents`` that a sibling has."""
        found: dict[bytes, bytes] = {}
        wanted = set(contents)
        for epoch in chain(self._epochs(), self._kept()) if wanted else ():
            with suppress(LookfarError):
                found |= self._from(epoch, wanted)
                wanted.difference_update(found)
            if not wanted:
                break
        return found

    def _epochs(self) -> Iterator[Path]:
        """Epoch folders, the most recently written first."""
        serving: list[tuple[float, Path]] = []
        for folder in list_folder(self._index_dir):
            pointer = folder / "CURRENT"
            with suppress(OSError, ValueError):
                epoch = pointer.parent / pointer.read_text("ascii").strip()
                if epoch != self._besides and epoch.parent == pointer.parent:
                    serving.append((pointer.stat().st_mtime, epoch))
        for _, epoch in sorted(serving, reverse=True)[:_MOST_SIBLINGS]:
            yield epoch

    def _kept(self) -> Iterator[Path]:
        shelves = (folder / shelf_of(self._model) for folder in list_folder(self._index_dir))
        yield from (shelf for shelf in shelves if shelf.is_dir())

    def _from(self, epoch: Path, wanted: set[bytes]) -> dict[bytes, bytes]:
        path = epoch / CATALOGUE
        if not path.is_file():
            return {}
        with typed_errors(path), closing(connect(path, write=False)) as connection:
            if catalog.read_model(connection) != self._model:
                return {}
            rows = list(_rows(connection, wanted))
            if not rows:
                return {}
            file = VectorFile(epoch / VECTORS, self._dimensions)
            matrix = file.rows(catalog.vector_rows(connection))
            found = ((content, matrix[row].tobytes(), known) for content, row, known in rows)
            return {
                content: vector
                for content, vector, known in found
                # The second is how catalogues before format 5 had it.
                if known in (checksum(content, vector), crc32(vector))
            }


def shelf_of(model: str) -> str:
    """The name of the folder that keeps the vectors of a model."""
    return f"{KEPT}{sha256(model.encode()).hexdigest()[:16]}"


def model_in(epoch: Path) -> str:
    """The model of an epoch; empty where it has none."""
    path = epoch / CATALOGUE
    if not path.is_file():
        return ""
    with typed_errors(path), closing(connect(path, write=False)) as connection:
        return catalog.read_model(connection)


def keep(epoch: Path, folder: Path) -> None:
    """Keep the vectors of an epoch that is about to go in a ``folder`` beside it: those, their
    names and their checksums, and nothing of the texts.
    """
    drop(folder)
    part = _part(folder)
    files.make_folder(part, sync=False)
    source, path = epoch / CATALOGUE, part / CATALOGUE
    with typed_errors(source), closing(connect(source, write=False)) as connection:
        model = catalog.read_model(connection)
        with typed_errors(path), closing(connect(path, write=True)) as kept:
            kept.execute("BEGIN")
            kept.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
            kept.execute("INSERT INTO meta VALUES (?, ?)", (catalog.MODEL, model))
            kept.execute(
                "CREATE TABLE embeddings (row INTEGER PRIMARY KEY, content BLOB NOT NULL UNIQUE,"
                " checksum INTEGER NOT NULL)"
            )
            rows = connection.execute(_EMBEDDINGS)
            kept.executemany("INSERT INTO embeddings VALUES (?, ?, ?)", rows)
            commit(kept)
    files.link_or_copy(epoch / VECTORS, part / VECTORS)
    files.sync_folder(part)
    files.rename(part, folder, sync=False)  # What is lost is embedded again.


def drop(folder: Path) -> None:
    """Remove a folder with kept vectors at once: what a crash leaves of it has another name."""
    part = _part(folder)
    files.remove(part)
    if folder.is_dir():
        files.rename(folder, part)
        files.remove(part)


def _part(folder: Path) -> Path:
    """What a folder is called before it is complete, and when it no longer is."""
    return folder.with_name(f".{folder.name}.tmp")


def shelf_damage(folder: Path) -> str:
    """What is wrong with kept vectors, in words; empty where nothing is."""
    path = folder / CATALOGUE
    try:
        with typed_errors(path), closing(connect(path, write=False)) as connection:
            (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if said != "ok" or shelf_of(catalog.read_model(connection)) != folder.name:
                return f"its catalogue: {said if said != 'ok' else 'another model'}"
            with (folder / VECTORS).open("rb") as file:
                vectors = VectorFile(folder / VECTORS, dimensions_in(file))
            matrix = vectors.rows(catalog.vector_rows(connection))
            # One at a time: there may be millions, or none.
            for row, content, known in connection.execute(_EMBEDDINGS):
                vector = matrix[row].tobytes()
                if known not in (checksum(content, vector), crc32(vector)):
                    return f"row {row} differs from what was written"
    except (LookfarError, OSError, ValueError) as error:
        return getattr(error, "developer", str(error))
    return ""


def _rows(connection: sqlite3.Connection, wanted: set[bytes]) -> Iterator[tuple[bytes, int, int]]:
    for some in catalog.batches(sorted(wanted)):
        yield from connection.execute(
            "SELECT content, row, checksum FROM embeddings WHERE content IN"
            f" ({catalog.placeholders(some)})",
            some,
        )
