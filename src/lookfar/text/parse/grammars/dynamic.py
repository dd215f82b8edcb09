"""Rules for Python, Ruby, PHP, Lua and shell scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lookfar.model import SymbolKind
from lookfar.text.parse.grammars.rules import (
    Definition,
    Rules,
    by_kind,
    node_text,
    nth,
    one_line,
)

if TYPE_CHECKING:
    from tree_sitter import Node


def _python_statement(node: Node) -> Definition | None:
    inner = nth(node, 0)
    if inner is None or inner.type != "assignment":
        return None
    left = inner.child_by_field_name("left")
    if left is None or left.type != "identifier":
        return None
    return Definition(node, "constant", node_text(left), inner.child_by_field_name("right"), None)


def _python_alias(node: Node) -> Definition | None:
    return Definition(node, "type", one_line(node_text(nth(node, 0)), 80), None, None)


PYTHON = Rules(
    definitions={"function_definition": "function", "class_definition": "class"},
    finders={"expression_statement": _python_statement, "type_alias_statement": _python_alias},
    wrappers={"decorated_definition": "definition"},
    groups=frozenset(
        ("ERROR", "if_statement", "elif_clause", "else_clause", "try_statement", "except_clause",
         "finally_clause", "with_statement", "block")
    ),
)  # fmt: skip


def _ruby_scope(node: Node) -> Definition | None:
    kind: SymbolKind = "class" if node.type == "class" else "module"
    body = node.child_by_field_name("body")
    # A comment above the first member is a child of the class, not of its body.
    return Definition(node, kind, node_text(node.child_by_field_name("name")), body, node)


RUBY = Rules(
    definitions={"method": "method", "singleton_method": "method"},
    finders={"class": _ruby_scope, "module": _ruby_scope},
    groups=frozenset(("ERROR", "body_statement", "singleton_class", "begin", "if", "unless")),
)

BASH = Rules(
    definitions={"function_definition": "function"},
    groups=frozenset(("ERROR", "compound_statement", "if_statement")),
)


def _lua_function(node: Node) -> Definition | None:
    name = one_line(node_text(node.child_by_field_name("name")), 120)
    body = node.child_by_field_name("body")
    return Definition(node, "function", name, body, body, node.child_by_field_name("parameters"))


def _lua_value(node: Node) -> Definition | None:
    at = node if node.type == "assignment_statement" else nth(node, 0)
    if at is None or at.type != "assignment_statement":
        return None
    name, values = nth(at, 0), nth(at, 1)
    value = nth(values, 0) if values is not None else None
    if name is None or value is None:
        return None
    title = one_line(node_text(name), 80)
    if value.type == "function_definition":
        body = value.child_by_field_name("body")
        return Definition(
            node, "function", title, body, body, value.child_by_field_name("parameters")
        )
    return Definition(node, "constant", title, value, None)


LUA = Rules(
    finders={
        "function_declaration": _lua_function,
        "variable_declaration": _lua_value,
        "assignment_statement": _lua_value,
    },
)


PHP = Rules(
    definitions=by_kind(
        module="namespace_definition",
        class_="class_declaration",
        interface="interface_declaration",
        trait="trait_declaration",
        enum="enum_declaration",
        function="function_definition",
        method="method_declaration",
    ),
    groups=frozenset(("ERROR", "if_statement", "compound_statement")),
)
