"""Where a cited text stands after its document has changed.

Takes: a text, where it began, and the document before and now. Gives: where it begins now, or -1.
Refuses: to take the first of several for the one that was cited: as long as there are as many
as before, it is the same in turn, and otherwise the nearest.
"""

from __future__ import annotations

from collections.abc import Iterator


def find_moved(text: str, start: int, now: str, before: str | None = None) -> int:
    """Where the ``text`` that began at ``start`` begins ``now``; -1 where it is not there.

    ``before`` is the document as it was, where that is known.
    """
    places = list(_find_all(text, now))
    if len(places) > 1 and before is not None and before.startswith(text, start):
        were = list(_find_all(text, before))
        if len(were) == len(places) and start in were:
            return places[were.index(start)]
    return min(places, key=lambda at: abs(at - start), default=-1)


def _find_all(text: str, within: str) -> Iterator[int]:
    """Where a text stands, side by side: a long row of one sign is not gone through sign by sign
    for each of its beginnings."""
    at = within.find(text) if text else -1
    while at >= 0:
        yield at
        at = within.find(text, at + len(text))
