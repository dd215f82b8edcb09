"""Find the comments and docstrings of source code; those on consecutive lines are one comment."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from typing import TYPE_CHECKING

from lookfar.common.lines import Lines
from lookfar.model import Comment, Document
from lookfar.text.normalise import ByteOffsets
from lookfar.text.parse.grammars import RULES
from lookfar.text.parse.grammars.rules import load_parser
from lookfar.text.parse.languages import Language, find_language
from lookfar.text.parse.syntax_tree import parse_tree

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


def find_comments(document: Document, tree: Tree | None = None) -> tuple[Comment, ...]:
    """Return all comments of ``document``; pass ``tree`` if it is already parsed."""
    language = find_language(document.language)
    if language is None or not document.text.strip():
        return ()
    tree = tree or parse_tree(language, document.text)
    if tree is not None:
        ranges = _find_by_grammar(document, language, tree)
    else:
        ranges = _find_by_lines(document.text, language)
    lines = Lines(document.text)
    starts = [section.span.start for section in document.sections]
    comments = []
    for start, end, documents in _join_lines(document.text, ranges):
        at = bisect_right(starts, start) - 1
        while at >= 0 and document.sections[at].span.end <= start:
            at = document.sections[at].parent
        comments.append(Comment(lines.span(start, end), documents, at))
    return tuple(comments)


@cache
def compile_query(grammar: str, source: str) -> Query:
    import tree_sitter

    language = load_parser(grammar).language
    assert language is not None
    return tree_sitter.Query(language, source)


def _find_by_grammar(
    document: Document, language: Language, tree: Tree
) -> list[tuple[int, int, bool]]:
    import tree_sitter

    types = " ".join(f"({kind}) @comment" for kind in sorted(RULES[language.language].comments))
    docs = _DOCSTRINGS.get(language.language, "")
    query = compile_query(language.grammar, f"{_supported_types(language, types)} {docs}")
    captured = tree_sitter.QueryCursor(query).captures(tree.root_node)
    char = ByteOffsets(document.text).char
    ranges = []
    for node in captured.get("comment", ()):
        start, end = char(node.start_byte), char(node.end_byte)
        text = document.text[start:end]
        end -= len(text) - len(text.rstrip("\n"))
        ranges.append((start, end, text.startswith(_MARKS_OF_DOCUMENTATION)))
    docs_at = captured.get("doc", ())
    ranges += [(char(node.start_byte), char(node.end_byte), True) for node in docs_at]
    return sorted(set(ranges))


def _supported_types(language: Language, types: str) -> str:
    """Return the query for the node types that this version of the grammar has."""
    grammar = load_parser(language.grammar).language
    assert grammar is not None
    kinds = types.replace(" @comment", "").replace("(", "").replace(")", "").split()
    known = [kind for kind in kinds if grammar.id_for_node_kind(kind, True)]
    return " ".join(f"({kind}) @comment" for kind in known)


def _find_by_lines(text: str, language: Language) -> list[tuple[int, int, bool]]:
    """Find comments at the start of a line; text after code could be part of a string."""
    ranges: list[tuple[int, int, bool]] = []
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
            ranges.append((begin, until, bare.startswith(_MARKS_OF_DOCUMENTATION)))
        elif marks and bare.startswith(marks) and not bare.startswith("#!"):
            ranges.append((begin, start + len(line.rstrip()), False))
    return ranges


def _join_lines(text: str, ranges: list[tuple[int, int, bool]]) -> list[tuple[int, int, bool]]:
    """Join comments on consecutive lines."""
    joined: list[tuple[int, int, bool]] = []
    for start, end, documents in ranges:
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
