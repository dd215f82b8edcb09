"""Extract spreadsheets and CSV: every sheet as tables of some rows, each with its header.

Places are ranges of cells such as ``Budget!A2:F41``. A table has the header row of its sheet and
the rows of its range, so that a passage from the middle of a sheet can be understood. Formulas are
shown by their stored values.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Any

from lookfar.text.extract.archive import Archive, check_xml
from lookfar.text.extract.extracted import CannotExtract, Extracted, Limits, Writer, join_words
from lookfar.text.normalise import decode

_MOST_COLUMNS = 256
_MOST_CELLS = 5_000_000
_LARGEST_AREA = 20_000_000
_CELL = re.compile(rb"<(?:\w+:)?c\s[^>]{0,80}?\br=[\"']([A-Z]{1,3})([0-9]{1,7})[\"']")
_LONGEST_CELL = 32_767
_DELIMITERS = ",;\t|"
_SAMPLE = 64 * 1024
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")


def extract_sheets(data: bytes, limits: Limits) -> Extracted:
    """Extract XLSX, XLSB, XLS or ODS."""
    # Imported here, because CSV needs no reader of binary formats.
    from python_calamine import CalamineError, CalamineWorkbook

    if data.startswith(b"PK"):
        _check_archive(data, limits)
    try:
        workbook = CalamineWorkbook.from_filelike(io.BytesIO(data))
        names = workbook.sheet_names
        if len(names) > limits.max_parts:
            raise CannotExtract("too_large", f"the file has more than {limits.max_parts:,} sheets")
        writer = Writer(limits)
        for name in names:
            sheet = workbook.get_sheet_by_name(name)
            rows = ([_text(value) for value in row[:_MOST_COLUMNS]] for row in sheet.iter_rows())
            _SheetWriter(writer, name, limits).write(rows, sheet.start or (0, 0))
            if writer.full:
                break
    except CalamineError as error:
        raise _refusal(error) from error
    return writer.finish()


def extract_csv(data: bytes, limits: Limits) -> Extracted:
    """Extract comma-, semicolon-, tab- or bar-separated values."""
    text, _, warnings = decode(data)
    writer = Writer(limits)
    writer.warnings += warnings
    try:
        _SheetWriter(writer, "", limits).write(_read_csv(text.replace("\0", "")), (0, 0))
    except csv.Error as error:
        raise CannotExtract("damaged", f"not valid CSV: {error}") from error
    return writer.finish()


def _check_archive(data: bytes, limits: Limits) -> None:
    """Refuse ZIP bombs, truncated XML and encryption before another library reads the parts."""
    archive = Archive(data, limits)
    for name in archive.names():
        if name.endswith((".xml", ".bin", ".rels")):
            part = archive.read(name)
            if name.endswith(".xml"):
                check_xml(part)  # The reader never returns for some truncated XML.
            if "worksheets/" in name and name.endswith(".xml"):
                _check_extent(part)
    manifest = "META-INF/manifest.xml"
    if manifest in archive and b"encryption-data" in archive.read(manifest):
        raise CannotExtract("encrypted", "the file is encrypted with a password")


def _check_extent(sheet: bytes) -> None:
    """Refuse sheets with cells far apart: the reader allocates everything between them."""
    last_row = last_column = 0
    for match in _CELL.finditer(sheet):
        last_row = max(last_row, int(match[2]))
        column = 0
        for letter in match[1]:
            column = column * 26 + letter - 64
        last_column = max(last_column, column)
    if last_row * last_column > _LARGEST_AREA:
        raise CannotExtract("too_large", f"a sheet spans more than {_LARGEST_AREA:,} cells")


def _refusal(error: Exception) -> CannotExtract:
    if "assword" in type(error).__name__ or "assword" in str(error):
        return CannotExtract("encrypted", "the file is encrypted with a password")
    return CannotExtract("damaged", "the file is damaged or is not a spreadsheet")


def _read_csv(text: str) -> Iterator[list[str]]:
    sample = text[:_SAMPLE]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(sample))
    for row in reader:
        yield [value[:_LONGEST_CELL] for value in row[:_MOST_COLUMNS]]


def _delimiter(sample: str) -> str:
    """Return the delimiter that splits most lines into the same number of values."""
    lines = [line for line in sample.splitlines()[:50] if line.strip()]

    def score(delimiter: str) -> tuple[int, int]:
        counts = [line.count(delimiter) for line in lines]
        usual = max(set(counts), key=lambda count: (counts.count(count), count), default=0)
        return (counts.count(usual) if usual else 0, usual)

    return max(_DELIMITERS, key=score)


def _text(value: Any) -> str:
    """Return a value as people write it: 12 and not 12.0, dates in ISO form."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ").removesuffix(" 00:00:00")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    return str(value)[:_LONGEST_CELL]


