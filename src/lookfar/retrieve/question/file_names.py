"""Questions that are the name of a file.

Takes: the text of a question. Gives: the path in it, without a leading ``./`` or ``/`` and
without line numbers, or nothing. Refuses: ordinary words; only what looks like a path is one.
"""

from __future__ import annotations

import re

_LINES = re.compile(r":\d+(?:-\d+)?$")
_LIKE_A_PATH = re.compile(r"\S*[^\s./_-][/._-]\S+")


def path_in(text: str) -> str:
    """The path that a question consists of, or an empty string."""
    path = _LINES.sub("", text.strip()).removeprefix("./").strip("/")
    return path if _LIKE_A_PATH.fullmatch(path) else ""


def ends_in(uri: str, path: str) -> bool:
    """Whether ``path``, with or without the ending of the file, is the end of ``uri``."""
    whole, asked = f"/{uri}".casefold(), f"/{path}".casefold()
    return whole.endswith(asked) or whole.rpartition(".")[0].endswith(asked)
