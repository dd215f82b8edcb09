"""Read the definitions of a source file as the call graph needs them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lookfar.model import CodeSymbol, Document, Section, Symbol
from lookfar.text.parse.calls.expressions import simplify_type
from lookfar.text.parse.calls.scopes import CONTAINERS

_WORD = re.compile(r"[\w$]")
_PARENTS = re.compile(r"(?:\bextends|\bimplements|(?<!:):(?!:)|<|\bwith)\s+(.*)$", re.DOTALL)
_ARGUMENTS = re.compile(r"\[[^\[\]]*\]|<[^<>]*>|\([^()]*\)")
_BETWEEN = re.compile(r",|\bimplements\b|\bextends\b|\bwith\b")
_ACCESS = re.compile(r"\b(?:public|private|protected|virtual)\b")
_PARENT = re.compile(r"[\w$.:\\]+")


def read_symbols(document: Document) -> Iterator[CodeSymbol]:
    """Yield every definition of a document."""
    text, sections, symbols = document.text, document.sections, document.symbols
    scripted = document.language in ("typescript", "tsx")
    for number, symbol in enumerate(symbols):
        after = symbols[number + 1] if number + 1 < len(symbols) else None
        section = sections[symbol.section]
        declared = _is_overload(symbol) or (
            scripted
            and after is not None
            and after.name == symbol.name
            and sections[after.section].parent == section.parent
        )
        start = section.span.start
        yield CodeSymbol(
            section=symbol.section,
            parent=section.parent,
            title=section.title,
            kind=symbol.kind,
            line=section.span.start_line
            + text.count("\n", start, _find_name(text, symbol, section)),
            end_line=section.span.end_line,
            returns=simplify_type(symbol.returns) if symbol.returns else "",
            bases=_read_bases(symbol) if symbol.kind in CONTAINERS else (),
            marks=("p" if _is_property(symbol) else "")
            + ("o" if declared else "")
            + ("t" if "test" in symbol.tags else ""),
        )


def _find_name(text: str, symbol: Symbol, section: Section) -> int:
    """Return the offset of a definition's name, not of the same word in a comment above it."""
    start, end = section.span.start, max(section.body, section.span.start + 1)
    before = symbol.signature.partition(symbol.name)[0]
    at = text.find(before + symbol.name, start, end) if before else -1
    if at >= 0:
        return at + len(before)
    at = text.find(symbol.name, start, end)
    while at >= 0 and not _is_word(text, at, min(at + len(symbol.name), end), end):
        at = text.find(symbol.name, at + 1, end)
    return at if at >= 0 else start


def _is_word(text: str, start: int, stop: int, end: int) -> bool:
    """Whether no letter or digit is next to ``text[start:stop]``; ``text`` ends at ``end``."""
    return not (start > 0 and _WORD.match(text, start - 1)) and not _WORD.match(text, stop, end)


def _is_overload(symbol: Symbol) -> bool:
    return bool(symbol.decorators) and any("overload" in mark for mark in symbol.decorators)


def _is_property(symbol: Symbol) -> bool:
    if "getter" in symbol.tags:
        return True
    return bool(symbol.decorators) and any("property" in mark for mark in symbol.decorators)


def _read_bases(symbol: Symbol) -> tuple[str, ...]:
    """Return the parents of a class, from its signature."""
    after = symbol.signature.partition(symbol.name)[2].lstrip()
    if after.startswith("("):
        listed = after[1:].rpartition(")")[0]
        if ":" in after.rpartition(")")[2]:  # Kotlin: parameters, then the parents.
            listed = after.rpartition(")")[2].partition(":")[2]
    else:
        match = _PARENTS.search(after)
        listed = match[1] if match else ""
    listed = _ARGUMENTS.sub("", listed)
    names = _BETWEEN.split(listed)
    cleaned = (_ACCESS.sub("", name).strip() for name in names)
    return tuple(
        name.replace("::", ".").replace("\\", ".").strip(".")
        for name in cleaned
        if _PARENT.fullmatch(name)
    )
