"""Find documents by their properties, tags and days, and count which properties there are.

An index in an older format has no rows of properties. While a new one is built, they are derived
from the stored front matter, which has everything but the fields in texts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from sqlite3 import Connection
from typing import Any, Final, NamedTuple

from lookfar.common.conditions import Condition
from lookfar.common.properties import DAY_KEY, SUPERSEDED_KEY, TAGS_KEY, fold_tag, list_properties
from lookfar.common.superseding import find_superseded
from lookfar.ports import PropertyRow
from lookfar.store.catalogue import rows as catalog
from lookfar.store.catalogue.migrations import FORMAT_WITH_PROPERTIES, check

_DAY_SECONDS: Final = 86_400.0
_AFTER_SLASH: Final = "0"
"""The character after ``/``: what begins with ``a/`` is less than ``a0``."""
_Part = tuple[str, Sequence[Any]]
"""A condition on the rows of properties, with its values in place of each ``?``."""
_TABLE: Final = (
    "CREATE TABLE properties (document INTEGER, ordinal INTEGER, key TEXT, name TEXT, kind TEXT,"
    " value TEXT, folded TEXT, number REAL)"
)


class Clauses(NamedTuple):
    """Conditions on the documents ``d`` of a statement, and the values of their parameters."""

    sql: list[str]
    values: dict[str, Any]


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


def open_rows(connection: Connection, generation: int) -> Connection:
    """Return a database with the rows of properties: the same one, unless they are derived."""
    if check(connection) < FORMAT_WITH_PROPERTIES:
        return _derive(connection, generation)
    return connection


class PropertyTable:
    """The properties of one generation of a collection."""

    def __init__(self, connection: Connection, generation: int) -> None:
        self._generation = generation
        self._connection = open_rows(connection, generation)
        self._is_derived = self._connection is not connection

    def match(self, tags: Sequence[str], conditions: Sequence[Condition]) -> Clauses:
        """Return what the row of a document with all tags and conditions must meet."""
        clauses = Clauses([], {})
        for tag in tags:
            self._add(clauses, "IN", [_select_tagged(tag)])
        for condition in conditions:
            if condition.operator in ("has", "missing"):
                among = "IN" if condition.operator == "has" else "NOT IN"
                self._add(clauses, among, [self._select_having(condition.key)])
            elif condition.operator == "!=":
                # The opposite of =, so that documents without the property match, too.
                equal = condition._replace(operator="=")
                self._add(clauses, "NOT IN", _select_comparing(equal))
            else:
                self._add(clauses, "IN", _select_comparing(condition))
        return clauses

    def match_time(self, after: int | None, before: int | None) -> Clauses:
        """Return what the row of a document in a window of nanoseconds must meet.

        A document that is about a day counts by that day, which is inside if it ends after
        ``after`` and begins before ``before``. The window has instants and a day belongs to a
        calendar, so the window is converted to the local clock.
        """
        limits = "key = ? AND number IS NOT NULL"
        values: list[Any] = [DAY_KEY]
        modified = []
        clauses = Clauses([], {})
        if after is not None:
            limits += " AND number > ?"
            values.append(_local_seconds(after) - _DAY_SECONDS)
            modified.append("d.mtime_ns >= :after")
            clauses.values["after"] = after
        if before is not None:
            limits += " AND number < ?"
            values.append(_local_seconds(before))
            modified.append("d.mtime_ns < :before")
            clauses.values["before"] = before
        self._add(clauses, "IN", [(limits, values)])
        self._add(clauses, "NOT IN", [("key = ? AND number IS NOT NULL", [DAY_KEY])])
        inside, without_day = clauses.sql
        clauses.sql[:] = [f"({inside} OR ({' AND '.join([without_day, *modified])}))"]
        return clauses

    def _add(self, clauses: Clauses, among: str, parts: Sequence[_Part]) -> None:
        """Add the clause that a document is, or is not, among those with a matching property."""
        if self._is_derived:  # Another database, so that its documents have to be named.
            numbers = {-1, *(document for part in parts for document in self._find(*part))}
            clauses.sql.append(f"d.id {among} ({','.join(map(str, numbers))})")
            return
        selects = []
        for where, values in parts:
            for value in values:
                name = f"property{len(clauses.values)}"
                clauses.values[name] = value
                where = where.replace("?", f":{name}", 1)
            selects.append(f"SELECT document FROM properties WHERE {where}")
        clauses.sql.append(f"d.id {among} ({' UNION ALL '.join(selects)})")

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

    def _select_having(self, key: str) -> _Part:
        if key != SUPERSEDED_KEY:
            return "key = ?", [key]
        hidden = self.superseded()
        numbers = [str(number) for number, uri in self._documents() if uri in hidden]
        return f"document IN ({','.join(['-1', *numbers])})", []  # Our own integers.

    def _find(self, where: str, values: Sequence[Any]) -> frozenset[int]:
        rows = self._connection.execute(f"SELECT document FROM properties WHERE {where}", values)
        return frozenset(document for (document,) in rows.fetchall())


def _select_tagged(tag: str) -> _Part:
    """Select the documents with a tag or one below it, in any case."""
    wanted = fold_tag(tag)
    return (
        "key = ? AND (folded = ? OR (folded > ? AND folded < ?))",
        [TAGS_KEY, wanted, f"{wanted}/", f"{wanted}{_AFTER_SLASH}"],
    )


def _select_comparing(condition: Condition) -> list[_Part]:
    """Select the documents whose property compares so, by the type of the property."""
    key, operator = condition.key, condition.operator
    parts: list[_Part] = []
    if operator == "=":
        parts.append(("key = ? AND folded = ?", [key, condition.text]))
    elif "text" in condition.kinds:
        parts.append(
            (f"key = ? AND kind IN ('text', 'link') AND folded {operator} ?", [key, condition.text])
        )
    if condition.number is not None:
        parts.append(
            (f"key = ? AND kind = 'number' AND number {operator} ?", [key, condition.number])
        )
    if condition.start is not None and condition.end is not None:
        start, end = condition.start, condition.end
        # A day, week or month is a period: to be after it means at its end or later.
        bounds: dict[str, tuple[str, list[float]]] = {
            "=": ("number >= ? AND number < ?", [start, end]),
            "<": ("number < ?", [start]),
            "<=": ("number < ?", [end]),
            ">": ("number >= ?", [end]),
            ">=": ("number >= ?", [start]),
        }
        within, values = bounds[operator]
        parts.append((f"key = ? AND kind IN ('date', 'datetime') AND {within}", [key, *values]))
    return parts


def read_days(connection: Connection, documents: Sequence[int] | None) -> dict[int, str]:
    """Return the day that each of these documents, or of all, is about; others are missing."""
    if check(connection) < FORMAT_WITH_PROPERTIES:
        return {}
    some = None if documents is None else ",".join(map(str, documents))  # Our own integers.
    among = "" if some is None else f" AND document IN ({some})"
    rows = connection.execute(
        f"SELECT document, value FROM properties WHERE key = ?{among}", (DAY_KEY,)
    )
    return dict(rows.fetchall()) if some != "" else {}


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
