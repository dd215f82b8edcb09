"""An answer that fits: as many hits as a token budget holds, best first.

Takes: hits in their order and a budget. Gives: those that fit, the last one cut where
that still leaves something worth reading, and how many were left. Refuses: an empty
answer where there are hits; the first is always there, cut if it must be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from lookfar.model import Hit

_ABOUT_A_HIT = 40
"""Tokens of its citation: URI, lines, headings, score."""
_ABOUT_A_PLACE = 30
"""Tokens of a place that it stands for."""
_WORTH_READING = 100
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def tokens(text: str) -> int:
    """About how many tokens a text costs its reader, rather too many than too few.

    Four characters each; scripts other than Latin cost about one a character.
    """
    wide = 0 if text.isascii() else len(_NOT_ASCII.findall(text))
    return (len(text) - wide) // 4 + wide + 1


def cut(text: str, most: int) -> str:
    """The beginning of ``text`` that costs at most ``most`` tokens, up to a line end if it can."""
    if tokens(text) <= most:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens(text[:middle]) <= most else (low, middle - 1)
    line_end = text.rfind("\n", low // 2, low) + 1
    return text[: line_end or low]


def pack(hits: Sequence[Hit], budget: int) -> tuple[list[Hit], int]:
    """The hits that fit into ``budget`` tokens, and how many of ``hits`` were left."""
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
