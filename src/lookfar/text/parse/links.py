"""Where a link points and what a tag is: the small grammars inside Markdown text.

Takes: link destinations as a Markdown parser reports them, front-matter values,
and text. Gives: target and anchor, tag names, lists of names. Refuses: to say
whether a target exists; that is the graph's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

# One letter before the colon is a Windows drive, not a scheme.
_EXTERNAL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")

# As in Obsidian, a tag is whatever is not space or punctuation, so that every script works
# (a list of letters would lose the vowel signs of Hindi). The ranges are ASCII punctuation
# without `-`, `/` and `_`, Latin-1 punctuation, general, CJK and full-width punctuation.
# U+200D stays in: it joins emoji.
_TAG = re.compile(
    r"#([^\s!-,.:-@\[-^`{-\xbf\u2000-\u200c\u200e-\u206f\u3000-\u303f\uff00-\uff0f\uff1a-\uff20]+)"
)
_NAMES_SOMETHING = re.compile(r"[^\d/_-]")
_BEFORE_TAG = frozenset(" \n\t(\f\v\xa0\u3000")


def split_wikilink(destination: str) -> tuple[str, str]:
    """``Note#Heading`` as target and anchor; ``#Heading`` points into the same note."""
    # In a table the pipe of [[Note\\|Alias]] is escaped, and the backslash stays behind.
    target, _, anchor = destination.removesuffix("\\").partition("#")
    return " ".join(target.split()), " ".join(anchor.split())


def split_destination(destination: str) -> tuple[str, str]:
    """The target and anchor of a Markdown link.

    Relative paths are written percent-encoded and name files that are not, so
    they are decoded; a URL is an address as it stands.
    """
    target, _, anchor = destination.partition("#")
    if "%" in destination and not _EXTERNAL.match(destination):
        return unquote(target), unquote(anchor)
    return target, anchor


def tags_in(text: str) -> Iterator[tuple[int, str]]:
    """Everything spelled like a tag, with the offset of its ``#``.

    Whether it stands in prose, and not in code or in a link, is for the caller
    to say.
    """
    for match in _TAG.finditer(text):
        start = match.start()
        if start and text[start - 1] not in _BEFORE_TAG:
            continue
        name = match[1].rstrip("/")
        if _NAMES_SOMETHING.search(name):
            yield start, name


def tag_names(value: Any) -> list[str]:
    """Tags of a front-matter value: a list, or one string with commas or spaces."""
    items = re.split(r"[,\s]+", value) if isinstance(value, str) else _listed(value)
    return [name for item in items if (name := item.strip().lstrip("#").strip("/"))]


def alias_names(value: Any) -> list[str]:
    """Aliases of a front-matter value: a list, or one string with commas."""
    items = value.split(",") if isinstance(value, str) else _listed(value)
    return [name for item in items if (name := " ".join(item.split()))]


def _listed(value: Any) -> list[str]:
    items = value if isinstance(value, list) else [value]
    return [str(item) for item in items if isinstance(item, str | int | float)]
