"""Rules for JavaScript, TypeScript and TSX."""

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


_FUNCTIONS = frozenset(("arrow_function", "function_expression", "function", "generator_function"))


def _script_value(node: Node, name: str, value: Node | None, kind: SymbolKind) -> Definition:
    """Return the definition of a name; its value decides its kind."""
    if value is not None:
        if value.type in _FUNCTIONS:
            function: SymbolKind = "method" if kind == "method" else "function"
            body = value.child_by_field_name("body")
            parameters = value.child_by_field_name("parameters")
            parameters = parameters or value.child_by_field_name("parameter")
            return Definition(node, function, name, body, body, parameters)
        if value.type == "class":
            body = value.child_by_field_name("body")
            return Definition(node, "class", name, body, body)
        if value.type in ("object", "as_expression", "satisfies_expression", "call_expression"):
            return Definition(node, kind, name, value, value)
    return Definition(node, kind, name, value, None)


def _is_required(value: Node | None) -> bool:
    if value is None or value.type != "call_expression":
        return False
    return node_text(value.child_by_field_name("function")) == "require"


def _script_variable(node: Node) -> Definition | None:
    declared = [child for child in node.named_children if child.type == "variable_declarator"]
    if not declared:
        return None
    name = declared[0].child_by_field_name("name")
    if name is None or name.type != "identifier":
        return None
    value = declared[0].child_by_field_name("value") if len(declared) == 1 else None
    if _is_required(value):
        return None  # An import.
    return _script_value(node, node_text(name), value, "constant")


_EXPORTS = ("module.exports.", "exports.")
_REFERENCES = frozenset(("identifier", "member_expression", "call_expression"))
"""Values defined elsewhere; exporting one does not define it."""


def _script_expression(node: Node) -> Definition | None:
    inner = nth(node, 0)
    if inner is None:
        return None
    if inner.type == "assignment_expression":
        left, right = inner.child_by_field_name("left"), inner.child_by_field_name("right")
        if left is None or left.type not in ("member_expression", "identifier"):
            return None
        if _is_required(right):
            return None
        written = one_line(node_text(left), 120)
        name = written.removeprefix("module.").removeprefix("exports.")
        definition = _script_value(
            node, name if written.startswith(_EXPORTS) else written, right, "constant"
        )
        made = written.startswith(_EXPORTS) and right is not None and right.type not in _REFERENCES
        is_real = definition.kind != "constant" or definition.inside is not None or made
        return definition if is_real else None
    if inner.type == "internal_module":
        return Definition(
            inner, "module", node_text(inner.child_by_field_name("name")),
            inner.child_by_field_name("body"), inner.child_by_field_name("body"),
        )  # fmt: skip
    return None


def _script_field(node: Node) -> Definition | None:
    name = node.child_by_field_name("name") or node.child_by_field_name("property")
    value = node.child_by_field_name("value")
    if name is None or value is None or value.type not in _FUNCTIONS:
        return None
    return _script_value(node, node_text(name), value, "method")


def _script_pair(node: Node) -> Definition | None:
    key, value = node.child_by_field_name("key"), node.child_by_field_name("value")
    if key is None or value is None or value.type not in _FUNCTIONS:
        return None
    return _script_value(node, node_text(key).strip("\"'"), value, "method")


SCRIPT = Rules(
    definitions=by_kind(
        function="function_declaration generator_function_declaration function_signature",
        class_="class_declaration abstract_class_declaration",
        interface="interface_declaration",
        enum="enum_declaration",
        type="type_alias_declaration",
        module="internal_module module",
        method="method_definition abstract_method_signature",
    ),
    finders={
        "lexical_declaration": _script_variable,
        "variable_declaration": _script_variable,
        "expression_statement": _script_expression,
        "public_field_definition": _script_field,
        "field_definition": _script_field,
        "pair": _script_pair,
    },
    wrappers={"export_statement": "", "ambient_declaration": ""},
    groups=frozenset(
        ("ERROR", "arguments", "object", "call_expression", "arrow_function",
         "satisfies_expression", "function_expression", "statement_block", "as_expression",
         "parenthesized_expression",
         "expression_statement", "return_statement")
    ),
    attributes=frozenset(("decorator",)),
)  # fmt: skip
