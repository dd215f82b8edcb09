"""Name the part of a document that a result is about, so that ``read`` accepts it."""

from __future__ import annotations

from lookfar.model import Hit, Reading


def name_part(item: Hit | Reading) -> str:
    """Return ``#page=3`` for an extracted text with such a place, otherwise ``:10-20``."""
    place = item.place if isinstance(item, Hit) else next(iter(item.places), "")
    if place:
        return f"#{place}"
    return f":{item.span.start_line}-{item.span.end_line}"
