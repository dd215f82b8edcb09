"""What the catalogue's statements need of a database: as much as SQLite and PostgreSQL share.

Takes: nothing. Gives: the Protocol that the statements are written against. Refuses: to hide
that there are two databases; what only one of them can do is asked of that one, elsewhere.

Statements that are shared are written so that both understand them: marks are ``?`` or
``:name``, a row is replaced by deleting and inserting it, ``end`` stands in quotes unless a
table's name stands before it, and no list after ``IN`` is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol


class Rows(Protocol):
    """What a statement gave, each row a tuple."""

    @property
    def description(self) -> Any: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """One session with a database, in a transaction that its owner began."""

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ..., /) -> Rows: ...

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> object: ...
