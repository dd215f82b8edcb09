"""Decode files to normalised text, and map UTF-8 byte offsets in it to characters.

Normalised text has no byte-order mark, ``\\n`` line ends and a final newline, and can be encoded as
UTF-8. Bytes are decoded by byte-order marks, as UTF-8, by declared encodings, then by a detector.
Nothing is lost silently: a guess and every replaced byte are reported as warnings.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from lookfar.common.wide_text import detect_wide

UTF8: Final = "utf-8"
VERSION: Final = 2
"""Increase this whenever the same bytes would give a different text."""

_MARKS: Final = (
    # UTF-32 comes first: its little-endian mark begins with that of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_HEAD: Final = 2_048
"""Bytes at the start and at the end of a file in which a declaration is looked for."""
_DECLARED_FIRST: Final = re.compile(
    rb"""<\?xml[^>]{0,200}?\bencoding\s*=\s*["']([\w.:-]+)"""
    rb"""|<meta[^>]{0,200}?\bcharset\s*=\s*["']?\s*([\w.:-]+)"""
    rb"""|\A@charset\s+"([\w.:-]+)\""""
    rb"""|\\usepackage\[([\w-]+)\]\{inputenc\}"""
    rb"""|Content-Type:[^\n]{0,200}?\bcharset\s*=\s*"?([\w.:-]+)""",
    re.IGNORECASE,
)
_DECLARED_IN_LINE: Final = re.compile(rb"coding[:=]\s*([\w.-]+)")
"""The declarations of Python, Emacs and Vim (``fileencoding=``), on one of the first two lines."""
_DECLARED_LAST: Final = re.compile(
    rb"""(?:vim?|ex):[^\n]*?\b(?:fileencoding|fenc)=([\w.-]+)"""
    rb"""|Local Variables:.*?\bcoding:\s*([\w.-]+)""",
    re.DOTALL,
)
_SUPERSETS: Final = {
    # As in browsers: a file that declares one of these is usually written in its superset.
    "ascii": ("cp1252", "latin-1"),
    "iso8859-1": ("cp1252", "latin-1"),
    "shift_jis": ("cp932",),
    "euc_kr": ("cp949",),
    "gb2312": ("gb18030",),
    "gbk": ("gb18030",),
    "tis-620": ("cp874",),
    "iso8859-9": ("cp1254", "iso8859-9"),
}
_OTHER_NAMES: Final = {
    "ansinew": "cp1252",
    "applemac": "mac-roman",
    "latin9": "iso8859-15",
    "x-sjis": "cp932",
    "cp-850": "cp850",
}
_NOT_FOR_FILES: Final = frozenset(
    (
        *("idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem"),
        "utf-7",
    )
)
_SEVEN_BIT: Final = "iso2022"
"""Encodings whose bytes are all valid ASCII; an escape sequence switches between alphabets."""
_DETECTED: Final = (
    *("cp1252", "cp1250", "iso8859_2", "cp1251", "koi8_r", "iso8859_5", "cp866", "cp1253"),
    *("cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "cp874", "mac_roman", "cp850"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
)
"""Encodings that the detector may return: those that are common in files."""
_SAMPLE: Final = 65_536
"""The most bytes that the detector examines, because it is slow."""
_NEAR: Final = 0.1
"""Encodings whose ``chaos`` is within this distance of the best are alternatives."""
_MOST_ALTERNATIVES: Final = 3
_MOSTLY: Final = 2
"""A text is damaged UTF-8 if it has at least this many valid sequences per invalid byte."""
_SEQUENCE: Final = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)


class Decoded(NamedTuple):
    text: str
    """Without a byte-order mark; line ends are as in the file."""
    encoding: str
    """Its name in Python."""
    warnings: tuple[str, ...] = ()


def decode(raw: bytes, declared: str = "") -> Decoded:
    """Decode a text file; ``declared`` is the encoding that its container names, if any."""
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return _decode_marked(raw[len(mark) :], encoding)
    wide = detect_wide(raw)
    if wide is not None:
        return Decoded(raw.decode(wide), wide)
    try:
        text = raw.decode(UTF8)
    except UnicodeDecodeError as error:
        named = _find_declared(raw, declared)
        return _decode_declared(raw, named) or _decode_otherwise(raw, error.start)
    if b"\x1b" in raw and (named := _find_declared(raw, declared)).startswith(_SEVEN_BIT):
        return _decode_declared(raw, named) or Decoded(text, UTF8)
    return Decoded(text, UTF8)


def _decode_marked(raw: bytes, encoding: str) -> Decoded:
    try:
        return Decoded(raw.decode(encoding), encoding)
    except UnicodeDecodeError as error:
        return _replace_invalid(raw, encoding, error.start)


