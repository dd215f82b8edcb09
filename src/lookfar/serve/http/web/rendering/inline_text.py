"""Find what notes write in plain text: tags, marked words, fields, block ids and bare addresses."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Final

from lookfar.serve.http.web.rendering.nodes import Node, make_text
from lookfar.text.parse.links import tags_in

# Every repetition is bounded or stops where no other one could begin, so no text takes long.
_INLINE: Final = re.compile(
    r"==(?P<marked>[^=\s](?:[^=\n]{0,998}[^=\s])?)=="
    r"|(?P<address>https?://[^\s<>\[\]\"'`|\\]{1,2000})"
    r"|(?<=[\[(])(?P<field>[^\W\d_][\w -]{0,60}::)(?=[ \t])"
)
_FIRST_FIELD: Final = re.compile(r"[ \t]{0,8}(?P<field>[^\W\d_][\w -]{0,60}::)(?=[ \t])")
_BLOCK_ID: Final = re.compile(r"(?:^|(?<=\s))\^[A-Za-z0-9-]{1,80}$")
_SIGNS: Final = re.compile(r"==|https?://|::")


class InlineText:
    """Splits the plain text of one document into nodes."""

    def __init__(self, source: str, offset: int) -> None:
        """Read ``source`` from ``offset`` on, where its body begins."""
        self._source = source
        body = source[offset:] if offset else source
        tags = [(at + offset, name) for at, name in tags_in(body)] if "#" in body else []
        self._tag_starts = [at for at, _ in tags]
        self._tags = tags
        self._has_signs = _SIGNS.search(source, offset) is not None

    def split(self, start: int, end: int, *, starts_line: bool, in_link: bool) -> list[Node]:
        """Return the nodes of a run of plain text; links do not contain tags or addresses."""
        pieces: list[Node] = []
        if not in_link:
            pieces += self._find_tags(start, end)
        if self._has_signs:
            pieces += self._find_signs(start, end, starts_line, in_link)
        if self._source.find("^", max(start, end - 82), end) >= 0:
            pieces += self._find_block_id(start, end)
        pieces.sort(key=lambda piece: (piece[1], piece[2]))
        nodes: list[Node] = []
        at = start
        for piece in pieces:
            if piece[1] < at:
                continue
            if piece[1] > at:
                nodes.append(make_text(at, piece[1]))
            nodes.append(piece)
            at = piece[2]
        if at < end:
            nodes.append(make_text(at, end))
        return nodes

    def _find_tags(self, start: int, end: int) -> list[Node]:
        pieces: list[Node] = []
        at = bisect_left(self._tag_starts, start)
        while at < len(self._tags) and self._tags[at][0] < end:
            first, name = self._tags[at]
            last = first + 1 + len(name)
            if last <= end:
                pieces.append(["tag", first, last, [make_text(first, last)], {"name": name}])
            at += 1
        return pieces

    def _find_signs(self, start: int, end: int, starts_line: bool, in_link: bool) -> list[Node]:
        pieces: list[Node] = []
        first = _FIRST_FIELD.match(self._source, start, end) if starts_line else None
        if first is not None:
            pieces.append(_wrap("field", *first.span("field")))
        for match in _INLINE.finditer(self._source, start, end):
            if match["marked"] is not None:
                inner = make_text(*match.span("marked"))
                pieces.append(["marked", match.start(), match.end(), [inner]])
            elif match["field"] is not None:
                pieces.append(_wrap("field", *match.span("field")))
            elif not in_link:
                last = match.start() + len(_trim_address(match["address"]))
                node = _wrap("link", match.start(), last)
                pieces.append([*node, {"href": self._source[match.start() : last]}])
        return pieces

    def _find_block_id(self, start: int, end: int) -> list[Node]:
        """Return the id that a block ends with, as in ``text ^id``."""
        if end < len(self._source) and self._source[end] != "\n":
            return []
        match = _BLOCK_ID.search(self._source, start, end)
        return [_wrap("block_id", *match.span())] if match else []


def _wrap(kind: str, start: int, end: int) -> Node:
    return [kind, start, end, [make_text(start, end)]]


def _trim_address(address: str) -> str:
    """Cut off punctuation after an address, and closing brackets that it does not open."""
    address = address.rstrip(".,;:!?*_~")
    while address.endswith(")") and address.count(")") > address.count("("):
        address = address[:-1].rstrip(".,;:!?*_~")
    return address
