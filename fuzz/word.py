"""DOCX and ODT to Markdown: a byte that chooses, then the XML parts that hold text.

Takes: parts separated by U+001E, or a whole archive. Gives: the extracted text. Refuses: with
``CannotExtract``.
"""

from __future__ import annotations

from fuzz.extracting import fill_parts, relations, target_for

_DOCX = ("word/document.xml", "word/styles.xml", "word/numbering.xml", "word/footnotes.xml")
_ODT = ("content.xml", "meta.xml", "META-INF/manifest.xml")
_FIXED = {
    "_rels/.rels": relations(a=("officeDocument", "word/document.xml")),
    "word/_rels/document.xml.rels": relations(
        s=("styles", "styles.xml"), n=("numbering", "numbering.xml"),
        f=("footnotes", "footnotes.xml"), h=("hyperlink", "x"),
    ),
}  # fmt: skip


def wrap(name: str, data: bytes) -> bytes:
    """Put the parts of an input into an archive."""
    if name.endswith(".docx"):
        return fill_parts(_DOCX, data, _FIXED)
    return fill_parts(_ODT, data, {})


TARGET = target_for(
    "a.docx", "a.odt", wrap=wrap,
    words=(
        "<w:p>", "</w:p>", "<w:r><w:t>x</w:t></w:r>", '<w:pStyle w:val="H"/>',
        "<w:tbl><w:tr><w:tc>",
        "</w:tc></w:tr></w:tbl>", '<w:gridSpan w:val="999"/>', '<w:hyperlink r:id="h">', "<w:del>",
        "<w:txbxContent>", '<w:numId w:val="3"/>', '<w:ilvl w:val="8"/>', "\x1e", "<!DOCTYPE a [",
        '<!ENTITY b "c">', "&b;", "<![CDATA[", "]]>", "<?xml version='1.0' encoding='utf-16'?>",
        "<text:p>", "</text:p>", '<text:h text:outline-level="9">', '<text:s text:c="99999"/>',
        "<text:list><text:list-item>", "<table:table><table:table-row><table:table-cell>",
        'table:number-columns-repeated="99999"', "<text:note><text:note-body>", "PK\x03\x04",
    ),
)  # fmt: skip
