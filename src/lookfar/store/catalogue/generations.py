"""Numbered states of a collection: which one serves, which are kept, what is purged.

Takes: a connection in a write transaction. Gives: activation, roll-back, the list of
generations, and the rows that no kept generation can see any more. Refuses: to
purge what is pinned, retained or serving, and to give out a number twice.

A roll-back moves the pointer and nothing else, so it can be taken back while nobody
writes. What lies beyond the pointer is dropped by the next write session.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from lookfar.errors import IndexHeld, InvalidArgument
from lookfar.store.catalogue import rows as catalog
from lookfar.store.ground.sql import Connection

ACTIVE = "active"
"""The key in ``meta`` of the number that readers get."""
_HELD = "held"
"""The number that someone rolled back to, until the next explicit indexing; else absent."""
_LAST = "last_generation"
"""The highest number given out before a roll-back: what is dropped never gives its to another."""


_COUNTED, _WAY = "counted", 2
"""Says in a manifest how its totals were made: those made so can be added to."""
_MODULUS = 1 << 256
_TABLES = ("sections", "chunks", "links")


class Since(NamedTuple):
    """Where a write session began."""

    generation: int
    """The one that it goes on from."""
    first_document: int
    """The first number that it gives to a document."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One activated state."""

    number: int
    created_at: str
    pinned: bool
    manifest: Mapping[str, Any]


def active(connection: Connection) -> int:
    """The number that readers get; 0 before the first activation."""
    return catalog.read_number(connection, ACTIVE)


def activate(
    connection: Connection, number: int, created_at: str, manifest: Mapping[str, Any]
) -> None:
    """Record ``number`` and point readers at it; visible when the transaction commits."""
    connection.execute(
        "INSERT INTO generations (number, created_at, manifest) VALUES (?, ?, ?)",
        (number, created_at, json.dumps(manifest, sort_keys=True)),
    )
    catalog.record(connection, ACTIVE, number)


def never_served(connection: Connection, after: int) -> bool:
    """Whether all that is stored belongs to the one generation that would follow ``after``."""
    (others,) = connection.execute(
        "SELECT (SELECT count(*) FROM generations WHERE number != :next)"
        " + (SELECT count(*) FROM documents WHERE born != :next OR died != :next)",
        {"next": after + 1},
    ).fetchone()
    return not others


def withdraw(connection: Connection) -> None:
    """Take back the activation of an epoch whose writer died before anyone pointed at it."""
    connection.execute("DELETE FROM generations")
    (born,) = connection.execute("SELECT min(born) FROM documents").fetchone()
    if born is not None:
        catalog.record(connection, ACTIVE, int(born) - 1)


def highest(connection: Connection) -> int:
    """The highest number ever given out; the next generation gets the one after it."""
    (kept,) = connection.execute("SELECT coalesce(max(number), 0) FROM generations").fetchone()
    return max(int(kept), active(connection), catalog.read_number(connection, _LAST))


def totals(connection: Connection, since: Since | None = None) -> dict[str, Any]:
    """What the generation about to be activated holds, for its manifest.

    Valid while all that is not dead is part of it. ``content`` names the documents and
    their texts: two libraries that hold the same have the same. With ``since`` only what
    changed is counted, so that one edit costs the same however much there is.
    """
    before = manifest(connection, since.generation) if since else {}
    if since is None or before.get(_COUNTED) != _WAY:
        # Counting the dead is quicker than counting the living: there are few.
        every = {table: _rows(connection, table) for table in _TABLES}
        dead = {table: _rows(connection, table, "died IS NOT NULL") for table in _TABLES}
        alive = {table: every[table] - dead[table] for table in _TABLES}
        return {**_named(connection, "died IS NULL", (), {}), **alive, _COUNTED: _WAY}
    found = dict(before)
    added = ("id >= ? AND died IS NULL", (since.first_document,), 1)
    # What was added and replaced in the same session was never counted.
    gone = ("died > ? AND id < ?", (since.generation, since.first_document), -1)
    for where, values, sign in (added, gone):
        found |= _named(connection, where, values, found, sign)
        for table in _TABLES:
            found[table] += sign * _rows(connection, table, where, values)
    return {key: found[key] for key in ("documents", "content", *_TABLES, _COUNTED)}


