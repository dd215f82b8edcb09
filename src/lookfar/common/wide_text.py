"""Recognise UTF-16 text that has no byte-order mark."""

from __future__ import annotations

from typing import Final

_HEAD: Final = 8_192
_MOST: Final = 0.4
_LEAST: Final = 0.02
"""In UTF-16 text with Latin letters or digits, at least two of five code units have a high byte of
zero, and hardly any a low byte of zero."""
_CONTROLS: Final = frozenset(map(chr, set(range(32)) - set(b"\t\n\r\f\x1b")))


def detect_wide(raw: bytes) -> str | None:
    """Return ``utf-16-le`` or ``utf-16-be`` if all of ``raw`` is such a text, or None."""
    head = raw[:_HEAD]
    units = len(head) // 2
    if b"\0" not in head or not units or len(raw) % 2:
        return None
    even, odd = head[::2].count(0) / units, head[1::2].count(0) / units
    for encoding, high, low in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if high >= _MOST and low <= _LEAST:
            try:
                text = raw.decode(encoding)
            except UnicodeDecodeError:
                return None
            return None if _CONTROLS.intersection(text) else encoding
    return None
