"""Read the lines of a PDF page through PDFium: text, position, size, style and links.

PDFium is called once per word, not once per character, because each call takes a microsecond. It
returns words in reading order, but the letters of a right-to-left word in the order in which they
were drawn.
"""

from __future__ import annotations

import ctypes
import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pypdfium2.raw as pdfium

from lookfar.text.extract.extracted import link

_FIXED_PITCH = 1
_FORCED_BOLD = 1 << 18
_MONOSPACED = re.compile(r"mono|courier|consol|menlo|typewriter|cmtt|inconsolata|fixed", re.I)
_BOLD = re.compile(r"bold|black|heavy|semibold|demi", re.I)
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_PRESENTATION_FORM = re.compile("[\ufb00-\ufb06\ufb1d-\ufdff\ufe70-\ufefc]+")
# PDFium puts the rest of a hyphenated word directly after its hyphen, without a line break.
_WORD = re.compile("[^\\s\x02]*\x02|[^\\s\x02]+")
_HYPHEN = "\x02"
"""What PDFium returns for a hyphen at the end of a line; in longer texts it is U+FFFE."""
_CELL_GAP = 0.36
"""A gap between words that may separate table cells, as a multiple of the font size."""
_RIGHT_TO_LEFT_GAP = 0.6
"""The same between right-to-left words: the spaces of Arabic fonts are wider."""
_WIDE_GAP = 1.1
"""A gap that certainly separates cells or columns: justified lines rarely have one this wide."""
_MOST_LINKS = 500


@dataclass(slots=True)
class Cell:
    """A part of a line, separated from the others by more than a space."""

    text: str
    left: float
    right: float


@dataclass(slots=True)
class Line:
    """One line of a page; the origin of the coordinates is the bottom left corner."""

    text: str
    left: float
    right: float
    bottom: float
    top: float
    size: float
    bold: bool = False
    monospaced: bool = False
    hyphenated: bool = False
    """Whether the last word may continue on the next line."""
    cells: list[Cell] = field(default_factory=list)
    """The parts of the line, if there are at least two."""

    @property
    def middle(self) -> float:
        """The vertical centre."""
        return (self.bottom + self.top) / 2

    def wide_cells(self) -> list[Cell]:
        """Return the parts of the line between wide gaps only."""
        parts: list[Cell] = []
        for cell in self.cells:
            if parts and cell.left - parts[-1].right <= self.size * _WIDE_GAP:
                before = parts.pop()
                cell = Cell(f"{before.text} {cell.text}", before.left, cell.right)
            parts.append(cell)
        return parts


@dataclass(slots=True)
class _Word:
    text: str
    index: int
    """The index of its first character on the page."""
    left: float
    bottom: float
    right: float
    top: float


@dataclass(frozen=True, slots=True)
class _PageLink:
    left: float
    bottom: float
    right: float
    top: float
    target: str


class _Boxes:
    """Positions of characters of one text page."""

    def __init__(self, text_page: Any) -> None:
        self._page = text_page
        self._box = pdfium.FS_RECTF()
        self._matrix = pdfium.FS_MATRIX()
        self._flags = ctypes.c_int()
        self._name = ctypes.create_string_buffer(128)

    def box(self, index: int) -> tuple[float, float, float, float]:
        """Return left, bottom, right and top of a character."""
        box = self._box
        if not pdfium.FPDFText_GetLooseCharBox(self._page, index, ctypes.byref(box)):
            return 0.0, 0.0, 0.0, 0.0
        return box.left, box.bottom, box.right, box.top

    def size(self, index: int) -> float:
        """Return the visible font size: the nominal size scaled by the text matrix."""
        size = float(pdfium.FPDFText_GetFontSize(self._page, index))
        if pdfium.FPDFText_GetMatrix(self._page, index, ctypes.byref(self._matrix)):
            size *= math.hypot(self._matrix.c, self._matrix.d) or 1.0
        return size if math.isfinite(size) else 0.0

    def style(self, index: int) -> tuple[bool, bool]:
        """Return whether a character is bold, and whether it is monospaced."""
        length = pdfium.FPDFText_GetFontInfo(
            self._page, index, self._name, len(self._name), ctypes.byref(self._flags)
        )
        name = self._name.raw[: max(0, min(length, len(self._name)) - 1)].decode("utf-8", "replace")
        flags = self._flags.value
        bold = bool(_BOLD.search(name) or flags & _FORCED_BOLD)
        return bold, bool(_MONOSPACED.search(name) or flags & _FIXED_PITCH)


