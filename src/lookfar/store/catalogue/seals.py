"""Hashes of the catalogue's own rows, so that a single changed bit is detected.

SQLite detects a damaged page but hardly ever a damaged value. So there is a hash of each version's
rows, a sum of those columns that may change, and a hash of each small table.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from sqlite3 import Connection
from typing import Any

_LENGTH = 16
_PRIME = 1_000_000_007
"""A flipped byte never changes a number by a multiple of this."""
STATE = " + ".join(
    f"ifnull({column}, -1) % {_PRIME} * {factor}"
    for column, factor in (
        *(("died", 2), ("size", 3), ("mtime_ns", 5), ("ctime_ns", 7), ("inode", 11)),
        ("settled", 13),
    )
)
"""A sum of the ``documents`` columns that change while a version lives; a trigger updates it."""

_SMALL = {
    "meta": "key, value FROM meta ORDER BY key",
    "generations": "number, created_at, pinned, manifest FROM generations ORDER BY number",
    "graves": "document FROM graves ORDER BY document",
    "left_out": "* FROM left_out ORDER BY uri",
    "communities": "uri, community FROM communities ORDER BY uri",
}
TABLES = tuple(_SMALL)
"""Tables that are hashed as a whole."""
_OFTEN = ("meta", "generations", "graves")
"""Tables that nearly every transaction changes."""

_FIXED = (
    "id, uri, born, lane, language, title, body, raw_sha, text_sha, metadata, warnings"
    " FROM documents WHERE id {} ORDER BY id"
)
_CHUNKS = (
    "document, key, ordinal, id, vector, section, path, start, end, start_line, end_line,"
    " overlap, part, parts, sha FROM chunks WHERE document {} ORDER BY document, key"
)
_OF_VERSIONS = (
    _FIXED,
    "* FROM sections WHERE document {} ORDER BY document, ordinal",
    _CHUNKS,
    "* FROM links WHERE document {} ORDER BY document, ordinal",
    "* FROM names WHERE document {} ORDER BY document, name, way, whole",
    "* FROM tags WHERE document {} ORDER BY document, tag",
    "* FROM calls WHERE document {} ORDER BY document",
    "* FROM properties WHERE document {} ORDER BY document, ordinal",
)
"""The rows of versions, by table, in the order of hashing."""
_ADDED_LATER = {6: 6, 7: 7}
"""From which format on a table exists, by its position here."""
_ALL = ">= -9223372036854775808"

Rows = Sequence[tuple[Any, ...]]


def hash_version(
    document: tuple[Any, ...],
    sections: Rows,
    chunks: Rows,
    links: Rows,
    names: Rows,
    tags: Rows,
    calls: Rows,
    properties: Rows,
) -> bytes:
    number, uri, born, *rest = document
    fixed = (number, uri, born, *rest[:8])
    # Values and order as they are read back: True comes back as 1.
    section_rows = [(*row[:-1], int(row[-1])) for row in sections]
    chunk_rows = [(owner, key, *rest) for key, owner, *rest in chunks]
    return _hash(
        [[fixed], section_rows, chunk_rows, links, sorted(names), sorted(tags), calls, properties]
    )


def _hash(tables: Sequence[Rows]) -> bytes:
    hashed = blake2b(digest_size=_LENGTH)
    for rows in tables:
        # Not repr(): which characters it escapes depends on the Python version.
        hashed.update(ascii([*map(tuple, rows)]).encode("ascii"))
    return hashed.digest()


def seal(connection: Connection, *tables: str) -> None:
    """Store the current hash of small tables; without names, of those that change often."""
    connection.executemany(
        "INSERT OR REPLACE INTO seals VALUES (?, ?)",
        [(table, _hash_table(connection, table)) for table in tables or _OFTEN],
    )


def _hash_table(connection: Connection, table: str) -> bytes:
    return _hash([connection.execute(f"SELECT {_SMALL[table]}").fetchall()])


def seal_versions(connection: Connection, since: int) -> None:
    """Store the hashes of the versions with higher numbers than ``since``, from their rows."""
    tables = [
        _Grouped(connection.execute(f"SELECT {statement.format('> ?')}", (since,)))
        for statement in _OF_VERSIONS
    ]
    numbers = connection.execute("SELECT id FROM documents WHERE id > ? ORDER BY id", (since,))
    connection.executemany(
        f"INSERT INTO checks SELECT id, ?, {STATE} FROM documents WHERE id = ?",
        ((_hash([table.take(number) for table in tables]), number) for (number,) in numbers),
    )


def broken(connection: sqlite3.Connection) -> Iterator[str]:
    """Describe everything that differs from its hash."""
    for table in broken_tables(connection):
        yield f"the table {table} differs from what was written"
    for _, why in broken_versions(connection):
        yield why


def broken_tables(connection: sqlite3.Connection) -> list[str]:
    """Return the small tables that differ from their hash."""
    recorded = dict(connection.execute("SELECT name, hash FROM seals"))
    return [table for table in _SMALL if recorded.get(table) != _hash_table(connection, table)]


def broken_version(connection: sqlite3.Connection, document: int) -> bool:
    return any(True for _ in _broken(connection, f"= {int(document)}"))


def broken_versions(
    connection: sqlite3.Connection, since: int | None = None
) -> Iterator[tuple[int, str]]:
    """Yield the number of each version that differs from its hash, and how it differs.

    The number is 0 for rows without a document. With ``since``, only higher numbers are checked.
    """
    return _broken(connection, _ALL if since is None else f"> {int(since)}")


def _broken(connection: sqlite3.Connection, which: str) -> Iterator[tuple[int, str]]:
    moved = connection.execute(
        "SELECT d.id, d.uri FROM documents d LEFT JOIN checks c ON c.document = d.id"
        f" WHERE d.id {which} AND c.state IS NOT {STATE}"
    )
    for document, uri in moved:
        yield document, f"{uri}: its file information differs from what was written"
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    stored = [
        statement
        for position, statement in enumerate(_OF_VERSIONS)
        if version >= _ADDED_LATER.get(position, 0)
    ]
    tables = [
        _Grouped(connection.execute(f"SELECT {statement.format(which)}")) for statement in stored
    ]
    checks = connection.execute(
        f"SELECT document, rows FROM checks WHERE document {which} ORDER BY document"
    )
    for document, expected in checks:
        rows = [table.take(document) for table in tables]
        if _hash(rows) != expected:
            name = rows[0][0][1] if rows[0] else f"document {document}"
            yield document, f"{name}: its rows differ from what was written"
    orphans = sum(table.skipped() for table in tables)
    if orphans:
        yield 0, f"{orphans} rows belong to no document"


class _Grouped:
    """Rows sorted by their first column, taken document by document."""

    def __init__(self, rows: Iterable[tuple[Any, ...]]) -> None:
        self._groups = groupby(rows, key=itemgetter(0))
        self._next: tuple[Any, list[tuple[Any, ...]]] | None = None
        self._skipped = 0
        self._advance()

    def _advance(self) -> None:
        group = next(self._groups, None)
        self._next = None if group is None else (group[0], list(group[1]))

    def take(self, document: int) -> list[tuple[Any, ...]]:
        while self._next is not None and self._next[0] < document:
            self._skipped += len(self._next[1])
            self._advance()
        if self._next is None or self._next[0] != document:
            return []
        rows = self._next[1]
        self._advance()
        return rows

    def skipped(self) -> int:
        """Return how many rows were not taken, after the last document."""
        while self._next is not None:
            self._skipped += len(self._next[1])
            self._advance()
        return self._skipped
