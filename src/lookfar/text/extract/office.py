"""Extract DOCX and PPTX: text with its structure, tables and links; slides with their notes.

Deleted text of tracked changes is dropped and inserted text is kept. Macros are never read. Places
of a presentation are ``slide=N``, counted from 1, including hidden slides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from lookfar.text.extract.archive import Archive, attribute, child, local_name, relations
from lookfar.text.extract.extracted import (
    CannotExtract,
    Extracted,
    Limits,
    Writer,
    join_words,
    link,
)

_HEADING = re.compile(r"(?:heading|überschrift|titre|título|titolo|kop|見出し)\s*([1-9])", re.I)
_CODE = re.compile(r"source ?code|html preformatted|preformatted|verbatim|^code|code block", re.I)
_DELETED = frozenset(("del", "moveFrom", "Fallback", "instrText", "delText", "comment"))
_MOST_COLUMNS = 200
_MOST_BASES = 20
_LIST_LEVELS = tuple("012345678")
_NOT_CONTENT = ("dt", "ftr", "sldNum", "hdr", "sldImg")
_MOST_CELLS = 200


@dataclass(slots=True)
class _Style:
    level: int = 0
    """The level of a heading; 0 for other paragraphs."""
    is_code: bool = False
    number: str = ""
    """The id of the list that paragraphs of this style belong to; ``"0"`` for none."""
    list_level: int = -1
    """Their level in the list; -1 if the style does not say."""
    base: str = ""
    """The id of the style that this one is based on."""


@dataclass(slots=True)
class _Parts:
    """What paragraphs refer to in other parts of the file."""

    styles: dict[str, _Style] = field(default_factory=dict)
    bullets: set[tuple[str, int]] = field(default_factory=set)
    """Numbering id and level of lists with bullets."""
    links: dict[str, str] = field(default_factory=dict)


def extract_docx(data: bytes, limits: Limits) -> Extracted:
    """Extract the body of a document, then its notes."""
    archive = Archive(data, limits)
    main = _main_part(archive)
    targets = relations(archive, main)
    parts = _Parts(links={key: target for key, (kind, target) in targets.items()
                          if kind == "hyperlink"})  # fmt: skip
    by_kind = dict(targets.values())
    _read_styles(archive.parse_optional(by_kind.get("styles", "")), parts)
    _read_numbering(archive.parse_optional(by_kind.get("numbering", "")), parts)
    _inherit_styles(parts.styles)
    writer = Writer(limits)
    body = child(archive.parse(main), "body")
    if body is None:
        raise CannotExtract("damaged", "the document has no body")
    document = _WordWriter(writer, parts)
    document.write(body)
    for kind in ("footnotes", "endnotes"):
        notes = archive.parse_optional(by_kind.get(kind, ""))
        if notes is not None:
            document.write_notes(notes)
    return writer.finish(read_title(archive, "docProps/core.xml"))


def read_title(archive: Archive, part: str) -> str:
    """Return the title in the metadata of an office document."""
    root = archive.parse_optional(part)
    for item in root.iter() if root is not None else ():
        if local_name(item.tag) == "title":
            return item.text or ""
    return ""


def _main_part(archive: Archive) -> str:
    for kind, target in relations(archive, "").values():
        if kind == "officeDocument" and target in archive:
            return target
    if "word/document.xml" in archive:
        return "word/document.xml"
    raise CannotExtract("damaged", "the file is not a Word document")


def _read_styles(root: Element | None, parts: _Parts) -> None:
    """Find the styles of headings, code and lists."""
    for item in root if root is not None else ():
        if local_name(item.tag) != "style":
            continue
        name = _value(item, "name")
        match = _HEADING.match(name)
        level = int(match[1]) if match else 1 if name.lower() == "title" else 0
        outline = child(item, "pPr", "outlineLvl")
        if not level and outline is not None and attribute(outline, "val") in set("012345678"):
            level = int(attribute(outline, "val")) + 1
        number, list_level = _list_of(child(item, "pPr", "numPr"))
        parts.styles[attribute(item, "styleId")] = _Style(
            level, bool(_CODE.search(name)), number, list_level, _value(item, "basedOn")
        )


def _inherit_styles(styles: dict[str, _Style]) -> None:
    """Give each style what it does not say itself but a style says that it is based on."""
    for style in styles.values():
        base = styles.get(style.base)
        for _ in range(_MOST_BASES):
            if base is None:
                break
            style.level = style.level or base.level
            style.is_code = style.is_code or base.is_code
            style.number = style.number or base.number
            style.list_level = base.list_level if style.list_level < 0 else style.list_level
            base = styles.get(base.base)


def _read_numbering(root: Element | None, parts: _Parts) -> None:
    """Find out which levels of which lists have bullets, and the levels that styles stand for."""
    items = list(root) if root is not None else []
    abstract = {
        attribute(item, "abstractNumId"): item
        for item in items
        if local_name(item.tag) == "abstractNum"
    }
    lists = {
        attribute(item, "numId"): abstract.get(_value(item, "abstractNumId"))
        for item in items
        if local_name(item.tag) == "num"
    }
    for number, definition in lists.items():
        link = _value(definition, "numStyleLink") if definition is not None else ""
        if link in parts.styles:  # The levels are those of the list of another style.
            definition = lists.get(parts.styles[link].number)
        for item in definition if definition is not None else ():
            if local_name(item.tag) == "lvl" and attribute(item, "ilvl") in _LIST_LEVELS:
                level = int(attribute(item, "ilvl"))
                if _value(item, "numFmt") == "bullet":
                    parts.bullets.add((number, level))
                style = parts.styles.get(_value(item, "pStyle"))
                if style is not None and style.number == number and style.list_level < 0:
                    style.list_level = level


def _list_of(properties: Element | None) -> tuple[str, int]:
    """Return the id and the level in the properties of a list; ``""`` and -1 if they are absent."""
    if properties is None:
        return "", -1
    level = _value(properties, "ilvl")
    return _value(properties, "numId"), int(level) if level in _LIST_LEVELS else -1


def _value(element: Element, name: str) -> str:
    item = child(element, name)
    return attribute(item, "val") if item is not None else ""


class _WordWriter:
    def __init__(self, writer: Writer, parts: _Parts) -> None:
        self._writer = writer
        self._parts = parts
        self._code: list[str] = []
        self._numbers: dict[tuple[str, int], int] = {}

    def write(self, body: Element) -> None:
        """Write the paragraphs and tables of a body or another container."""
        for item in body:
            name = local_name(item.tag)
            if name == "p":
                self._paragraph(item)
            elif name == "tbl":
                self._flush_code()
                self._table(item)
            elif name not in _DELETED:
                self.write(item)  # Content controls, inserted text and the like.
            if self._writer.full:
                return
        self._flush_code()

    def write_notes(self, root: Element) -> None:
        """Write footnotes as Markdown footnotes."""
        for note in root:
            if attribute(note, "type") in ("separator", "continuationSeparator"):
                continue
            text = " ".join(self._text(item) for item in _paragraphs(note)).strip()
            if text:
                self._writer.paragraph(f"[^{attribute(note, 'id')}]: {text}")

    def _paragraph(self, paragraph: Element) -> None:
        style = self._parts.styles.get(_style_id(paragraph), _Style())
        text = self._text(paragraph)
        if style.is_code:
            self._code.append(text)
            return
        self._flush_code()
        number, level = _numbering(paragraph, style)
        heading = style.level or _outline_level(paragraph)
        if heading:
            self._writer.heading(heading, _without_links(text))
        elif number:
            self._writer.item(level, text, self._marker(number, level))
        else:
            self._writer.paragraph(text)
        for box in _text_boxes(paragraph):
            self.write(box)

    def _marker(self, number: str, level: int) -> str:
        if (number, level) in self._parts.bullets:
            return "-"
        count = self._numbers.get((number, level), 0) + 1
        self._numbers[number, level] = count
        for key in [key for key in self._numbers if key[0] == number and key[1] > level]:
            del self._numbers[key]
        return f"{count}."

    def _flush_code(self) -> None:
        if self._code:
            self._writer.code("\n".join(self._code))
            self._code = []

    def _table(self, table: Element) -> None:
        rows = []
        for row in _inside(table, "tr"):
            cells: list[str] = []
            for cell in _inside(row, "tc"):
                span = child(cell, "tcPr", "gridSpan")
                width = attribute(span, "val") if span is not None else "1"
                cells.append(" ".join(self._text(item) for item in _paragraphs(cell)))
                extra = int(width) - 1 if width.isdecimal() and len(width) < 4 else 0
                cells += [""] * min(extra, _MOST_COLUMNS)
            rows.append(cells[:_MOST_COLUMNS])
        if rows and max(len(row) for row in rows) == 1:
            for row in _inside(table, "tr"):  # A frame around text.
                for cell in _inside(row, "tc"):
                    self.write(cell)
        else:
            self._writer.table(rows)

    def _text(self, element: Element) -> str:
        """Return the text of a paragraph or of a part of it, with links."""
        parts: list[str] = []
        for item in element:
            name = local_name(item.tag)
            if name == "t":
                parts.append(item.text or "")
            elif name in ("tab", "ptab"):
                parts.append("\t")
            elif name in ("br", "cr"):
                parts.append("\n")
            elif name == "noBreakHyphen":
                parts.append("-")
            elif name == "sym":
                parts.append(" ")
            elif name == "hyperlink":
                key = next((v for k, v in item.items() if k.endswith("}id")), "")
                parts.append(link(self._text(item), self._parts.links.get(key, "")))
            elif name in ("footnoteReference", "endnoteReference"):
                parts.append(f"[^{attribute(item, 'id')}]")
            elif name not in _DELETED and name not in ("txbxContent", "pPr", "rPr"):
                parts.append(self._text(item))
        return "".join(parts)


def _style_id(paragraph: Element) -> str:
    style = child(paragraph, "pPr", "pStyle")
    return attribute(style, "val") if style is not None else ""


def _outline_level(paragraph: Element) -> int:
    outline = child(paragraph, "pPr", "outlineLvl")
    value = attribute(outline, "val") if outline is not None else ""
    return int(value) + 1 if value in tuple("012345") else 0


def _numbering(paragraph: Element, style: _Style) -> tuple[str, int]:
    """Return the id of the list that a paragraph is in, and its level there."""
    number, level = _list_of(child(paragraph, "pPr", "numPr"))
    number = number or style.number
    level = style.list_level if level < 0 else level
    return ("" if number == "0" else number), max(0, level)


def _inside(element: Element, name: str) -> Iterator[Element]:
    """Yield the rows of a table or the cells of a row, including those in content controls."""
    for item in element:
        if local_name(item.tag) == name:
            yield item
        elif local_name(item.tag) in ("sdt", "sdtContent", "ins", "customXml"):
            yield from _inside(item, name)


def _paragraphs(element: Element) -> Iterator[Element]:
    for item in element.iter():
        if local_name(item.tag) == "p":
            yield item


def _text_boxes(paragraph: Element) -> Iterator[Element]:
    """Yield the contents of each text box once: files repeat them for older programs."""
    for item in paragraph:
        name = local_name(item.tag)
        if name == "txbxContent":
            yield item
        elif name not in _DELETED:
            yield from _text_boxes(item)


def _without_links(text: str) -> str:
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def extract_pptx(data: bytes, limits: Limits) -> Extracted:
    """Extract the slides of a presentation with their notes."""
    archive = Archive(data, limits)
    main = "ppt/presentation.xml"
    for kind, target in relations(archive, "").values():
        if kind == "officeDocument":
            main = target
    if main not in archive:
        raise CannotExtract("damaged", "the file is not a PowerPoint presentation")
    targets = relations(archive, main)
    slides = child(archive.parse(main), "sldIdLst")
    writer = Writer(limits)
    for number, item in enumerate(slides if slides is not None else (), 1):
        writer.place(f"slide={number}")
        part = targets.get(_relation_id(item), ("", ""))[1]
        if part in archive:
            _SlideWriter(archive, writer, part).write(number)
        else:
            writer.warnings.append(f"slide {number} is missing in the file")
    return writer.finish(read_title(archive, "docProps/core.xml"))


def _relation_id(element: Element) -> str:
    return next((value for key, value in element.items() if key.endswith("}id")), "")


class _SlideWriter:
    def __init__(self, archive: Archive, writer: Writer, part: str) -> None:
        self._archive = archive
        self._writer = writer
        self._root = archive.parse(part)
        self._targets = relations(archive, part)

    def write(self, number: int) -> None:
        """Write one slide: its title first, then the other shapes, then its notes."""
        shapes = list(_shapes(self._root))
        titles = [shape for shape in shapes if _placeholder(shape) in ("title", "ctrTitle")]
        title = " ".join(self._text(item) for shape in titles for item in _paragraphs(shape))
        self._writer.heading(2, join_words(title) or f"Slide {number}")
        for shape in shapes:
            if shape not in titles and _placeholder(shape) not in _NOT_CONTENT:
                self._shape(shape)
        self._diagrams()
        self._notes()

    def _shape(self, shape: Element) -> None:
        tables = [item for item in shape.iter() if local_name(item.tag) == "tbl"]
        for table in tables:
            rows = []
            for row in table:
                if local_name(row.tag) == "tr":
                    cells = [cell for cell in row if local_name(cell.tag) == "tc"]
                    rows.append([self._cell(cell) for cell in cells[:_MOST_CELLS]])
            self._writer.table(rows)
        if tables:
            return
        bulleted = _placeholder(shape) in ("body", "obj", "")
        paragraphs = list(_paragraphs(shape))
        for paragraph in paragraphs:
            properties = child(paragraph, "pPr")
            level = attribute(properties, "lvl") if properties is not None else ""
            text = self._text(paragraph)
            if bulleted and (len(paragraphs) > 1 or level) and not _has_no_bullet(paragraph):
                self._writer.item(int(level) if level in tuple("012345678") else 0, text)
            else:
                self._writer.paragraph(text)

    def _cell(self, cell: Element) -> str:
        return " ".join(self._text(item) for item in _paragraphs(cell))

    def _diagrams(self) -> None:
        for kind, target in self._targets.values():
            if kind == "diagramData" and target in self._archive:
                for paragraph in _paragraphs(self._archive.parse(target)):
                    self._writer.item(0, self._text(paragraph))

    def _notes(self) -> None:
        for kind, target in self._targets.values():
            if kind != "notesSlide" or target not in self._archive:
                continue
            texts = [
                self._text(paragraph)
                for shape in _shapes(self._archive.parse(target))
                if _placeholder(shape) == "body"
                for paragraph in _paragraphs(shape)
            ]
            if any(text.strip() for text in texts):
                self._writer.heading(3, "Notes")
                for text in texts:
                    self._writer.paragraph(text)

    def _text(self, paragraph: Element) -> str:
        parts = []
        for item in paragraph:
            name = local_name(item.tag)
            if name in ("r", "fld"):
                text = "".join(part.text or "" for part in item if local_name(part.tag) == "t")
                target = child(item, "rPr", "hlinkClick")
                if target is not None:
                    kind, place = self._targets.get(_relation_id(target), ("", ""))
                    text = link(text, place if kind == "hyperlink" else "")
                parts.append(text)
            elif name == "br":
                parts.append("\n")
        return "".join(parts)


def _shapes(root: Element) -> Iterator[Element]:
    """Yield shapes, pictures and frames with text, including those in groups."""
    for item in root:
        name = local_name(item.tag)
        if name in ("sp", "graphicFrame", "cxnSp"):
            yield item
        elif name in ("cSld", "spTree", "grpSp", "AlternateContent", "Choice"):
            yield from _shapes(item)


def _placeholder(shape: Element) -> str:
    """Return the kind of a placeholder (``obj`` if it has none), or empty for other shapes."""
    for first in shape:
        if local_name(first.tag) == "nvSpPr":
            item = child(first, "nvPr", "ph")
            return (attribute(item, "type") or "obj") if item is not None else "other"
    return ""


def _has_no_bullet(paragraph: Element) -> bool:
    return child(paragraph, "pPr", "buNone") is not None
