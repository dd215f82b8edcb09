"""A file's bytes and its normalised text, side by side, so that an edit touches what it means to.

Takes: the bytes of a file, and changes in terms of its normalised text. Gives: the text, and
the bytes with the changes made. Refuses: bytes that are no UTF-8, since whoever cannot read
a file must not write it.

Secrets are masked in the text and stay as they are in the bytes. What a change leaves out keeps
its bytes: the byte-order mark, each line's own end, the missing
newline at the end of the file. New lines end as the line before them does.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lookfar.errors import InvalidArgument
from lookfar.sources.secrets.screen import NO_EXCEPTIONS, Secrets, copies_mask
from lookfar.sources.secrets.values import MASK

_BOM = "\ufeff"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_BREAK = re.compile(r"\r\n|\r|\n")

Piece = str | tuple[int, int]
"""New text, or a range of the old one, which keeps its bytes."""


class Change(NamedTuple):
    """``text[start:end]`` gives way to some pieces."""

    start: int
    end: int
    pieces: tuple[Piece, ...] = ()


class Shape:
    """One file as it was read."""

    __slots__ = ("_breaks", "_ends_open", "_mark", "_raw", "secrets", "text")

    def __init__(self, uri: str, raw: bytes, secrets: Secrets = NO_EXCEPTIONS) -> None:
        if raw[:2] in _UTF16:
            raise InvalidArgument(
                f"{uri!r} is UTF-16, which is read but not edited.",
                hint="Save it as UTF-8 first.",
                details={"uri": uri, "reason": "encoding"},
            )
        if b"\0" in raw:
            raise InvalidArgument(
                f"{uri!r} holds zero bytes: it is no text.",
                hint="Choose a text file in UTF-8.",
                details={"uri": uri, "reason": "binary"},
            )
        try:
            decoded = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidArgument(
                f"{uri!r} is not valid UTF-8 at byte {error.start}.",
                hint="Save it as UTF-8 first.",
                details={"uri": uri, "reason": "encoding"},
            ) from error
        self._mark = _BOM if decoded.startswith(_BOM) else ""
        self._raw = decoded.removeprefix(_BOM)
        text = _BREAK.sub("\n", self._raw) if "\r" in self._raw else self._raw
        self._ends_open = bool(text) and not text.endswith("\n")
        screened = secrets.masked(uri, f"{text}\n" if self._ends_open else text)
        self.secrets = len(screened.findings)
        """How many are masked in the text. The bytes have them, and keep them."""
        self.text = screened.text
        """Normalised and masked, as everywhere: offsets of changes count its characters."""
        found = re.finditer("\r\n", self._raw) if "\r" in self._raw else ()
        # Where each two-character line end stands in the text, in which it counts as one.
        self._breaks = [match.start() - before for before, match in enumerate(found)]

    def changed(self, changes: Sequence[Change]) -> bytes:
        """The file's bytes with changes that do not overlap."""
        made: list[str] = []
        at = 0
        for change in sorted(changes, key=_place_of):
            made.append(self._kept(at, change.start))
            made += self._new(change)
            at = change.end
        made.append(self._kept(at, len(self.text)))
        whole = "".join(made)
        if self._ends_open:  # A newline was lent to the last line; it goes back.
            whole = _without_last_break(whole)
        return (self._mark + whole).encode("utf-8")

    def refuse_mask(self, uri: str, changed: bytes) -> None:
        """Refuse bytes in which a mask would stand where the file has a secret."""
        if copies_mask(self._raw, changed.decode("utf-8")):
            raise InvalidArgument(
                f"The text for {uri!r} has masked characters ({MASK * 4}): they stand for a secret"
                " that is not shown, and would replace it.",
                hint="Edit the lines around it, or change the secret itself with an editor.",
                details={"uri": uri, "reason": "masked"},
            )

    def _new(self, change: Change) -> Iterable[str]:
        end = self._line_end(change.start)
        for piece in change.pieces:
            if isinstance(piece, str):
                yield piece.replace("\n", end) if end != "\n" else piece
            else:
                yield self._kept(*piece)

    def _kept(self, start: int, end: int) -> str:
        kept = self._raw[self._place(start) : self._place(end)]
        lent = self._ends_open and end == len(self.text) > start
        return kept + self._line_end(end - 1) if lent else kept

    def _place(self, offset: int) -> int:
        """Where in the file the character stands that ``offset`` has in the text."""
        return min(offset + bisect_left(self._breaks, offset), len(self._raw))

    def _line_end(self, offset: int) -> str:
        """How the line before ``offset`` ends, or else the first line; ``\\n`` if there is none."""
        at = self.text.rfind("\n", 0, min(offset, len(self.text)))
        found = _BREAK.match(self._raw, self._place(at)) if at >= 0 else None
        found = found or _BREAK.search(self._raw)
        return found[0] if found else "\n"


def applied(text: str, changes: Sequence[Change]) -> str:
    """A normalised text with changes that do not overlap."""
    made: list[str] = []
    at = 0
    for change in sorted(changes, key=_place_of):
        made.append(text[at : change.start])
        made += (p if isinstance(p, str) else text[p[0] : p[1]] for p in change.pieces)
        at = change.end
    made.append(text[at:])
    return "".join(made)


def _place_of(change: Change) -> tuple[int, int]:
    return change.start, change.end


def _without_last_break(text: str) -> str:
    """Only where a line ends so: of a blank line nothing else would be left."""
    for end in ("\r\n", "\n", "\r"):
        if text.endswith(end):
            kept = text.removesuffix(end)
            return text if not kept or kept[-1] in "\r\n" else kept
    return text
