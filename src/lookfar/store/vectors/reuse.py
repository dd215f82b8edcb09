"""Reuse vectors that exist in other indexes of the same model: worktrees, clones, older epochs.

When a model is replaced, its vectors are kept, so that returning to it embeds nothing. An index
that is damaged, busy or missing is skipped, and its contents are embedded again.
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
_KEPT_TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    (
        "CREATE TABLE embeddings (row INTEGER PRIMARY KEY, content BLOB NOT NULL UNIQUE,"
        " checksum INTEGER NOT NULL)"
    ),
)

FOREIGN_FILE = "FOREIGN"
"""Marks the folder of an index whose vectors were made elsewhere: others do not take them."""
KEPT = "kept-"
"""The prefix of folders with the vectors of earlier models."""


class Siblings:
    """The serving epochs of one model in one folder, except the one being written."""

    def __init__(self, index_dir: Path, besides: Path, model: str, dimensions: int) -> None:
        self._index_dir = index_dir
        self._besides = besides
        self._model = model
        self._dimensions = dimensions

    def vectors(self, contents: Collection[bytes]) -> dict[bytes, bytes]:
        """Return the float16 rows of those ``contents`` that a sibling has."""
        vectors: dict[bytes, bytes] = {}
        wanted = set(contents)
        for epoch in chain(self._epochs(), self._list_kept_folders()) if wanted else ():
            with suppress(LookfarError):
                vectors |= self._read_vectors(epoch, wanted)
                wanted.difference_update(vectors)
            if not wanted:
                break
        return vectors

    def _epochs(self) -> Iterator[Path]:
        """Yield the serving epochs, the most recently written first."""
        serving: list[tuple[float, Path]] = []
        for folder in self._list_own_folders():
            pointer = folder / "CURRENT"
            with suppress(OSError, ValueError):
                epoch = pointer.parent / pointer.read_text("ascii").strip()
                if epoch != self._besides and epoch.parent == pointer.parent:
                    serving.append((pointer.stat().st_mtime, epoch))
        for _, epoch in sorted(serving, reverse=True)[:_MOST_SIBLINGS]:
            yield epoch

    def _list_kept_folders(self) -> Iterator[Path]:
        name = name_kept_folder(self._model)
        folders = (folder / name for folder in self._list_own_folders())
        yield from (folder for folder in folders if folder.is_dir())

    def _list_own_folders(self) -> Iterator[Path]:
        for folder in list_folder(self._index_dir):
            if not (folder / FOREIGN_FILE).exists():
                yield folder

    def _read_vectors(self, epoch: Path, wanted: set[bytes]) -> dict[bytes, bytes]:
        path = epoch / CATALOGUE
        if not path.is_file():
            return {}
        with typed_errors(path), closing(connect(path, write=False)) as connection:
            if catalog.read_model(connection) != self._model:
                return {}
            rows = list(_find_rows(connection, wanted))
            if not rows:
                return {}
            file = VectorFile(epoch / VECTORS, self._dimensions)
            matrix = file.rows(catalog.vector_rows(connection))
            vectors = ((content, matrix[row].tobytes(), known) for content, row, known in rows)
            return {
                content: vector
                for content, vector, known in vectors
                # The second form is that of catalogues before format 5.
                if known in (checksum(content, vector), crc32(vector))
            }


def mark_foreign(folder: Path) -> None:
    """Keep other indexes from taking vectors of the index in ``folder``, before it has any."""
    if not (folder / FOREIGN_FILE).exists():
        files.make_folder(folder)
        files.write_shared(folder / FOREIGN_FILE, b"")


def name_kept_folder(model: str) -> str:
    return f"{KEPT}{sha256(model.encode()).hexdigest()[:16]}"


def model_in(epoch: Path) -> str:
    """Return the model of an epoch; empty if it has none."""
    path = epoch / CATALOGUE
    if not path.is_file():
        return ""
    with typed_errors(path), closing(connect(path, write=False)) as connection:
        return catalog.read_model(connection)


def keep(epoch: Path, folder: Path) -> None:
    """Keep the vectors of an epoch, which is about to be removed, in a ``folder`` next to it.

    Only the vectors, their content names and checksums are kept, no texts.
    """
    drop(folder)
    part = _temporary(folder)
    files.make_folder(part, sync=False)
    source, path = epoch / CATALOGUE, part / CATALOGUE
    with typed_errors(source), closing(connect(source, write=False)) as connection:
        model = catalog.read_model(connection)
        with typed_errors(path), closing(connect(path, write=True)) as copy:
            copy.execute("BEGIN")
            for table in _KEPT_TABLES:
                copy.execute(table)
            copy.execute("INSERT INTO meta VALUES (?, ?)", (catalog.MODEL, model))
            rows = connection.execute(_EMBEDDINGS)
            copy.executemany("INSERT INTO embeddings VALUES (?, ?, ?)", rows)
            commit(copy)
    files.link_or_copy(epoch / VECTORS, part / VECTORS)
    files.sync_folder(part)
    files.rename(part, folder, sync=False)  # If it is lost, contents are embedded again.


def drop(folder: Path) -> None:
    """Remove a folder of kept vectors; it is renamed first, so that a crash leaves no half."""
    part = _temporary(folder)
    files.remove(part)
    if folder.is_dir():
        files.rename(folder, part)
        files.remove(part)


def _temporary(folder: Path) -> Path:
    """Return the name of a folder while it is incomplete."""
    return folder.with_name(f".{folder.name}.tmp")


def describe_kept_damage(folder: Path) -> str:
    """Describe what is wrong with kept vectors; empty if they are intact."""
    path = folder / CATALOGUE
    try:
        with typed_errors(path), closing(connect(path, write=False)) as connection:
            (result,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if result != "ok":
                return f"its catalogue: {result}"
            tables = connection.execute(
                "SELECT CAST(sql AS BLOB) FROM sqlite_master WHERE sql != ''"
            )
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version or {sql for (sql,) in tables} != {sql.encode() for sql in _KEPT_TABLES}:
                return "its catalogue: another schema"
            if name_kept_folder(catalog.read_model(connection)) != folder.name:
                return "its catalogue: another model"
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


def _find_rows(
    connection: sqlite3.Connection, wanted: set[bytes]
) -> Iterator[tuple[bytes, int, int]]:
    for some in catalog.batches(sorted(wanted)):
        yield from connection.execute(
            "SELECT content, row, checksum FROM embeddings WHERE content IN"
            f" ({catalog.placeholders(some)})",
            some,
        )
