"""Find a cited text again after its document has changed."""

from __future__ import annotations

from collections.abc import Iterator


def find_moved(text: str, start: int, now: str, before: str | None = None) -> int:
    """Return where the ``text`` that began at ``start`` begins ``now``; -1 if it is gone.

    If it occurs several times, and as often as in ``before``, it is the same occurrence by number;
    otherwise the nearest one.
    """
    places = list(_find_all(text, now))
    if len(places) > 1 and before is not None and before.startswith(text, start):
        were = list(_find_all(text, before))
        if len(were) == len(places) and start in were:
            return places[were.index(start)]
    return min(places, key=lambda at: abs(at - start), default=-1)


def _find_all(text: str, within: str) -> Iterator[int]:
    """Yield the occurrences of a text, without overlaps to keep it linear."""
    at = within.find(text) if text else -1
    while at >= 0:
        yield at
        at = within.find(text, at + len(text))
