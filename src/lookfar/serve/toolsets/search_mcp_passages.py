"""Describe the passages of an answer as Search MCP does: a definition of code, or a section.

A chunk can hold several definitions if small ones are merged. The passage is then narrowed to the
one that matches best, so that name, lines and text describe the same thing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lookfar.collections.read_documents import read_page
from lookfar.common.lines import Lines
from lookfar.errors import NotFound
from lookfar.model import Answer, Document, Hit, Symbol
from lookfar.serve.tools.tool import Json
from lookfar.store.keywords.analyser import terms_of
from lookfar.text.parse.formats import detect_format, text_parser_for

if TYPE_CHECKING:
    from lookfar.collections.folder import Folder

Described = tuple[Hit, Json]
"""A hit and its metadata."""

MOST_CHARS: Final = 8_000
"""The longest text of a result."""
_CHUNK_TYPES: Final = frozenset(
    ("function", "class", "method", "interface", "struct", "trait", "impl", "enum", "module")
)
"""The kinds of symbols that Search MCP names; any other kind is "other"."""


# --- code -----------------------------------------------------------------------------------------


def describe_definitions(folder: Folder, answer: Answer) -> list[Described]:
    """Return each hit in code with its definition, narrowed to that definition."""
    parsed: dict[tuple[str, bool], Document] = {}
    described: list[Described] = []
    query_terms = frozenset(terms_of(answer.query))
    for hit in answer.hits:
        # If the text is still on disk, the line numbers of a hit are those of the file.
        on_disk = hit.state in ("same", "moved")
        if (hit.uri, on_disk) not in parsed:
            text = folder.readable(hit.uri) if on_disk else None
            if text is None:
                text = read_page(folder, hit.uri, as_of=answer.generation).text
            parse = text_parser_for(hit.uri, as_source=hit.lane == "code")
            parsed[hit.uri, on_disk] = parse(hit.uri, text)
        document = parsed[hit.uri, on_disk]
        by_definitions = folder.settings.chunk.strategy in ("code-aware", "ast")
        symbol = _choose_symbol(document, hit, query_terms) if by_definitions else None
        described.append((_narrow(document, hit, symbol), _render_symbol(symbol)))
    return described


def _choose_symbol(document: Document, hit: Hit, query_terms: frozenset[str]) -> Symbol | None:
    """Return the definition that a hit is, is part of, or contains."""
    own: Symbol | None = None
    around: Symbol | None = None
    inside: list[Symbol] = []
    end = 0
    for symbol in document.symbols:
        section = document.sections[symbol.section]
        span = section.span
        if span.start >= hit.span.end or span.end <= hit.span.start:
            continue
        if section.path == hit.path and own is None:
            own = symbol
        if span.start < hit.span.start:
            around = symbol
        elif span.start >= end:  # Not a member of the definition before it.
            inside.append(symbol)
            end = span.end
    if own is not None and (own in inside or not inside):
        return own
    return max(
        inside,
        key=lambda symbol: len(query_terms & set(terms_of(symbol.name))),
        default=own or around,
    )


def _narrow(document: Document, hit: Hit, symbol: Symbol | None) -> Hit:
    """Restrict a hit to the lines of its definition."""
    if symbol is None:
        return hit
    span = document.sections[symbol.section].span
    start, end = max(hit.span.start, span.start), min(hit.span.end, span.end)
    inner = hit.text[start - hit.span.start : end - hit.span.start]
    if not inner.strip():
        return hit
    return replace(hit, text=inner, span=Lines(document.text).span(start, end))


def _render_symbol(symbol: Symbol | None) -> Json:
    kind = symbol.kind if symbol is not None else "other"
    return {
        "type": kind if kind in _CHUNK_TYPES else "other",
        "name": symbol.name if symbol is not None else "",
        "signature": symbol.signature if symbol is not None else "",
    }


# --- documentation --------------------------------------------------------------------------------


def describe_sections(folder: Folder, answer: Answer) -> list[Described]:
    """Return each hit in documentation with the headings above it."""
    levels = _load_levels(folder, answer)
    return [(hit, _render_section(hit, levels.get(hit.chunk_id, 0))) for hit in answer.hits]


def _load_levels(folder: Folder, answer: Answer) -> dict[str, int]:
    """Return the heading level of each hit, by chunk."""
    levels: dict[str, int] = {}
    for uri in dict.fromkeys(hit.uri for hit in answer.hits):
        try:
            page = read_page(folder, uri, as_of=answer.generation)
        except NotFound:  # No longer in the index: guess the level from the depth.
            levels |= {h.chunk_id: min(len(h.path), 6) for h in answer.hits if h.uri == uri}
        else:
            levels |= {chunk.id: chunk.level for chunk in page.chunks}
    return levels


def _render_section(hit: Hit, level: int) -> Json:
    """Return the headings above a passage; plain text and comments have none."""
    file_format = detect_format(hit.uri)
    if hit.comment or file_format is None or file_format.language == "text":
        return {}
    metadata: Json = {
        "headerPath": list(hit.path[:-1]),
        "headerLevel": level if hit.path else 0,
        "sectionTitle": hit.path[-1] if hit.path else "",
    }
    if hit.parts > 1:
        metadata |= {"part": hit.part, "totalParts": hit.parts}
    return metadata


def add_breadcrumb(hit: Hit) -> str:
    """Return the passage below a line with its outer headings."""
    outer = hit.path if hit.comment else hit.path[:-1]
    above = f"[{' > '.join(outer)}]" if outer else ""
    continued = "(continued)" if hit.part > 1 else ""
    crumb = " ".join(filter(None, (above, continued)))
    return f"{crumb}\n\n{hit.text}" if crumb else hit.text


# --- length ---------------------------------------------------------------------------------------


def cut_text(hit: Hit, get_text: Callable[[Hit], str], chars: int) -> Hit:
    """Cut a hit so that what is shown of it has at most ``chars`` characters."""
    shown = len(get_text(hit))
    if shown <= chars:
        return hit
    text = hit.text[: max(0, len(hit.text) - (shown - chars))]
    last = hit.span.start_line + text[:-1].count("\n")
    span = replace(hit.span, end=hit.span.start + len(text), end_line=last)
    return replace(hit, text=text, span=span)
