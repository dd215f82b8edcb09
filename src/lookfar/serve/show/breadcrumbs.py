"""Where hits stand, said once: headings of a document that were shown are not shown again.

Takes: the hits of an answer, in order. Gives: words for the headings above each, and for the
places that it stands for. Refuses: nothing; of each hit at least the last heading is shown.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lookfar.model import Hit

_BETWEEN = " > "
_AS_BEFORE = "..."


class Breadcrumbs:
    """Remembers which headings of each document were shown last."""

    def __init__(self) -> None:
        self._shown: dict[tuple[str, str], tuple[str, ...]] = {}

    def of(self, hit: Hit) -> str:
        """The headings above a hit, without those that its document showed last."""
        document = (hit.collection, hit.uri)
        pairs = zip(self._shown.get(document, ()), hit.heading_path[:-1], strict=False)
        known = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        self._shown[document] = hit.heading_path
        return _BETWEEN.join((*((_AS_BEFORE,) if known else ()), *hit.heading_path[known:]))


def also_at(hit: Hit, several: bool) -> str:
    """The places that a hit stands for; with ``several`` collections, each with its own."""
    if not hit.also:
        return ""
    places = [
        f"{each.collection + ': ' if several else ''}{each.uri}:"
        f"{each.span.start_line}-{each.span.end_line}"
        f"{'' if each.state == 'same' else f' ({each.state} on disk)'}"
        for each in hit.also
    ]
    more = f" and {hit.also_more} more" if hit.also_more else ""
    equal = all(each.by == "text" for each in hit.also)
    return f"{'also at' if equal else 'alike at'} {', '.join(places)}{more}"