def read_lines(document: Any, page: Any, text_page: Any) -> list[Line]:
    """Return the lines of a page in the order of PDFium."""
    text = _page_text(text_page)
    boxes = _Boxes(text_page)
    links = list(_page_links(document, page))
    lines: list[Line] = []
    start = 0
    for row in text.split("\n"):
        lines += [_read_line(boxes, words, links) for words in _split_row(boxes, row, start)]
        start += len(row) + 1
    return lines


def _split_row(boxes: _Boxes, row: str, start: int) -> Iterator[list[_Word]]:
    """Yield the words of each line in a row: PDFium does not break every line."""
    words: list[_Word] = []
    for match in _WORD.finditer(row):
        begin, end = start + match.start(), start + match.end()
        left, bottom, right, top = boxes.box(begin)
        # Punctuation may be drawn at either end of a right-to-left word, so each letter counts.
        others = range(begin + 1, end) if _RIGHT_TO_LEFT.search(match[0]) else (end - 1,)
        for other in map(boxes.box, others):
            left, right = min(left, other[0]), max(right, other[2])
        word = _Word(match[0], begin, left, bottom, right, top)
        if words and (word.bottom >= words[-1].top or word.top <= words[-1].bottom):
            yield words
            words = []
        words.append(word)
    if words:
        yield words


def _page_text(text_page: Any) -> str:
    """Return the text with one character per PDFium index, so that offsets are also indexes."""
    count = pdfium.FPDFText_CountChars(text_page)
    if count <= 0:
        return ""
    buffer = ctypes.create_string_buffer(2 * (count + 1))
    pointer = ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort))
    written = pdfium.FPDFText_GetText(text_page, 0, count, pointer)
    text = buffer.raw[: 2 * max(0, written - 1)].decode("utf-16-le", "replace")
    text = text.replace("\ufffe", _HYPHEN)
    if len(text) != count:
        # The page has characters outside the BMP, or characters without text.
        codes = (pdfium.FPDFText_GetUnicode(text_page, index) for index in range(count))
        text = "".join(chr(code) if 0 < code < 0x110000 else "\0" for code in codes)
    return text


def _read_line(boxes: _Boxes, words: list[_Word], links: list[_PageLink]) -> Line:
    first = words[0]
    size = boxes.size(first.index) or (first.top - first.bottom)
    bold, monospaced = boxes.style(first.index)
    hyphenated = words[-1].text.endswith(_HYPHEN)
    if any(_RIGHT_TO_LEFT.search(word.text) for word in words):
        for word in words:
            _turn(boxes, word)
        words = _order_right_to_left(words)
    middle = (first.bottom + first.top) / 2
    if links:
        words = _insert_links(words, middle, links)
    text = _restore_spaces(words) if monospaced else _join(words)
    return Line(
        text, min(word.left for word in words), max(word.right for word in words),
        first.bottom, first.top, size, bold, monospaced, hyphenated, _split_cells(words, size),
    )  # fmt: skip


def _join(words: list[_Word]) -> str:
    return _unify(" ".join(word.text for word in words))


def _unify(text: str) -> str:
    """Replace hyphen marks, ligatures and presentation forms with ordinary characters."""
    text = text.replace(_HYPHEN, "-")
    return _PRESENTATION_FORM.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)


def _restore_spaces(words: list[_Word]) -> str:
    """Return a line of code with spaces that match the gaps on the page."""
    letters = sum(len(word.text) for word in words)
    width = sum(word.right - word.left for word in words) / letters
    if width <= 0:
        return _join(words)
    text = words[0].text
    for before, word in pairwise(words):
        text += " " * max(1, min(200, round((word.left - before.right) / width))) + word.text
    return _unify(text)


