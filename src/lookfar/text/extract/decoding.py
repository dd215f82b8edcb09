"""Decode text inside files that declare an encoding, such as HTML, mail and CSV."""

from __future__ import annotations

from lookfar.text import encodings


def decode(data: bytes, declared: str = "") -> tuple[str, tuple[str, ...]]:
    """Return the text, and a warning if its encoding had to be guessed."""
    decoded = encodings.decode(data, declared)
    return decoded.text, decoded.warnings
