"""Tell templates and fragments of web applications from HTML pages that people read."""

from __future__ import annotations

import re
from typing import Final

_HEAD: Final = 262_144
_SAMPLE: Final = re.compile(rb"<(pre|code|script|style|textarea)\b|<!--", re.IGNORECASE)
"""The start of a part of a page that may show the syntax of templates to a reader."""
_MARKERS: Final = re.compile(
    rb"\{\{|\{%|<%|<\?php|\$\{|\s(?:\*ng[A-Z]|ng-[a-z]|v-[a-z]+[=:]|th:[a-z]+=|x-data=|hx-[a-z]+=)"
    rb"|\s[(\[@:][a-z][\w.-]*[)\]]?=\"|^[ \t]*@(?:if|for|switch|section|extends|include|foreach)\b",
    re.MULTILINE,
)
"""Placeholders, statements and attributes of template languages and frameworks."""


def is_template(raw: bytes) -> bool:
    """Whether an HTML file is the source of a program: its tags matter more than its text."""
    return _MARKERS.search(_drop_samples(raw[:_HEAD])) is not None


def _drop_samples(page: bytes) -> bytes:
    """Return a page without its samples of code, its scripts and its comments.

    This is a loop because a regular expression takes quadratic time if many tags are not closed.
    """
    parts = []
    unclosed: set[bytes] = set()
    start = position = 0
    while opening := _SAMPLE.search(page, position):
        position = opening.end()
        name = (opening[1] or b"").lower()
        closing = None if name in unclosed else _closing_of(name).search(page, position)
        if closing is None:
            unclosed.add(name)
        else:
            parts.append(page[start : opening.start()])
            start = position = closing.end()
    return b" ".join([*parts, page[start:]])


def _closing_of(name: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"</%b\s*>" % name if name else b"-->", re.IGNORECASE)
