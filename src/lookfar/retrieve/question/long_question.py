"""Split a long question, such as a pasted issue or log, into parts that are asked beside the whole.

In a long text the few words that matter are lost among many. A title says what it is about, and
names, paths and error lines say where.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from lookfar.retrieve.question.query import is_error

_LONG: Final = 300
"""Characters from which a question of several lines is long."""
_LONG_LINE: Final = 1000
"""The same for a question of one line."""
_LONGEST_TITLE: Final = 200
_MOST_NAMES: Final = 24
_MOST_ERRORS: Final = 4
_NAME: Final = re.compile(
    r"(?:[\w.-]+/)+[\w.-]+"  # a path
    r"|\b[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+"  # a dotted name, or a file with its extension
    r"|\b[A-Za-z]\w*_\w+|\b_\w+|\b[A-Za-z]+[a-z0-9][A-Z]\w*"  # snake_case, camelCase
)
_MARKUP: Final = re.compile(r"^[#>*\s-]+|[*_`\s]+$")
_SENTENCE: Final = re.compile(r"(?<=[.!?。！？])\s")


def split_long_question(text: str) -> tuple[str, ...]:
    """Return the title, and the names, paths and error lines; nothing for a usual question."""
    text = text.strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(text) < (_LONG if len(lines) > 1 else _LONG_LINE):
        return ()
    title = _SENTENCE.split(_MARKUP.sub("", lines[0]))[0][:_LONGEST_TITLE]
    places = " ".join((*_find_places(text), *_find_errors(lines)))
    return tuple(part for part in (title, places) if part.strip())


def _find_places(text: str) -> list[str]:
    """Return the paths and names in a text, the most frequent first."""
    counted = Counter(_NAME.findall(text))
    return [name for name, _ in counted.most_common(_MOST_NAMES)]


def _find_errors(lines: list[str]) -> list[str]:
    """Return the last error lines of a text; in a traceback those say what went wrong."""
    errors = dict.fromkeys(line for line in lines if is_error(line))
    return list(errors)[-_MOST_ERRORS:]
