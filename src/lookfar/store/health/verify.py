"""Verify that what is stored is what was written: every row, text, span, vector and file.

Everything that can be read has a hash, a checksum or a second copy to compare it with. Unused bytes
and free pages are not checked. Verifying only reports damage; it repairs nothing.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any
from zlib import crc32

from lookfar.common.caller import check_cancelled
from lookfar.errors import IndexCorrupt, LookfarError
from lookfar.model import Damage
from lookfar.ports import OnStep
from lookfar.store.catalogue import generations, rows, seals
from lookfar.store.catalogue.erasing import UNSETTLED
from lookfar.store.catalogue.journal import describe_journal_damage, is_commit_lost
from lookfar.store.catalogue.migrations import (
    FORMAT,
    FORMAT_WITH_CHECKS,
    check,
    create_indexes,
    migrate,
    recorded_format,
)
from lookfar.store.ground.database import CATALOGUE, read_beginning
from lookfar.store.ground.sqlite_log import describe_log_damage, has_log, log_path
from lookfar.store.keywords.keyword_index import KeywordView, find_file_damage
from lookfar.store.keywords.signatures import SIGNATURES, SignatureFile
from lookfar.store.vectors.quality_vectors import open_all

if TYPE_CHECKING:
    from lookfar.store.vectors.vector_file import VectorFile

LOST_COMMIT = "the last commit is missing from the catalogue"
_MOST_REPORTED = 20
"""Problems of one kind to report; a damaged page breaks every row in it."""
_FIXED = {
    18: bytes((2, 2, 0, 64, 32, 32)),  # WAL mode, no reserved bytes, payload fractions.
    44: struct.pack(">4I", 4, 0, 0, 1),  # Schema format, cache size, no auto-vacuum, UTF-8.
    64: bytes(8),  # No incremental vacuum, no application ID.
    72: bytes(20),  # Reserved.
}
"""Header fields, by offset, that are the same in every catalogue."""

FROM_DAMAGE = (
    sqlite3.DatabaseError,
    UnicodeDecodeError,
    AttributeError,
    LookupError,
    OverflowError,
    TypeError,
    ValueError,
)
"""What reading a damaged row may raise: SQLite returns whatever the bytes happen to mean."""


def verify(
    connection: sqlite3.Connection,
    vectors: VectorFile,
    folder: Path,
    keywords: KeywordView,
    on_step: OnStep | None = None,
    journal: Path | None = None,
) -> list[Damage]:
    """Return all damage in the files of one index (an epoch); an empty list if there is none."""

    def report(step: str) -> None:
        check_cancelled()
        if on_step is not None:
            on_step(step)

    report("catalogue")
    try:
        problems = _check_rows(connection)
        if not problems:
            report("texts")
            problems += check_texts(connection)
        report("vectors")
        problems += _check_vectors(vectors, connection)
        report("keywords")
        problems += find_keyword_damage(folder, keywords, connection)
        if not problems:
            report("signatures")
            path = folder.parent / SIGNATURES
            damage = SignatureFile(path).damage(connection)
            problems += [
                Damage("signatures", f"{path.name}: {detail}") for detail in damage[:_MOST_REPORTED]
            ]
        problems += find_quality_damage(connection, folder.parent)[:_MOST_REPORTED]
        if journal is not None:
            report("journal")
            if is_commit_lost(journal, folder.parent / CATALOGUE, connection):
                problems.append(Damage("catalogue", LOST_COMMIT))
            problems += [
                Damage("journal", why) for why in describe_journal_damage(journal, connection)
            ]
        return problems
    except FROM_DAMAGE as error:
        return [Damage("catalogue", f"{type(error).__name__}: {error}")]
    except IndexCorrupt as error:
        return [Damage("catalogue", error.developer)]


def verify_unfinished(
    connection: sqlite3.Connection, vectors: VectorFile, folder: Path, keywords: KeywordView
) -> list[Damage]:
    """Return all damage in an epoch that was never finished: without a generation or indexes."""
    return [
        *_check_catalogue(connection),
        *_check_vectors(vectors, connection),
        *find_keyword_damage(folder, keywords, connection),
    ]


def find_catalogue_damage(connection: sqlite3.Connection) -> list[Damage]:
    """Return the damage in rows and texts, whatever state the derived files are in."""
    return _check_rows(connection) or list(check_texts(connection))


# -- the catalogue -------------------------------------------------------------


def find_form_damage(connection: sqlite3.Connection) -> list[Damage]:
    """Return the damage in the database file itself, whatever its rows contain."""
    return [*_check_file(connection), *check_form(connection)]


def check_form(connection: sqlite3.Connection) -> Iterator[Damage]:
    """Check pages and indexes, as SQLite does, and the schema."""
    yield from _check_pages(connection)
    yield from _check_schema(connection)


def _check_rows(connection: sqlite3.Connection) -> list[Damage]:
    problems = [
        *_check_file(connection), *_check_catalogue(connection), *_check_schema(connection)
    ]  # fmt: skip
    try:
        return [*problems, *check_pointer(connection)]
    except LookfarError as error:
        return [*problems, Damage("catalogue", error.developer)]


def _check_file(connection: sqlite3.Connection) -> Iterator[Damage]:
    """Check what SQLite ignores in its own files: unused header fields, and a broken log.

    SQLite reads a broken log only up to the break, and shows the state before it. A last commit
    that a power failure cut short is not damage (see ``describe_log_damage``).
    """
    path = Path(next(iter(connection.execute("PRAGMA database_list")))[2])
    head = read_beginning(path, 100)
    if len(head) < 100:
        yield Damage("catalogue", f"{path.name}: cut short")
        return
    differs = any(head[at : at + len(fixed)] != fixed for at, fixed in _FIXED.items())
    # With a log, its copy of the first page counts: power may have failed while it was copied.
    if differs and not has_log(path):
        yield Damage("catalogue", f"{path.name}: its header differs from what was written")
    why = describe_log_damage(log_path(path))
    if why:
        yield Damage("catalogue", f"{log_path(path).name}: {why}")


def _check_pages(connection: sqlite3.Connection) -> Iterator[Damage]:
    for (line,) in connection.execute(f"PRAGMA integrity_check({_MOST_REPORTED})"):
        if line != "ok":
            yield Damage("catalogue", line)


def _check_catalogue(connection: sqlite3.Connection) -> Iterator[Damage]:
    broken = list(_check_pages(connection))
    yield from broken
    if not broken and check(connection) >= FORMAT_WITH_CHECKS:
        for number, detail in enumerate(seals.broken(connection)):
            if number >= _MOST_REPORTED:
                yield Damage("catalogue", "and more of the kind")
                return
            yield Damage("catalogue", detail)


def _check_schema(connection: sqlite3.Connection) -> Iterator[Damage]:
    """Check that tables, indexes and the format are those that this program creates."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    recorded = recorded_format(connection)
    if recorded and recorded != str(version):
        yield Damage(
            "catalogue", f"its header says format {version}, and it was made with {recorded}"
        )
    elif version == FORMAT and _read_schema(connection) != _expected_schema():
        yield Damage("catalogue", "its tables differ from what was written")


