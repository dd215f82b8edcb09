"""Count text in UTF-16 units, as JavaScript does: characters above U+FFFF count twice."""

from __future__ import annotations


def count_units(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut_units(text: str, most: int) -> str:
    """Return the beginning of a text with at most this many units, and whole characters only."""
    if count_units(text) <= most:
        return text
    units = text.encode("utf-16-le", "surrogatepass")[: 2 * most]
    return units.decode("utf-16-le", "ignore")
