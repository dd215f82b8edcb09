"""The table of formats that are extracted, and the function that runs an extractor.

It also tells templates and fragments of web applications from HTML pages that people read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Final, NamedTuple

from lookfar.text.extract.extracted import Extracted, Limits

Extractor = Callable[[bytes, Limits], Extracted]
_ANY = ("*",)
"""A file may contain all formats."""
_HEAD_OF_PAGE: Final = 262_144
_SAMPLE: Final = re.compile(rb"<(pre|code|script|style|textarea)\b|<!--", re.IGNORECASE)
"""The start of a part of a page that may show the syntax of templates to a reader."""
_MARKERS: Final = re.compile(
    rb"\{\{|\{%|<%|<\?php|\$\{|\s(?:\*ng[A-Z]|ng-[a-z]|v-[a-z]+[=:]|th:[a-z]+=|x-data=|hx-[a-z]+=)"
    rb"|\s[(\[@:][a-z][\w.-]*[)\]]?=\"|^[ \t]*@(?:if|for|switch|section|extends|include|foreach)\b",
    re.MULTILINE,
)
"""Placeholders, statements and attributes of template languages and frameworks."""


class ExtractedFormat(NamedTuple):
    """A format that is converted to Markdown before it is parsed."""

    name: str
    extensions: tuple[str, ...]
    extractor: str
    """``module.function`` in this package, imported when first needed."""
    version: int
    """Increased when the same bytes give another text or title; then the files are read again."""
    place: str
    """An example of the places in citations, or ``""``."""
    keeps: str
    loses: str
    contains: tuple[str, ...] = ()
    """Extensions of formats that a file may contain and that their own extractors read."""
    titled: bool = True
    """Whether the first heading is the title of the document. The name of a sheet, a heading of a
    PDF, the first part of a book and a node of a canvas are not."""


EXTRACTORS: tuple[ExtractedFormat, ...] = (
    ExtractedFormat(
        "PDF", (".pdf",), "pdf.extract_pdf", 3, "page=3",
        "text in reading order, headings by size and outline, aligned tables, code, links",
        "images, scans (named), forms, comments, repeated headers and footers, formulas",
        titled=False,
    ),
    ExtractedFormat(
        "Word", (".docx", ".docm", ".dotx"), "office.extract_docx", 2, "",
        "headings by style, lists, tables, code styles, links, footnotes, text boxes",
        "images, page numbers, headers and footers, comments, deleted text, bold and italics",
    ),
    ExtractedFormat(
        "OpenDocument text", (".odt", ".ott"), "open_document.extract_odt", 1, "",
        "headings, lists, tables, preformatted text, links, footnotes, text boxes",
        "images, formulas, page numbers, headers and footers, comments, deleted text",
    ),
    ExtractedFormat(
        "PowerPoint", (".pptx", ".pptm", ".ppsx"), "office.extract_pptx", 1, "slide=2",
        "titles, text, lists, tables, diagrams and speaker notes of every slide, links",
        "images, charts, formulas, animations, comments, footers",
    ),
    ExtractedFormat(
        "OpenDocument presentation", (".odp",), "open_document.extract_odp", 1, "slide=2",
        "titles, text, lists, tables and speaker notes of every slide, links",
        "images, charts, formulas, animations, comments",
    ),
    ExtractedFormat(
        "Spreadsheet", (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), "sheets.extract_sheets", 2,
        "Budget!A1:F40",
        "every sheet as tables with the header row repeated, values of formulas, dates",
        "formulas themselves, charts, comments, number formats, columns after the 256th",
        titled=False,
    ),
    ExtractedFormat(
        "CSV", (".csv", ".tsv"), "sheets.extract_csv", 2, "A1:F40",
        "all rows as tables with the header row repeated; the delimiter is detected",
        "line breaks inside values, columns after the 256th",
    ),
    ExtractedFormat(
        "EPUB", (".epub",), "html.extract_epub", 2, "part=2",
        "chapters in reading order, with all that is kept of HTML",
        "images, styles, books with copy protection", (".html",), titled=False,
    ),
    ExtractedFormat(
        "HTML", (".html", ".htm", ".xhtml"), "html.extract_html", 3, "",
        "main text, headings with their ids, lists, tables, code with its language, links",
        "navigation, scripts, styles, hidden parts, images except for their description",
    ),
    ExtractedFormat(
        "Jupyter notebook", (".ipynb",), "json_documents.extract_notebook", 1, "cell=4",
        "Markdown cells, code with its language, text of outputs and errors",
        "images, widgets, long outputs after their first lines",
    ),
    # Of both, the sum with what they contain must stay above that of earlier releases.
    ExtractedFormat(
        "Mail", (".eml",), "mail.extract_eml", 12, "part=2",
        "subject, sender, recipients, date, text, attachments by their own extractors",
        "other headers, HTML where there is plain text, attachments of unknown types (named)", _ANY,
    ),
    ExtractedFormat(
        "Mailbox", (".mbox",), "mail.extract_mbox", 12, "message=12",
        "every message, as mail",
        "as mail", _ANY,
    ),
    ExtractedFormat(
        "RTF", (".rtf",), "rtf.extract_rtf", 1, "",
        "paragraphs, headings by outline level or style, lists, tables, links, footnotes",
        "images, objects, headers and footers, bold and italics",
    ),
    ExtractedFormat(
        "Subtitles", (".srt", ".vtt"), "subtitles.extract_subtitles", 2, "time=00:12:30",
        "what is said, in paragraphs of half a minute, speakers of WebVTT",
        "styles, positions, the times of single cues",
    ),
    ExtractedFormat(
        "Canvas", (".canvas",), "json_documents.extract_canvas", 2, "node=ID",
        "texts, groups, links to files and pages, labels of arrows",
        "positions, colours, arrows without a label",
        titled=False,
    ),
)  # fmt: skip

_BY_EXTENSION = {ending: row for row in EXTRACTORS for ending in row.extensions}


def extractor_for(uri: str) -> ExtractedFormat | None:
    """Return the format of a file name or URI by its extension, or ``None``."""
    stem, dot, ending = uri.rpartition("/")[2].rpartition(".")
    return _BY_EXTENSION.get(f".{ending.lower()}") if stem and dot else None


def version_of(row: ExtractedFormat) -> int:
    """Return a number that grows with the version of a format and of all that it may contain."""
    endings = _BY_EXTENSION if row.contains == _ANY else row.contains
    return row.version + sum(_BY_EXTENSION[ending].version for ending in endings)


def extract(row: ExtractedFormat, data: bytes, limits: Limits | None = None) -> Extracted:
    """Extract the text of a file. Raises ``CannotExtract`` with a reason for users."""
    return _load(row.extractor)(data, limits or Limits())


@cache
def _load(extractor: str) -> Extractor:
    module, _, function = extractor.partition(".")
    loaded: Extractor = getattr(import_module(f"lookfar.text.extract.{module}"), function)
    return loaded


def is_template(raw: bytes) -> bool:
    """Whether an HTML file is the source of a program: its tags matter more than its text."""
    return _MARKERS.search(_drop_samples(raw[:_HEAD_OF_PAGE])) is not None


def _drop_samples(page: bytes) -> bytes:
    """Return a page without its samples of code, its scripts and its comments.

    This is a loop because a regular expression takes quadratic time if many tags are not closed.
    """
    parts = []
    unclosed: set[bytes] = set()
    start = position = 0
    while opening := _SAMPLE.search(page, position):
        position = opening.end()
        name = (opening[1] or b"").lower()
        closing = None if name in unclosed else _closing_of(name).search(page, position)
        if closing is None:
            unclosed.add(name)
        else:
            parts.append(page[start : opening.start()])
            start = position = closing.end()
    return b" ".join([*parts, page[start:]])


def _closing_of(name: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"</%b\s*>" % name if name else b"-->", re.IGNORECASE)
