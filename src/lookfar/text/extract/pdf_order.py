"""Put the lines of a PDF page in reading order, and find what every page repeats.

The order of the file is kept if it is plausible. A page whose columns were drawn line by line is
split at the gap between the columns. A page whose order jumps about is ordered by its white space.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

from lookfar.text.extract.pdf_blocks import find_table
from lookfar.text.extract.pdf_lines import Cell, Line

_MARGIN = 0.12
"""The share of the page height, at the top and at the bottom, for headers and footers."""
_FEWEST_REPEATS = 3
_NUMBER = re.compile(r"\d+|\b[ivxlc]+\b", re.IGNORECASE)
_DEEPEST_CUT = 12


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
            if _at_edge(line, height) and not find_table(lines, number)[0]
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


def _at_edge(line: Line, height: float) -> bool:
    return line.bottom > height * (1 - _MARGIN) or line.top < height * _MARGIN


def _repeat_key(line: Line, height: float) -> str:
    """Return what a header has in common on all pages: its words without numbers."""
    side = "top" if line.middle > height / 2 else "bottom"
    return f"{side} {_NUMBER.sub('#', line.text).casefold()}"
