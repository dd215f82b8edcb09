"""Recognise the few HTML tags of Markdown that become nodes; all other HTML is shown as text."""

from __future__ import annotations

import re
from html import unescape
from typing import Final, NamedTuple

INLINE_TAGS: Final = {
    "b": "strong", "strong": "strong", "i": "emphasis", "em": "emphasis", "s": "deleted",
    "del": "deleted", "strike": "deleted", "mark": "marked", "kbd": "keyboard",
    "sub": "subscript", "sup": "superscript", "code": "code",
}  # fmt: skip
"""The node kind of each tag that may surround text; only without attributes."""
BLOCK_TAGS: Final = {"details": "details", "summary": "summary"}

_TAG: Final = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]{0,20})(\s[^<>]{0,2000})?/?>")
_ATTRIBUTE: Final = re.compile(
    r"""([a-zA-Z-]{1,40})\s{0,20}=\s{0,20}(?:"([^"]{0,2000})"|'([^']{0,2000})'|([^\s"'<>`]{1,2000}))"""
)


class HtmlTag(NamedTuple):
    """A tag that becomes a node, or ends one."""

    name: str
    kind: str
    closes: bool
    attributes: dict[str, str]


def read_tag(text: str) -> HtmlTag | None:
    """Return the tag that a piece of HTML is, or None if it is to be shown as text."""
    match = _TAG.fullmatch(text.strip())
    if match is None:
        return None
    slash, name, rest = match[1], match[2].lower(), (match[3] or "").strip().rstrip("/").strip()
    if name == "img" and not slash:
        found = {key.lower(): unescape(a or b or c) for key, a, b, c in _ATTRIBUTE.findall(rest)}
        wanted = {key: found[key] for key in ("src", "alt", "width") if key in found}
        return HtmlTag(name, "picture", False, wanted) if wanted.get("src") else None
    if name == "br" and not rest:
        return HtmlTag(name, "break", False, {})
    kind = INLINE_TAGS.get(name) or BLOCK_TAGS.get(name)
    if kind is None or (rest and not (name == "details" and rest.lower() == "open")):
        return None
    return HtmlTag(name, kind, bool(slash), {"open": "open"} if rest else {})


_PIECE: Final = re.compile(r"</?(?:details|summary)(?:\s+open)?\s*>|<img\s[^<>]{1,2000}>", re.I)


def split_block(text: str) -> list[tuple[int, int]]:
    """Split a line of an HTML block into tags that become nodes, and the text between them."""
    pieces: list[tuple[int, int]] = []
    at = 0
    for match in _PIECE.finditer(text):
        if match.start() > at:
            pieces.append((at, match.start()))
        pieces.append(match.span())
        at = match.end()
    if at < len(text):
        pieces.append((at, len(text)))
    return pieces
