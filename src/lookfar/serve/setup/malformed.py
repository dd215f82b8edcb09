"""The exception for files that cannot be edited, and a helper for their line ends."""

from __future__ import annotations


class Malformed(Exception):
    """The text is invalid, or something else is in the place of Lookfar's entry."""

    def __init__(self, problem: str, text: str = "", at: int | None = None) -> None:
        place = ""
        if at is not None:
            line = text.count("\n", 0, at) + 1
            place = f" (line {line}, column {at - text.rfind(chr(10), 0, at)})"
        super().__init__(problem + place)


def detect_newline(text: str) -> str:
    """Return how the lines of a text end, so that new lines can end the same way."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"
