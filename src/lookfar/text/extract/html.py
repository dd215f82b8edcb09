"""Extract HTML: the main text with headings, lists, tables, code and links.

Navigation, scripts and hidden parts are dropped. The id of a heading is written as ``{#id}``, so
that links to it work.
"""

from __future__ import annotations

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

from lookfar.text.extract.decoding import decode
from lookfar.text.extract.extracted import CannotExtract, Extracted, Limits
from lookfar.text.extract.html_blocks import BlockWriter, is_skipped
from lookfar.text.extract.writer import Writer

_MAIN = "main, [role=main]"
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)")
_DEEPEST = 2_000
_MOST_TITLES = 5
"""The most headings outside of the main text that are written before it."""
_SELF_CLOSING = frozenset(
    "a area b base basefont big br code col dd dt em embed font frame hr i img input li link meta"
    " nobr option p param rp rt s small source strike strong tbody td tfoot th thead tr tt u"
    " wbr".split()
)
"""Elements that need no end tag, or whose nesting the parser limits."""


def extract_html(data: bytes, limits: Limits) -> Extracted:
    """Extract the main text of a page."""
    writer = Writer(limits)
    title = write_page(writer, data, limits)
    if not writer.length:
        raise CannotExtract("no_text", "the page has no text (it may need JavaScript)")
    return writer.finish(title)


def write_page(writer: Writer, data: bytes, limits: Limits, declared: str = "") -> str:
    """Write the blocks of a page and return its title.

    ``declared`` is the encoding that the container of the page names, if any.
    """
    text, warnings = decode(data, declared)
    writer.warnings += warnings
    _check_depth(text)
    tree = LexborHTMLParser(text.replace("\0", ""))
    if tree.body is None:
        return ""
    before = writer.length
    blocks = BlockWriter(writer, limits)
    root = _main_text(tree.body)
    if root is not tree.body:
        titles = tree.css("h1") if root.css_first("h1") is None else []
        for heading in [title for title in titles if not is_skipped(title)][:_MOST_TITLES]:
            blocks.write(heading)
    blocks.write(root)
    if writer.length == before:
        # All of it looked like navigation.
        BlockWriter(writer, limits, keep_all=True).write(tree.body)
    title = tree.css_first("title")
    return title.text() if title is not None else ""


def _check_depth(text: str) -> None:
    """Refuse deep nesting: the parser's time grows with the square of the depth."""
    depth = 0
    for match in _TAG.finditer(text):
        if match[2].lower() not in _SELF_CLOSING:
            depth = max(0, depth - 1) if match[1] else depth + 1
            if depth > _DEEPEST:
                raise CannotExtract("damaged", f"elements are nested more than {_DEEPEST:,} deep")


def _main_text(body: LexborNode) -> LexborNode:
    """Return the element that has the main text, or the whole body."""
    for selector in (_MAIN, "article"):
        nodes = body.css(selector)
        if len(nodes) == 1 and nodes[0].text(strip=True):
            return nodes[0]
    return body
