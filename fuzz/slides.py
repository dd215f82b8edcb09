"""PPTX and ODP to Markdown: a byte that chooses, then the XML parts that hold text.

Takes: parts separated by U+001E, or a whole archive. Gives: the extracted text. Refuses: with
``CannotExtract``.
"""

from __future__ import annotations

from fuzz.extracting import fill_parts, relations, target_for

_PPTX = ("ppt/slides/slide1.xml", "ppt/notesSlides/n.xml", "ppt/diagrams/d.xml")
_FIXED = {
    "_rels/.rels": relations(a=("officeDocument", "ppt/presentation.xml")),
    "ppt/presentation.xml": b'<p xmlns:r="r"><sldIdLst><i r:id="s"/><i r:id="s"/></sldIdLst></p>',
    "ppt/_rels/presentation.xml.rels": relations(s=("slide", "slides/slide1.xml")),
    "ppt/slides/_rels/slide1.xml.rels": relations(
        n=("notesSlide", "../notesSlides/n.xml"), d=("diagramData", "../diagrams/d.xml"),
    ),
}  # fmt: skip


def wrap(name: str, data: bytes) -> bytes:
    """Put the parts of an input into an archive."""
    if name.endswith(".pptx"):
        return fill_parts(_PPTX, data, _FIXED)
    return fill_parts(("content.xml", "meta.xml"), data, {})


TARGET = target_for(
    "a.pptx", "a.odp", wrap=wrap,
    words=(
        "<p:sp>", "</p:sp>", '<p:nvSpPr><p:nvPr><p:ph type="title"/></p:nvPr></p:nvSpPr>',
        "<p:txBody>", "<a:p>", "</a:p>", "<a:r><a:t>x</a:t></a:r>", '<a:pPr lvl="8"/>', "<a:br/>",
        "<p:grpSp>", "<a:tbl><a:tr><a:tc>", "</a:tc></a:tr></a:tbl>", "\x1e", "<a:buNone/>",
        '<a:hlinkClick r:id="n"/>', "<draw:page>", "</draw:page>", "<presentation:notes>",
        '<draw:frame presentation:class="title">', "<draw:text-box><text:p>", "&#x10FFFF;",
    ),
)  # fmt: skip
