"""The role of a process that only answers questions for a writer, which keeps the index up to date.

Before each question the writer brings the collections up to date and says which notes belong to
them. Whatever else would write or index raises :class:`WriterNeeded` here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from lookfar.collections.passes import Closing
from lookfar.model import Incomplete

Notes = Mapping[str, Sequence[Incomplete]]
"""What may be missing from each collection that the writer brought up to date, by its place."""

_NOTES: ContextVar[Notes | None] = ContextVar("NOTES", default=None)


class WriterNeeded(Closing):
    """Raised in a reader where only the writer can answer."""


@contextmanager
def read_only(notes: Notes) -> Iterator[None]:
    """Answer as a reader, from collections that the writer has brought up to date."""
    token = _NOTES.set(notes)
    try:
        yield
    finally:
        _NOTES.reset(token)


def find_notes(place: str) -> list[Incomplete] | None:
    """Return the writer's notes on the collection at ``place``; None outside of a reader."""
    notes = _NOTES.get()
    if notes is None:
        return None
    if place not in notes:
        raise WriterNeeded(f"the writer did not bring {place} up to date")
    return list(notes[place])


def require_writer(reason: str) -> None:
    """Raise ``WriterNeeded`` in a reader; do nothing elsewhere."""
    if _NOTES.get() is not None:
        raise WriterNeeded(reason)
