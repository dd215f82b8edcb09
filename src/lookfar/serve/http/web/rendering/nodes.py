"""The nodes of a rendered document, as JSON.

A node is a list: its kind, the offsets of its start and end in the
document, its children, and for some kinds an object with details. A text has no children: it is
``["t", start, end]`` for the characters of the document between the offsets, or has a fourth item
if it shows something else, such as ``&`` for ``&amp;``. So everything on the page can be traced
back to the document, and no node contains markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

Node = list[Any]

TEXT: Final = "t"
BLOCKS: Final = frozenset({
    "heading", "paragraph", "list", "item", "quote", "callout", "title", "code_block", "table",
    "row", "cell", "rule", "html_block", "footnote", "details", "summary", "place", "plain",
})  # fmt: skip
INLINES: Final = frozenset({
    "emphasis", "strong", "deleted", "marked", "code", "keyboard", "subscript", "superscript",
    "break", "link", "picture", "embed", "tag", "math", "reference", "field", "block_id", "html",
})  # fmt: skip
KINDS: Final = BLOCKS | INLINES | {TEXT}


def make_text(start: int, end: int, shown: str | None = None) -> Node:
    return [TEXT, start, end] if shown is None else [TEXT, start, end, shown]


def children_of(node: Node) -> list[Node]:
    """Return the children of a node; a text has none."""
    children: list[Node] = [] if node[0] == TEXT else node[3]
    return children


def walk_nodes(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield every node below some nodes, in the order of the document."""
    waiting = list(reversed(nodes))
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(children_of(node))


def text_of(nodes: Sequence[Node], source: str) -> str:
    """Return the text that some nodes show."""
    return "".join(
        node[3] if len(node) > 3 else source[node[1] : node[2]]
        for node in walk_nodes(nodes)
        if node[0] == TEXT
    )
