"""The comments and docstrings of source code, as exact slices.

Takes: a parsed document of the lane ``code``. Gives: its comments in order; those that stand
on lines one after another are one. Refuses: to say whether a comment is worth reading, and
to take what is quoted in a string for a comment where a grammar can tell.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from typing import TYPE_CHECKING

from lookfar.common.lines import Lines
from lookfar.model import Comment, Document
from lookfar.text.normalise import ByteOffsets
from lookfar.text.parse.grammars import RULES, parser_of
from lookfar.text.parse.languages import Language, named
from lookfar.text.parse.source_code import tree_of

if TYPE_CHECKING:
    from tree_sitter import Query, Tree

_DOCSTRINGS = {
    "python": (
        "(module . (expression_statement (string) @doc))"
        "(module . (comment)+ . (expression_statement (string) @doc))"
        "(block . (expression_statement (string) @doc))"
    ),
    "elixir": "(unary_operator (call (identifier) @word (arguments (string) @doc))"
    ' (#match? @word "^(doc|moduledoc|typedoc)$"))',
}
_MARKS_OF_DOCUMENTATION = ("/**", "///", "//!", "/*!", "-- |", "{-|", "{- |", "--[[--", "##")


def comments(document: Document, tree: Tree | None = None) -> tuple[Comment, ...]:
    """All comments of ``document``; ``tree`` is its own, where it was parsed already."""
    language = named(document.language)
    if language is None or not document.text.strip():
        return ()
    tree = tree or tree_of(language, document.text)
    if tree is not None:
        found = _by_grammar(document, language, tree)
    else:
        found = _by_lines(document.text, language)
    lines = Lines(document.text)
    starts = [section.span.start for section in document.sections]
    placed = []
    for start, end, documents in _joined(document.text, found):
        at = bisect_right(starts, start) - 1
        while at >= 0 and document.sections[at].span.end <= start:
            at = document.sections[at].parent
        placed.append(Comment(lines.span(start, end), documents, at))
    return tuple(placed)


@cache
def query_of(grammar: str, source: str) -> Query:
    """A compiled query; ``grammar`` names its language."""
    import tree_sitter

    language = parser_of(grammar).language
    assert language is not None
    return tree_sitter.Query(language, source)


def _by_grammar(document: Document, language: Language, tree: Tree) -> list[tuple[int, int, bool]]:
    import tree_sitter

    types = " ".join(f"({each}) @comment" for each in sorted(RULES[language.language].comments))
    docs = _DOCSTRINGS.get(language.language, "")
    query = query_of(language.grammar, f"{_known_types(language, types)} {docs}")
    captured = tree_sitter.QueryCursor(query).captures(tree.root_node)
    char = ByteOffsets(document.text).char
    found = []
    for node in captured.get("comment", ()):
        start, end = char(node.start_byte), char(node.end_byte)
        text = document.text[start:end]
        end -= len(text) - len(text.rstrip("\n"))
        found.append((start, end, text.startswith(_MARKS_OF_DOCUMENTATION)))
    docs_at = captured.get("doc", ())
    found += [(char(node.start_byte), char(node.end_byte), True) for node in docs_at]
    return sorted(set(found))


def _known_types(language: Language, types: str) -> str:
    """The node types that this version of the grammar has."""
    grammar = parser_of(language.grammar).language
    assert grammar is not None
    kinds = types.replace(" @comment", "").replace("(", "").replace(")", "").split()
    known = [each for each in kinds if grammar.id_for_node_kind(each, True)]
    return " ".join(f"({each}) @comment" for each in known)


def _by_lines(text: str, language: Language) -> list[tuple[int, int, bool]]:
    """Comments that begin a line: what stands behind code could be part of a string."""
    found: list[tuple[int, int, bool]] = []
    marks = language.line_comment
    opening, closing = language.block_comment or ("", "")
    offset = until = 0
    for line in text.split("\n"):
        start, offset = offset, offset + len(line) + 1
        bare = line.lstrip()
        begin = start + len(line) - len(bare)
        if start < until or not bare:
            continue
        if opening and bare.startswith(opening):
            stop = text.find(closing, begin + len(opening))
            until = stop + len(closing) if stop >= 0 else len(text)
            found.append((begin, until, bare.startswith(_MARKS_OF_DOCUMENTATION)))
        elif marks and bare.startswith(marks) and not bare.startswith("#!"):
            found.append((begin, start + len(line.rstrip()), False))
    return found


def _joined(text: str, found: list[tuple[int, int, bool]]) -> list[tuple[int, int, bool]]:
    """Comments on lines one after another as one."""
    joined: list[tuple[int, int, bool]] = []
    for start, end, documents in found:
        if joined and start < joined[-1][1]:
            continue
        alone = not text[text.rfind("\n", 0, start) + 1 : start].strip()
        if joined and alone and _BETWEEN.fullmatch(text, joined[-1][1], start):
            before = joined[-1]
            own_line = not text[text.rfind("\n", 0, before[0]) + 1 : before[0]].strip()
            if own_line and before[2] == documents:
                joined[-1] = (before[0], end, documents)
                continue
        if end > start:
            joined.append((start, end, documents))
    return joined


_BETWEEN = re.compile(r"[ \t]*\n[ \t]*")
