"""The server's table of collections: which number serves under a name.

A collection that is rebuilt gets a new number and takes over in one commit. All of this is for the
holder of the writer lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from psycopg import Connection, errors

from lookfar.store.postgres import schema
from lookfar.store.postgres.server import select_in_transaction

DAMAGED: Final = "damaged/"
"""Prefix of the names of damaged collections that a repair has kept aside."""


def list_numbers(raw: Connection[Any], name: str) -> list[int]:
    """Return the numbers of the collections of a name, serving or not."""
    rows = raw.execute(
        "SELECT collection FROM collections WHERE name = %s ORDER BY collection", (name,)
    )
    return [number for (number,) in rows]


def list_set_aside(raw: Connection[Any], name: str) -> list[int]:
    return list_numbers(raw, f"{DAMAGED}{name}")


def set_aside(raw: Connection[Any], name: str, number: int) -> None:
    """Rename a damaged collection, so that no reader finds it."""
    raw.execute(
        "UPDATE collections SET name = %s, serving = false WHERE collection = %s",
        (f"{DAMAGED}{name}", number),
    )


def remove_collections(raw: Connection[Any], numbers: Sequence[int]) -> None:
    """Remove collections with all their rows."""
    for number in numbers:
        with raw.transaction():
            select_in_transaction(raw, number)
            for table in schema.TABLES:
                raw.execute(f"DELETE FROM {table}")
            raw.execute("DELETE FROM collections WHERE collection = %s", (number,))


def remove_all(raw: Connection[Any], name: str) -> None:
    """Remove every collection of a name: serving and damaged."""
    numbers = [*list_numbers(raw, name), *list_set_aside(raw, name)]
    # The pointer first: without it, what is left does not count as an index.
    raw.execute("UPDATE collections SET serving = false WHERE name = %s", (name,))
    remove_collections(raw, numbers)


def record_damage(raw: Connection[Any], name: str, why: str) -> None:
    record = f"{datetime.now(UTC).isoformat(timespec='seconds')}: {why}"
    raw.execute("DELETE FROM damage WHERE name = %s", (name,))
    raw.execute("INSERT INTO damage (name, told) VALUES (%s, %s)", (name, record))


def last_damage(raw: Connection[Any], name: str) -> str:
    try:
        row = raw.execute("SELECT told FROM damage WHERE name = %s", (name,)).fetchone()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return ""
    return str(row[0]) if row else ""