def _replace_invalid(raw: bytes, encoding: str, at: int) -> Decoded:
    warning = f"not valid {label(encoding)} at byte {at}: unreadable bytes are shown as U+FFFD"
    # A lone surrogate in UTF-32 is replaced, too, because it could not be written as UTF-8.
    return Decoded(raw.decode(encoding, "replace"), encoding, (warning,))


def _decode_declared(raw: bytes, declared: str) -> Decoded | None:
    """Decode with a declared encoding; None if some of the text is not valid in it."""
    for encoding in _SUPERSETS.get(declared, (declared,)) if declared else ():
        try:
            return Decoded(raw.decode(encoding), encoding)
        except UnicodeDecodeError:
            continue
    return None


def _find_declared(raw: bytes, declared: str) -> str:
    """Return the encoding that is declared, in Python's spelling; empty if there is none."""
    if declared and (known := _look_up(declared.strip().lower())):
        return known
    head, tail = raw[:_HEAD], raw[-_HEAD:]
    first_lines = b"\n".join(head.splitlines()[:2])
    for match in (
        _DECLARED_FIRST.search(head),
        _DECLARED_IN_LINE.search(first_lines),
        _DECLARED_LAST.search(tail),
    ):
        name = next((group for group in match.groups() if group), b"") if match else b""
        if name and (known := _look_up(name.decode("ascii", "replace").lower())):
            return known
    return ""


def _look_up(name: str) -> str:
    """Return Python's name of an encoding that a file can be written in; empty if unknown."""
    name = _OTHER_NAMES.get(name, name.removesuffix("-unix").removesuffix("-dos"))
    try:
        found = codecs.lookup(name)
        "".encode(name)  # Fails for codecs that do not convert text.
    except (LookupError, ValueError):
        return ""
    return "" if found.name in _NOT_FOR_FILES or found.name == UTF8 else found.name


def _decode_otherwise(raw: bytes, at: int) -> Decoded:
    """Decode a text that is not UTF-8 and declares nothing that fits; ``at`` is where it fails."""
    replaced = _replace_invalid(raw, UTF8, at)
    valid, invalid = len(_SEQUENCE.findall(raw)), replaced.text.count("\ufffd")
    if valid >= invalid * _MOSTLY:
        return replaced  # Few characters are damaged; any other encoding would damage all of them.
    likely = _detect(raw)
    for encoding, alternatives in likely:
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        return Decoded(text, encoding, (_describe_guess(encoding, alternatives),))
    if not likely:
        return replaced
    # Damaged, but a guess that loses a few characters is better than one that loses them all.
    encoding, alternatives = likely[0]
    text = raw.decode(encoding, "replace")
    warning = f"{text.count(chr(0xFFFD)):,} unreadable characters are shown as U+FFFD"
    return Decoded(text, encoding, (_describe_guess(encoding, alternatives), warning))


def _describe_guess(encoding: str, alternatives: Sequence[str]) -> str:
    warning = f"not UTF-8: read as {label(encoding)}, judging by its bytes"
    if alternatives:
        warning += f"; it may also be {' or '.join(map(label, alternatives))}"
    return warning


def _detect(raw: bytes) -> list[tuple[str, list[str]]]:
    """Return likely encodings, best first, each with alternatives that give a different text."""
    from charset_normalizer import from_bytes

    # End at a line break: a character split in two would rule out the right encoding.
    end = _SAMPLE if len(raw) > _SAMPLE else len(raw)
    sample = raw[: raw.rfind(b"\n", 0, end) + 1 or end]
    matches = list(from_bytes(sample, cp_isolation=list(_DETECTED), preemptive_behaviour=False))
    if not matches:
        return []
    likely = [match for match in matches if match.chaos <= matches[0].chaos + _NEAR]
    # The detector orders ties by name, but Western European is by far the most frequent.
    likely.sort(key=lambda match: "cp1252" not in match.could_be_from_charset)
    order = {name: place for place, name in enumerate(_DETECTED)}
    names = [
        min(match.could_be_from_charset, key=lambda name: order.get(name, len(order)))
        for match in likely
    ]
    return [
        (name, [other for other in names if other != name][:_MOST_ALTERNATIVES])
        for name in dict.fromkeys(names)
    ]


def label(encoding: str) -> str:
    """Return the common name of an encoding."""
    if encoding.startswith("cp125"):
        return f"windows-{encoding[2:]}"
    if encoding.startswith("utf-"):
        return encoding.upper().removesuffix("-LE").removesuffix("-BE")
    return {"cp932": "Shift_JIS", "cp949": "EUC-KR"}.get(encoding, encoding.replace("_", "-"))


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