def _read_schema(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    ).fetchall()


@cache
def _expected_schema() -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        create_indexes(connection)
        return _read_schema(connection)


def check_pointer(connection: Connection) -> Iterator[Damage]:
    """Check that the serving generation is kept, that a hold is on it, and that no URI has two
    live versions in one generation."""
    number, hold = generations.active(connection), generations.read_held_generation(connection)
    yield from check_serving(connection)
    if not generations.has_content(connection, number):
        yield Damage("catalogue", f"generation {number} has other documents than it recorded")
    if hold not in (None, number):
        yield Damage("catalogue", f"generation {number} serves, and {hold} is held")
    doubled = connection.execute(
        "SELECT a.uri FROM documents a JOIN documents b ON b.uri = a.uri AND b.id > a.id"
        " WHERE b.born < coalesce(a.died, 1e18) AND a.born < coalesce(b.died, 1e18)"
    )
    for (uri,) in doubled:
        yield Damage("catalogue", f"{uri}: two versions in one generation")


def check_serving(connection: Connection) -> Iterator[Damage]:
    """Check that the serving generation is kept, and has as many documents as it recorded."""
    number = generations.active(connection)
    listed = generations.list_generations(connection, number)
    if not listed:
        yield Damage("catalogue", f"generation {number} serves and is not among those kept")
        return
    expected = listed[0].manifest.get("documents")
    count = rows.count_documents(connection, number)
    if expected not in (None, count):
        yield Damage("catalogue", f"{count} of {expected} documents are there")


