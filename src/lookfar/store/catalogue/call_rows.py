"""The stored calls of source files, and the names of everything they define."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection

from lookfar.ports import SymbolRow
from lookfar.store.catalogue.migrations import FORMAT_WITH_CALLS, check
from lookfar.store.catalogue.rows import ALIVE, batches


def read_facts(connection: Connection, documents: Sequence[int]) -> dict[int, bytes]:
    """Return the encoded facts of these documents; those without any are missing."""
    if check(connection) < FORMAT_WITH_CALLS:
        return {}
    facts: dict[int, bytes] = {}
    for some in batches(documents):
        listed = ",".join(map(str, some))  # Our own integers: nothing to escape.
        rows = connection.execute(f"SELECT document, facts FROM calls WHERE document IN ({listed})")
        facts.update((document, bytes(data)) for document, data in rows.fetchall())
    return facts


def list_symbols(connection: Connection, generation: int) -> list[SymbolRow]:
    """Return the document, section and title of every definition in the live source code."""
    rows = connection.execute(
        "SELECT s.document, s.ordinal, s.title FROM sections s"
        f" JOIN documents d ON d.id = s.document WHERE d.lane = 'code' AND {ALIVE} AND s.level > 0"
        " ORDER BY d.uri, s.ordinal",
        {"g": generation},
    )
    return [SymbolRow(*row) for row in rows.fetchall()]
