"""Extract EPUB books: the chapters in reading order, through the HTML extractor.

Places are ``part=N``, the position in the reading order of the book, counted from 1.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from lookfar.text.extract.archive import Archive, attribute, local_name, resolve
from lookfar.text.extract.extracted import CannotExtract, Extracted, Limits
from lookfar.text.extract.html import write_page
from lookfar.text.extract.writer import Writer

_FONT_ALGORITHMS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")


def extract_epub(data: bytes, limits: Limits) -> Extracted:
    """Extract the chapters of a book."""
    archive = Archive(data, limits)
    _refuse_protected(archive)
    package_name = _package_name(archive)
    package = archive.parse(package_name)
    items = {
        attribute(item, "id"): (attribute(item, "href"), attribute(item, "media-type"))
        for item in package.iter()
        if local_name(item.tag) == "item"
    }
    spine = [item for item in package.iter() if local_name(item.tag) == "itemref"]
    writer = Writer(limits)
    for number, reference in enumerate(spine, 1):
        href, kind = items.get(attribute(reference, "idref"), ("", ""))
        name = resolve(package_name, href)
        if "html" not in kind and not name.endswith((".html", ".xhtml", ".htm")):
            continue
        writer.place(f"part={number}")
        if name in archive:
            write_page(writer, archive.read(name), limits)
        else:
            writer.warnings.append(f"part {number} is missing in the file")
        if writer.full:
            break
    return writer.finish(_title(package))


def _refuse_protected(archive: Archive) -> None:
    """Refuse books with copy protection, but accept obfuscated fonts."""
    root = archive.parse_optional("META-INF/encryption.xml")
    for item in root.iter() if root is not None else ():
        if local_name(item.tag) == "EncryptionMethod" and not attribute(
            item, "Algorithm"
        ).startswith(_FONT_ALGORITHMS):
            raise CannotExtract("encrypted", "the book has copy protection")


def _package_name(archive: Archive) -> str:
    root = archive.parse_optional("META-INF/container.xml")
    for item in root.iter() if root is not None else ():
        if local_name(item.tag) == "rootfile" and attribute(item, "full-path") in archive:
            return attribute(item, "full-path")
    for name in archive.names():
        if name.endswith(".opf"):
            return name
    raise CannotExtract("damaged", "the file is not an EPUB book")


def _title(package: Element) -> str:
    for item in package.iter():
        if local_name(item.tag) == "title":
            return item.text or ""
    return ""
