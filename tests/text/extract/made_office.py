"""Make small office files by hand: archives with the XML parts that hold text."""

from __future__ import annotations

import io
import zipfile

_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_A = "http://schemas.openxmlformats.org/drawingml/2006/main"
_P = "http://schemas.openxmlformats.org/presentationml/2006/main"
_ODF = "urn:oasis:names:tc:opendocument:xmlns"


def make_zip(parts: dict[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def make_relations(**targets: tuple[str, str]) -> str:
    """Relations by id: a kind and a target; targets with a scheme are external."""
    rows = ""
    for key, (kind, target) in targets.items():
        mode = ' TargetMode="External"' if "://" in target else ""
        rows += f'<Relationship Id="{key}" Type="{_R}/{kind}" Target="{target}"{mode}/>'
    space = "http://schemas.openxmlformats.org/package/2006/relationships"
    return f'<Relationships xmlns="{space}">{rows}</Relationships>'


def make_docx(body: str, styles: str = "", numbering: str = "", **parts: str) -> bytes:
    """A Word file; names in ``parts`` are footnotes and the like."""
    space = f'xmlns:w="{_W}" xmlns:r="{_R}"'
    return make_zip(
        {
            "_rels/.rels": make_relations(a=("officeDocument", "word/document.xml")),
            "word/document.xml": f"<w:document {space}><w:body>{body}</w:body></w:document>",
            "word/styles.xml": f"<w:styles {space}>{styles}</w:styles>",
            "word/numbering.xml": f"<w:numbering {space}>{numbering}</w:numbering>",
            "word/_rels/document.xml.rels": make_relations(
                s=("styles", "styles.xml"),
                n=("numbering", "/word/numbering.xml"),
                link=("hyperlink", "https://example.org/a"),
                **{name: (name, f"{name}.xml") for name in parts},
            ),
            **{
                f"word/{name}.xml": f"<w:{name} {space}>{content}</w:{name}>"
                for name, content in parts.items()
            },
            "docProps/core.xml": '<a xmlns:dc="d"><dc:title>The plan</dc:title></a>',
        }
    )


def make_pptx(*slides: tuple[str, str]) -> bytes:
    """A PowerPoint file of slides: their shapes, and their notes."""
    space = f'xmlns:a="{_A}" xmlns:p="{_P}" xmlns:r="{_R}"'
    ids = "".join(f'<p:sldId id="{n}" r:id="s{n}"/>' for n in range(len(slides)))
    parts: dict[str, str | bytes] = {
        "_rels/.rels": make_relations(a=("officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": f"<p:p {space}><p:sldIdLst>{ids}</p:sldIdLst></p:p>",
        # The numbers in the names of parts are not the order of slides.
        "ppt/_rels/presentation.xml.rels": make_relations(
            **{f"s{n}": ("slide", f"slides/slide{9 - n}.xml") for n in range(len(slides))}
        ),
    }
    for number, (shapes, notes) in enumerate(slides):
        name = f"slide{9 - number}.xml"
        tree = "<p:{0} {1}><p:cSld><p:spTree>{2}</p:spTree></p:cSld></p:{0}>"
        parts[f"ppt/slides/{name}"] = tree.format("sld", space, shapes)
        if notes:
            relation = make_relations(n=("notesSlide", f"../notesSlides/{name}"))
            parts[f"ppt/slides/_rels/{name}.rels"] = relation
            parts[f"ppt/notesSlides/{name}"] = tree.format("notes", space, shape("body", notes))
    return make_zip(parts)


def shape(kind: str, *paragraphs: str) -> str:
    """A shape of a slide; its kind is that of a placeholder."""
    rows = "".join(f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>" for text in paragraphs)
    holder = f'<p:nvPr><p:ph type="{kind}"/></p:nvPr>'
    return f"<p:sp><p:nvSpPr>{holder}</p:nvSpPr><p:txBody>{rows}</p:txBody></p:sp>"


def make_open_document(kind: str, body: str, styles: str = "", **parts: str) -> bytes:
    """An OpenDocument file: ``text`` or ``presentation``."""
    names = "office text table draw presentation style xlink"
    space = " ".join(f'xmlns:{name}="{_ODF}:{name}"' for name in names.split())
    return make_zip(
        {
            "content.xml": f"<office:document-content {space}><office:automatic-styles>{styles}"
            f"</office:automatic-styles><office:body><office:{kind}>{body}</office:{kind}>"
            "</office:body></office:document-content>",
            "meta.xml": '<a xmlns:dc="d"><dc:title>The plan</dc:title></a>',
            **{name.replace("__", "/"): content for name, content in parts.items()},
        }
    )


def make_xlsx(**sheets: list[list[str | float]]) -> bytes:
    """A workbook with inline texts and numbers."""
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    names = list(sheets)
    entries = "".join(
        f'<sheet name="{name}" sheetId="{n}" r:id="r{n}"/>' for n, name in enumerate(names, 1)
    )
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006'
        '/content-types"><Default Extension="xml" ContentType="application/xml"/></Types>',
        "_rels/.rels": make_relations(a=("officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook {space} xmlns:r="{_R}"><sheets>{entries}</sheets>'
        "</workbook>",
        "xl/_rels/workbook.xml.rels": make_relations(
            **{f"r{n}": ("worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(names) + 1)}
        ),
    }
    for number, name in enumerate(names, 1):
        rows = "".join(
            f'<row r="{y}">' + "".join(_cell(x, y, value) for x, value in enumerate(row)) + "</row>"
            for y, row in enumerate(sheets[name], 1)
        )
        part = f"<worksheet {space}><sheetData>{rows}</sheetData></worksheet>"
        parts[f"xl/worksheets/sheet{number}.xml"] = part
    return make_zip(parts)


def _cell(x: int, y: int, value: str | float) -> str:
    place = f"{chr(65 + x)}{y}"
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>' if value else ""
    return f'<c r="{place}"><v>{value}</v></c>'


def make_epub(**extra: str) -> bytes:
    """A book of two chapters, with a title."""
    package = """<package xmlns:dc="d"><metadata><dc:title>Tides</dc:title></metadata><manifest>
        <item id="b" href="text/b%20c.xhtml" media-type="application/xhtml+xml"/>
        <item id="a" href="text/a.xhtml" media-type="application/xhtml+xml"/></manifest>
        <spine><itemref idref="a"/><itemref idref="b"/></spine></package>"""
    return make_zip(
        {
            "META-INF/container.xml": '<c><rootfile full-path="OEBPS/book.opf"/></c>',
            "OEBPS/book.opf": package,
            "OEBPS/text/b c.xhtml": "<h1>Ebb</h1><p>It falls.</p>",
            "OEBPS/text/a.xhtml": "<!DOCTYPE html><h1>Flood</h1><p>It rises.</p>",
            **{name.replace("__", "/"): content for name, content in extra.items()},
        }
    )
