"""Make small PDF files by hand: lines of text at given places, in the standard fonts."""

from __future__ import annotations

from dataclasses import dataclass

_FONTS = {"F1": "Helvetica", "F2": "Helvetica-Bold", "F3": "Courier"}


@dataclass(frozen=True)
class Drawn:
    """One text at a place of the page."""

    x: float
    y: float
    text: str
    size: float = 10
    font: str = "F1"


def column(
    x: float, y: float, *lines: str, size: float = 10, font: str = "F1", step: float = 1.2
) -> list[Drawn]:
    """Lines of a paragraph below each other."""
    return [Drawn(x, y - n * size * step, line, size, font) for n, line in enumerate(lines)]


def make_pdf(
    *pages: list[Drawn],
    outline: list[tuple[str, int]] | None = None,
    links: list[tuple[int, tuple[float, float, float, float], str]] | None = None,
    title: str = "",
    trailer: str = "",
    drawing: str = "",
) -> bytes:
    """Return a PDF; ``outline`` has titles and page numbers, ``drawing`` is added to each page."""
    objects: dict[int, str] = {1: "", 2: ""}
    fonts = ""
    for name, base in _FONTS.items():
        objects[len(objects) + 1] = f"<</Type/Font/Subtype/Type1/BaseFont/{base}>>"
        fonts += f"/{name} {len(objects)} 0 R"
    numbers = []
    for index, page in enumerate(pages, 1):
        stream = drawing + "".join(
            f"BT /{item.font} {item.size} Tf {item.x} {item.y} Td ({_escape(item.text)}) Tj ET\n"
            for item in page
        )
        objects[len(objects) + 1] = f"<</Length {len(stream)}>>stream\n{stream}\nendstream"
        content, notes = len(objects), ""
        for where, (left, bottom, right, top), target in links or []:
            if where == index:
                objects[len(objects) + 1] = (
                    f"<</Type/Annot/Subtype/Link/Rect[{left} {bottom} {right} {top}]"
                    f"/A<</S/URI/URI({target})>>>>"
                )
                notes += f"{len(objects)} 0 R "
        objects[len(objects) + 1] = (
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents {content} 0 R"
            f"/Resources<</Font<<{fonts}>>>>/Annots[{notes}]>>"
        )
        numbers.append(len(objects))
    extra = _add_outline(objects, outline or [], numbers)
    objects[1] = f"<</Type/Catalog/Pages 2 0 R{extra}>>"
    kids = " ".join(f"{number} 0 R" for number in numbers)
    objects[2] = f"<</Type/Pages/Count {len(numbers)}/Kids[{kids}]>>"
    objects[len(objects) + 1] = f"<</Title({_escape(title)})>>"
    return _serialise(objects, f"/Root 1 0 R/Info {len(objects)} 0 R{trailer}")


def _add_outline(objects: dict[int, str], outline: list[tuple[str, int]], pages: list[int]) -> str:
    if not outline:
        return ""
    root = len(objects) + 1
    objects[root] = ""
    for number, (title, page) in enumerate(outline):
        here = root + 1 + number
        following = f"/Next {here + 1} 0 R" if number + 1 < len(outline) else ""
        objects[here] = (
            f"<</Title({_escape(title)})/Parent {root} 0 R/Dest[{pages[page - 1]} 0 R/Fit]"
            f"{following}>>"
        )
    objects[root] = f"<</Type/Outlines/First {root + 1} 0 R/Last {root + len(outline)} 0 R>>"
    return f"/Outlines {root} 0 R"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def _serialise(objects: dict[int, str], trailer: str) -> bytes:
    data = b"%PDF-1.4\n"
    offsets = {}
    for number, body in sorted(objects.items()):
        offsets[number] = len(data)
        data += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    start = len(data)
    data += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    data += b"".join(f"{offset:010} 00000 n \n".encode() for _, offset in sorted(offsets.items()))
    data += f"trailer<</Size {len(objects) + 1}{trailer}>>\nstartxref\n{start}\n%%EOF".encode()
    return data
