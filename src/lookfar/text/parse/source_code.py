"""Parse source code into a tree of definitions with exact spans.

Sections are definitions (functions, methods, classes, types, constants), each from the comments
and decorators above it to the end of its last line, with a ``Symbol`` for each. Without a syntax
tree, line rules find where definitions start.
"""

from __future__ import annotations

import re

from lookfar.common.lines import Lines
from lookfar.model import Document, Section, Symbol
from lookfar.text.parse.boundaries import find_boundaries
from lookfar.text.parse.definition_tree import Definitions
from lookfar.text.parse.describe import TEST_NAME, comment_text
from lookfar.text.parse.formats import find_searched_end
from lookfar.text.parse.grammars.rules import one_line
from lookfar.text.parse.languages import (
    Language,
    detect_interpreter,
    detect_language,
    find_language,
)
from lookfar.text.parse.syntax_tree import parse_tree

_CPP_SIGNS = re.compile(
    r"^[ \t]*(?:class|namespace|template[ \t]*<|using[ \t]+\w+[ \t]*=|public:|private:|protected:)"
    r"|\bstd::|^#include[ \t]*<(?:string|vector|memory|utility|map|functional|type_traits)>",
    re.MULTILINE,
)


def parse(uri: str, text: str) -> Document:
    """Parse one source file; an unknown language is read as plain text."""
    language = detect_language(uri) or detect_interpreter(text) or _PLAIN
    if language.language == "c" and uri.lower().endswith(".h") and _CPP_SIGNS.search(text):
        language = find_language("cpp") or language
    whole, text = text, text[: find_searched_end(uri, len(text))]
    lines = Lines(text)
    tree = parse_tree(language, text)
    if tree is not None:
        outline = Definitions(text, lines, language)
        outline.read(tree)
        sections, symbols = outline.sections, outline.symbols
    else:
        sections, symbols = _outline_by_lines(text, lines, language)
    return Document(
        uri=uri,
        text=whole,
        title="",
        lane="code",
        language=language.language,
        body=0,
        sections=tuple(sections),
        symbols=tuple(symbols),
    )


_PLAIN = Language("Plain", "text", (), tier="plain")


def _outline_by_lines(
    text: str, lines: Lines, language: Language
) -> tuple[list[Section], list[Symbol]]:
    boundaries = find_boundaries(text, language.rules) if language.tier != "plain" else []
    sections: list[Section] = []
    symbols: list[Symbol] = []
    marks = (*language.line_comment, "@", "[", "*", "/*")
    starts = []
    floor = 0
    for boundary in boundaries:
        starts.append(_above(text, boundary.start, floor, marks))
        floor = boundary.start + 1
    first = starts[0] if starts else len(text)
    if text[:first].strip():
        sections.append(Section(0, -1, 0, "", (), lines.span(0, first), 0))
    for index, boundary in enumerate(boundaries):
        start = starts[index]
        end = starts[index + 1] if index + 1 < len(boundaries) else len(text)
        line_end = text.find("\n", boundary.start) + 1 or len(text)
        signature = one_line(text[boundary.start : line_end])
        ordinal = len(sections)
        sections.append(
            Section(
                ordinal, -1, 1, boundary.name, (boundary.name,), lines.span(start, end), line_end
            )
        )
        symbols.append(
            Symbol(
                section=ordinal,
                kind=boundary.kind,
                name=boundary.name,
                signature=signature.rstrip("{ "),
                docstring=comment_text(text[start : boundary.start])
                if language.category == "program"
                else "",
                tags=("test",) if TEST_NAME.search(boundary.name) else (),
            )
        )
    return sections, symbols


def _above(text: str, start: int, floor: int, marks: tuple[str, ...]) -> int:
    """Return where the comments directly above the line at ``start`` start."""
    while start > floor:
        line = text.rfind("\n", 0, start - 1) + 1
        if line < floor or not text[line : start - 1].lstrip().startswith(marks):
            break
        start = line
    return start
