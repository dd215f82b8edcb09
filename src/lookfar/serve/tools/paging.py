"""Parts that all pages of a search share: the cursor of the next page, and notes on gaps."""

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
    """Return a cursor that continues a search after this page, and remember the call.

    ``states`` are the generations that answered; the pages of a single collection all come from
    the same one.
    """
    generation = next(iter(states.values())) if len(states) == 1 else 0
    cursor = Cursor(reached, generation).write(about, SEARCH_CURSOR)
    arguments = given.model_dump(exclude={"cursor", "budget"}, exclude_unset=True)
    remember_call(session.memory, cursor, arguments)
    return cursor


def missing_lines(notes: Iterable[Incomplete]) -> list[str]:
    """Format what may be missing from an answer, each reason once."""
    return [
        f"Incomplete ({note.reason}): {safe_name(note.detail)}" for note in dict.fromkeys(notes)
    ]
