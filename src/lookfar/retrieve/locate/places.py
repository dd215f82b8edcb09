"""Find the page, slide, range or cell of an extracted text, and the text of such a place.

A place begins where its offset says and ends where the next one begins. A place without text has
the same offset as the next one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from lookfar.model import Places
from lookfar.ports import Snapshot
from lookfar.text.extract.formats import extractor_for

_NUMBERED = re.compile(
    r"(?P<kind>[^\W\d]+)\s*[= ]\s*(?P<first>\d{1,9})(?:\s*-\s*(?P<last>\d{1,9}))?"
)
_CELLS = re.compile(
    r"(?:(?P<sheet>.+)!)?\$?(?P<left>[A-Za-z]{1,3})\$?(?P<top>\d{1,7})"
    r"(?::\$?(?P<right>[A-Za-z]{1,3})\$?(?P<bottom>\d{1,7}))?"
)


class _Cells(NamedTuple):
    """A range of cells of one sheet; columns count from 1."""

    sheet: str
    columns: tuple[int, int]
    rows: tuple[int, int]

    def overlaps(self, other: _Cells) -> bool:
        return (
            self.sheet == other.sheet
            and self.columns[0] <= other.columns[1]
            and other.columns[0] <= self.columns[1]
            and self.rows[0] <= other.rows[1]
            and other.rows[0] <= self.rows[1]
        )

    def exceeds(self, other: _Cells) -> bool:
        """Return whether this range has columns or rows that the other lacks."""
        return any(
            own[0] < others[0] or own[1] > others[1]
            for own, others in ((self.columns, other.columns), (self.rows, other.rows))
        )


def stored_places(snapshot: Snapshot, uri: str) -> Places:
    """Return the places of an indexed document; none unless its text was extracted."""
    if extractor_for(uri) is None:
        return ()
    row = snapshot.document(uri)
    return tuple(map(tuple, row.get("places", ()))) if row is not None else ()


def list_places(places: Places, start: int, end: int) -> tuple[str, ...]:
    """Return the labels of the places that contain a part of ``text[start:end]``."""
    labels: dict[str, None] = {}
    first = max(bisect_right(places, start, key=lambda place: place[0]) - 1, 0)
    for at in range(first, len(places)):
        begins = places[at][0]
        ends = places[at + 1][0] if at + 1 < len(places) else None
        if begins >= end:
            break
        if ends is None or max(begins, start) < min(ends, end):
            labels[places[at][1]] = None
    return tuple(labels)


def find_place(places: Places, wanted: str, length: int) -> tuple[int, int] | None:
    """Return the offsets of a place in a text of ``length`` characters; None if there is none.

    ``wanted`` is a label, a range of numbered ones (``page=3-5``), or a range of cells, for which
    every part of the sheet that contains one of them is returned.
    """
    chosen = _choose(places, wanted.strip())
    if not chosen:
        return None
    first, last = chosen[0], chosen[-1]
    return places[first][0], places[last + 1][0] if last + 1 < len(places) else length


def describe_missing(places: Places, wanted: str) -> str:
    """Return what the file has instead of a page, slide or range that it lacks.

    The result is empty if ``wanted`` is not the name of such a place.
    """
    numbered, cells = _NUMBERED.fullmatch(wanted.strip()), _parse_cells(wanted.strip())
    if not places or (numbered is None and cells is None):
        return ""
    first, last = places[0][1], places[-1][1]
    return f"It has {first}." if len(places) == 1 else f"It has {first} to {last}."


def warn_of_more(places: Places, wanted: str, labels: Sequence[str]) -> tuple[str, ...]:
    """Return a warning if the text of a range of cells contains more cells than were asked for."""
    cells = _parse_cells(wanted.strip())
    if cells is None or not labels or not places:
        return ()
    read = [part for part in map(_parse_cells, labels) if part is not None]
    if not any(part.exceeds(cells) for part in read):
        return ()
    return (f"A sheet is read in whole ranges; this is {', '.join(labels)}.",)


def _choose(places: Places, wanted: str) -> list[int]:
    labels = [label.casefold() for _, label in places]
    if (label := wanted.casefold()) in labels:
        last = len(labels) - labels[::-1].index(label)
        return list(range(labels.index(label), last))
    numbered = _NUMBERED.fullmatch(wanted)
    if numbered is not None:
        first = int(numbered["first"])
        numbers = range(first, int(numbered["last"] or first) + 1)
        prefix = f"{numbered['kind'].casefold()}="
        return [
            at
            for at, label in enumerate(labels)
            if label.startswith(prefix)
            and label[len(prefix) :].isdecimal()
            and int(label[len(prefix) :]) in numbers
        ]
    cells = _parse_cells(wanted)
    if cells is None:
        return []
    parsed = map(_parse_cells, labels)
    return [at for at, part in enumerate(parsed) if part is not None and part.overlaps(cells)]


def _parse_cells(text: str) -> _Cells | None:
    match = _CELLS.fullmatch(text)
    if match is None:
        return None
    left, top = _column(match["left"]), int(match["top"])
    right = _column(match["right"]) if match["right"] else left
    bottom = int(match["bottom"] or top)
    sheet = (match["sheet"] or "").casefold()
    quoted = len(sheet) > 1 and sheet[0] == sheet[-1] == "'"
    sheet = sheet[1:-1].replace("''", "'") if quoted else sheet
    return _Cells(sheet, (min(left, right), max(left, right)), (min(top, bottom), max(top, bottom)))


def _column(letters: str) -> int:
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - ord("A") + 1
    return number
