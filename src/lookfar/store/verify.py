"""Is what is stored what was written? Every text, span, vector and keyword file is checked.

Takes: an epoch. Gives: the problems found, each with the artefact it is in.
Refuses: to repair; whoever asked decides, and rebuilding from the sources always works.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from lookfar.errors import LookfarError
from lookfar.store import catalog, generations
from lookfar.store.erase import UNSETTLED

if TYPE_CHECKING:
    from lookfar.store.keywords import KeywordView
    from lookfar.store.vectors import VectorFile

_FOOTER_MAGIC = 1337
_PARTS = ("fast", "fieldnorm", "idx", "pos", "store", "term")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as it was written."""

    artefact: str
    """``catalogue``, ``texts``, ``vectors`` or ``keywords``; ``index`` if it cannot be opened."""
    detail: str


def verify(
    connection: sqlite3.Connection, vectors: VectorFile, folder: Path, keywords: KeywordView
) -> list[Problem]:
    """Check everything that the catalogue names; gives an empty list for a sound epoch."""
    try:
        return [
            *_catalogue(connection),
            *_pointer(connection),
            *_texts(connection),
            *_vectors(vectors, connection),
            *_keywords(folder, keywords, connection),
        ]
    except sqlite3.DatabaseError as error:
        return [Problem("catalogue", f"{type(error).__name__}: {error}")]


def unfinished(
    connection: sqlite3.Connection, vectors: VectorFile, folder: Path, keywords: KeywordView
) -> list[Problem]:
    """The same for an epoch that was never finished: no generation yet, and no indexes."""
    return [
        *_catalogue(connection),
        *_vectors(vectors, connection),
        *_keywords(folder, keywords, connection),
    ]


def _catalogue(connection: sqlite3.Connection) -> Iterator[Problem]:
    for (line,) in connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield Problem("catalogue", line)


def _pointer(connection: sqlite3.Connection) -> Iterator[Problem]:
    """The serving generation is kept, a hold is on it, and no URI has two texts at once."""
    number, held = generations.active(connection), generations.held(connection)
    kept = [each.number for each in generations.listed(connection)]
    if number not in kept:
        yield Problem("catalogue", f"generation {number} serves and is not among those kept")
    if held not in (None, number):
        yield Problem("catalogue", f"generation {number} serves, and {held} is held")
    doubled = connection.execute(
        "SELECT a.uri FROM documents a JOIN documents b ON b.uri = a.uri AND b.id > a.id"
        " WHERE b.born < ifnull(a.died, 1e18) AND a.born < ifnull(b.died, 1e18)"
    )
    for (uri,) in doubled:
        yield Problem("catalogue", f"{uri}: two versions in one generation")


def _texts(connection: sqlite3.Connection) -> Iterator[Problem]:
    """Each text against its hash, and each chunk's slice of it against the chunk's."""
    documents = connection.execute("SELECT id, uri, text_sha FROM documents ORDER BY id").fetchall()
    for identifier, uri, text_sha in documents:
        try:
            text = catalog.text(connection, text_sha)
        except (LookfarError, UnicodeDecodeError) as error:
            yield Problem("texts", f"{uri}: {error}")
            continue
        spans = connection.execute(
            "SELECT start, end, sha FROM chunks WHERE document = ?", (identifier,)
        )
        for start, end, sha in spans:
            if sha256(text[start:end].encode("utf-8")).digest() != sha:
                yield Problem("catalogue", f"{uri}: the span {start}-{end} does not fit its text")


def _vectors(vectors: VectorFile, connection: sqlite3.Connection) -> Iterator[Problem]:
    recorded = connection.execute("SELECT row, checksum FROM embeddings ORDER BY row").fetchall()
    if not recorded:
        return
    count = recorded[-1][0] + 1
    try:
        found = vectors.checksums(count)
    except LookfarError as error:
        yield Problem("vectors", error.developer)
        return
    for row, checksum in recorded:
        # What was erased is zeros; until it is, nobody names it and it may be anything.
        if checksum not in (found[row], UNSETTLED):
            yield Problem("vectors", f"row {row} differs from what was written")
    missing = connection.execute(
        "SELECT count(*) FROM chunks c WHERE c.vector IS NOT NULL"
        " AND NOT EXISTS (SELECT 1 FROM embeddings e WHERE e.row = c.vector)"
    ).fetchone()[0]
    if missing:
        yield Problem("vectors", f"{missing} chunks name a row that does not exist")


def _keywords(folder: Path, view: KeywordView, connection: sqlite3.Connection) -> Iterator[Problem]:
    try:
        for path in _segment_files(folder):
            why = _damage(path)
            if why and path in _segment_files(folder):  # A writer may have merged it away.
                yield Problem("keywords", f"{path.name}: {why}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        yield Problem("keywords", f"meta.json: {type(error).__name__}: {error}")
    (chunks,) = connection.execute("SELECT count(*) FROM chunks").fetchone()
    owners = [row[0] for row in connection.execute("SELECT DISTINCT document FROM chunks")]
    try:
        # Of these only: purged documents and those of a writer that died may be there too.
        entries = view.entries_of(owners)
    except LookfarError as error:
        yield Problem("keywords", error.developer)
        return
    if entries != chunks + len(owners):
        found = f"{entries} entries for {chunks} chunks and {len(owners)} documents"
        yield Problem("keywords", found)


def _segment_files(folder: Path) -> list[Path]:
    """The files that the last commit consists of; what a crash left beside them is no matter."""
    found: list[Path] = []
    for segment in json.loads((folder / "meta.json").read_bytes())["segments"]:
        name = segment["segment_id"].replace("-", "")
        found += (folder / f"{name}.{part}" for part in _PARTS)
        if segment["deletes"]:
            found.append(folder / f"{name}.{segment['deletes']['opstamp']}.del")
    return found


def _damage(path: Path) -> str:
    """Compare a tantivy file with the checksum in its footer."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return error.strerror or str(error)
    if len(data) < 8 or int.from_bytes(data[-4:], "little") != _FOOTER_MAGIC:
        return "its footer is gone"
    length = int.from_bytes(data[-8:-4], "little")
    try:
        expected = json.loads(data[-8 - length : -8])["crc"]
    except (ValueError, KeyError, TypeError):
        return "its footer is unreadable"
    return "" if crc32(data[: -8 - length]) == expected else "its checksum differs"
