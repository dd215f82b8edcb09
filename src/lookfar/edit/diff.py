"""Unified diffs of edited documents."""

from __future__ import annotations

import re
from difflib import unified_diff
from typing import Final

CONTROL_CHARACTERS: Final = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]")
_CONTEXT: Final = 3
_MAX_COMPARED: Final = 4_000
_HUNK: Final = re.compile(r"@@ -(\d+)((?:,\d+)?) \+(\d+)((?:,\d+)?) @@\n")


def make_diff(uri: str, before: str | None, after: str | None, old_uri: str = "") -> str:
    """Return a unified diff; None is a document that does not exist.

    ``old_uri`` is the name that a renamed document had.

    Common lines at both ends are cut off first, because difflib is slow on long texts.
    """
    old, new = ([f"{line}\n" for line in (text or "").split("\n")[:-1]] for text in (before, after))
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    if start == len(old) == len(new):
        return ""
    same = 0
    while same < min(len(old), len(new)) - start and old[-1 - same] == new[-1 - same]:
        same += 1
    first = max(0, start - _CONTEXT)
    removed = old[first : len(old) - same + min(same, _CONTEXT)]
    added = new[first : len(new) - same + min(same, _CONTEXT)]
    name = CONTROL_CHARACTERS.sub("\ufffd", uri)
    old_name = CONTROL_CHARACTERS.sub("\ufffd", old_uri or uri)
    head = (f"--- {f'a/{old_name}' if before is not None else '/dev/null'}\n"
            f"+++ {f'b/{name}' if after is not None else '/dev/null'}\n")  # fmt: skip
    if max(len(removed), len(added)) > _MAX_COMPARED:
        hunk = f"@@ -{first + 1},{len(removed)} +{first + 1},{len(added)} @@\n"
        lines = [*(f"-{line}" for line in removed), *(f"+{line}" for line in added)]
        return head + hunk + "".join(lines)
    lines = list(unified_diff(removed, added, n=_CONTEXT))[2:]
    return head + "".join(_shift_hunk(line, first) for line in lines)


def _shift_hunk(line: str, offset: int) -> str:
    """Add the number of lines that were cut off to the line numbers of a hunk header."""
    match = _HUNK.fullmatch(line)
    if match is None:
        return line
    old, new = int(match[1]) + offset, int(match[3]) + offset
    return f"@@ -{old}{match[2]} +{new}{match[4]} @@\n"
