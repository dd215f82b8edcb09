"""PDF to Markdown: whatever the bytes are, text with pages or a reason.

Takes: the bytes of a file. Gives: the extracted text. Refuses: with ``CannotExtract``.
"""

from __future__ import annotations

from fuzz.extracting import target_for

TARGET = target_for(
    "a.pdf",
    # PDFium repairs damaged files by reading them twice.
    limit=2.0,
    words=(
        "%PDF-1.4\n", "1 0 obj\n", "endobj\n", "<</Type/Catalog/Pages 2 0 R>>", "/Kids[3 0 R]",
        "/Count 1", "/MediaBox[0 0 600 800]", "stream\n", "\nendstream", "BT ", " ET\n",
        "/F1 10 Tf ",
        "1 0 0 1 60 700 Tm ", "10 -12 Td ", "(Hello) Tj ", "[(a) -500 (b)] TJ ", "<feff6e2f> Tj ",
        "/Encrypt", "/Outlines 9 0 R", "/Dest[3 0 R/Fit]", "/Annots[", "xref\n0 9\n", "trailer<<",
        "startxref\n", "%%EOF", "/Length 99999", "/Filter/FlateDecode", "/ToUnicode", "-1", "1e38",
    ),
)  # fmt: skip
