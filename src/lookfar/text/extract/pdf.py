"""Extract PDF files with PDFium: reading order, headings, tables, code and links, by page.

Places are ``page=N``, counted from 1 as viewers do, whatever number is printed on the page. Pages
without text are named in the warnings. Scripts and forms of the file are never run.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import islice
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from lookfar.text.extract.extracted import CannotExtract, Extracted, Limits
from lookfar.text.extract.pdf_blocks import PageWriter, learn_style, title_key
from lookfar.text.extract.pdf_lines import Line, read_lines
from lookfar.text.extract.pdf_order import drop_furniture, order_lines
from lookfar.text.extract.writer import Writer, join_words

_LARGEST_PAGE_CHARS = 2_000_000
_DEEPEST_OUTLINE = 12
_UNREADABLE = re.compile("[\0\ue000-\uf8ff\ufffd]")


def extract_pdf(data: bytes, limits: Limits) -> Extracted:
    """Extract the text of all pages."""
    document = _open(data)
    try:
        if len(document) > limits.max_parts:
            raise CannotExtract("too_large", f"the PDF has more than {limits.max_parts:,} pages")
        return _extract(document, limits)
    finally:
        document.close()


def _open(data: bytes) -> Any:
    try:
        return pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == pdfium.FPDF_ERR_PASSWORD:
            raise CannotExtract("encrypted", "the PDF is encrypted with a password") from error
        if getattr(error, "err_code", None) == pdfium.FPDF_ERR_SECURITY:
            raise CannotExtract("encrypted", "the PDF has an unknown kind of encryption") from error
        raise CannotExtract("damaged", "the file is damaged or is not a PDF") from error


def _extract(document: Any, limits: Limits) -> Extracted:
    writer = Writer(limits)
    pages: list[list[Line]] = []
    heights: list[float] = []
    scans: list[int] = []
    unreadable: list[int] = []
    letters = 0
    for number in range(1, len(document) + 1):
        lines, height, has_objects = _read_page(document, number - 1)
        pages.append(lines)
        heights.append(height)
        page_letters = sum(len(line.text) for line in lines)
        if not page_letters and has_objects:
            scans.append(number)
        if sum(len(_UNREADABLE.findall(line.text)) for line in lines) * 4 > page_letters > 0:
            unreadable.append(number)
        letters += page_letters
        if letters > limits.max_output_chars:
            writer.warnings.append(f"only the first {number:,} pages were read")
            break
    _warn(writer, scans, "no text (a scan?)")
    _warn(writer, unreadable, "text in a font without a Unicode table")
    drop_furniture(pages, heights)
    outline = _outline(document, limits)
    page_writer = PageWriter(writer, learn_style(pages))
    for number, lines in enumerate(pages, 1):
        writer.place(f"page={number}")
        page_writer.write(order_lines(lines), outline[number])
    return writer.finish(_title(document))


def _read_page(document: Any, index: int) -> tuple[list[Line], float, bool]:
    """Return the lines, the height, and whether anything is drawn on a page."""
    try:
        page = document[index]
    except pypdfium2.PdfiumError:
        return [], 0.0, True  # Only the damaged page is lost.
    try:
        height = page.get_height()
        text_page = page.get_textpage()
        try:
            if pdfium.FPDFText_CountChars(text_page) > _LARGEST_PAGE_CHARS:
                raise CannotExtract("too_large", f"page {index + 1} has too much text")
            lines = read_lines(document, page, text_page)
        finally:
            text_page.close()
        return lines, height, pdfium.FPDFPage_CountObjects(page) > 0
    except pypdfium2.PdfiumError:
        return [], 0.0, True
    finally:
        page.close()


def _outline(document: Any, limits: Limits) -> defaultdict[int, dict[str, int]]:
    """Return the levels of the titles in the outline, by page."""
    levels: defaultdict[int, dict[str, int]] = defaultdict(dict)
    try:
        for entry in islice(document.get_toc(max_depth=_DEEPEST_OUTLINE), limits.max_parts):
            target = entry.get_dest()
            page = target.get_index() if target else None
            key = title_key(entry.get_title())
            if page is not None and key:
                levels[page + 1].setdefault(key, min(6, entry.level + 1))
    except (pypdfium2.PdfiumError, UnicodeDecodeError):
        return levels  # Keep what was read of a damaged outline.
    return levels


def _title(document: Any) -> str:
    try:
        title = join_words(document.get_metadata_value("Title"))
    except (pypdfium2.PdfiumError, UnicodeDecodeError):
        return ""
    # PDF printers write the name of a file or "untitled" here.
    if re.search(r"\.\w{2,4}$|^untitled|^microsoft word", title, re.IGNORECASE):
        return ""
    return title


def _warn(writer: Writer, pages: list[int], fault: str) -> None:
    if len(pages) == 1:
        writer.warnings.append(f"page {pages[0]} has {fault}")
    elif pages:
        writer.warnings.append(f"pages {_ranges(pages)} have {fault}")


def _ranges(numbers: Iterable[int]) -> str:
    """Return ``3-5, 9`` for 3, 4, 5 and 9."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
