"""Rules for Go, Rust and Zig."""

from __future__ import annotations

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


def _go_method(node: Node) -> Definition | None:
    name = node.child_by_field_name("name")
    receiver = node_text(node.child_by_field_name("receiver")).strip("()")
    owner = receiver.split("[")[0].split()[-1].lstrip("*") if receiver.split("[")[0].split() else ""
    body = node.child_by_field_name("body")
    parameters = node.child_by_field_name("parameters")
    return Definition(node, "method", node_text(name), body, body, parameters, owner)


def _go_type(node: Node) -> Definition | None:
    specs = [child for child in node.named_children if child.type in ("type_spec", "type_alias")]
    return _go_spec(specs[0], node) if len(specs) == 1 else None


def _go_spec(node: Node, outer: Node | None = None) -> Definition | None:
    kinds: dict[str, SymbolKind] = {"struct_type": "struct", "interface_type": "interface"}
    value = node.child_by_field_name("type")
    kind = kinds.get(value.type, "type") if value is not None else "type"
    body = value if kind != "type" else None
    return Definition(outer or node, kind, node_text(node.child_by_field_name("name")), body, None)


def _go_values(node: Node) -> Definition | None:
    """Return a single constant or variable; members of a group are found separately."""
    specs = [child for child in node.named_children if child.type in ("const_spec", "var_spec")]
    grouped = any(child.type == "(" for child in node.children)
    return _go_value(specs[0], node) if len(specs) == 1 and not grouped else None


def _go_value(node: Node, outer: Node | None = None) -> Definition | None:
    name = node.child_by_field_name("name")
    return Definition(
        outer or node, "constant", node_text(name), node.child_by_field_name("value"), None
    )


GO = Rules(
    definitions={"function_declaration": "function"},
    finders={
        "method_declaration": _go_method,
        "type_declaration": _go_type,
        "type_spec": _go_spec,
        "const_declaration": _go_values,
        "var_declaration": _go_values,
        "const_spec": _go_value,
        "var_spec": _go_value,
    },
    groups=frozenset(
        ("ERROR", "type_declaration", "const_declaration", "var_declaration", "var_spec_list")
    ),
)


def _rust_impl(node: Node) -> Definition | None:
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
    finders={"impl_item": _rust_impl},
    groups=frozenset(("ERROR", "foreign_mod_item", "declaration_list")),
    comments=frozenset(("line_comment", "block_comment")),
    attributes=frozenset(("attribute_item",)),
)


def _zig_variable(node: Node) -> Definition | None:
    name = find_child(node, ("identifier",))
    kinds: dict[str, SymbolKind] = {
        "struct_declaration": "struct", "enum_declaration": "enum", "union_declaration": "struct",
        "opaque_declaration": "struct", "error_set_declaration": "enum",
    }  # fmt: skip
    value = find_child(node, tuple(kinds))
    if value is not None:
        return Definition(node, kinds[value.type], node_text(name), value, value)
    return Definition(node, "constant", node_text(name), None, None)


def _zig_test(node: Node) -> Definition | None:
    named, body = find_child(node, ("string", "identifier")), find_child(node, ("block",))
    return Definition(node, "function", node_text(named).strip('"') or "test", body, None)


ZIG = Rules(
    definitions={"function_declaration": "function"},
    finders={"variable_declaration": _zig_variable, "test_declaration": _zig_test},
)
