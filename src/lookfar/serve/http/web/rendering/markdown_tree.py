"""Render Markdown to a tree of nodes, with the offsets of everything in the document.

Takes the text of a document; returns nodes as :mod:`.nodes` describes them, and the links that
their caller resolves. Never raises for a text: what cannot be rendered is a ``plain`` node. The
syntax is that of the index, with math, callouts, marked text and the fields of Dataview.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import pyromark
from pyromark import Options

from lookfar.serve.http.web.rendering.html_tags import HtmlTag, read_tag, split_block
from lookfar.serve.http.web.rendering.inline_text import InlineText
from lookfar.serve.http.web.rendering.nodes import Node, make_text, walk_nodes
from lookfar.text.normalise import ByteOffsets
from lookfar.text.parse import frontmatter
from lookfar.text.parse.links import split_destination, split_wikilink

_PARSER: Final = pyromark.Markdown(
    options=Options.ENABLE_TABLES
    | Options.ENABLE_FOOTNOTES
    | Options.ENABLE_STRIKETHROUGH
    | Options.ENABLE_TASKLISTS
    | Options.ENABLE_GFM
    | Options.ENABLE_WIKILINKS
    | Options.ENABLE_MATH
)
_MOST_NODES: Final = 150_000
_DEEPEST: Final = 40
"""Nodes nested deeper than this are added to the node above, because browsers have limits."""
_DEEPEST_TAG: Final = 8
"""More open HTML tags than this are shown as text."""
_CALLOUT: Final = re.compile(r"\[!([A-Za-z][\w-]{0,30})\]([+-]?)[ \t]*")
_HEADING_ID: Final = re.compile(r"[ \t]?\{#[^{}]*\}$")
_WEB: Final = re.compile(r"https?://\S+", re.IGNORECASE)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")
_WIDTH: Final = re.compile(r"(\d{1,4})(?:x\d{1,4})?")
_PICTURE: Final = re.compile(r"\.(?:png|jpe?g|gif|webp|avif|svg|bmp)$", re.IGNORECASE)
_LINKS: Final = ("link", "picture", "embed")
_SIMPLE: Final[Mapping[str, str]] = {
    "Paragraph": "paragraph", "Item": "item", "TableRow": "row", "TableCell": "cell",
    "Emphasis": "emphasis", "Strong": "strong", "Strikethrough": "deleted",
}  # fmt: skip


class Reference(NamedTuple):
    """A link or a picture; ``details`` is the object of its node, to be completed."""

    kind: str
    """``link``, ``wikilink``, ``image`` or ``embed``."""
    target: str
    anchor: str
    details: dict[str, Any]


class Rendered(NamedTuple):
    nodes: list[Node]
    references: list[Reference]


def render_markdown(text: str) -> Rendered:
    """Render a document; its front matter is omitted."""
    front = frontmatter.split(text)
    body = front.body if front else 0
    builder = _Builder(text, body)
    try:
        builder.read()
    except BaseException as error:
        # A panic in the Rust parser must not end the process.
        if type(error).__name__ != "PanicException":
            raise
        whole = make_text(body, len(text))
        return Rendered([["plain", body, len(text), [whole]]], [])
    return Rendered(builder.nodes, builder.references)


class _Open(NamedTuple):
    node: Node
    tag: str
    """The HTML tag that opened it, or empty."""


class _Builder:
    """Builds the tree while it reads the parser's events."""

    def __init__(self, text: str, body: int) -> None:
        self._text = text
        self._body = body
        self._source = text[body:] if body else text
        self._char = ByteOffsets(self._source).char
        self._inline = InlineText(text, body)
        self.nodes: list[Node] = []
        self.references: list[Reference] = []
        self._open: list[_Open] = [_Open(["", body, len(text), self.nodes], "")]
        self._run: tuple[int, int] | None = None
        """Plain text that was read but is not a node yet: the parser splits it at brackets."""
        self._run_starts_line = True
        self._starts_line = True
        self._has_field = False
        """Whether the line has a field, which is a line of its own on the page."""
        self._count = 0
        self._footnotes: dict[str, int] = {}

    def read(self) -> None:
        events: Iterable[tuple[Any, Any]] = _PARSER.events_with_range(self._source)
        for event, where in events:
            start = self._char(where["start"]) + self._body
            end = self._char(where["end"]) + self._body
            if event.__class__ is str:
                self._read_word(event, start, end)
            else:
                ((name, data),) = event.items()
                self._handlers[name](self, data, start, end)
            if self._count > _MOST_NODES:
                self._give_up()
                return
        self._close_html(0)

    # -- events ------------------------------------------------------------------------------

    def _read_word(self, event: str, start: int, end: int) -> None:
        """Read an event without data: a line break or a rule."""
        if event == "SoftBreak":
            self._flush()
            broken = self._has_field
            self._append(["break", start, end, []] if broken else make_text(start, start + 1))
            self._starts_line, self._has_field = True, False
        elif event == "HardBreak":
            self._add(["break", start, end, []])
            self._starts_line = True
        else:
            self._add(["rule", start, end, []])

    def _read_start(self, tag: Any, start: int, end: int) -> None:
        self._flush()
        name: str
        data: Any
        name, data = (tag, None) if tag.__class__ is str else next(iter(tag.items()))
        node: Node
        if name in _SIMPLE:
            node = [_SIMPLE[name], start, end, []]
            self._starts_line, self._has_field = name in ("Paragraph", "Item", "TableCell"), False
        elif name in ("Link", "Image"):
            node = self._make_link(name, data, start, end)
        elif name == "Heading":
            node = ["heading", start, end, [], {"level": int(data["level"][1])}]
            self._starts_line = False
        elif name == "CodeBlock":
            words = [] if data == "Indented" else data["Fenced"].split(maxsplit=1)
            node = ["code_block", start, end, [], {"language": words[0] if words else ""}]
        elif name == "List":
            node = ["list", start, end, [], {} if data is None else {"first": data}]
        elif name == "BlockQuote":
            node = ["quote", start, end, []]
            if data is not None:
                node = ["callout", start, end, [], {"type": data.lower(), "fold": ""}]
        elif name == "Table":
            node = ["table", start, end, [], {"align": [way.lower() for way in data]}]
        elif name == "TableHead":
            node = ["row", start, end, [], {"head": True}]
        elif name == "FootnoteDefinition":
            node = ["footnote", start, end, [], self._number_footnote(data)]
        elif name == "HtmlBlock":
            return
        else:
            node = ["plain", start, end, []]
        self._push(node)

    def _read_end(self, tag: Any, _start: int, _end: int) -> None:
        self._flush()
        name = tag if tag.__class__ is str else next(iter(tag))
        if name == "HtmlBlock":
            return
        self._close_html(self._container_depth())
        node = self._open.pop().node
        if node[0] == "quote":
            _make_callout(node, self._text)
        elif node[0] == "heading":
            self._cut_heading_id(node)
        elif node[0] in ("picture", "embed"):
            self._finish_picture(node)

    def _read_text(self, shown: str, start: int, end: int) -> None:
        if self._open[-1].node[0] == "code_block" or self._text[start:end] != shown:
            literal = self._text[start:end] == shown
            self._add(make_text(start, end) if literal else make_text(start, end, shown))
            return
        if self._run is not None and self._run[1] == start:
            self._run = (self._run[0], end)
            return
        self._flush()
        self._run = (start, end)
        self._run_starts_line, self._starts_line = self._starts_line, False

    def _read_code(self, shown: str, start: int, end: int) -> None:
        ticks = len(self._text[start:end]) - len(self._text[start:end].lstrip("`"))
        self._add(["code", start, end, [self._place(shown, start + ticks, end - ticks)]])

    def _read_math(self, shown: str, start: int, end: int) -> None:
        signs = 2 if self._text.startswith("$$", start) else 1
        inner = self._place(shown, start + signs, end - signs)
        self._add(["math", start, end, [inner], {"display": signs == 2}])

    def _read_reference(self, label: str, start: int, end: int) -> None:
        self._add(["reference", start, end, [], self._number_footnote(label)])

    def _read_task(self, done: bool, _start: int, _end: int) -> None:
        for entry in reversed(self._open):
            if entry.node[0] == "item":
                entry.node[4:] = [{"done": done}]
                break
        # The space behind the box is not text of the item.
        self._starts_line = True

    def _read_inline_html(self, html: str, start: int, end: int) -> None:
        tag = read_tag(html)
        if tag is None or tag.kind in ("details", "summary"):
            self._add(["html", start, end, [self._place(html, start, end)]])
        else:
            self._apply_tag(tag, start, end)

    def _read_html_line(self, html: str, start: int, end: int) -> None:
        self._flush()
        if self._text[start:end] != html:
            self._add_html(make_text(start, end, html))
            return
        for first, last in split_block(html):
            tag = read_tag(html[first:last])
            if tag is not None and tag.kind in ("details", "summary", "picture"):
                self._apply_tag(tag, start + first, start + last)
            else:
                self._add_html(make_text(start + first, start + last))

    _handlers: Mapping[str, Callable[[_Builder, Any, int, int], None]] = {
        "Start": _read_start, "End": _read_end, "Text": _read_text, "Code": _read_code,
        "InlineMath": _read_math, "DisplayMath": _read_math,
        "FootnoteReference": _read_reference, "TaskListMarker": _read_task,
        "InlineHtml": _read_inline_html, "Html": _read_html_line,
    }  # fmt: skip

    # -- building ----------------------------------------------------------------------------

    def _add(self, node: Node) -> None:
        self._flush()
        self._append(node)

    def _append(self, node: Node) -> None:
        self._open[-1].node[3].append(node)
        self._count += 1

    def _push(self, node: Node, tag: str = "") -> None:
        """Open a node; below the deepest level its children go to the node above."""
        if len(self._open) <= _DEEPEST:
            self._append(node)
        else:
            node[3] = self._open[-1].node[3]
        self._open.append(_Open(node, tag))

    def _flush(self) -> None:
        """Turn the pending run of plain text into nodes."""
        if self._run is None:
            return
        start, end = self._run
        self._run = None
        in_link = any(entry.node[0] in _LINKS for entry in self._open[-4:])
        starts_line = self._run_starts_line
        for node in self._inline.split(start, end, starts_line=starts_line, in_link=in_link):
            if node[0] == "field" and starts_line:
                self._break_line()
            self._append(node)
            if node[0] == "link":
                self._refer("link", node[4]["href"], "", node[4])

    def _break_line(self) -> None:
        """Begin a new line for a field."""
        self._has_field = True
        siblings = self._open[-1].node[3]
        if siblings and siblings[-1][0] == "t" and self._text[siblings[-1][1]] == "\n":
            siblings[-1] = ["break", siblings[-1][1], siblings[-1][2], []]

    def _place(self, shown: str, start: int, end: int) -> Node:
        """Return a node that shows a text, with the offsets of the text if it is in the range."""
        at = self._text.find(shown, start, end) if shown else -1
        if at >= 0:
            return make_text(at, at + len(shown))
        return make_text(start, max(start, end), shown)

    def _number_footnote(self, label: str) -> dict[str, Any]:
        number = self._footnotes.setdefault(label, len(self._footnotes) + 1)
        return {"number": number}

    def _cut_heading_id(self, node: Node) -> None:
        last = node[3][-1] if node[3] else None
        if last is not None and last[0] == "t" and len(last) == 3:
            match = _HEADING_ID.search(self._text, last[1], last[2])
            if match is not None:
                last[2] = match.start()

    def _give_up(self) -> None:
        """Show the block that is too long, and everything after it, as plain text."""
        self._run = None
        start = self.nodes.pop()[1] if self.nodes else self._body
        end = len(self._text)
        self.nodes.append(["plain", start, end, [make_text(start, end)]])
        remaining = {id(node[4]) for node in walk_nodes(self.nodes) if len(node) > 4}
        self.references = [entry for entry in self.references if id(entry.details) in remaining]

    # -- links -------------------------------------------------------------------------------

    def _make_link(self, name: str, data: Mapping[str, Any], start: int, end: int) -> Node:
        link_type, destination = data["link_type"], data["dest_url"]
        details: dict[str, Any] = {}
        if link_type.__class__ is dict:
            kind = "embed" if name == "Image" else "wikilink"
            target, anchor = split_wikilink(destination)
        else:
            kind = "image" if name == "Image" else "link"
            target, anchor = split_destination(destination)
            if link_type == "Email":
                target = f"mailto:{target}"
        node_kind = "link"
        if name == "Image":
            pictured = kind == "image" or _PICTURE.search(target) is not None
            node_kind = "picture" if pictured else "embed"
        self._refer(kind, target, anchor, details, destination)
        return [node_kind, start, end, [], details]

    def _refer(
        self, kind: str, target: str, anchor: str, details: dict[str, Any], written: str = ""
    ) -> None:
        """Note a link to be resolved; an address on the web needs no resolving."""
        if _SCHEME.match(target):
            details.clear()
            whole = written or target
            details["href" if _WEB.fullmatch(whole) else "address"] = whole
        elif target or anchor:
            self.references.append(Reference(kind, target, anchor, details))

    def _finish_picture(self, node: Node) -> None:
        """Take the width of ``![[picture.png|300]]`` from its text."""
        children, details = node[3], node[4]
        width = children and children[-1][0] == "t" and len(children[-1]) == 3
        if width and (match := _WIDTH.fullmatch(self._text[children[-1][1] : children[-1][2]])):
            details["width"] = int(match[1])
            node[3] = []

    # -- HTML --------------------------------------------------------------------------------

    def _apply_tag(self, tag: HtmlTag, start: int, end: int) -> None:
        self._flush()
        if tag.kind == "break":
            self._append(["break", start, end, []])
        elif tag.kind == "picture":
            alt = tag.attributes.get("alt", "")
            details: dict[str, Any] = {}
            width = tag.attributes.get("width", "")
            if width.isdecimal() and len(width) < 5:
                details["width"] = int(width)
            self._append(["picture", start, end, [make_text(start, end, alt)], details])
            target, anchor = split_destination(tag.attributes["src"])
            self._refer("image", target, anchor, details, tag.attributes["src"])
        elif not tag.closes and sum(bool(entry.tag) for entry in self._open) < _DEEPEST_TAG:
            details = {"open": True} if tag.attributes else {}
            self._push([tag.kind, start, end, [], details], tag.name)
        elif tag.closes and self._open[-1].tag == tag.name:
            self._open.pop().node[2] = end
        else:
            self._append(["html", start, end, [make_text(start, end)]])

    def _add_html(self, text: Node) -> None:
        """Add a part of an HTML block, joined with the part before it."""
        siblings = self._open[-1].node[3]
        blank = not self._text[text[1] : text[2]].strip()
        if self._open[-1].tag == "summary" and "<" not in self._text[text[1] : text[2]]:
            self._append(text)
        elif siblings and siblings[-1][0] == "html_block" and siblings[-1][2] == text[1]:
            siblings[-1][3].append(text)
            siblings[-1][2] = text[2]
        elif not blank:
            self._append(["html_block", text[1], text[2], [text]])

    def _container_depth(self) -> int:
        """Return the position of the innermost open node that is not an HTML tag."""
        depth = len(self._open) - 1
        while self._open[depth].tag:
            depth -= 1
        return depth

    def _close_html(self, depth: int) -> None:
        """Show the tags that are still open above a depth as text, and keep what they contain."""
        self._flush()
        while len(self._open) - 1 > depth and self._open[-1].tag:
            node, _ = self._open.pop()
            siblings = self._open[-1].node[3]
            if node[3] is siblings:  # It was too deep to be a node of its own.
                continue
            at = next(i for i in range(len(siblings) - 1, -1, -1) if siblings[i] is node)
            kind = "html_block" if node[0] in ("details", "summary") else "html"
            opening = [kind, node[1], node[2], [make_text(node[1], node[2])]]
            siblings[at : at + 1] = [opening, *node[3]]


def _make_callout(node: Node, text: str) -> None:
    """Turn a quote that begins with ``[!type] Title`` into a callout."""
    first = node[3][0] if node[3] else None
    if first is None or first[0] != "paragraph" or not first[3]:
        return
    lead = first[3][0]
    match = _CALLOUT.match(text, lead[1], lead[2]) if lead[0] == "t" and len(lead) == 3 else None
    if match is None:
        return
    line = next(
        (at for at, child in enumerate(first[3]) if child[0] == "t" and text[child[1]] == "\n"),
        len(first[3]),
    )
    title = [child for child in first[3][1:line] if child[1] >= match.end()]
    if match.end() < lead[2]:
        title.insert(0, make_text(match.end(), lead[2]))
    first[3] = first[3][line + 1 :]
    children = node[3] if first[3] else node[3][1:]
    if title:
        children = [["title", title[0][1], title[-1][2], title], *children]
    node[:] = [
        "callout", node[1], node[2], children, {"type": match[1].lower(), "fold": match[2]},
    ]  # fmt: skip
