"""EPUB to Markdown: the package, two chapters and the encryption part of a book.

Takes: parts separated by U+001E, or a whole archive. Gives: the extracted text. Refuses: with
``CannotExtract``.
"""

from __future__ import annotations

from fuzz.extracting import fill_parts, target_for

_PARTS = ("a.opf", "1.xhtml", "2.xhtml", "META-INF/encryption.xml")
_FIXED = {
    "META-INF/container.xml": b'<c><rootfile full-path="a.opf"/></c>',
    "a.opf": b'<p><item id="1" href="1.xhtml" media-type="x/html"/><item id="2" href="2.xhtml"/>'
    b'<itemref idref="1"/><itemref idref="2"/></p>',
    "1.xhtml": b"<p>one</p>",
    "2.xhtml": b"<p>two</p>",
}


def wrap(_: str, data: bytes) -> bytes:
    """Put the parts of an input into an archive."""
    return fill_parts(_PARTS, data, _FIXED)


TARGET = target_for(
    "a.epub", wrap=wrap,
    words=(
        '<item id="1" href="', '" media-type="application/xhtml+xml"/>', '<itemref idref="1"/>',
        "<dc:title>", "</dc:title>", "\x1e", "<h1>", "</h1>", "<p>", "../", "%2e%2e/", "#x",
        '<EncryptionMethod Algorithm="x"/>', "<!DOCTYPE html>", "&nbsp;", "<?xml version='1.0'?>",
    ),
)  # fmt: skip
