"""Headings above hits, without those that were just shown for the same document."""

from __future__ import annotations

from itertools import takewhile

from lookfar.model import Hit

_SEPARATOR = " > "
_REPEATED = "..."


class Breadcrumbs:
    """Remembers the headings that were shown last for each document."""

    def __init__(self) -> None:
        self._shown: dict[tuple[str, str], tuple[str, ...]] = {}

    def format(self, hit: Hit) -> str:
        """Return the headings above a hit, without those shown for the last hit of its file."""
        document = (hit.collection, hit.uri)
        pairs = zip(self._shown.get(document, ()), hit.heading_path[:-1], strict=False)
        repeated = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        self._shown[document] = hit.heading_path
        return _SEPARATOR.join((*((_REPEATED,) if repeated else ()), *hit.heading_path[repeated:]))


def also_at(hit: Hit, several: bool) -> str:
    """Return the other places of a hit's text; with ``several`` collections, with their names."""
    if not hit.also:
        return ""
    places = [
        f"{copy.collection + ': ' if several else ''}{copy.uri}:"
        f"{copy.span.start_line}-{copy.span.end_line}"
        f"{'' if copy.state == 'same' else f' ({copy.state} on disk)'}"
        for copy in hit.also
    ]
    more = f" and {hit.also_more} more" if hit.also_more else ""
    equal = all(copy.by == "text" for copy in hit.also)
    return f"{'also at' if equal else 'alike at'} {', '.join(places)}{more}"
