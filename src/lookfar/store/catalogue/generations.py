"""Numbered states of a collection: which one serves, which are kept, what is purged.

Pinned, retained and serving generations are never purged, and a number is never used twice.

A rollback only moves the pointer, so it can be undone until the next write session, which drops
the generations after the pointer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from sqlite3 import Connection
from typing import Any, NamedTuple

from lookfar.errors import IndexHeld, InvalidArgument
from lookfar.ports import Generation
from lookfar.store.catalogue import rows as catalog

ACTIVE = "active"
"""The key in ``meta`` of the serving generation."""
_HELD = "held"
"""The generation that a user rolled back to, until the next explicit indexing; else absent."""
_LAST = "last_generation"
"""The highest number used before a rollback, because dropped numbers are not used again."""
_COUNTED, _WAY = "counted", 2
"""Marks a manifest whose totals can be updated by adding and subtracting."""
_MODULUS = 1 << 256
_TABLES = ("sections", "chunks", "links")


class Since(NamedTuple):
    """The starting point of a write session."""

    generation: int
    """The generation it builds on."""
    first_document: int
    """The first document number it assigns."""


def active(connection: Connection) -> int:
    """Return the serving generation; 0 before the first activation."""
    return catalog.read_number(connection, ACTIVE)


def activate(
    connection: Connection, number: int, created_at: str, manifest: Mapping[str, Any]
) -> None:
    """Record a generation and make it the serving one when the transaction commits."""
    connection.execute(
        "INSERT INTO generations (number, created_at, manifest) VALUES (?, ?, ?)",
        (number, created_at, json.dumps(manifest, sort_keys=True)),
    )
    catalog.record(connection, ACTIVE, number)


def never_served(connection: Connection, after: int) -> bool:
    """Whether every stored row belongs to the generation that would follow ``after``."""
    (others,) = connection.execute(
        "SELECT (SELECT count(*) FROM generations WHERE number != :next)"
        " + (SELECT count(*) FROM documents WHERE born != :next OR died != :next)",
        {"next": after + 1},
    ).fetchone()
    return not others


def withdraw(connection: Connection) -> None:
    """Undo the activation of an epoch whose writer died before the epoch began to serve."""
    connection.execute("DELETE FROM generations")
    (born,) = connection.execute("SELECT min(born) FROM documents").fetchone()
    if born is not None:
        catalog.record(connection, ACTIVE, int(born) - 1)


def highest(connection: Connection) -> int:
    """Return the highest number ever used; the next generation gets the one after it."""
    (largest,) = connection.execute("SELECT coalesce(max(number), 0) FROM generations").fetchone()
    return max(int(largest), active(connection), catalog.read_number(connection, _LAST))


def require_replaceable(connection: Connection) -> int:
    """Return the highest number, which a new index continues; raise ``IndexHeld`` if the new index
    would drop a pinned generation."""
    pinned = [kept.number for kept in list_generations(connection) if kept.pinned]
    if pinned:
        raise IndexHeld(
            f"Rebuilding the index would drop generation {', '.join(map(str, pinned))}, which is"
            " pinned. The existing index still answers, but is not updated.",
            hint=f"Unpin first (lookfar snapshots unpin {pinned[0]} PATH), or go back to the"
            " version and the settings that made the index.",
            details={"pinned": pinned},
        )
    return highest(connection)


def compute_totals(connection: Connection, since: Since | None = None) -> dict[str, Any]:
    """Count the rows of the generation about to be activated, for its manifest.

    Every version that has not died is part of it. ``content`` is a hash of the documents and
    their texts, equal for equal libraries. With ``since``, only changes are counted, so that the
    cost of an edit does not depend on the size of the collection.
    """
    before = manifest(connection, since.generation) if since else {}
    if since is None or before.get(_COUNTED) != _WAY:
        # Counting dead rows is quicker than counting live ones, because they are few.
        every = {table: _count_rows(connection, table) for table in _TABLES}
        dead = {table: _count_rows(connection, table, "died IS NOT NULL") for table in _TABLES}
        alive = {table: every[table] - dead[table] for table in _TABLES}
        return {**_update_content(connection, "died IS NULL", (), {}), **alive, _COUNTED: _WAY}
    totals = dict(before)
    added = ("id >= ? AND died IS NULL", (since.first_document,), 1)
    # Versions that were added and replaced in the same session were never counted.
    gone = ("died > ? AND id < ?", (since.generation, since.first_document), -1)
    for where, values, sign in (added, gone):
        totals |= _update_content(connection, where, values, totals, sign)
        for table in _TABLES:
            totals[table] += sign * _count_rows(connection, table, where, values)
    return {key: totals[key] for key in ("documents", "content", *_TABLES, _COUNTED)}


def forget_totals(connection: Connection) -> None:
    """Drop the recorded totals, after documents were lost without a trace, to count again."""
    keys = ("documents", "content", *_TABLES, _COUNTED)
    for generation in list_generations(connection):
        rest = {key: value for key, value in generation.manifest.items() if key not in keys}
        _write_manifest(connection, generation.number, rest)


def subtract_from_totals(connection: Connection, documents: Sequence[int]) -> None:
    """Subtract versions that are about to be erased from the totals of every generation."""
    for generation in list_generations(connection):
        if generation.manifest.get(_COUNTED) != _WAY:
            continue
        totals = dict(generation.manifest)
        for some in catalog.batches(documents):
            where = (
                f"id IN ({','.join(map(str, some))})"  # Our own integers.
                " AND born <= ? AND (died IS NULL OR died > ?)"
            )
            values = (generation.number, generation.number)
            totals |= _update_content(connection, where, values, totals, -1)
            for table in _TABLES:
                totals[table] -= _count_rows(connection, table, where, values)
        _write_manifest(connection, generation.number, totals)


def _write_manifest(connection: Connection, number: int, manifest: Mapping[str, Any]) -> None:
    connection.execute(
        "UPDATE generations SET manifest = ? WHERE number = ?",
        (json.dumps(manifest, sort_keys=True), number),
    )


def _count_rows(
    connection: Connection, table: str, where: str = "", values: Sequence[int] = ()
) -> int:
    """Count the rows of a table, or those of the documents that match ``where``."""
    among = f" WHERE document IN (SELECT id FROM documents WHERE {where})" if where else ""
    (number,) = connection.execute(f"SELECT count(*) FROM {table}{among}", values).fetchone()
    return int(number)


def has_content(connection: Connection, number: int) -> bool:
    """Return whether a generation has the documents and texts whose hash it recorded, if it did."""
    recorded = manifest(connection, number)
    alive = ("born <= ? AND (died IS NULL OR died > ?)", (number, number))
    content = _update_content(connection, *alive, {})["content"]
    return recorded.get(_COUNTED) != _WAY or recorded.get("content") == content


def _update_content(
    connection: Connection,
    where: str,
    values: Sequence[int],
    before: Mapping[str, Any],
    sign: int = 1,
) -> dict[str, Any]:
    """Add documents to, or subtract them from, the document count and the content hash."""
    documents, content = int(before.get("documents", 0)), int(before.get("content", "0"), 16)
    rows = connection.execute(f"SELECT uri, text_sha FROM documents WHERE {where}", values)
    for uri, text_sha in rows:
        document = uri.encode("utf-8", "surrogateescape") + b"\0" + text_sha
        documents += sign
        # A sum does not depend on the order, and documents can be subtracted again.
        content += sign * int.from_bytes(sha256(document).digest(), "big")
    return {"documents": documents, "content": f"{content % _MODULUS:064x}"}


def manifest(connection: Connection, number: int) -> Mapping[str, Any]:
    """Return the manifest of one generation; empty if that generation is not kept."""
    return next((generation.manifest for generation in list_generations(connection, number)), {})


def list_generations(connection: Connection, only: int | None = None) -> list[Generation]:
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
    """Return the generation to read: the serving one, or the requested one if it is kept."""
    return active(connection) if wanted is None else _require_kept(connection, wanted)


def _require_kept(connection: Connection, wanted: int) -> int:
    numbers = [row[0] for row in connection.execute("SELECT number FROM generations")]
    if wanted not in numbers:
        raise InvalidArgument(
            f"Generation {wanted} is not kept.",
            hint=f"Kept generations: {', '.join(map(str, sorted(numbers))) or 'none'}.",
            details={"kept": sorted(numbers)},
        )
    return wanted


# --- moving the pointer ---------------------------------------------------------------------------


def read_held_generation(connection: Connection) -> int | None:
    """Return the generation a user rolled back to, which background passes must not replace."""
    return catalog.read_number(connection, _HELD) or None


def require_not_held(connection: Connection) -> None:
    """Raise ``IndexHeld`` for a background writer after a rollback."""
    number = read_held_generation(connection)
    if number is not None:
        raise IndexHeld(
            f"The index is held at generation {number} since a rollback.",
            hint="Run lookfar index PATH to release it and index the current files.",
            details={"held": number},
        )


def roll_back(connection: Connection, number: int) -> None:
    """Make a kept generation the serving one and hold it, unless it is the newest."""
    _require_kept(connection, number)
    (newest,) = connection.execute("SELECT max(number) FROM generations").fetchone()
    catalog.record(connection, _LAST, highest(connection))
    catalog.record(connection, ACTIVE, number)
    if number == newest:
        _release(connection)
    else:
        catalog.record(connection, _HELD, number)


def _release(connection: Connection) -> None:
    connection.execute("DELETE FROM meta WHERE key = ?", (_HELD,))


def drop_rolled_back(connection: Connection) -> None:
    """Prepare for a write: release the index and drop the generations after the pointer.

    The numbers of dropped documents stay in ``graves`` until the commit after the next removes
    their keyword entries: if this session fails, the catalogue still has those documents.
    """
    _release(connection)
    pointer = active(connection)
    beyond = connection.execute(
        "SELECT number, pinned FROM generations WHERE number > ? ORDER BY number", (pointer,)
    ).fetchall()
    if not beyond:
        return
    pinned = [number for number, is_pinned in beyond if is_pinned]
    if pinned:
        numbers = ", ".join(map(str, pinned))
        raise IndexHeld(
            f"The index was rolled back to generation {pointer}, and indexing now would drop"
            f" generation {numbers}, which is pinned.",
            hint=f"Unpin first (lookfar snapshots unpin {pinned[0]} PATH), or roll forward"
            f" (lookfar snapshots rollback {pinned[-1]} PATH).",
            details={"pinned": pinned},
        )
    connection.execute("DELETE FROM generations WHERE number > ?", (pointer,))
    born = connection.execute("SELECT id FROM documents WHERE born > ?", (pointer,)).fetchall()
    purge(connection, [identifier for (identifier,) in born])
    connection.execute("UPDATE documents SET died = NULL WHERE died > ?", (pointer,))


# --- keeping and purging --------------------------------------------------------------------------


def pin(connection: Connection, number: int, pinned: bool) -> None:
    """Exempt a generation from retention, or no longer."""
    connection.execute(
        "UPDATE generations SET pinned = ? WHERE number = ?",
        (pinned, _require_kept(connection, number)),
    )


def retire(connection: Connection, retain: int, days: int = 0) -> list[int]:
    """Drop generations older than the last ``retain``; return documents no longer in any.

    The last generation of each of the last ``days`` days stays as well, so that one can see what a
    document said then. Days are those of UTC, as the times of generations are.
    """
    never = "9999"
    since = (datetime.now(UTC) - timedelta(days=days - 1)).date().isoformat() if days else never
    connection.execute(
        "DELETE FROM generations WHERE pinned = 0 AND number != ? AND number NOT IN"
        " (SELECT number FROM generations ORDER BY number DESC LIMIT ?) AND number NOT IN"
        " (SELECT max(number) FROM generations WHERE created_at >= ?"
        "  GROUP BY substr(created_at, 1, 10))",
        (active(connection), max(1, retain), since),
    )
    rows = connection.execute(
        "SELECT id FROM documents WHERE died IS NOT NULL AND NOT EXISTS"
        " (SELECT 1 FROM generations g WHERE g.number >= documents.born"
        "  AND g.number < documents.died)"
    )
    return [identifier for (identifier,) in rows]


def prune(connection: Connection, keep: int) -> tuple[int, int]:
    """Apply retention now; return how many generations and document versions were removed."""
    before = len(list_generations(connection))
    documents = retire(connection, keep)
    purge(connection, documents)
    return before - len(list_generations(connection)), len(documents)


def purge(connection: Connection, documents: Sequence[int]) -> None:
    """Remove every row of these document versions, and texts that no other version uses.

    Their numbers go into ``graves``; a later keyword commit removes their entries.
    """
    for identifier in documents:
        (text,) = connection.execute(
            "SELECT text_sha FROM documents WHERE id = ?", (identifier,)
        ).fetchone()
        for table in ("sections", "chunks", "links", "names", "tags", "calls", "properties"):
            connection.execute(f"DELETE FROM {table} WHERE document = ?", (identifier,))
        connection.execute("DELETE FROM documents WHERE id = ?", (identifier,))
        connection.execute(
            "DELETE FROM texts WHERE sha = ?"
            " AND NOT EXISTS (SELECT 1 FROM documents WHERE text_sha = ?)",
            (text, text),
        )
    connection.executemany("INSERT INTO graves VALUES (?)", [(document,) for document in documents])


def graves(connection: Connection) -> list[int]:
    """Return purged documents that still have keyword entries."""
    return [identifier for (identifier,) in connection.execute("SELECT document FROM graves")]


def close_graves(connection: Connection, emptied: Sequence[int]) -> None:
    """Remove documents from ``graves`` whose keyword entries are gone."""
    rows = [(document,) for document in emptied]
    connection.executemany("DELETE FROM graves WHERE document = ?", rows)
