"""Map changes of a file's normalised text back to its bytes.

Offsets of changes count characters of the normalised text. Everything outside a change keeps its
bytes: the byte-order mark, the line ending of each line, a missing newline at the end. New lines
get the line ending of the line before them. Secrets are masked in the text and stay in the bytes.
Files that are not valid UTF-8 are rejected.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lookfar.errors import InvalidArgument
from lookfar.sources.secrets.screen import NO_EXCEPTIONS, Secrets, copies_mask
from lookfar.sources.secrets.values import MASK
from lookfar.text.normalise import UTF8, decode, label

_BOM = "\ufeff"
_BREAK = re.compile(r"\r\n|\r|\n")

Piece = str | tuple[int, int]
"""New text, or a range of the old text, which keeps its bytes."""


class Change(NamedTuple):
    """Replace ``text[start:end]`` with some pieces."""

    start: int
    end: int
    pieces: tuple[Piece, ...] = ()


class Shape:
    __slots__ = ("_breaks", "_lacks_newline", "_mark", "_raw", "secrets", "text")

    def __init__(self, uri: str, raw: bytes, secrets: Secrets = NO_EXCEPTIONS) -> None:
        decoded = _decode_editable(uri, raw)
        self._mark = _BOM if decoded.startswith(_BOM) else ""
        self._raw = decoded.removeprefix(_BOM)
        text = _BREAK.sub("\n", self._raw) if "\r" in self._raw else self._raw
        self._lacks_newline = bool(text) and not text.endswith("\n")
        screened = secrets.masked(uri, f"{text}\n" if self._lacks_newline else text)
        self.secrets = len(screened.findings)
        """How many secrets are masked in the text."""
        self.text = screened.text
        """Normalised and masked; ends with a newline even if the file does not."""
        matches = re.finditer("\r\n", self._raw) if "\r" in self._raw else ()
        # Offsets in the text of the line ends that have two characters in the file.
        self._breaks = [match.start() - before for before, match in enumerate(matches)]

    def apply(self, changes: Sequence[Change]) -> bytes:
        """Return the file's bytes with changes, which must not overlap."""
        parts: list[str] = []
        offset = 0
        for change in sorted(changes, key=_sort_key):
            parts.append(self._original(offset, change.start))
            parts += self._render(change)
            offset = change.end
        parts.append(self._original(offset, len(self.text)))
        result = "".join(parts)
        if self._lacks_newline:
            result = _strip_last_newline(result)
        return (self._mark + result).encode("utf-8")

    def check_no_mask(self, uri: str, changed: bytes) -> None:
        """Raise if the new bytes contain a mask in place of a secret."""
        if copies_mask(self._raw, changed.decode("utf-8")):
            raise InvalidArgument(
                f"The text for {uri!r} contains masked characters ({MASK * 4}). They hide a secret"
                " and would overwrite it.",
                hint="Edit the lines around it, or change the secret itself in an editor.",
                details={"uri": uri, "reason": "masked"},
            )

    def _render(self, change: Change) -> Iterable[str]:
        end = self._line_end(change.start)
        for piece in change.pieces:
            if isinstance(piece, str):
                yield piece.replace("\n", end) if end != "\n" else piece
            else:
                yield self._original(*piece)

    def _original(self, start: int, end: int) -> str:
        """Return a range of the text as it is in the file, with a newline at the very end."""
        original = self._raw[self._file_offset(start) : self._file_offset(end)]
        at_end = self._lacks_newline and end == len(self.text) > start
        return original + self._line_end(end - 1) if at_end else original

    def _file_offset(self, offset: int) -> int:
        """Convert an offset in the text to one in the decoded file."""
        return min(offset + bisect_left(self._breaks, offset), len(self._raw))

    def _line_end(self, offset: int) -> str:
        """Return the line ending before ``offset``, or else that of the first line, or ``\\n``."""
        newline = self.text.rfind("\n", 0, min(offset, len(self.text)))
        match = _BREAK.match(self._raw, self._file_offset(newline)) if newline >= 0 else None
        match = match or _BREAK.search(self._raw)
        return match[0] if match else "\n"


def _decode_editable(uri: str, raw: bytes) -> str:
    """Return the text of a UTF-8 file with its byte-order mark; raise for any other file."""
    encoding = decode(raw).encoding
    problem = f"{uri!r} is {label(encoding)}, which can be read but not edited."
    if encoding == UTF8:
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            problem = f"{uri!r} is not valid UTF-8 at byte {error.start}."
        else:
            if b"\0" not in raw:
                return text
            raise InvalidArgument(
                f"{uri!r} contains NUL bytes, so it is not a text file.",
                hint="Choose a text file in UTF-8.",
                details={"uri": uri, "reason": "binary"},
            )
    raise InvalidArgument(
        problem, hint="Save it as UTF-8 first.", details={"uri": uri, "reason": "encoding"}
    )


def apply_changes(text: str, changes: Sequence[Change]) -> str:
    """Return a normalised text with changes, which must not overlap."""
    parts: list[str] = []
    offset = 0
    for change in sorted(changes, key=_sort_key):
        parts.append(text[offset : change.start])
        parts += (p if isinstance(p, str) else text[p[0] : p[1]] for p in change.pieces)
        offset = change.end
    parts.append(text[offset:])
    return "".join(parts)


def _sort_key(change: Change) -> tuple[int, int]:
    return change.start, change.end


def _strip_last_newline(text: str) -> str:
    """Remove the last newline, unless it ends a blank line: then nothing would be left of it."""
    for end in ("\r\n", "\n", "\r"):
        if text.endswith(end):
            rest = text.removesuffix(end)
            return text if not rest or rest[-1] in "\r\n" else rest
    return text
