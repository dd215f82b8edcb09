"""Name a document, and the part of it that a result is about, so that ``read`` accepts it."""

from __future__ import annotations

from collections.abc import Iterable

from lookfar.model import FileMatches, Hit, Listed, Reading, Unit

_APART = ("memory", "documents")
"""Kinds that are always shown with their collection, because they are in no folder."""


def are_several(collections: Iterable[str]) -> bool:
    """Return whether collections belong to several folders; ``docs@git`` belongs to ``docs``."""
    return len({name.partition("@")[0] for name in collections}) > 1


def name_with_collection(item: Hit | Listed | FileMatches | Unit, several: bool) -> str:
    """Return the URI of a document, with its collection if it is ambiguous without it."""
    return f"{item.collection}: {item.uri}" if several or item.lane in _APART else item.uri


def name_part(item: Hit | Reading) -> str:
    """Return ``#page=3`` for an extracted text with such a place, otherwise ``:10-20``."""
    place = item.place if isinstance(item, Hit) else next(iter(item.places), "")
    if place:
        return f"#{place}"
    return f":{item.span.start_line}-{item.span.end_line}"
