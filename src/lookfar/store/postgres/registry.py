"""The server's table of collections: which number serves under a name.

A collection that is rebuilt is filled under a new number and takes over in one commit. Rows of
numbers that do not serve are unfinished: the next writer continues them or removes them. All of
this is for the holder of the writer lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from lookfar.store.catalogue import generations
from lookfar.store.catalogue import rows as catalog
from lookfar.store.postgres import schema
from lookfar.store.postgres.server import Reading, ServerConnection, Serving, select_in_transaction
from lookfar.store.postgres.vector_search import drop_vector_index

DAMAGED: Final = "damaged/"
"""Prefix of the names of damaged collections that a repair has kept aside."""


def select_collection(connection: ServerConnection, number: int) -> None:
    """Make this collection the only one that the connection sees from now on."""
    connection.ask("SELECT set_config('lookfar.collection', %s, false)", (str(number),))


def find_serving(connection: ServerConnection, name: str) -> Serving | None:
    """Return the collection that serves under a name, and select it."""
    row = connection.ask(
        "SELECT collection, fingerprint, dimensions, model FROM collections"
        " WHERE name = %s AND serving",
        (name,),
    ).fetchone()
    if row is None:
        return None
    collection, fingerprint, dimensions, model = row
    select_collection(connection, collection)
    active = generations.active(connection)
    return Serving(collection, fingerprint, dimensions, model, active)


def serving_number(connection: ServerConnection, name: str) -> int | None:
    row = connection.ask(
        "SELECT collection FROM collections WHERE name = %s AND serving", (name,)
    ).fetchone()
    return None if row is None else int(row[0])


def create_collection(
    connection: ServerConnection,
    name: str,
    fingerprint: str,
    dimensions: int,
    model: str,
    after: int,
) -> int:
    """Create an empty collection whose generations follow ``after``, select it, and return its
    number."""
    with connection.raw.transaction():
        (number,) = connection.ask(
            "INSERT INTO collections (name, fingerprint, dimensions, model)"
            " VALUES (%s, %s, %s, %s) RETURNING collection",
            (name, fingerprint, dimensions, model),
        ).fetchone() or (0,)
        select_collection(connection, number)
        select_in_transaction(connection.raw, number)
        connection.executemany(
            "INSERT INTO meta VALUES (?, ?)",
            [
                ("fingerprint", fingerprint),
                ("dimensions", str(dimensions)),
                (catalog.MODEL, model),
                (generations.ACTIVE, str(after)),
            ],
        )
    return int(number)


def find_unfinished(connection: ServerConnection, name: str, after: int) -> int | None:
    """Return an interrupted build of the same kind, if it follows what serves."""
    rows = connection.ask(
        "SELECT collection FROM collections WHERE name = %s AND NOT serving", (name,)
    ).fetchall()
    for (number,) in rows:
        select_collection(connection, number)
        if generations.never_served(connection, after):
            return int(number)
    return None


def remove_unfinished(
    connection: ServerConnection,
    name: str,
    fingerprint: str,
    dimensions: int,
    model: str,
    rebuild: bool,
) -> None:
    """Remove what does not serve and cannot be continued, and select what serves."""
    rows = connection.ask(
        "SELECT collection, fingerprint, dimensions, model FROM collections"
        " WHERE name = %s AND NOT serving ORDER BY collection DESC",
        (name,),
    ).fetchall()
    fitting = [row[0] for row in rows if (*row[1:],) == (fingerprint, dimensions, model)]
    spared = set() if rebuild else set(fitting[:1])
    remove_collections(connection, [row[0] for row in rows if row[0] not in spared])
    serving = serving_number(connection, name)
    if serving is not None:
        select_collection(connection, serving)


def remove_collections(connection: ServerConnection, numbers: Sequence[int]) -> None:
    """Remove collections that do not serve, with all their rows."""
    for number in numbers:
        select_collection(connection, number)
        drop_vector_index(connection, number)
        with connection.raw.transaction():
            select_in_transaction(connection.raw, number)
            for table in schema.TABLES:
                connection.ask(f"DELETE FROM {table}")
            connection.ask(
                "DELETE FROM collections WHERE collection = %s AND NOT serving", (number,)
            )


def list_set_aside(connection: ServerConnection, name: str) -> list[int]:
    rows = connection.ask(
        "SELECT collection FROM collections WHERE name = %s ORDER BY collection",
        (f"{DAMAGED}{name}",),
    )
    return [number for (number,) in rows.fetchall()]


def set_aside(connection: ServerConnection, name: str, number: int) -> None:
    """Rename a damaged collection, so that no reader finds it."""
    connection.ask(
        "UPDATE collections SET name = %s WHERE collection = %s", (f"{DAMAGED}{name}", number)
    )


def remove_all(connection: ServerConnection, name: str) -> None:
    """Remove every collection of a name: serving, unfinished and damaged."""
    rows = connection.ask(
        "SELECT collection FROM collections WHERE name = %s OR name = %s",
        (name, f"{DAMAGED}{name}"),
    ).fetchall()
    # The pointer first: without it, what is left does not count as an index.
    connection.ask("UPDATE collections SET serving = false WHERE name = %s", (name,))
    remove_collections(connection, [number for (number,) in rows])


def record_damage(connection: ServerConnection, name: str, why: str) -> None:
    record = f"{datetime.now(UTC).isoformat(timespec='seconds')}: {why}"
    connection.ask("DELETE FROM damage WHERE name = %s", (name,))
    connection.ask("INSERT INTO damage (name, told) VALUES (%s, %s)", (name, record))


def last_damage(connection: Reading, name: str) -> str:
    (table,) = connection.ask("SELECT to_regclass('lookfar.damage')").fetchone() or (None,)
    if table is None:
        return ""
    row = connection.ask("SELECT told FROM damage WHERE name = %s", (name,)).fetchone()
    return str(row[0]) if row else ""
