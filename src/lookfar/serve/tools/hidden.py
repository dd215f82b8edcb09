"""Flags for what in a text could mislead its reader: characters that reorder, hide or control."""

from __future__ import annotations

import re

_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufff9-\ufffb\U000e0000-\U000e007f]")


def flags(text: str) -> list[str]:
    """The kinds of misleading characters that a text has."""
    kinds = []
    if not text.isascii() and _BIDI.search(text):
        kinds.append("bidi")
    if _CONTROL.search(text):
        kinds.append("control")
    return kinds
