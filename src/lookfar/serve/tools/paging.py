"""What the pages of a search have in common: a cursor for the next one, and what may be missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from lookfar.serve.show.printable import safe_name
from lookfar.serve.tools.cursor import Cursor, remember_call

if TYPE_CHECKING:
    from lookfar.model import Incomplete
    from lookfar.serve.tools.tool import Input, Json, Session

SEARCH_CURSOR = "search"
"""The kind of cursor that continues a search."""


def next_page(
    session: Session, given: Input, about: Json, reached: tuple[int, ...], states: Mapping[str, int]
) -> str:
    """A cursor that continues a search where this page ends, by itself or with its arguments.

    ``states`` are the generations that answered: of a single collection, pages keep to its own.
    """
    generation = next(iter(states.values())) if len(states) == 1 else 0
    cursor = Cursor(reached, generation).write(about, SEARCH_CURSOR)
    kept = given.model_dump(exclude={"cursor", "budget"}, exclude_unset=True)
    remember_call(session.memory, cursor, kept)
    return cursor


def missing_lines(notes: Iterable[Incomplete]) -> list[str]:
    """What may be missing from an answer, each reason once."""
    return [
        f"Incomplete ({note.reason}): {safe_name(note.detail)}" for note in dict.fromkeys(notes)
    ]
