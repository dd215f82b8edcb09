"""Choose the parser for a file by its name or extension, without reading it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from typing import NamedTuple

from lookfar.model import Document
from lookfar.ports import Parser
from lookfar.text.extract.formats import ExtractedFormat, extractor_for
from lookfar.text.parse.languages import LANGUAGES, Tier, detect_language


class Format(NamedTuple):
    """A format of prose or source code, as shown to users."""

    name: str
    language: str
    extensions: tuple[str, ...]
    reads: str
    """What the parser extracts, in a few words."""
    parser: str
    """``module.function`` in this package, imported when first needed."""
    names: tuple[str, ...] = ()
    """Whole file names, in lower case."""


FORMATS: tuple[Format, ...] = (
    Format("Markdown", "markdown", (".md", ".markdown", ".mdown", ".mkd", ".mdx"),
           "headings, code, tables, HTML, links, wikilinks, tags, YAML and TOML front matter;"
           " roles, labels and toctrees of MyST",
           "markdown.parse"),
    Format("Plain text", "text", (".txt", ".text"), "the text as one section",
           "plaintext.parse_text",
           ("readme", "authors", "contributors", "maintainers", "changelog", "changes", "history",
            "news", "install", "todo", "thanks", "credits")),
    Format("reStructuredText", "rst", (".rst",),
           "titles, literal blocks, code directives; roles, labels and toctrees of Sphinx",
           "plaintext.parse_rst"),
    Format("AsciiDoc", "asciidoc", (".adoc", ".asciidoc", ".asc"),
           "titles, listing and literal blocks, cross references, anchors",
           "plaintext.parse_asciidoc"),
    Format("Org", "org", (".org",), "headings, source and example blocks, links, IDs",
           "plaintext.parse_org"),
    Format("LaTeX", "latex", (".tex", ".latex", ".ltx"),
           "the source after the preamble: sections, verbatim code, links",
           "plaintext.parse_latex"),
)  # fmt: skip

_PLAIN_PARSER = "source_code.parse"
"""Splits a text of an unknown format like code of an unknown language."""

_EXTRACTED_PARSER = "markdown.parse"

_MOST_DATA = 1 << 20
_MOST_CODE = 4 << 20
_HEAD = 1 << 16

_READS: dict[Tier, str] = {
    "full": "definitions with signature, documentation and parameters; summaries with metrics",
    "structural": "definitions with signature and documentation",
    "heuristic": "where definitions begin",
    "plain": "the text",
}


CODE_FORMATS: tuple[Format, ...] = tuple(
    Format(entry.name, entry.language, entry.extensions, _READS[entry.tier], "source_code.parse",
           entry.names)
    for entry in LANGUAGES
)  # fmt: skip

_BY_EXTENSION = {extension: entry for entry in FORMATS for extension in entry.extensions}
_BY_NAME = {name: entry for entry in FORMATS for name in entry.names}
_BY_LANGUAGE = {entry.language: entry for entry in CODE_FORMATS}


def detect_format(uri: str) -> Format | None:
    """Return the format of a URI by its name or extension, or ``None``."""
    language = detect_language(uri)
    # A whole name takes precedence over the extension: CMakeLists.txt is not prose.
    if language is not None:
        return _BY_LANGUAGE[language.language]
    name = uri.rpartition("/")[2].lower()
    stem, dot, extension = name.rpartition(".")
    return _BY_EXTENSION.get(f".{extension}") if stem and dot else _BY_NAME.get(name)


def parser_for(uri: str) -> Parser | None:
    """Return the parser for a URI, or ``None`` if its format is unknown."""
    file_format = detect_format(uri)
    return _load(file_format.parser) if file_format else None


def text_parser_for(uri: str, *, as_source: bool = False) -> Parser:
    """Return the parser for the text of a file, whatever its format.

    Text that was extracted from a file is Markdown. With ``as_source``, the text is that of the
    file itself, although there is an extractor for files with this name.
    """
    extracted = extractor_for(uri)
    if extracted is not None and not as_source:
        return partial(_parse_extracted, extracted)
    return parser_for(uri) or _load(_PLAIN_PARSER)


def find_searched_end(uri: str, length: int) -> int:
    """Return how much of a text is split into chunks: of data that would fill the index, little."""
    if length <= _MOST_DATA or extractor_for(uri) is not None or detect_format(uri) in FORMATS:
        return length
    language = detect_language(uri)
    is_program = language is not None and language.category == "program" and ".min." not in uri
    return length if is_program and length <= _MOST_CODE else _HEAD


def is_readable(uri: str, any_text: bool) -> bool:
    """Whether a file with this name is read: its format is known, or any text is wanted."""
    return any_text or extractor_for(uri) is not None or detect_format(uri) is not None


def _parse_extracted(row: ExtractedFormat, uri: str, text: str) -> Document:
    document = _load(_EXTRACTED_PARSER)(uri, text)
    title = document.title if row.titled else ""
    return replace(document, language=row.extensions[0][1:], title=title)


@cache
def _load(parser: str) -> Parser:
    module, _, function = parser.partition(".")
    loaded: Parser = getattr(import_module(f"lookfar.text.parse.{module}"), function)
    return loaded
