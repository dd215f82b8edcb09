"""The database interface that SQLite and PostgreSQL share, for the catalogue's statements.

Shared statements use only what both databases understand: parameters are ``?`` or ``:name``, a
row is replaced by deleting and inserting it, ``end`` is quoted unless a table name precedes it,
and no list after ``IN`` is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

READ_META: Final = "SELECT value FROM meta WHERE key = ?"
"""Reads one recorded value; a connection that already knows them all answers without asking."""


class Rows(Protocol):
    """The result of a statement; each row is a tuple."""

    @property
    def description(self) -> Any: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """One database connection, in a transaction that the caller began."""

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ..., /) -> Rows: ...

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> object: ...