def forget_totals(connection: Connection) -> None:
    """Documents went that were counted, and left no row to tell of it: count all over again."""
    told = ("documents", "content", *_TABLES, _COUNTED)
    for each in listed(connection):
        left = {key: value for key, value in each.manifest.items() if key not in told}
        _write_manifest(connection, each.number, left)


def discount(connection: Connection, documents: Sequence[int]) -> None:
    """These versions are about to go from every generation: what each recorded is less by them."""
    for each in listed(connection):
        if each.manifest.get(_COUNTED) != _WAY:
            continue
        found = dict(each.manifest)
        for some in catalog.batches(documents):
            where = (
                f"id IN ({','.join(map(str, some))})"  # Integers of our own.
                " AND born <= ? AND (died IS NULL OR died > ?)"
            )
            values = (each.number, each.number)
            found |= _named(connection, where, values, found, -1)
            for table in _TABLES:
                found[table] -= _rows(connection, table, where, values)
        _write_manifest(connection, each.number, found)


def _write_manifest(connection: Connection, number: int, manifest: Mapping[str, Any]) -> None:
    connection.execute(
        "UPDATE generations SET manifest = ? WHERE number = ?",
        (json.dumps(manifest, sort_keys=True), number),
    )


def _rows(connection: Connection, table: str, where: str = "", values: Sequence[int] = ()) -> int:
    """How many rows of a table are there, or belong to these documents."""
    among = f" WHERE document IN (SELECT id FROM documents WHERE {where})" if where else ""
    (number,) = connection.execute(f"SELECT count(*) FROM {table}{among}", values).fetchone()
    return int(number)


def _named(
    connection: Connection,
    where: str,
    values: Sequence[int],
    before: Mapping[str, Any],
    sign: int = 1,
) -> dict[str, Any]:
    """How many documents there are and what names them all, with these more, or less."""
    documents, content = int(before.get("documents", 0)), int(before.get("content", "0"), 16)
    found = connection.execute(f"SELECT uri, text_sha FROM documents WHERE {where}", values)
    for uri, text_sha in found:
        named = uri.encode("utf-8", "surrogateescape") + b"\0" + text_sha
        documents += sign
        # A sum, in whatever order, from which one can be taken away again.
        content += sign * int.from_bytes(sha256(named).digest(), "big")
    return {"documents": documents, "content": f"{content % _MODULUS:064x}"}


def manifest(connection: Connection, number: int) -> Mapping[str, Any]:
    """What was recorded of one generation; empty for one that is not kept."""
    return next((each.manifest for each in listed(connection, number)), {})


def listed(connection: Connection, only: int | None = None) -> list[Generation]:
    rows = connection.execute(
        "SELECT number, created_at, pinned, manifest FROM generations"
        " WHERE number = coalesce(?, number) ORDER BY number",
        (only,),
    )
    try:
        return [
            Generation(number, created, bool(pinned), json.loads(manifest))
            for number, created, pinned, manifest in rows
        ]
    except (TypeError, ValueError) as error:
        raise catalog.corrupt_row_error(connection, f"generations: {error}") from error


def resolve(connection: Connection, wanted: int | None) -> int:
    """The generation to read: the active one, or the one asked for if it is still kept."""
    return active(connection) if wanted is None else _kept(connection, wanted)


def _kept(connection: Connection, wanted: int) -> int:
    kept = [row[0] for row in connection.execute("SELECT number FROM generations")]
    if wanted not in kept:
        raise InvalidArgument(
            f"Generation {wanted} is not kept.",
            hint=f"Kept generations: {', '.join(map(str, sorted(kept))) or 'none'}.",
            details={"kept": sorted(kept)},
        )
    return wanted


# -- moving the pointer ----------------------------------------------------


def held(connection: Connection) -> int | None:
    """The generation that someone rolled back to, and that no check of the disk replaces."""
    return catalog.read_number(connection, _HELD) or None


def refuse_held(connection: Connection) -> None:
    """Whoever writes unasked leaves alone what someone holds."""
    number = held(connection)
    if number is not None:
        raise IndexHeld(
            f"The index is held at generation {number} since a roll-back.",
            hint="Run: lookfar index PATH, which lets go of it and indexes what is there now.",
            details={"held": number},
        )


