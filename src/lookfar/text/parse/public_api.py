"""Reduce source code to its public API: signatures, documentation and types.

Bodies of functions, private functions, and imports that export nothing are removed.

Every line keeps its number, so a citation of the reduced text is one of the original file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from lookfar.text.parse.languages import detect_language
from lookfar.text.parse.syntax_tree import parse_tree

if TYPE_CHECKING:
    from tree_sitter import Node

_FUNCTIONS: Final = frozenset(
    (
        *("function_definition", "function_declaration", "function_item", "function_expression"),
        *("generator_function_declaration", "arrow_function", "method_definition"),
        *("method_declaration", "constructor_declaration"),
    )
)
"""Node types of functions in the grammars of Python, JavaScript, TypeScript, Rust, Go and Java."""
_PYTHON_BLOCKS: Final = frozenset(
    (
        *("module", "class_definition", "block", "decorated_definition", "if_statement"),
        *("elif_clause", "else_clause", "try_statement", "except_clause", "finally_clause"),
        *("with_statement", "for_statement", "while_statement", "match_statement", "case_clause"),
    )
)
"""Nodes of Python that can contain functions; all others, such as long tables, are not visited."""
_IMPORTS: Final = frozenset(
    (
        *("import_statement", "import_from_statement", "future_import_statement"),
        *("use_declaration", "import_declaration"),
    )
)
"""Node types of statements that name what other files define."""
_DECORATED: Final = frozenset(("decorated_definition", "export_statement"))
_PRIVATE_WORD: Final = re.compile(rb"\bprivate\b")
_DEEPEST: Final = 200
_LARGEST: Final = 2_000_000
"""Characters of a text that is parsed: without its bodies, it is small enough for an index."""


def reduce_to_api(uri: str, text: str) -> str:
    """Return the text without bodies of functions, private functions and imports.

    A text in another language, or one that cannot be parsed, is returned as it is.
    """
    language = detect_language(uri)
    tree = parse_tree(language, text, _LARGEST) if language is not None else None
    if tree is None or language is None:
        return text
    data = text.encode("utf-8")
    pieces: list[bytes] = []
    done = 0
    for start, end, replacement in _find_cuts(tree.root_node, language.language, data, uri):
        if start < done:
            continue
        pieces += [data[done:start], replacement]
        done = end
    return b"".join([*pieces, data[done:]]).decode("utf-8")


def _find_cuts(
    root: Node, language: str, data: bytes, uri: str
) -> Iterator[tuple[int, int, bytes]]:
    """Yield what is replaced, as start, end and replacement in bytes, in order."""
    waiting: list[tuple[Node, Node, int]] = [(root, root, 0)]
    while waiting:
        node, outer, depth = waiting.pop()
        if node.type in _FUNCTIONS:
            body = node.child_by_field_name("body")
            if _is_private(node, language, data):
                start = outer.start_byte
                yield start, node.end_byte, _blank(data[start : node.end_byte])
            elif body is not None:
                yield _cut_body(body, language, data)
        elif node.type in _IMPORTS:
            if not _exports(node, uri):
                yield (
                    node.start_byte,
                    node.end_byte,
                    _blank(data[node.start_byte : node.end_byte]),
                )
        elif depth < _DEEPEST:
            within = node if node.type in _DECORATED else None
            children = node.named_children
            if language == "python":
                children = [child for child in children if _can_define(child.type)]
            waiting += [(child, within or child, depth + 1) for child in reversed(children)]


def _can_define(kind: str) -> bool:
    return kind in _PYTHON_BLOCKS or kind in _FUNCTIONS or kind in _IMPORTS


def _exports(node: Node, uri: str) -> bool:
    """Return whether an import is part of the API: in a package's file, or made public."""
    if uri.endswith("__init__.py"):
        return True
    return any(child.type == "visibility_modifier" for child in node.named_children)


def _cut_body(body: Node, language: str, data: bytes) -> tuple[int, int, bytes]:
    start, end = body.start_byte, body.end_byte
    if language != "python":
        if data[start : start + 1] != b"{" or data[end - 1 : end] != b"}":
            return end, end, b""  # An expression, such as that of an arrow function.
        return start + 1, end - 1, _blank(data[start + 1 : end - 1])
    first = body.named_child(0)
    is_docstring = (
        first is not None
        and first.type in ("expression_statement", "string")
        and data[first.start_byte : first.start_byte + 4].lstrip(b"rRuU")[:1] in (b'"', b"'")
    )
    if is_docstring and first is not None:
        return first.end_byte, end, _blank(data[first.end_byte : end])
    return start, end, b"..." + _blank(data[start:end])


def _is_private(node: Node, language: str, data: bytes) -> bool:
    named = node.child_by_field_name("name")
    name = data[named.start_byte : named.end_byte].decode("utf-8", "replace") if named else ""
    if language == "python":
        return name.startswith("_") and not name.endswith("__")
    if language == "go":
        return bool(name) and not name[0].isupper()
    if language == "rust":
        return not _is_visible_in_rust(node, data)
    if name.startswith("#"):
        return True
    return named is not None and bool(
        _PRIVATE_WORD.search(data[node.start_byte : named.start_byte])
    )


def _is_visible_in_rust(node: Node, data: bytes) -> bool:
    """Return whether a function is public outside its crate, or belongs to a trait."""
    for child in node.named_children:
        if child.type == "visibility_modifier":
            return data[child.start_byte : child.end_byte] == b"pub"  # Not pub(crate).
    around = node.parent.parent if node.parent is not None else None
    if around is None:
        return False
    if around.type == "trait_item":
        return True
    return around.type == "impl_item" and around.child_by_field_name("trait") is not None


def _blank(data: bytes) -> bytes:
    return b"\n" * data.count(b"\n")