class _SheetWriter:
    """Writes one sheet as tables, each with the header row and a range of rows."""

    def __init__(self, writer: Writer, name: str, limits: Limits) -> None:
        self._writer = writer
        self._name = name
        self._limits = limits
        self._has_heading = False

    def write(self, rows: Iterable[list[str]], origin: tuple[int, int]) -> None:
        """Write the rows; ``origin`` is row and column of the first cell, counted from 0."""
        first_row, first_column = origin
        numbered = enumerate(rows, first_row + 1)
        header: list[str] = []
        header_number = 0
        for block in _blocks(numbered, self._limits.header_every):
            start = 0
            if not header_number:
                start = _header_index(block)
                for number, row in block[:start]:  # Titles and notes above the table.
                    self._write_place(number, number, first_column, len(row))
                    self._writer.paragraph(" ".join(value for value in row if value.strip()))
                header_number, header = block[start]
                start += 1
            self._write_table(header_number, header, block[start:], first_column)
            if self._writer.full:
                return

    def _write_table(
        self, header_number: int, header: list[str], rows: list[tuple[int, list[str]]], left: int
    ) -> None:
        first = rows[0][0] if rows else header_number
        if first == header_number + 1:
            first = header_number  # The range of the first table includes the header.
        last = rows[-1][0] if rows else header_number
        width = max(len(row) for row in [header, *(row for _, row in rows)])
        self._write_place(first, last, left, width)
        self._writer.table([header, *(row for _, row in rows)])

    def _write_place(self, first: int, last: int, left: int, width: int) -> None:
        cells = f"{_column(left)}{first}:{_column(left + max(1, width) - 1)}{last}"
        name = join_words(self._name)
        if name and not _PLAIN_NAME.fullmatch(name):
            name = "'" + name.replace("'", "''") + "'"
        self._writer.place(f"{name}!{cells}" if name else cells)
        if not self._has_heading:
            self._writer.heading(2, self._name)
            self._has_heading = True


_Numbered = tuple[int, list[str]]


def _blocks(rows: Iterator[_Numbered], size: int) -> Iterator[list[_Numbered]]:
    """Yield blocks of non-empty rows, without the empty cells at their end."""
    cells = 0

    def trimmed() -> Iterator[_Numbered]:
        nonlocal cells
        for number, row in rows:
            while row and not row[-1].strip():
                row.pop()
            cells += len(row)
            if cells > _MOST_CELLS:
                raise CannotExtract("too_large", f"a sheet has more than {_MOST_CELLS:,} cells")
            if row:
                yield number, row

    source = trimmed()
    while block := list(islice(source, size)):
        yield block


def _header_index(block: list[_Numbered]) -> int:
    """Return the index of the header: the first row that is as wide as most rows."""
    widths = [sum(1 for value in row if value.strip()) for _, row in block]
    usual = sorted(widths)[len(widths) // 2]
    for index, width in enumerate(widths[:10]):
        if width >= max(2, usual * 0.7):
            return index
    return 0


def _column(index: int) -> str:
    """Return the letters of a column: 0 is A, 26 is AA."""
    letters = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        letters = chr(65 + rest) + letters
    return letters
