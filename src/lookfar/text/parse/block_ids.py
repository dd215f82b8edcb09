"""Find the blocks of a Markdown text that have an id: ``^id`` of Obsidian, ``id:: ...`` of Logseq.

``^id`` is at the end of a paragraph, list item or quote, or alone on the line after a block, such
as a table. ``id:: ...`` is a line of a list item. A marker in code is not an id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

import pyromark
from pyromark import Options

from lookfar.errors import Ambiguous, NotFound
from lookfar.model import Block, Document, Link
from lookfar.text.normalise import ByteOffsets
from lookfar.text.parse.links import outside_of

# Looks behind after the first character: a search is quicker if a pattern starts with one.
_NAMED_MARKER = re.compile(r"\^(?<!\S\^)(?=[0-9-]*[A-Za-z])[A-Za-z0-9-]+[ \t]*$", re.MULTILINE)
"""An id with a letter, as programs generate them; ``^2`` may be a power."""
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_MARKER = re.compile(r"\^(?<!\S\^)([A-Za-z0-9-]+)[ \t]*$", re.MULTILINE)
"""An id at the end of a line."""
_PROPERTY = re.compile(rf"^[ \t]*(?:[-*+][ \t]+)?id::[ \t]*({_UUID})[ \t]*$", re.MULTILINE)
"""The id of a block in Logseq."""
_REFERENCE = re.compile(rf"\(\(({_UUID})\)\)")
_PARSER = pyromark.Markdown(
    options=Options.ENABLE_TABLES
    | Options.ENABLE_FOOTNOTES
    | Options.ENABLE_TASKLISTS
    | Options.ENABLE_GFM
)
_CODE: Final = "CodeBlock"
_NEWLINE: Final = "\n"
_MOST_LISTED: Final = 20
_MOST_COMPARED: Final = 300
_BLOCKS = frozenset(("Paragraph", "Item", "BlockQuote", "Table", "List", "Heading", _CODE))


class BlockId(NamedTuple):
    """A block with an id: the lines ``text[start:end]``."""

    name: str
    start: int
    end: int


class _Range(NamedTuple):
    kind: str
    start: int
    end: int


def find_block(document: Document, name: str) -> BlockId:
    """Return the block with an id, written with or without ``^``, in any case if none is exact.

    Raises ``NotFound`` with the nearest ids, or ``Ambiguous`` with the lines.
    """
    text, wanted = document.text, name.removeprefix("^")
    markers = list(_list_markers(text, document.body))
    same = [marker for marker in markers if marker[1] == wanted]
    same = same or [marker for marker in markers if marker[1].lower() == wanted.lower()]
    ranges = list(_list_ranges(text, document.body)) if same else []
    places = [_find_range(text, ranges, marker.start(1)) for marker in same[:_MOST_LISTED]]
    blocks = [BlockId(wanted, *_widen(text, place)) for place in places if place is not None]
    if len(blocks) == 1:
        return blocks[0]
    if not blocks:
        names = list(dict.fromkeys(marker[1] for marker in markers))[:_MOST_COMPARED]
        near = [f"^{other}" for other in get_close_matches(wanted, names, n=3, cutoff=0.3)]
        raise NotFound(
            f"{document.uri} has no block ^{wanted}.",
            hint=f"Nearest: {', '.join(near)}." if near else "Give a heading or lines instead.",
            details={"uri": document.uri, "candidates": near},
        )
    candidates = [f"line {text.count(_NEWLINE, 0, block.start) + 1}" for block in blocks]
    raise Ambiguous(
        f"{len(same)} blocks of {document.uri} have the id ^{wanted}.",
        hint=f"Give the lines: {', '.join(candidates[:5])}.",
        details={"uri": document.uri, "candidates": candidates},
    )


def strip_block_ids(text: str) -> str:
    """Return a text without the markers of block ids, which say nothing about its subject."""
    if "^" in text:
        text = _NAMED_MARKER.sub("", text)
    return _PROPERTY.sub("", text) if "id::" in text else text


def find_block_references(
    text: str, body: int, blocks: Iterable[Block]
) -> tuple[list[Link], list[str]]:
    """Return the references ``((id))`` of Logseq as links, and the ids that a text declares."""
    references: list[Link] = []
    if "((" in text and "))" in text:
        is_outside = outside_of(blocks)
        references = [
            Link("label", match[1].lower(), "", "", match.start(), match.end())
            for match in _REFERENCE.finditer(text, body)
            if is_outside(match.start())
        ]
    if "id::" not in text:
        return references, []
    return references, [match[1].lower() for match in _PROPERTY.finditer(text, body)]


def _list_markers(text: str, body: int) -> Iterator[re.Match[str]]:
    yield from _MARKER.finditer(text, body)
    if "id::" in text:
        yield from _PROPERTY.finditer(text, body)


def _find_range(text: str, ranges: Sequence[_Range], at: int) -> _Range | None:
    """Return the block that a marker belongs to; None if it is in code or after nothing."""
    around = [block for block in ranges if block.start <= at < block.end]
    if any(block.kind == _CODE for block in around):
        return None
    line = text.rfind("\n", 0, at) + 1
    alone = not text[line:at].strip(" \t^>")
    paragraph = next((block for block in reversed(around) if block.kind == "Paragraph"), None)
    if alone and paragraph is not None and not text[paragraph.start : at].strip(" \t^>"):
        before = _find_before(ranges, around, paragraph.start)
        if before is not None:
            return _Range(before.kind, before.start, paragraph.end)
    item = next((block for block in reversed(around) if block.kind == "Item"), None)
    outer = next((block for block in around if block.kind in ("BlockQuote", "Table")), None)
    return item or outer or (around[-1] if around else None)


def _find_before(ranges: Sequence[_Range], around: Sequence[_Range], start: int) -> _Range | None:
    """Return the outermost block that ends before a paragraph in the same container."""
    containers = [block for block in around if block.kind in ("Item", "BlockQuote")]
    first = containers[-1].start if containers else -1
    ended = [block for block in ranges if first < block.start and block.end <= start]
    if not ended:
        return None
    last = ended[-1]
    return next(block for block in ended if block.start <= last.start and block.end >= last.end)


def _list_ranges(text: str, body: int) -> Iterator[_Range]:
    """Yield the blocks of a text, outer ones before those inside."""
    source = text[body:]
    char = ByteOffsets(source).char
    for event, where in _list_events(source):
        if "Start" not in event:
            continue
        tag = event["Start"]
        kind = next(iter(tag)) if isinstance(tag, dict) else tag
        if kind in _BLOCKS:
            yield _Range(kind, char(where["start"]) + body, char(where["end"]) + body)


def _list_events(source: str) -> list[tuple[Any, Any]]:
    try:
        return list(_PARSER.events_with_range(source))
    except BaseException as error:
        # A panic in the Rust parser must not end the process; then no block is known.
        if type(error).__name__ != "PanicException":
            raise
        return []


def _widen(text: str, block: _Range) -> tuple[int, int]:
    """Return whole lines, without blank lines at the end."""
    start = text.rfind("\n", 0, block.start) + 1
    end = start + len(text[start : block.end].rstrip())
    return start, text.find("\n", end) + 1 or len(text)
