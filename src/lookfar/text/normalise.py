"""Decode files to normalised text, and map UTF-8 byte offsets in it to characters.

Normalised text has no byte-order mark, ``\\n`` line ends and a final newline, and can be encoded as
UTF-8. How files are decoded is in :mod:`lookfar.text.encodings`.
"""

from __future__ import annotations

from itertools import accumulate

from lookfar.text.encodings import UTF8, decode


def normalise(raw: bytes) -> tuple[str, tuple[str, ...]]:
    """Decode and normalise a file; all offsets refer to the result."""
    decoded = decode(raw)
    return normalise_lines(decoded.text), decoded.warnings


def normalise_text(text: str) -> str:
    """Normalise a text of unknown origin, in which lone surrogates are replaced by U+FFFD."""
    if not text.isascii():
        text = text.encode(UTF8, "surrogatepass").decode(UTF8, "replace").removeprefix("\ufeff")
    return normalise_lines(text)


def normalise_lines(text: str) -> str:
    """Return a text with ``\\n`` line ends and a final newline."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text and not text.endswith("\n"):
        text += "\n"
    return text


class ByteOffsets:
    """Maps UTF-8 byte offsets of one text to character offsets.

    A character starts at every byte that is not a continuation byte. These are counted once per
    step of 256 bytes; the rest is counted on request, so lookups in any order cost the same.
    """

    __slots__ = ("_counts", "_data")

    _STEP = 256
    _CONTINUATION = bytes(range(0x80, 0xC0))

    def __init__(self, text: str) -> None:
        self._data = b"" if text.isascii() else text.encode()
        steps = (self._data[at : at + self._STEP] for at in range(0, len(self._data), self._STEP))
        self._counts = list(accumulate(map(self._characters, steps), initial=0))

    def char(self, byte: int) -> int:
        """Return the index of the character that starts at ``byte``."""
        if not self._data:
            return byte
        step = byte // self._STEP
        return self._counts[step] + self._characters(self._data[step * self._STEP : byte])

    def _characters(self, data: bytes) -> int:
        return len(data.translate(None, self._CONTINUATION))
