"""Extract PPTX: slides in order with titles, text, tables, diagrams and speaker notes.

Places are ``slide=N``, counted from 1, including hidden slides.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from lookfar.text.extract.archive import Archive, attribute, child, local_name, relations
from lookfar.text.extract.extracted import CannotExtract, Extracted, Limits
from lookfar.text.extract.word import read_title
from lookfar.text.extract.writer import Writer, join_words, link

_NOT_CONTENT = ("dt", "ftr", "sldNum", "hdr", "sldImg")
_MOST_CELLS = 200


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


def _paragraphs(element: Element) -> Iterator[Element]:
    for item in element.iter():
        if local_name(item.tag) == "p":
            yield item


def _has_no_bullet(paragraph: Element) -> bool:
    return child(paragraph, "pPr", "buNone") is not None