def check_texts(connection: Connection) -> Iterator[Damage]:
    return (damage for _, damage in find_text_damage(connection))


def find_text_damage(connection: Connection) -> Iterator[tuple[int, Damage]]:
    """Yield each version with a damaged text, or with a chunk that does not fit its text."""
    documents = connection.execute("SELECT id, uri, text_sha FROM documents ORDER BY id").fetchall()
    for identifier, uri, text_sha in documents:
        try:
            text = rows.text(connection, text_sha)
        except (LookfarError, UnicodeDecodeError) as error:
            yield identifier, Damage("texts", f"{uri}: {getattr(error, 'developer', error)}")
            continue
        spans = connection.execute(
            'SELECT start, "end", sha FROM chunks WHERE document = ?', (identifier,)
        )
        for start, end, sha in spans:
            if sha256(text[start:end].encode("utf-8")).digest() != sha:
                why = f"{uri}: the span {start}-{end} does not fit its text"
                yield identifier, Damage("catalogue", why)


# -- vectors -------------------------------------------------------------------


def _check_vectors(vectors: VectorFile, connection: sqlite3.Connection) -> Iterator[Damage]:
    try:
        wrong = find_wrong_rows(vectors, connection)
    except LookfarError as error:
        yield Damage("vectors", error.developer)
        return
    for row in wrong[:_MOST_REPORTED]:
        yield Damage("vectors", f"row {row} differs from what was written")
    if len(wrong) > _MOST_REPORTED:
        yield Damage("vectors", f"and {len(wrong) - _MOST_REPORTED:,} more rows")
    missing = connection.execute(
        "SELECT count(*) FROM chunks c WHERE c.vector IS NOT NULL"
        " AND NOT EXISTS (SELECT 1 FROM embeddings e WHERE e.row = c.vector)"
    ).fetchone()[0]
    if missing:
        yield Damage("vectors", f"{missing} chunks name a row that does not exist")
    # Damaged codes only cost time; the next writer computes them again.
    for detail in vectors.coarse.damage(vectors.rows(rows.vector_rows(connection))):
        yield Damage("vectors", f"{vectors.coarse.path.name}: {detail}")


def find_wrong_rows(vectors: VectorFile, connection: sqlite3.Connection) -> list[int]:
    """Return the rows that differ from their checksum; ``IndexCorrupt`` for a broken file."""
    stored = vectors.rows(rows.vector_rows(connection))
    named = check(connection) >= FORMAT_WITH_CHECKS
    # Streamed: there may be millions.
    recorded = connection.execute("SELECT row, content, checksum FROM embeddings ORDER BY row")
    return [
        row
        for row, content, checksum in recorded
        # An erased row is about to be overwritten with zeros; no chunk uses it.
        if checksum not in (crc32(content if named else b"", crc32(stored[row])), UNSETTLED)
    ]


def find_quality_damage(connection: sqlite3.Connection, folder: Path) -> list[Damage]:
    """Return the damage in the vectors of second models; none where there is no such model."""
    read = partial(rows.read_contents, connection)
    return [
        Damage("second vectors", detail)
        for vectors in open_all(folder)
        for detail in vectors.damage(read)
    ]


# -- keywords ------------------------------------------------------------------


def find_keyword_damage(
    folder: Path, view: KeywordView, connection: sqlite3.Connection
) -> list[Damage]:
    return list(_check_keywords(folder, view, connection))


def _check_keywords(
    folder: Path, view: KeywordView, connection: sqlite3.Connection
) -> Iterator[Damage]:
    for name, why in find_file_damage(folder):
        yield Damage("keywords", f"{name}: {why}")
    yield from check_keyword_entries(view, connection)


def check_keyword_entries(view: KeywordView, connection: sqlite3.Connection) -> Iterator[Damage]:
    """Check that each chunk has its entry.

    There may be others: of purged documents, and those of a crashed writer.
    """
    try:
        keys, owners = view.find_entries()
    except LookfarError as error:
        yield Damage("keywords", error.developer)
        return
    entries = set(zip(keys.tolist(), owners.tolist(), strict=True))
    chunks = connection.execute("SELECT key, document FROM chunks")
    missing = sum(row not in entries for row in chunks)
    if missing:
        yield Damage("keywords", f"{missing} chunks have no entry")
