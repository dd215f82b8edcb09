"""Parse link destinations, tags and aliases; shared by the parsers of all text formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

from lookfar.common.lines import inside_of
from lookfar.model import Block, Link

# One letter before the colon is a Windows drive, not a scheme.
_EXTERNAL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")

# As in Obsidian, a tag is everything but space and punctuation, so that every script works (a
# list of letters would lose the vowel signs of Hindi). The ranges are ASCII punctuation without
# `-`, `/` and `_`, Latin-1 punctuation, and general, CJK and full-width punctuation. U+200D is
# allowed, because it joins emoji.
_TAG = re.compile(
    r"#([^\s!-,.:-@\[-^`{-\xbf\u2000-\u200c\u200e-\u206f\u3000-\u303f\uff00-\uff0f\uff1a-\uff20]+)"
)
_NAMES_SOMETHING = re.compile(r"[^\d/_-]")
_BEFORE_TAG = frozenset(" \n\t(\f\v\xa0\u3000")


VERSION = 5
"""Raise this whenever the same text would give other links, labels or block ids."""


class FoundLinks(NamedTuple):
    """The links of a document in the order of its text, and the labels that it defines."""

    links: tuple[Link, ...]
    labels: tuple[str, ...]


def is_external(target: str) -> bool:
    """Whether a target is a URL rather than a path or a name."""
    return _EXTERNAL.match(target) is not None


def outside_of(blocks: Iterable[Block]) -> Callable[[int], bool]:
    """Return a function that says whether an offset is outside of all blocks."""
    is_inside = inside_of((block.start, block.end) for block in blocks)
    return lambda offset: not is_inside(offset)


def sort_links(links: Iterable[Link]) -> tuple[Link, ...]:
    """Sort links by their position."""
    return tuple(sorted(links, key=lambda link: link.start))


def split_wikilink(destination: str) -> tuple[str, str]:
    """Split ``Note#Heading`` into target and anchor; ``#Heading`` is in the same note."""
    # In a table the pipe of [[Note\\|Alias]] is escaped, and the backslash remains.
    target, _, anchor = destination.removesuffix("\\").partition("#")
    return " ".join(target.split()), " ".join(anchor.split())


def split_destination(destination: str) -> tuple[str, str]:
    """Split the destination of a Markdown link into target and anchor.

    Relative paths are percent-decoded, because file names are not encoded; URLs stay as they are.
    """
    target, _, anchor = destination.partition("#")
    if "%" in destination and not is_external(destination):
        return unquote(target), unquote(anchor)
    return target, anchor


def tags_in(text: str) -> Iterator[tuple[int, str]]:
    """Yield everything that looks like a tag, also in code, with the offset of its ``#``."""
    for match in _TAG.finditer(text):
        start = match.start()
        if start and text[start - 1] not in _BEFORE_TAG:
            continue
        name = match[1].rstrip("/")
        if _NAMES_SOMETHING.search(name):
            yield start, name


def tag_names(value: Any) -> list[str]:
    """Return the tags of a front-matter value: a list, or a string with commas or spaces."""
    items = re.split(r"[,\s]+", value) if isinstance(value, str) else _as_list(value)
    return [name for item in items if (name := item.strip().lstrip("#").strip("/"))]


def alias_names(value: Any) -> list[str]:
    """Return the aliases of a front-matter value: a list, or a string with commas."""
    items = value.split(",") if isinstance(value, str) else _as_list(value)
    return [name for item in items if (name := " ".join(item.split()))]


def _as_list(value: Any) -> list[str]:
    items = value if isinstance(value, list) else [value]
    return [str(item) for item in items if isinstance(item, str | int | float)]
