"""Numbered states of a collection: which one serves, which are kept, what is purged.

Takes: a connection in a write transaction. Gives: activation, the list of
generations, and the rows that no kept generation can see any more. Refuses: to
purge what is pinned or retained.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lookfar.errors import InvalidArgument
from lookfar.store import catalog

ACTIVE = "active"
"""The key in ``meta`` of the number that readers get."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One activated state."""

    number: int
    created_at: str
    pinned: bool
    manifest: Mapping[str, Any]


def active(connection: sqlite3.Connection) -> int:
    """The number that readers get; 0 before the first activation."""
    return catalog.number(connection, ACTIVE)


def activate(
    connection: sqlite3.Connection, number: int, created_at: str, manifest: Mapping[str, Any]
) -> None:
    """Record ``number`` and point readers at it; visible when the transaction commits."""
    connection.execute(
        "INSERT INTO generations (number, created_at, manifest) VALUES (?, ?, ?)",
        (number, created_at, json.dumps(manifest, sort_keys=True)),
    )
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (ACTIVE, str(number)))


def listed(connection: sqlite3.Connection) -> list[Generation]:
    rows = connection.execute(
        "SELECT number, created_at, pinned, manifest FROM generations ORDER BY number"
    )
    try:
        return [
            Generation(number, created, bool(pinned), json.loads(manifest))
            for number, created, pinned, manifest in rows
        ]
    except (TypeError, ValueError) as error:
        raise catalog.damaged_row(f"generations: {error}") from error


def resolve(connection: sqlite3.Connection, wanted: int | None) -> int:
    """The generation to read: the active one, or the one asked for if it is still kept."""
    if wanted is None:
        return active(connection)
    kept = [row[0] for row in connection.execute("SELECT number FROM generations")]
    if wanted not in kept:
        raise InvalidArgument(
            f"Generation {wanted} is not kept.",
            hint=f"Kept generations: {', '.join(map(str, sorted(kept))) or 'none'}.",
        )
    return wanted


def retire(connection: sqlite3.Connection, retain: int) -> list[int]:
    """Forget generations beyond the last ``retain``; gives documents nobody can see any more."""
    connection.execute(
        "DELETE FROM generations WHERE pinned = 0 AND number NOT IN"
        " (SELECT number FROM generations ORDER BY number DESC LIMIT ?)",
        (max(1, retain),),
    )
    rows = connection.execute(
        "SELECT id FROM documents WHERE died IS NOT NULL AND NOT EXISTS"
        " (SELECT 1 FROM generations g WHERE g.number >= documents.born"
        "  AND g.number < documents.died)"
    )
    return [identifier for (identifier,) in rows]


def purge(connection: sqlite3.Connection, documents: list[int]) -> None:
    """Remove every row of these document versions, and the texts that no other version has.

    Their keyword entries go with the next commit of that index. Those of the graves
    found here went with the one just made, so these graves are closed.
    """
    connection.execute("DELETE FROM graves")
    for identifier in documents:
        (text,) = connection.execute(
            "SELECT text_sha FROM documents WHERE id = ?", (identifier,)
        ).fetchone()
        for table in ("sections", "chunks", "links", "tags"):
            connection.execute(f"DELETE FROM {table} WHERE document = ?", (identifier,))
        connection.execute("DELETE FROM documents WHERE id = ?", (identifier,))
        connection.execute(
            "DELETE FROM texts WHERE sha = ?"
            " AND NOT EXISTS (SELECT 1 FROM documents WHERE text_sha = ?)",
            (text, text),
        )
    connection.executemany("INSERT INTO graves VALUES (?)", [(each,) for each in documents])
