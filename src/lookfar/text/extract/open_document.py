"""Extract ODT and ODP: headings, lists, tables, code, links, notes and slides.

Tracked deletions and comments are dropped. Places of a presentation are ``slide=N``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from lookfar.text.extract.archive import Archive, attribute, child, local_name
from lookfar.text.extract.extracted import (
    CannotExtract,
    Extracted,
    Limits,
    Writer,
    join_words,
    link,
)
from lookfar.text.extract.office import read_title

_SKIPPED = frozenset(
    "tracked-changes annotation annotation-end forms sequence-decls variable-decls user-field-decls"
    " note-citation desc title settings event-listeners bibliography-mark-source"
    " table-of-content-source illustration-index-source".split()
)
_CODE = re.compile(r"preformatted|source|code", re.IGNORECASE)
_MOST_CELLS = 200


def extract_odt(data: bytes, limits: Limits) -> Extracted:
    """Extract the text of a document."""
    archive, root = _open(data, limits)
    body = child(root, "body", "text")
    if body is None:
        raise CannotExtract("damaged", "the file is not an OpenDocument text")
    writer = Writer(limits)
    document = _DocumentWriter(writer, root)
    document.write(body)
    document.write_notes()
    return writer.finish(read_title(archive, "meta.xml"))


def extract_odp(data: bytes, limits: Limits) -> Extracted:
    """Extract the slides of a presentation with their notes."""
    archive, root = _open(data, limits)
    body = child(root, "body", "presentation")
    if body is None:
        raise CannotExtract("damaged", "the file is not an OpenDocument presentation")
    writer = Writer(limits)
    pages = [item for item in body if local_name(item.tag) == "page"]
    for number, page in enumerate(pages, 1):
        writer.place(f"slide={number}")
        _write_slide(_DocumentWriter(writer, root), writer, page, number)
    return writer.finish(read_title(archive, "meta.xml"))


def _open(data: bytes, limits: Limits) -> tuple[Archive, Element]:
    archive = Archive(data, limits)
    manifest = archive.parse_optional("META-INF/manifest.xml")
    for item in manifest.iter() if manifest is not None else ():
        if local_name(item.tag) == "encryption-data":
            raise CannotExtract("encrypted", "the file is encrypted with a password")
    return archive, archive.parse("content.xml")


def _write_slide(document: _DocumentWriter, writer: Writer, page: Element, number: int) -> None:
    frames = [item for item in page if local_name(item.tag) != "notes"]
    titles = [item for item in frames if attribute(item, "class") == "title"]
    title = join_words(" ".join(document.text(part) for item in titles for part in _lines(item)))
    writer.heading(2, title or f"Slide {number}")
    for frame in frames:
        if frame not in titles:
            document.write(frame)
    notes = child(page, "notes")
    for frame in notes if notes is not None else ():
        if attribute(frame, "class") == "notes":
            if any(document.text(part).strip() for part in _lines(frame)):
                writer.heading(3, "Notes")
            document.write(frame)
    document.write_notes()


class _DocumentWriter:
    def __init__(self, writer: Writer, root: Element) -> None:
        self._writer = writer
        self._parents = _style_parents(root)
        self._numbered = _numbered_lists(root)
        self._code: list[str] = []
        self._notes: list[str] = []

    def write(
        self, body: Element, lists: int = -1, marker: str = "-", list_style: str = ""
    ) -> None:
        """Write the blocks of a container; ``lists`` is the depth of the list, or -1."""
        for item in body:
            name = local_name(item.tag)
            if name == "p":
                self._paragraph(item, lists, marker)
                continue
            self._flush_code()
            if name == "h":
                level = attribute(item, "outline-level")
                self._writer.heading(int(level) if level in tuple("123456") else 1, self.text(item))
            elif name == "list":
                self._list(item, lists + 1, attribute(item, "style-name") or list_style)
            elif name == "table":
                self._table(item)
            elif name not in _SKIPPED:
                self.write(item, lists)
            if self._writer.full:
                return
        self._flush_code()

    def _list(self, items: Element, lists: int, style: str) -> None:
        number = 0
        for item in items:
            if local_name(item.tag) == "list-item":
                number += 1
            numbered = (style, str(lists + 1)) in self._numbered
            self.write(item, lists, f"{number}." if numbered else "-", style)

    def write_notes(self) -> None:
        """Write the footnotes that the text so far refers to."""
        for number, text in enumerate(self._notes, 1):
            self._writer.paragraph(f"[^{number}]: {text}")
        self._notes = []

    def _paragraph(self, paragraph: Element, lists: int, marker: str) -> None:
        style = attribute(paragraph, "style-name")
        names = " ".join((style, self._parents.get(style, "")))
        text = self.text(paragraph)
        if _CODE.search(names):
            self._code.append(text)
            return
        self._flush_code()
        if style == "Title" or self._parents.get(style) == "Title":
            self._writer.heading(1, text)
        elif lists >= 0:
            self._writer.item(lists, text, marker)
        else:
            self._writer.paragraph(text)
        for box in _text_boxes(paragraph):
            self.write(box)

    def _flush_code(self) -> None:
        if self._code:
            self._writer.code("\n".join(self._code))
            self._code = []

    def _table(self, table: Element) -> None:
        rows = []
        for row in _rows(table):
            cells: list[str] = []
            for cell in row:
                if local_name(cell.tag) not in ("table-cell", "covered-table-cell"):
                    continue
                count = attribute(cell, "number-columns-repeated")
                times = int(count) if count.isdecimal() and len(count) < 4 else 1
                text = " ".join(self.text(item) for item in cell)
                cells += [text] * min(times, _MOST_CELLS)
            rows.append(cells[:_MOST_CELLS])
        self._writer.table(rows)

    def text(self, element: Element) -> str:
        """Return the text of an element, with links and references to notes."""
        parts = [element.text or ""] if local_name(element.tag) in ("p", "h", "span", "a") else []
        for item in element:
            name = local_name(item.tag)
            if name == "s":
                count = attribute(item, "c")
                parts.append(" " * (int(count) if count.isdecimal() and len(count) < 4 else 1))
            elif name == "tab":
                parts.append("\t")
            elif name == "line-break":
                parts.append("\n")
            elif name == "a":
                parts.append(link(self.text(item), attribute(item, "href")))
            elif name == "note":
                body = child(item, "note-body")
                if body is not None:
                    self._notes.append(join_words(" ".join(self.text(part) for part in body)))
                    parts.append(f"[^{len(self._notes)}]")
            elif name not in _SKIPPED and name != "text-box":
                inner = self.text(item)
                parts.append(
                    f"{inner} " if name in ("p", "h", "list-item", "table-cell") else inner
                )
                if not len(item) and name not in ("p", "h", "span"):
                    parts.append(item.text or "")  # Fields such as the page number.
            parts.append(item.tail or "" if local_name(element.tag) in _MIXED else "")
        return "".join(parts)


_MIXED = frozenset(("p", "h", "span", "a", "meta", "ruby-base"))
"""Elements whose direct text, between child elements, is part of the document."""


def _lines(element: Element) -> Iterator[Element]:
    for item in element.iter():
        if local_name(item.tag) in ("p", "h"):
            yield item


def _numbered_lists(root: Element) -> set[tuple[str, str]]:
    """Return the style name and level of each numbered list."""
    styles = child(root, "automatic-styles")
    return {
        (attribute(item, "name"), attribute(level, "level"))
        for item in (styles if styles is not None else ())
        if local_name(item.tag) == "list-style"
        for level in item
        if local_name(level.tag) == "list-level-style-number"
    }


def _style_parents(root: Element) -> dict[str, str]:
    styles = child(root, "automatic-styles")
    return {
        attribute(item, "name"): attribute(item, "parent-style-name")
        for item in (styles if styles is not None else ())
    }


def _rows(table: Element) -> Iterator[Element]:
    for item in table:
        name = local_name(item.tag)
        if name == "table-row":
            yield item
        elif name in ("table-header-rows", "table-rows", "table-row-group"):
            yield from _rows(item)


def _text_boxes(paragraph: Element) -> Iterator[Element]:
    for item in paragraph.iter():
        if local_name(item.tag) == "text-box":
            yield item
