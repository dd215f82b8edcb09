"""Find the section that contains an offset, and a cited text in a changed document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lookfar.model import Incomplete, Section


def find_innermost(sections: Iterable[Section], offset: int) -> Section | None:
    """Return the innermost section that contains an offset."""
    innermost = None
    for section in sections:
        if section.span.start <= offset < section.span.end:
            innermost = section
    return innermost


def find_path(sections: Iterable[Section], offset: int) -> tuple[str, ...]:
    """Return the headings of the innermost section that contains an offset."""
    section = find_innermost(sections, offset)
    return section.path if section else ()


def note_stale(uris: Iterable[str]) -> list[Incomplete]:
    """Return a note on cited files that have changed, if there are any."""
    stale = tuple(uris)
    detail = "these files changed after they were indexed"
    return [Incomplete("stale", detail, stale)] if stale else []


def find_moved(text: str, start: int, now: str, before: str | None = None) -> int:
    """Return where a text that began at ``start`` begins in the text ``now``; -1 if it is gone.

    If it occurs as often as in the text ``before``, the occurrence with the same number is
    returned, otherwise the nearest one.
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
