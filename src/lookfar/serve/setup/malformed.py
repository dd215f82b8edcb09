"""The one way in which somebody's file cannot be edited.

Takes: what is wrong and where. Gives: an exception that the room turns into an error with the
file's name. Refuses: nothing.
"""

from __future__ import annotations


class Malformed(Exception):
    """A text that is not of its format, or has something else where our entry belongs."""

    def __init__(self, what: str, text: str = "", at: int | None = None) -> None:
        place = ""
        if at is not None:
            line = text.count("\n", 0, at) + 1
            place = f" (line {line}, column {at - text.rfind(chr(10), 0, at)})"
        super().__init__(what + place)


def newline_of(text: str) -> str:
    """How the lines of a text end, so that ours end likewise."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"