def roll_back(connection: Connection, number: int) -> None:
    """Point readers at a kept generation and hold it there; the newest needs no holding."""
    _kept(connection, number)
    (newest,) = connection.execute("SELECT max(number) FROM generations").fetchone()
    catalog.record(connection, _LAST, highest(connection))
    catalog.record(connection, ACTIVE, number)
    if number == newest:
        _let_go(connection)
    else:
        catalog.record(connection, _HELD, number)


def _let_go(connection: Connection) -> None:
    connection.execute("DELETE FROM meta WHERE key = ?", (_HELD,))


def settle(connection: Connection) -> None:
    """Before a write: let go, and drop for good what a roll-back left beyond the pointer.

    The keyword entries of what is dropped wait in ``graves`` for the commit after the
    next: should this session fail, the catalogue still shows what they belong to.
    """
    _let_go(connection)
    pointer = active(connection)
    beyond = connection.execute(
        "SELECT number, pinned FROM generations WHERE number > ? ORDER BY number", (pointer,)
    ).fetchall()
    if not beyond:
        return
    pinned = [number for number, is_pinned in beyond if is_pinned]
    if pinned:
        named = ", ".join(map(str, pinned))
        raise IndexHeld(
            f"The index was rolled back to generation {pointer}, and indexing now would drop"
            f" generation {named}, which is pinned.",
            hint=f"Unpin first (lookfar snapshots unpin {pinned[0]} PATH), or roll forward"
            f" (lookfar snapshots rollback {pinned[-1]} PATH).",
            details={"pinned": pinned},
        )
    connection.execute("DELETE FROM generations WHERE number > ?", (pointer,))
    born = connection.execute("SELECT id FROM documents WHERE born > ?", (pointer,)).fetchall()
    purge(connection, [identifier for (identifier,) in born])
    connection.execute("UPDATE documents SET died = NULL WHERE died > ?", (pointer,))


# -- keeping and purging ---------------------------------------------------


def pin(connection: Connection, number: int, pinned: bool) -> None:
    """Keep a generation whatever retention says, or no longer."""
    connection.execute(
        "UPDATE generations SET pinned = ? WHERE number = ?", (pinned, _kept(connection, number))
    )


def retire(connection: Connection, retain: int) -> list[int]:
    """Forget generations beyond the last ``retain``; gives documents nobody can see any more."""
    connection.execute(
        "DELETE FROM generations WHERE pinned = 0 AND number != ? AND number NOT IN"
        " (SELECT number FROM generations ORDER BY number DESC LIMIT ?)",
        (active(connection), max(1, retain)),
    )
    rows = connection.execute(
        "SELECT id FROM documents WHERE died IS NOT NULL AND NOT EXISTS"
        " (SELECT 1 FROM generations g WHERE g.number >= documents.born"
        "  AND g.number < documents.died)"
    )
    return [identifier for (identifier,) in rows]


def prune(connection: Connection, keep: int) -> tuple[int, int]:
    """Retention now: how many generations and how many document versions went."""
    before = len(listed(connection))
    documents = retire(connection, keep)
    purge(connection, documents)
    return before - len(listed(connection)), len(documents)


def purge(connection: Connection, documents: Sequence[int]) -> None:
    """Remove every row of these document versions, and the texts that no other version has.

    Their keyword entries go with a later commit of that index, as ``graves`` tells it.
    """
    for identifier in documents:
        (text,) = connection.execute(
            "SELECT text_sha FROM documents WHERE id = ?", (identifier,)
        ).fetchone()
        for table in ("sections", "chunks", "links", "names", "tags"):
            connection.execute(f"DELETE FROM {table} WHERE document = ?", (identifier,))
        connection.execute("DELETE FROM documents WHERE id = ?", (identifier,))
        connection.execute(
            "DELETE FROM texts WHERE sha = ?"
            " AND NOT EXISTS (SELECT 1 FROM documents WHERE text_sha = ?)",
            (text, text),
        )
    connection.executemany("INSERT INTO graves VALUES (?)", [(each,) for each in documents])


def graves(connection: Connection) -> list[int]:
    """Purged documents that still have entries in the keyword index."""
    return [identifier for (identifier,) in connection.execute("SELECT document FROM graves")]


def close_graves(connection: Connection, emptied: Sequence[int]) -> None:
    """The keyword index has committed without these."""
    connection.executemany("DELETE FROM graves WHERE document = ?", [(each,) for each in emptied])
