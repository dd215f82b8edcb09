"""Decode text inside files that declare an encoding, such as HTML, mail and CSV."""

from __future__ import annotations

import codecs

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE = 4096


def decode(data: bytes, declared: str = "") -> tuple[str, tuple[str, ...]]:
    """Return the text, and a warning if its encoding had to be guessed.

    A byte-order mark counts first, then the declared encoding, then UTF-8.
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace"), ()
    for name in (declared, _guess_utf16(data), "utf-8"):
        if not name or not _is_text_encoding(name):
            continue
        try:
            return data.decode(name), ()
        except UnicodeError:
            continue
    # Five bytes have no character in this encoding; Latin-1 has one for every byte.
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text, ("the encoding is not declared and is not UTF-8; read as Windows-1252",)


def _guess_utf16(data: bytes) -> str:
    """Return UTF-16 without a mark if every second byte of the start is zero."""
    sample = data[:_SAMPLE]
    if len(sample) >= 4 and sample.count(0) * 3 > len(sample):
        return "utf-16-le" if sample[1::2].count(0) > sample[::2].count(0) else "utf-16-be"
    return ""


def _is_text_encoding(name: str) -> bool:
    """Whether a name is an encoding of text, and not one of Python's byte transforms."""
    try:
        "a".encode(codecs.lookup(name).name)
    except (LookupError, ValueError):
        return False
    return True
