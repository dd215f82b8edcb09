"""The table of formats that are extracted, and the function that runs an extractor."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import NamedTuple

from lookfar.text.extract.extracted import Extracted, Limits

Extractor = Callable[[bytes, Limits], Extracted]


class ExtractedFormat(NamedTuple):
    """A format that is converted to Markdown before it is parsed."""

    name: str
    extensions: tuple[str, ...]
    extractor: str
    """``module.function`` in this package, imported when first needed."""
    version: int
    """Raised when the same bytes give another text; indexes then read these files again."""
    place: str
    """An example of the places in citations, or ``""``."""
    keeps: str
    loses: str


EXTRACTORS: tuple[ExtractedFormat, ...] = (
    ExtractedFormat(
        "PDF", (".pdf",), "pdf.extract_pdf", 1, "page=3",
        "text in reading order, headings by size and outline, aligned tables, code, links",
        "images, scans (named), forms, comments, repeated headers and footers, formulas",
    ),
    ExtractedFormat(
        "HTML", (".html", ".htm", ".xhtml"), "html.extract_html", 1, "",
        "main text, headings with their ids, lists, tables, code with its language, links",
        "navigation, scripts, styles, hidden parts, images except for their description",
    ),
    ExtractedFormat(
        "Jupyter notebook", (".ipynb",), "notebook.extract_notebook", 1, "cell=4",
        "Markdown cells, code with its language, text of outputs and errors",
        "images, widgets, long outputs after their first lines",
    ),
)  # fmt: skip

_BY_EXTENSION = {ending: row for row in EXTRACTORS for ending in row.extensions}


def extractor_for(uri: str) -> ExtractedFormat | None:
    """Return the row for a file name or URI by its extension, or ``None``."""
    stem, dot, ending = uri.rpartition("/")[2].rpartition(".")
    return _BY_EXTENSION.get(f".{ending.lower()}") if stem and dot else None


def extract(row: ExtractedFormat, data: bytes, limits: Limits | None = None) -> Extracted:
    """Extract the text of a file. Raises ``CannotExtract`` with a reason for users."""
    return _load(row.extractor)(data, limits or Limits())


@cache
def _load(extractor: str) -> Extractor:
    module, _, function = extractor.partition(".")
    loaded: Extractor = getattr(import_module(f"lookfar.text.extract.{module}"), function)
    return loaded
