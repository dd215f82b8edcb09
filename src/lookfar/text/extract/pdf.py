"""Extract PDF files with PDFium: reading order, headings, tables, code and links, by page.

Places are ``page=N``, counted from 1 as viewers do, whatever number is printed on the page. Pages
without text are named in the warnings. Scripts and forms of the file are never run.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from lookfar.text.extract.extracted import CannotExtract, Extracted, Limits, Writer, join_words
from lookfar.text.extract.pdf_blocks import PageWriter, find_table, learn_style, title_key
from lookfar.text.extract.pdf_lines import Cell, Line, read_lines

_MARGIN = 0.12
"""The share of the page height, at the top and at the bottom, for headers and footers."""
_FEWEST_REPEATS = 3
_NUMBER = re.compile(r"\d+|\b[ivxlc]+\b", re.IGNORECASE)
_DEEPEST_CUT = 12
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


def order_lines(lines: list[Line]) -> list[Line]:
    """Return the lines of a page in the order in which a person reads them."""
    lines = _split_columns(lines)
    jumps = sum(1 for before, after in pairwise(lines) if after.bottom > before.top)
    # Columns, a header and a footer cause a few jumps on any page.
    if jumps > 4 and jumps * 5 > len(lines):
        return _cut(lines, 0)
    return lines


def _split_columns(lines: list[Line]) -> list[Line]:
    """Split lines that run across two columns of prose; return all left parts, then the right."""
    halves = {id(line): line.wide_cells() for line in lines}
    pairs = [cells for cells in halves.values() if len(cells) == 2]
    if len(pairs) < 8 or len(pairs) * 2 < len(lines):
        return lines
    letters = sum(len(cell.text) for cells in pairs for cell in cells)
    gutter_left = sorted(cells[0].right for cells in pairs)[-1 - len(pairs) // 10]
    gutter_right = sorted(cells[1].left for cells in pairs)[len(pairs) // 10]
    if letters < 40 * len(pairs) or gutter_left > gutter_right:
        return lines
    gutter = (gutter_left + gutter_right) / 2
    ordered: list[Line] = []
    right: list[Line] = []
    for line in lines:
        cells = halves[id(line)]
        if len(cells) == 2 and cells[0].right <= gutter <= cells[1].left:
            ordered.append(_part(line, cells[0]))
            right.append(_part(line, cells[1]))
        elif line.left >= gutter:
            right.append(line)
        elif line.right <= gutter:
            ordered.append(line)
        else:  # A line across the page ends both columns.
            ordered += [*right, line]
            right = []
    return ordered + right


def _part(line: Line, cell: Cell) -> Line:
    return Line(
        cell.text, cell.left, cell.right, line.bottom, line.top, line.size, line.bold,
        line.monospaced, cell.text.endswith("-"),
    )  # fmt: skip


def _cut(lines: list[Line], depth: int) -> list[Line]:
    """Order lines by the widest white space: rows from the top, then columns from the left."""
    if len(lines) < 2 or depth > _DEEPEST_CUT:
        return sorted(lines, key=lambda line: (-line.top, line.left))
    size = sorted(line.size for line in lines)[len(lines) // 2]
    columns = _gap([(line.left, line.right) for line in lines], size)
    rows = _gap([(-line.top, -line.bottom) for line in lines], size * 0.9)
    if columns is not None:
        first = [line for line in lines if line.right <= columns]
        second = [line for line in lines if line.right > columns]
    elif rows is not None:
        first = [line for line in lines if -line.bottom <= rows]
        second = [line for line in lines if -line.bottom > rows]
    else:
        return sorted(lines, key=lambda line: (-line.top, line.left))
    return _cut(first, depth + 1) + _cut(second, depth + 1)


def _gap(intervals: list[tuple[float, float]], least: float) -> float | None:
    """Return the middle of the widest gap between intervals, or ``None``."""
    best, where = least, None
    reach = None
    for start, end in sorted(intervals):
        if reach is not None and start - reach > best:
            best, where = start - reach, (start + reach) / 2
        reach = end if reach is None else max(reach, end)
    return where


def drop_furniture(pages: Sequence[list[Line]], heights: Sequence[float]) -> int:
    """Remove headers, footers and page numbers that repeat; return how many lines were removed."""
    seen: dict[str, Counter[int]] = defaultdict(Counter)
    edges: list[list[tuple[Line, str]]] = []
    for lines, height in zip(pages, heights, strict=True):
        rows = [
            (line, _repeat_key(line, height))
            for number, line in enumerate(lines)
            # A table that goes on over several pages may repeat its header row on each of them.
            if (line.bottom > height * (1 - _MARGIN) or line.top < height * _MARGIN)
            and not find_table(lines, number)[0]
        ]
        edges.append(rows)
        for line, key in {key: (line, key) for line, key in rows}.values():
            seen[key][round(line.middle / 4)] += 1
    dropped = 0
    for lines, rows in zip(pages, edges, strict=True):
        repeated = {
            id(line)
            for line, key in rows
            if sum(seen[key][round(line.middle / 4) + step] for step in (-1, 0, 1))
            >= max(_FEWEST_REPEATS, len(pages) // 50)
        }
        dropped += len(repeated)
        lines[:] = [line for line in lines if id(line) not in repeated]
    return dropped


def _repeat_key(line: Line, height: float) -> str:
    """Return what a header has in common on all pages: its words without numbers."""
    side = "top" if line.middle > height / 2 else "bottom"
    return f"{side} {_NUMBER.sub('#', line.text).casefold()}"
