"""Group the lines of a PDF into headings, paragraphs, lists, tables and code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lookfar.text.extract.extracted import Writer
from lookfar.text.extract.pdf_lines import Cell, Line

_BULLET = re.compile(r"[•◦▪‣●○■□–—·∙\uf0b7\uf0a7o*-]\s+(?=\S)")
_NUMBERED = re.compile(r"(?:\(?[0-9]{1,3}[.)]|\(?[a-z][.)])\s")
_MARKER = re.compile(r"[•◦▪‣●○■□–—·∙\uf0b7\uf0a7o*-]|\(?\w{1,4}[.)]")
_SENTENCE_END = re.compile(r"[.!?:;。！？…][\"'”’)\]]*$")
_WIDE_SCRIPT = re.compile("[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]")
_SAME_WORD = re.compile(r"\W+")
_LONGEST_HEADING = 200
_FEWEST_ROWS = 3
"""The fewest rows of a table: fewer lines may be aligned by chance."""


@dataclass(frozen=True, slots=True)
class Style:
    """Font sizes and words of the whole document, which decide how its lines are read."""

    body: float
    """Font size of most of the text."""
    levels: tuple[float, ...]
    """Sizes of headings, largest first."""
    bold_headings: bool
    """Whether short bold lines are headings."""
    words: frozenset[str]
    """Lower-case words of the document, to decide whether a hyphen belongs to a word."""


def learn_style(pages: Iterable[list[Line]]) -> Style:
    """Find the font sizes of the body text and of the headings."""
    letters: Counter[float] = Counter()
    heading_letters: Counter[float] = Counter()
    words: set[str] = set()
    bold = total = 0
    for lines in pages:
        for line in lines:
            size = round(line.size * 2) / 2
            letters[size] += len(line.text)
            total += len(line.text)
            bold += len(line.text) if line.bold else 0
            if "-" in line.text or line.hyphenated:
                words.update(re.findall(r"[^\W\d_]+-[^\W\d_]+", line.text.lower()))
            words.update(line.text.lower().split())
            if len(line.text) <= _LONGEST_HEADING and any(c.isalpha() for c in line.text):
                heading_letters[size] += 1
    body = max(letters, key=lambda size: (letters[size], -size), default=10.0)
    sizes = [size for size in heading_letters if size >= body * 1.12 and size >= body + 0.5]
    # Large sizes that most of the text has are not headings.
    sizes = [size for size in sizes if letters[size] * 4 < total]
    return Style(body, tuple(sorted(sizes, reverse=True)), bold * 4 < total, frozenset(words))


def title_key(text: str) -> str:
    """Return a case-folded title without numbers and punctuation, to compare with the outline."""
    return _SAME_WORD.sub("", re.sub(r"^[\dIVX.]+\s", "", text.strip())).casefold()


class PageWriter:
    """Writes the blocks of pages one after another."""

    def __init__(self, writer: Writer, style: Style) -> None:
        self._writer = writer
        self._style = style

    def write(self, lines: Sequence[Line], outline: dict[str, int]) -> None:
        """Write the blocks of one page; ``outline`` has the levels of its titles by title key."""
        index = 0
        while index < len(lines):
            index = (
                self._code(lines, index)
                or self._table(lines, index)
                or self._heading(lines, index, outline)
                or self._paragraph(lines, index, outline)
            )

    def _table(self, lines: Sequence[Line], begin: int) -> int:
        """Write lines with cells in common columns as a table; return where it ends, or 0."""
        end, columns = find_table(lines, begin)
        if not end:
            return 0
        rows: list[list[str]] = []
        for line in lines[begin:end]:
            row = [""] * len(columns)
            for cell in line.cells or [Cell(line.text, line.left, line.right)]:
                column = _column_of(columns, cell.left, cell.right)
                row[max(0, column)] = f"{row[max(0, column)]} {cell.text}"
            if not row[0] and rows:  # A cell of several lines.
                rows[-1] = [f"{a} {b}" for a, b in zip(rows[-1], row, strict=True)]
            else:
                rows.append(row)
        self._writer.table(rows)
        return end

    def _code(self, lines: Sequence[Line], begin: int) -> int:
        end = begin
        while end < len(lines) and lines[end].monospaced:
            if end > begin and lines[end].bottom > lines[end - 1].top:
                break
            end += 1
        run = lines[begin:end]
        if len(run) < 2 and not (run and run[0].size <= self._style.body):
            return 0
        if not run:
            return 0
        letters = sum(len(line.text) for line in run)
        width = sum(line.right - line.left for line in run) / max(1, letters)
        left = min(line.left for line in run)
        text = []
        for number, line in enumerate(run):
            if number and run[number - 1].bottom - line.top > line.size:
                text.append("")
            indent = round((line.left - left) / width) if width > 0 else 0
            text.append(" " * max(0, min(indent, 120)) + line.text)
        self._writer.code("\n".join(text))
        return end

    def _heading(self, lines: Sequence[Line], begin: int, outline: dict[str, int]) -> int:
        """Write a heading of up to three lines; return where it ends, or 0."""
        line = lines[begin]
        for count in (1, 2, 3):
            title = _join_lines(lines[begin : begin + count], self._style.words)
            level = outline.get(title_key(title)) if len(title) <= _LONGEST_HEADING else None
            if level is not None and begin + count <= len(lines):
                self._writer.heading(level, title)
                return begin + count
        level = self._level(line)
        if not level or not any(letter.isalpha() for letter in line.text):
            return 0
        end = begin + 1
        while (
            end < len(lines)
            and end - begin < 3
            and self._level(lines[end]) == level
            and 0 < lines[end - 1].middle - lines[end].middle < 1.7 * line.size
        ):
            end += 1
        title = _join_lines(lines[begin:end], self._style.words)
        if len(title) > _LONGEST_HEADING:
            return 0
        if level > len(self._style.levels) and not self._is_alone(lines, begin, end):
            return 0
        self._writer.heading(level, title)
        return end

    def _level(self, line: Line) -> int:
        """Return the level of a line that looks like a heading, or 0."""
        size = round(line.size * 2) / 2
        if size in self._style.levels:
            return min(6, self._style.levels.index(size) + 1)
        short = len(line.text) <= 100 and not line.text.rstrip().endswith((",", ";", "."))
        if line.bold and short and self._style.bold_headings and size >= self._style.body:
            return min(6, len(self._style.levels) + 1)
        return 0

    def _is_alone(self, lines: Sequence[Line], begin: int, end: int) -> bool:
        """Whether a bold line has space above it, or is the first of its page or column."""
        if end < len(lines) and lines[end].bold:
            return False
        before = lines[begin - 1] if begin else None
        if before is None or before.bottom < lines[begin].bottom:
            return True
        return before.bottom - lines[begin].top > 0.35 * lines[begin].size

    def _paragraph(self, lines: Sequence[Line], begin: int, outline: dict[str, int]) -> int:
        end = begin + 1
        while end < len(lines) and not self._breaks(lines, begin, end, outline):
            end += 1
        text = _join_lines(lines[begin:end], self._style.words)
        bullet = _BULLET.match(text)
        if bullet:
            self._writer.item(0, text[bullet.end() :])
        else:
            self._writer.paragraph(text)
        return end

    def _breaks(
        self, lines: Sequence[Line], begin: int, index: int, outline: dict[str, int]
    ) -> bool:
        """Whether a line starts a new block."""
        before, line = lines[index - 1], lines[index]
        if line.monospaced or self._level(line) or title_key(line.text) in outline:
            return True
        if find_table(lines, index)[0]:
            return True
        if _BULLET.match(line.text) or _NUMBERED.match(line.text):
            return True
        if abs(line.size - before.size) > 0.12 * before.size and line.bottom < before.bottom:
            return True
        distance = before.middle - line.middle
        if distance < -0.5 * line.size:  # The next column.
            return bool(_SENTENCE_END.search(before.text))
        if distance > 1.9 * max(line.size, before.size):
            return True
        step = _line_step(lines, begin, index)
        if step and distance > 1.35 * step:
            return True
        indented = line.left - before.left > 0.8 * line.size
        ended = bool(_SENTENCE_END.search(before.text))
        full = before.right - before.left
        short = before.right < max(entry.right for entry in lines[begin : index + 1]) - 0.15 * full
        return ended and (indented or (short and distance > 0))


def _line_step(lines: Sequence[Line], begin: int, index: int) -> float:
    """Return the distance between the first two lines of a paragraph, or 0."""
    if index - begin < 2:
        return 0.0
    return max(0.0, lines[begin].middle - lines[begin + 1].middle)


def _join_lines(lines: Sequence[Line], words: frozenset[str]) -> str:
    """Return one line of text, with words joined that were hyphenated at a line end."""
    text = ""
    for number, line in enumerate(lines):
        if not number:
            text = line.text
        elif lines[number - 1].hyphenated and text.endswith("-") and line.text[:1].islower():
            text = _join_hyphen(text, line.text, words)
        elif _WIDE_SCRIPT.match(text[-1:]) and _WIDE_SCRIPT.match(line.text[:1]):
            text += line.text
        else:
            text += f" {line.text}"
    return text


def _join_hyphen(text: str, following: str, words: frozenset[str]) -> str:
    first = re.search(r"[^\W\d_]+-$", text)
    second = re.match(r"[^\W\d_]+", following)
    if first and second:
        compound = (first[0] + second[0]).lower()
        if compound in words and compound.replace("-", "") not in words:
            return text + following
    return text[:-1] + following


def find_table(lines: Sequence[Line], begin: int) -> tuple[int, list[tuple[float, float]]]:
    """Return the end and the columns of the table that begins at a line; 0 if there is none.

    Lines of a table have as many cells as its first one, and in each column the cells are aligned
    at their left, right or centre. The gaps in justified prose are not aligned.
    """
    count = len(lines[begin].cells)
    if count < 2:
        return 0, []
    columns = [(cell.left, cell.right) for cell in lines[begin].cells]
    full = [lines[begin]]
    end = begin + 1
    while end < len(lines):
        line = lines[end]
        cells = line.cells or [Cell(line.text, line.left, line.right)]
        numbers = [_column_of(columns, cell.left, cell.right) for cell in cells]
        if -1 in numbers or len(set(numbers)) < len(cells) or numbers == [0]:
            break
        if lines[end - 1].middle - line.middle > 4 * line.size or line.bottom > lines[end - 1].top:
            break
        for number, cell in zip(numbers, cells, strict=True):
            left, right = columns[number]
            columns[number] = (min(left, cell.left), max(right, cell.right))
        if len(cells) == count:
            full.append(line)
        end += 1
    if len(full) < _FEWEST_ROWS or not _is_aligned(full):
        return 0, []
    if all(_MARKER.fullmatch(line.cells[0].text) for line in full):
        return 0, []  # A list: its first column has bullets or numbers.
    return end, columns


def _is_aligned(lines: Sequence[Line]) -> bool:
    size = lines[0].size
    # A right-to-left row of a left-to-right table has its cells in the opposite order.
    rows = (sorted(line.cells, key=lambda cell: cell.left) for line in lines)
    for column in zip(*rows, strict=True):
        edges = (
            [cell.left for cell in column],
            [cell.right for cell in column],
            [(cell.left + cell.right) / 2 for cell in column],
        )
        # The header is often aligned differently from its column.
        spread = min(max(values[1:]) - min(values[1:]) for values in edges)
        if spread > 0.35 * size:
            return False
    return True


def _column_of(columns: list[tuple[float, float]], left: float, right: float) -> int:
    """Return the only column that a cell overlaps, or -1 if there are none or several."""
    numbers = [
        number for number, (start, end) in enumerate(columns) if left < end and right > start
    ]
    return numbers[0] if len(numbers) == 1 else -1
