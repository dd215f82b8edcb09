"""Tell templates and fragments of web applications from HTML pages that people read."""

from __future__ import annotations

import re
from typing import Final

_HEAD: Final = 262_144
_SAMPLES: Final = re.compile(
    rb"<(pre|code|script|style|textarea)\b.*?</\1\s*>|<!--.*?-->", re.IGNORECASE | re.DOTALL
)
"""Parts of a page that may show the syntax of templates to a reader."""
_MARKERS: Final = re.compile(
    rb"\{\{|\{%|<%|<\?php|\$\{|\s(?:\*ng[A-Z]|ng-[a-z]|v-[a-z]+[=:]|th:[a-z]+=|x-data=|hx-[a-z]+=)"
    rb"|\s[(\[@:][a-z][\w.-]*[)\]]?=\"|^\s*@(?:if|for|switch|section|extends|include|foreach)\b",
    re.MULTILINE,
)
"""Placeholders, statements and attributes of template languages and frameworks."""


def is_template(raw: bytes) -> bool:
    """Whether an HTML file is the source of a program: its tags matter more than its text."""
    return _MARKERS.search(_SAMPLES.sub(b" ", raw[:_HEAD])) is not None
