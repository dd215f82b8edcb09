"""Rules for Go, Rust and Zig."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lookfar.model import SymbolKind
from lookfar.text.parse.grammars.rules import (
    Definition,
    Rules,
    by_kind,
    find_child,
    node_text,
    one_line,
)

if TYPE_CHECKING:
    from tree_sitter import Node


def _find_go_method(node: Node) -> Definition | None:
    name = node.child_by_field_name("name")
    receiver = node_text(node.child_by_field_name("receiver")).strip("()")
    owner = receiver.split("[")[0].split()[-1].lstrip("*") if receiver.split("[")[0].split() else ""
    body = node.child_by_field_name("body")
    parameters = node.child_by_field_name("parameters")
    return Definition(node, "method", node_text(name), body, body, parameters, owner)


def _find_go_type(node: Node) -> Definition | None:
    specs = [child for child in node.named_children if child.type in ("type_spec", "type_alias")]
    return _find_go_spec(specs[0], node) if len(specs) == 1 else None


def _find_go_spec(node: Node, outer: Node | None = None) -> Definition | None:
    kinds: dict[str, SymbolKind] = {"struct_type": "struct", "interface_type": "interface"}
    value = node.child_by_field_name("type")
    kind = kinds.get(value.type, "type") if value is not None else "type"
    body = value if kind != "type" else None
    inside = value if kind == "interface" else None
    return Definition(
        outer or node, kind, node_text(node.child_by_field_name("name")), body, inside
    )


def _find_go_values(node: Node) -> Definition | list[Definition] | None:
    """Return a single constant or variable; members of a group are found separately."""
    specs = [child for child in node.named_children if child.type in ("const_spec", "var_spec")]
    grouped = any(child.type == "(" for child in node.children)
    return _find_go_value(specs[0], node) if len(specs) == 1 and not grouped else None


def _find_go_value(node: Node, outer: Node | None = None) -> Definition | list[Definition] | None:
    names = node.children_by_field_name("name")
    value = node.child_by_field_name("value")
    definitions = [
        Definition(outer or node, "constant", node_text(name), value, None, part=name)
        for name in names
        if node_text(name) not in (",", "_")
    ]
    return definitions[0] if len(definitions) == 1 else definitions


GO = Rules(
    definitions={
        "function_declaration": "function",
        "method_elem": "method",
        "method_spec": "method",
    },
    finders={
        "method_declaration": _find_go_method,
        "type_declaration": _find_go_type,
        "type_spec": _find_go_spec,
        "const_declaration": _find_go_values,
        "var_declaration": _find_go_values,
        "const_spec": _find_go_value,
        "var_spec": _find_go_value,
    },
    groups=frozenset(
        ("ERROR", "type_declaration", "const_declaration", "var_declaration", "var_spec_list")
    ),
)


def _find_rust_impl(node: Node) -> Definition | None:
    name = one_line(node_text(node.child_by_field_name("type")), 120)
    body = node.child_by_field_name("body")
    return Definition(node, "impl", name.split("<")[0].lstrip("&"), body, body)


RUST = Rules(
    definitions=by_kind(
        function="function_item function_signature_item",
        struct="struct_item union_item",
        enum="enum_item",
        trait="trait_item",
        module="mod_item",
        macro="macro_definition",
        type="type_item",
        constant="const_item static_item",
    ),
    finders={"impl_item": _find_rust_impl},
    groups=frozenset(("ERROR", "foreign_mod_item", "declaration_list")),
    comments=frozenset(("line_comment", "block_comment")),
    attributes=frozenset(("attribute_item",)),
    members=frozenset(("const_item",)),
    nested=re.compile(rb"\b(?:fn|struct|enum|trait|impl|mod|macro_rules!|type)\s"),
)


def _find_zig_variable(node: Node) -> Definition | None:
    name = find_child(node, ("identifier",))
    kinds: dict[str, SymbolKind] = {
        "struct_declaration": "struct", "enum_declaration": "enum", "union_declaration": "struct",
        "opaque_declaration": "struct", "error_set_declaration": "enum",
    }  # fmt: skip
    value = find_child(node, tuple(kinds))
    if value is not None:
        return Definition(node, kinds[value.type], node_text(name), value, value)
    return Definition(node, "constant", node_text(name), None, None)


def _find_zig_test(node: Node) -> Definition | None:
    named, body = find_child(node, ("string", "identifier")), find_child(node, ("block",))
    return Definition(node, "function", node_text(named).strip('"') or "test", body, None)


ZIG = Rules(
    definitions={"function_declaration": "function"},
    finders={"variable_declaration": _find_zig_variable, "test_declaration": _find_zig_test},
    groups=frozenset(
        ("ERROR", "block", "expression_statement", "return_expression", "struct_declaration")
    ),
    members=frozenset(("variable_declaration",)),
    nested=re.compile(rb"\b(?:fn|struct|enum|union)\b"),
)
