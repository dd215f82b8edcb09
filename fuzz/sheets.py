"""XLSX, ODS, XLS and CSV to Markdown: a byte that chooses, then cells, XML parts or a whole file.

Takes: parts separated by U+001E, or a whole file. Gives: the extracted text. Refuses: with
``CannotExtract``.
"""

from __future__ import annotations

from fuzz.extracting import fill_parts, relations, target_for

_SPACE = b'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_KIND = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_XLSX = ("xl/worksheets/sheet1.xml", "xl/sharedStrings.xml", "xl/styles.xml")
_FIXED = {
    "_rels/.rels": relations(a=("officeDocument", "xl/workbook.xml")),
    "xl/workbook.xml": b"<workbook " + _SPACE + f' xmlns:r="{_KIND}"><sheets>'.encode()
    + b'<sheet name="A b" sheetId="1" r:id="s"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": relations(
        s=("worksheet", "worksheets/sheet1.xml"), t=("sharedStrings", "sharedStrings.xml"),
        y=("styles", "styles.xml"),
    ).replace(b'Type="x', f'Type="{_KIND}'.encode()),
}  # fmt: skip
_ODS = {
    "mimetype": b"application/vnd.oasis.opendocument.spreadsheet",
    "META-INF/manifest.xml": b"<manifest/>",
}


def wrap(name: str, data: bytes) -> bytes:
    """Put the parts of an input into an archive, except for CSV and XLS."""
    if name.endswith(".xlsx"):
        return fill_parts(_XLSX, data, _FIXED)
    return fill_parts(("content.xml",), data, _ODS) if name.endswith(".ods") else data


TARGET = target_for(
    "a.csv", "a.xlsx", "a.ods", "a.xls", wrap=wrap,
    words=(
        "a,b;c\t|\n", '"', '""', "\r\n", '<row r="1">', "</row>", '<c r="A1"><v>1</v></c>',
        '<c r="B2" t="s"><v>0</v></c>', '<c r="ZZ99" t="inlineStr"><is><t>x</t></is></c>',
        "<sheetData>", "</sheetData>", '<c r="A3" t="d"><v>2026-01-01</v></c>', "<v>1e308</v>",
        '<c r="A4" t="e"><v>#N/A</v></c>', "<si><t>x</t></si>", "\x1e",
        "<table:table><table:table-row>",
        '<table:table-cell office:value-type="float" office:value="1">',
        'table:number-rows-repeated="9"', "</table:table-cell>", "\xd0\xcf\x11\xe0", "\xff\xfe",
    ),
)  # fmt: skip
