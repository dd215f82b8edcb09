"""Find documents by their properties, tags and days, and count which properties there are.

An index in an older format has no rows of properties. While a new one is built, they are derived
from the stored front matter, which has everything but the fields in texts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from lookfar.common.conditions import Condition
from lookfar.common.properties import DAY_KEY, SUPERSEDED_KEY, TAGS_KEY, fold_tag, list_properties
from lookfar.common.superseding import find_superseded
from lookfar.ports import PropertyRecord, PropertyRow
from lookfar.store.catalogue import generations
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.migrations import FORMAT_WITH_PROPERTIES, check
from lookfar.store.ground.sql import Connection

_DAY_SECONDS: Final = 86_400.0
_AFTER_SLASH: Final = "0"
"""The character after ``/``: what begins with ``a/`` is less than ``a0``."""
_TABLE: Final = (
    "CREATE TABLE properties (document INTEGER, ordinal INTEGER, key TEXT, name TEXT, kind TEXT,"
    " value TEXT, folded TEXT, number REAL)"
)


class Days(NamedTuple):
    """The documents that are about a day, and those of them whose day is in a window."""

    all: frozenset[int]
    inside: frozenset[int]


class Found(NamedTuple):
    """The documents that conditions admit."""

    only: frozenset[int] | None
    """None if all do that are not refused."""
    refused: frozenset[int]


ALL_FOUND: Final = Found(None, frozenset())
NO_DAYS: Final = Days(frozenset(), frozenset())


def read_rows(connection: Connection, document: int) -> list[PropertyRow]:
    """Return the properties of a document, as they were stored."""
    if check(connection) < FORMAT_WITH_PROPERTIES:
        return []
    rows = connection.execute(
        "SELECT key, name, kind, value, folded, number FROM properties WHERE document = ?"
        " ORDER BY ordinal",
        (document,),
    )
    return [(*row,) for row in rows.fetchall()]


class PropertyTable:
    """The properties of one generation of a collection."""

    def __init__(self, connection: Connection, generation: int) -> None:
        self._generation = generation
        self._connection = connection
        if _format_of(connection, generation) < FORMAT_WITH_PROPERTIES:
            self._connection = _derive(connection, generation)

    def find(self, tags: Sequence[str], conditions: Sequence[Condition]) -> Found:
        """Return the documents with all tags that meet all conditions, of any generation."""
        admitted = [self.tagged(tag) for tag in tags]
        refused: list[frozenset[int]] = []
        for condition in conditions:
            if condition.operator == "missing":
                refused.append(self._having(condition.key))
            elif condition.operator == "!=":
                admitted.append(self._having(condition.key))
                refused.append(self._compare(condition._replace(operator="=")))
            elif condition.operator == "has":
                admitted.append(self._having(condition.key))
            else:
                admitted.append(self._compare(condition))
        only = frozenset.intersection(*admitted) if admitted else None
        return Found(only, frozenset().union(*refused))

    def tagged(self, tag: str) -> frozenset[int]:
        """Return the documents with a tag or one below it, in any case."""
        wanted = fold_tag(tag)
        return self._find(
            "key = ? AND (folded = ? OR (folded > ? AND folded < ?))",
            (TAGS_KEY, wanted, f"{wanted}/", f"{wanted}{_AFTER_SLASH}"),
        )

    def days(self, after: int | None, before: int | None) -> Days:
        """Return the documents that are about a day, and those in a window of nanoseconds.

        The window has instants and a day belongs to a calendar, so the window is first converted
        to the local clock. A day is inside if it ends after ``after`` and begins before
        ``before``.
        """
        first = None if after is None else _local_seconds(after) - _DAY_SECONDS
        last = None if before is None else _local_seconds(before)
        rows = self._connection.execute(
            "SELECT document, number FROM properties WHERE key = ? AND number IS NOT NULL",
            (DAY_KEY,),
        ).fetchall()
        inside = frozenset(
            document
            for document, day in rows
            if (first is None or day > first) and (last is None or day < last)
        )
        return Days(frozenset(document for document, _ in rows), inside)

    def all(self) -> list[PropertyRecord]:
        """Return every property of every live document."""
        rows = self._connection.execute(
            "SELECT p.document, p.key, p.name, p.kind, p.value, p.folded"
            f" FROM properties p JOIN documents d ON d.id = p.document WHERE {catalog.ALIVE}"
            " ORDER BY p.document, p.ordinal",
            {"g": self._generation},
        )
        return [PropertyRecord(*row) for row in rows.fetchall()]

    def superseded(self) -> dict[str, str]:
        """Return the URIs of superseded memories, each with that of the newer memory."""
        rows = self._connection.execute(
            "SELECT d.uri, p.folded FROM properties p JOIN documents d ON d.id = p.document"
            f" WHERE p.key = :key AND d.lane = 'memory' AND {catalog.ALIVE}",
            {"key": "supersedes", "g": self._generation},
        ).fetchall()
        if not rows:
            return {}
        supersedes: dict[str, list[str]] = {uri: [] for _, uri in self._documents()}
        for uri, target in rows:
            supersedes[uri].append(target)
        return find_superseded(supersedes)

    def _documents(self) -> list[tuple[int, str]]:
        rows = self._connection.execute(
            f"SELECT d.id, d.uri FROM documents d WHERE {catalog.ALIVE}", {"g": self._generation}
        )
        return [(number, uri) for number, uri in rows.fetchall()]

    def _having(self, key: str) -> frozenset[int]:
        if key == SUPERSEDED_KEY:
            hidden = self.superseded()
            return frozenset(number for number, uri in self._documents() if uri in hidden)
        return self._find("key = ?", (key,))

    def _compare(self, condition: Condition) -> frozenset[int]:
        """Return documents whose property compares so, by the type of the property."""
        key, operator = condition.key, condition.operator
        matches = frozenset[int]()
        if operator == "=":
            matches |= self._find("key = ? AND folded = ?", (key, condition.text))
        elif condition.quoted or (condition.number is None and condition.start is None):
            matches |= self._find(
                f"key = ? AND kind IN ('text', 'link') AND folded {operator} ?",
                (key, condition.text),
            )
        if condition.number is not None:
            matches |= self._find(
                f"key = ? AND kind = 'number' AND number {operator} ?", (key, condition.number)
            )
        if condition.start is not None and condition.end is not None:
            start, end = condition.start, condition.end
            # A day, week or month is a period: to be after it means at its end or later.
            bounds: dict[str, tuple[str, tuple[float, ...]]] = {
                "=": ("number >= ? AND number < ?", (start, end)),
                "<": ("number < ?", (start,)),
                "<=": ("number < ?", (end,)),
                ">": ("number >= ?", (end,)),
                ">=": ("number >= ?", (start,)),
            }
            within, values = bounds[operator]
            matches |= self._find(
                f"key = ? AND kind IN ('date', 'datetime') AND {within}", (key, *values)
            )
        return matches

    def _find(self, where: str, values: Sequence[Any]) -> frozenset[int]:
        rows = self._connection.execute(f"SELECT document FROM properties WHERE {where}", values)
        return frozenset(document for (document,) in rows.fetchall())


def read_days(
    connection: Connection, generation: int, documents: Sequence[int] | None
) -> dict[int, str]:
    """Return the day that each of these documents, or of all, is about; others are missing."""
    if _format_of(connection, generation) < FORMAT_WITH_PROPERTIES:
        return {}
    some = None if documents is None else ",".join(map(str, documents))  # Our own integers.
    among = "" if some is None else f" AND document IN ({some})"
    rows = connection.execute(
        f"SELECT document, value FROM properties WHERE key = ?{among}", (DAY_KEY,)
    )
    return dict(rows.fetchall()) if some != "" else {}


def _format_of(connection: Connection, generation: int) -> int:
    """Return the format that the rows of a generation were written in."""
    if isinstance(connection, sqlite3.Connection):
        return check(connection)
    # The tables of a server are always current, but a collection on it may be older.
    written = generations.manifest(connection, generation).get("format")
    return written if isinstance(written, int) else FORMAT_WITH_PROPERTIES


def _derive(connection: Connection, generation: int) -> sqlite3.Connection:
    """Return a database in memory with the properties of an index in an older format."""
    derived = sqlite3.connect(":memory:")
    derived.execute(_TABLE)
    derived.execute(
        "CREATE TABLE documents (id INTEGER, uri TEXT, lane TEXT, born INTEGER, died INTEGER)"
    )
    for facts in catalog.facts(connection, generation):
        derived.execute(
            "INSERT INTO documents VALUES (?, ?, ?, 0, NULL)",
            (facts.document, facts.uri, facts.lane),
        )
        stored = catalog.live_document(connection, facts.uri, generation) or {}
        metadata = stored.get("front_matter") or stored.get("metadata") or {}
        uri = facts.uri if facts.lane == "docs" else ""
        properties = list_properties(metadata, tags=facts.tags, uri=uri)
        derived.executemany(
            "INSERT INTO properties VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [(facts.document, at, *row) for at, row in enumerate(properties)],
        )
    return derived


def _local_seconds(nanoseconds: int) -> float:
    """Return an instant on the local clock, as seconds since 1970 on that clock."""
    seconds = nanoseconds / 1e9
    try:
        offset = datetime.fromtimestamp(seconds).astimezone().utcoffset()
    except (ValueError, OverflowError, OSError):
        return seconds  # Outside of the calendar: a few hours do not matter.
    return seconds + (offset.total_seconds() if offset else 0.0)
