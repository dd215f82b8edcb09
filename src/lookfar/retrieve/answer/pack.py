"""Fit an answer into a token budget, cutting the last hit if the rest is worth reading."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from lookfar.model import Hit

_ABOUT_A_HIT = 40
"""Tokens of a citation: URI, lines, headings, score."""
_ABOUT_A_PLACE = 30
"""Tokens of the citation of a duplicate."""
_WORTH_READING = 100
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def tokens(text: str) -> int:
    """Estimate the number of tokens, rather too high: four ASCII characters, or one other."""
    wide = 0 if text.isascii() else len(_NOT_ASCII.findall(text))
    return (len(text) - wide) // 4 + wide + 1


def cut(text: str, most: int) -> str:
    """Return the start of ``text`` within ``most`` tokens, if possible up to a line end."""
    if tokens(text) <= most:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens(text[:middle]) <= most else (low, middle - 1)
    line_end = text.rfind("\n", low // 2, low) + 1
    return text[: line_end or low]


def pack(hits: Sequence[Hit], budget: int) -> tuple[list[Hit], int]:
    """Return the hits that fit into ``budget`` tokens, and the number of those left."""
    packed: list[Hit] = []
    left = budget
    for hit in hits:
        around = _ABOUT_A_HIT + _ABOUT_A_PLACE * len(hit.also)
        cost = tokens(hit.text) + around
        if cost > left:
            room = max(left - around, 0 if packed else 1)
            if packed and room < _WORTH_READING:
                break
            packed.append(replace(hit, text=cut(hit.text, room), truncated=True))
            break
        packed.append(hit)
        left -= cost
    return packed, len(hits) - len(packed)