def _split_cells(words: list[_Word], size: float) -> list[Cell]:
    cells: list[Cell] = []
    begin = 0
    for index, (before, after) in enumerate(pairwise(words), 1):
        gap = max(after.left - before.right, before.left - after.right)
        is_foreign = _RIGHT_TO_LEFT.search(before.text) and _RIGHT_TO_LEFT.search(after.text)
        if gap > size * _CELL_GAP and not (is_foreign and gap <= size * _RIGHT_TO_LEFT_GAP):
            cells.append(_cell(words[begin:index]))
            begin = index
    return [*cells, _cell(words[begin:])] if cells else []


def _cell(words: list[_Word]) -> Cell:
    return Cell(_join(words), min(word.left for word in words), max(word.right for word in words))


def _turn(boxes: _Boxes, word: _Word) -> None:
    """Put the letters of a right-to-left word in reading order if they were drawn backwards."""
    letters = [match.start() for match in _RIGHT_TO_LEFT.finditer(word.text)]
    if len(letters) < 2:
        return
    begin, end = letters[0], letters[-1]
    if boxes.box(word.index + begin)[0] < boxes.box(word.index + end)[0]:
        text = word.text
        word.text = text[:begin] + _reverse(text[begin : end + 1]) + text[end + 1 :]


def _order_right_to_left(words: list[_Word]) -> list[_Word]:
    """Put the words of a right-to-left line in reading order."""
    foreign = [word for word in words if _RIGHT_TO_LEFT.search(word.text)]
    steps = sum(1 if after.left > before.left else -1 for before, after in pairwise(foreign))
    if steps <= 0 or len(foreign) * 2 < len(words):
        return words
    # The line was drawn from left to right: reverse it, but keep the order of Latin phrases.
    ordered: list[_Word] = []
    phrase: list[_Word] = []
    for word in reversed(words):
        if _RIGHT_TO_LEFT.search(word.text):
            ordered += [*reversed(phrase), word]
            phrase = []
        else:
            phrase.append(word)
    return ordered + phrase[::-1]


def _reverse(word: str) -> str:
    """Reverse a word; marks stay behind their letter, and numbers keep their direction."""
    clusters = re.findall(r"[\u0590-\u08ff\ufb1d-\ufefc][\u0300-\u036f\u0591-\u05bd\u064b-\u065f]*"
                          r"|[A-Za-z0-9.,]*[A-Za-z0-9]|.", word, re.DOTALL)  # fmt: skip
    return "".join(reversed(clusters))


def _page_links(document: Any, page: Any) -> Iterator[_PageLink]:
    """Yield the links of a page that lead to a URL."""
    position = ctypes.c_int(0)
    annotation = pdfium.FPDF_LINK()
    box = pdfium.FS_RECTF()
    for _ in range(_MOST_LINKS):
        if not pdfium.FPDFLink_Enumerate(page, ctypes.byref(position), ctypes.byref(annotation)):
            return
        action = pdfium.FPDFLink_GetAction(annotation)
        if not action or not pdfium.FPDFLink_GetAnnotRect(annotation, ctypes.byref(box)):
            continue
        length = pdfium.FPDFAction_GetURIPath(document, action, None, 0)
        if not 1 < length < 4096:
            continue
        buffer = ctypes.create_string_buffer(length)
        pdfium.FPDFAction_GetURIPath(document, action, buffer, length)
        target = buffer.value.decode("utf-8", "replace")
        yield _PageLink(box.left, box.bottom, box.right, box.top, target)


def _insert_links(words: list[_Word], middle: float, links: list[_PageLink]) -> list[_Word]:
    """Write the words that a link covers as a Markdown link. A visible URL stays as it is."""
    for item in links:
        if not item.bottom <= middle <= item.top:
            continue
        inside = [
            index
            for index, word in enumerate(words)
            if item.left - 1 <= (word.left + word.right) / 2 <= item.right + 1
        ]
        if not inside or inside[-1] - inside[0] + 1 != len(inside):
            continue
        part = words[inside[0] : inside[-1] + 1]
        whole = " ".join(word.text for word in part)
        label = whole.rstrip(".,;:)" + _HYPHEN)
        if label in item.target or "](" in label:
            continue
        text = link(label, item.target) + whole[len(label) :]
        left, right = min(word.left for word in part), max(word.right for word in part)
        merged = _Word(text, part[0].index, left, part[0].bottom, right, part[0].top)
        words = [*words[: inside[0]], merged, *words[inside[-1] + 1 :]]
    return words
