"""Decode files to normalised text, and map UTF-8 byte offsets in it to characters.

Normalised text has no byte-order mark, ``\\n`` line ends and a final newline, and can be encoded as
UTF-8. Invalid bytes become U+FFFD, with a warning.
"""

from __future__ import annotations

from itertools import accumulate

_UTF8_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


def normalise(raw: bytes) -> tuple[str, tuple[str, ...]]:
    """Decode and normalise a file; all offsets refer to the result.

    For a ``str`` of unknown origin pass ``text.encode("utf-8", "surrogatepass")``: lone surrogates
    are not valid UTF-8 and are replaced like other invalid bytes.
    """
    text, warnings = _decode(raw)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text and not text.endswith("\n"):
        text += "\n"
    return text, warnings


def _decode(raw: bytes) -> tuple[str, tuple[str, ...]]:
    encoding = _UTF16_BOMS.get(raw[:2])
    if encoding:
        raw, name = raw[2:], "UTF-16"
    else:
        raw, name, encoding = raw.removeprefix(_UTF8_BOM), "UTF-8", "utf-8"
    try:
        return raw.decode(encoding), ()
    except UnicodeDecodeError as error:
        warning = f"not valid {name} at byte {error.start}: unreadable bytes are shown as U+FFFD"
        return raw.decode(encoding, "replace"), (warning,)


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
