"""Extract HTML: the main text with headings, lists, tables, code and links; and EPUB, page by page.

Navigation, scripts and hidden parts are dropped. The id of a heading is written as ``{#id}``, so
that links to it work. Places of a book are ``part=N``, the position in its reading order, counted
from 1.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element

from selectolax.lexbor import LexborHTMLParser, LexborNode

from lookfar.text.extract.archive import Archive, attribute, local_name, resolve
from lookfar.text.extract.extracted import CannotExtract, Extracted, Limits, Writer, link
from lookfar.text.normalise import decode

_SKIPPED = frozenset(
    "script style noscript template nav svg canvas iframe object embed audio video button select"
    " option input textarea dialog head title meta link base map area".split()
)
_INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark math"
    " nobr output picture q rp rt ruby s samp small source span strike strong sub sup time tt u"
    " var wbr br".split()
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_ROLES = frozenset("navigation banner contentinfo search menu menubar dialog".split())
_NAVIGATION = frozenset(
    "navbar nav sidebar breadcrumb breadcrumbs toc menu pagination pager sphinxsidebar related"
    " site-header site-footer skip-link cookie-banner".split()
)
"""Classes and ids of elements that are navigation if most of their text is links."""
_ALWAYS_SKIPPED = frozenset("headerlink linenos lineno anchor-link sr-only visually-hidden".split())
_SPACE = re.compile(r"[ \t\r\n\f\v]+")
_AROUND_BREAK = re.compile(r" *\n *")
_PERMALINK = re.compile(r"^\s*[¶#🔗§]\s*|\s*[¶#🔗§]\s*$")
_LANGUAGE = re.compile(r"(?:language|lang|highlight|brush|sourceCode)[-: ]+([\w+#.-]+)")
_ANCHOR = re.compile(r"[^\s{}`#\x00-\x1f\x7f-\x9f]+")
_MOST_CELLS = 200
_MOST_ROWS = 100_000
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
_FONT_ALGORITHMS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")


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
    text, _, warnings = decode(data, declared)
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


def extract_epub(data: bytes, limits: Limits) -> Extracted:
    """Extract the chapters of a book."""
    archive = Archive(data, limits)
    _refuse_protected(archive)
    package_name = _package_name(archive)
    package = archive.parse(package_name)
    items = {
        attribute(item, "id"): (attribute(item, "href"), attribute(item, "media-type"))
        for item in package.iter()
        if local_name(item.tag) == "item"
    }
    spine = [item for item in package.iter() if local_name(item.tag) == "itemref"]
    writer = Writer(limits)
    for number, reference in enumerate(spine, 1):
        href, kind = items.get(attribute(reference, "idref"), ("", ""))
        name = resolve(package_name, href)
        if "html" not in kind and not name.endswith((".html", ".xhtml", ".htm")):
            continue
        writer.place(f"part={number}")
        if name in archive:
            write_page(writer, archive.read(name), limits)
        else:
            writer.warnings.append(f"part {number} is missing in the file")
        if writer.full:
            break
    return writer.finish(_title(package))


def _refuse_protected(archive: Archive) -> None:
    """Refuse books with copy protection, but accept obfuscated fonts."""
    root = archive.parse_optional("META-INF/encryption.xml")
    for item in root.iter() if root is not None else ():
        if local_name(item.tag) == "EncryptionMethod" and not attribute(
            item, "Algorithm"
        ).startswith(_FONT_ALGORITHMS):
            raise CannotExtract("encrypted", "the book has copy protection")


def _package_name(archive: Archive) -> str:
    root = archive.parse_optional("META-INF/container.xml")
    for item in root.iter() if root is not None else ():
        if local_name(item.tag) == "rootfile" and attribute(item, "full-path") in archive:
            return attribute(item, "full-path")
    for name in archive.names():
        if name.endswith(".opf"):
            return name
    raise CannotExtract("damaged", "the file is not an EPUB book")


def _title(package: Element) -> str:
    for item in package.iter():
        if local_name(item.tag) == "title":
            return item.text or ""
    return ""


def is_skipped(node: LexborNode) -> bool:
    """Whether an element is navigation, hidden or not text."""
    tag = node.tag or ""
    if tag in _SKIPPED:
        return True
    attributes = node.attributes
    if not attributes:
        return False
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    if (attributes.get("role") or "") in _ROLES:
        return True
    names = {*(attributes.get("class") or "").lower().split(), (attributes.get("id") or "").lower()}
    if names & _ALWAYS_SKIPPED:
        return True
    return bool(names & _NAVIGATION) and _is_mostly_links(node)


def _is_mostly_links(node: LexborNode) -> bool:
    linked = sum(len(anchor.text(strip=True)) for anchor in node.css("a"))
    return linked * 2 > len(node.text(strip=True))


class BlockWriter:
    """Writes the text below an element as blocks."""

    def __init__(self, writer: Writer, limits: Limits, keep_all: bool = False) -> None:
        self._writer = writer
        self._deepest = 2 * limits.max_depth
        self._keep_all = keep_all

    def write(self, node: LexborNode) -> None:
        """Write one element and what is in it."""
        self._block(node, 0, 0)

    def _skips(self, node: LexborNode, depth: int) -> bool:
        if self._keep_all:
            return node.tag in _SKIPPED - {"nav", "button", "dialog"}
        if node.tag in ("header", "footer") and depth <= 4 and _is_of_page(node):
            return node.css_first("h1") is None
        return is_skipped(node)

    def _children(self, node: LexborNode, depth: int, lists: int) -> None:
        """Write runs of inline content as paragraphs and the rest as blocks."""
        run: list[str] = []
        for child in node.iter(include_text=True):
            tag = child.tag or ""
            if tag == "-text":
                run.append(_SPACE.sub(" ", child.text_content or ""))
            elif self._skips(child, depth):
                continue
            elif tag in _INLINE and not _has_blocks(child):
                run.append(self._inline(child, depth + 1))
            else:
                self._paragraph(run)
                self._block(child, depth + 1, lists)
            if self._writer.full:
                return
        self._paragraph(run)

    def _paragraph(self, run: list[str]) -> None:
        text = _tidy("".join(run))
        run.clear()
        if text:
            self._writer.paragraph(text)

    def _block(self, node: LexborNode, depth: int, lists: int) -> None:
        tag = node.tag or ""
        if depth > self._deepest:
            self._writer.paragraph(_tidy(node.text(deep=True, separator=" ")))
        elif tag in _HEADINGS:
            title = _PERMALINK.sub("", _tidy(self._inline(node, depth, plain=True)))
            self._writer.heading(_HEADINGS[tag], title, _anchor_of(node))
        elif tag == "pre":
            self._writer.code(node.text(deep=True), _language_of(node))
        elif tag in ("ul", "ol", "menu", "dir"):
            self._list(node, depth, lists)
        elif tag == "table" and not _is_layout(node):
            self._table(node, depth)
        elif tag == "hr":
            return
        elif tag in ("dd", "li"):
            self._item(node, depth, lists, "-")
        else:
            self._children(node, depth, lists)

    def _list(self, node: LexborNode, depth: int, lists: int) -> None:
        number = 0
        for child in node.iter():
            if self._skips(child, depth):
                continue
            if child.tag == "li":
                number += 1
                marker = f"{number}." if node.tag == "ol" else "-"
                self._item(child, depth + 1, lists, marker)
            else:
                self._block(child, depth + 1, lists + 1)

    def _item(self, node: LexborNode, depth: int, lists: int, marker: str) -> None:
        """Write the first run of inline content as a list item, and what follows as blocks."""
        run: list[str] = []
        written = False
        for child in node.iter(include_text=True):
            tag = child.tag or ""
            if tag == "-text":
                run.append(_SPACE.sub(" ", child.text_content or ""))
            elif self._skips(child, depth):
                continue
            elif (tag in _INLINE or (tag == "p" and not written)) and not _has_blocks(child):
                run.append(self._inline(child, depth + 1))
                if tag == "p":
                    written = self._end_item(run, lists, marker, written)
            else:
                written = self._end_item(run, lists, marker, written)
                self._block(child, depth + 1, lists + 1)
        self._end_item(run, lists, marker, written)

    def _end_item(self, run: list[str], lists: int, marker: str, written: bool) -> bool:
        text = _tidy("".join(run))
        run.clear()
        if text and written:
            self._writer.paragraph(text)
        elif text:
            self._writer.item(lists, text, marker)
        return written or bool(text)

    def _inline(self, node: LexborNode, depth: int, plain: bool = False) -> str:
        """Return the text of an element on one line, with links and code marked."""
        tag = node.tag or ""
        if tag == "br":
            return "\n"
        if tag == "math":
            source = node.css_first("annotation") or node
            return _SPACE.sub(" ", source.text(deep=True))
        if tag == "img":
            return f" {node.attributes.get('alt') or ''} "
        if depth > self._deepest:
            return _SPACE.sub(" ", node.text(deep=True, separator=" "))
        parts = []
        for child in node.iter(include_text=True):
            if child.tag == "-text":
                parts.append(_SPACE.sub(" ", child.text_content or ""))
            elif not self._skips(child, self._deepest):
                inner = self._inline(child, depth + 1, plain)
                parts.append(inner if child.tag in _INLINE else f" {inner} ")
        text = "".join(parts)
        if plain:
            return text
        if tag in ("code", "kbd", "samp", "tt") and text.strip() and "`" not in text:
            return f"`{text.strip()}`"
        if tag == "a":
            return _spaced_link(text, node.attributes.get("href") or "")
        return text

    def _table(self, node: LexborNode, depth: int) -> None:
        rows: list[list[str]] = []
        above: dict[int, tuple[int, str]] = {}
        for row in _rows(node):
            if row.tag == "caption":
                self._writer.paragraph(_tidy(self._inline(row, depth + 1)))
            elif len(rows) < _MOST_ROWS:
                rows.append(self._cells(row, depth + 1, above))
        self._writer.table(rows)

    def _cells(self, row: LexborNode, depth: int, above: dict[int, tuple[int, str]]) -> list[str]:
        """Return the cells of a row; repeat a cell that spans several rows or columns in each."""
        cells: list[str] = []

        def fill_from_above() -> None:
            while len(cells) in above and len(cells) < _MOST_CELLS:
                left, value = above.pop(len(cells))
                if left > 1:
                    above[len(cells)] = (left - 1, value)
                cells.append(value)

        for cell in row.iter():
            if cell.tag not in ("td", "th") or self._skips(cell, self._deepest):
                continue
            fill_from_above()
            text = _tidy(self._inline(cell, depth))
            for _ in range(_span(cell, "colspan")):
                rows = _span(cell, "rowspan")
                if rows > 1:
                    above[len(cells)] = (rows - 1, text)
                cells.append(text)
                text = ""
            if len(cells) >= _MOST_CELLS:
                break
        fill_from_above()
        return cells


def _is_of_page(node: LexborNode) -> bool:
    """Whether a header or footer belongs to the page, and not to an article or section."""
    parent = node.parent
    while parent is not None and parent.tag not in ("article", "section", "main", "body"):
        parent = parent.parent
    return parent is None or parent.tag == "body"


def _has_blocks(node: LexborNode) -> bool:
    if node.tag == "math":
        return False
    for child in node.iter():
        if child.tag not in _INLINE and child.tag not in _SKIPPED:
            return True
        if child.tag == "a" and any(inner.tag not in _INLINE for inner in child.iter()):
            return True
    return False


def _is_layout(table: LexborNode) -> bool:
    """Whether a table only arranges the page: it has one column, or blocks in its cells."""
    if (table.attributes.get("role") or "") == "presentation":
        return True
    if table.css_first("table table, h1, h2, h3, pre") is not None or table.css_first("tr") is None:
        return True
    return all(sum(1 for _ in row.iter()) < 2 for row in _rows(table) if row.tag == "tr")


def _rows(table: LexborNode) -> list[LexborNode]:
    rows = []
    for child in table.iter():
        if child.tag in ("thead", "tbody", "tfoot"):
            rows += [row for row in child.iter() if row.tag == "tr"]
        elif child.tag in ("tr", "caption"):
            rows.append(child)
    return rows


def _span(cell: LexborNode, name: str) -> int:
    value = cell.attributes.get(name) or "1"
    return max(1, min(int(value), 50)) if re.fullmatch(r"[0-9]{1,4}", value) else 1


def _anchor_of(heading: LexborNode) -> str:
    """Return the id by which links reach a heading."""
    candidates = [heading.attributes.get("id")]
    candidates += [
        anchor.attributes.get("id") or anchor.attributes.get("name")
        for anchor in heading.css("a, span")
    ]
    parent = heading.parent
    if parent is not None and parent.tag in ("section", "div") and parent.first_child is not None:
        first = next((child for child in parent.iter()), None)
        if first is not None and first.mem_id == heading.mem_id:
            candidates.append(parent.attributes.get("id"))
    for name in candidates:
        if name and len(name) <= 200 and _ANCHOR.fullmatch(name):
            return name
    return ""


def _language_of(block: LexborNode) -> str:
    """Return the language of a code block by its classes, or those of its code or its parent."""
    nodes = [block, block.css_first("code"), block.parent]
    nodes.append(block.parent.parent if block.parent is not None else None)
    for node in nodes:
        if node is None:
            continue
        match = _LANGUAGE.search(node.attributes.get("class") or "")
        if match and match[1].lower() not in ("default", "none", "source"):
            return match[1].lower()
    return ""


def _spaced_link(text: str, target: str) -> str:
    """Return a link, with leading and trailing spaces of its text moved outside the link."""
    inner = text.strip()
    if not inner or "](" in inner or "\n" in inner or not target or target == "#":
        return text
    before = text[: len(text) - len(text.lstrip())]
    return f"{before}{link(inner, target)}{text[len(text.rstrip()) :]}"


def _tidy(text: str) -> str:
    """Return a text without repeated spaces and without spaces around line breaks."""
    return _AROUND_BREAK.sub("\n", re.sub(r"[ \xa0]{2,}", " ", text)).strip()
