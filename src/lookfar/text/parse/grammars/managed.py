"""Rules for Java, C#, Kotlin, Swift and Scala."""

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


JAVA = Rules(
    definitions=by_kind(
        class_="class_declaration record_declaration",
        interface="interface_declaration annotation_type_declaration",
        enum="enum_declaration",
        method="method_declaration constructor_declaration compact_constructor_declaration",
    ),
    groups=frozenset(("ERROR", "enum_body_declarations")),
    comments=frozenset(("line_comment", "block_comment")),
)


def _csharp_operator(node: Node) -> Definition | None:
    operator = node.child_by_field_name("operator")
    body = node.child_by_field_name("body")
    name = f"operator {node_text(operator)}" if operator is not None else "this[]"
    return Definition(node, "method", name, body, None, node.child_by_field_name("parameters"))


def _csharp_property(node: Node) -> Definition | None:
    """Return a property that computes something; others are fields."""
    body = node.child_by_field_name("accessors") or node.child_by_field_name("value")
    if body is None or body.end_point[0] - body.start_point[0] < 3:
        return None
    return Definition(node, "other", node_text(node.child_by_field_name("name")), body, None)


CSHARP = Rules(
    definitions=by_kind(
        module="namespace_declaration",
        class_="class_declaration record_declaration",
        interface="interface_declaration",
        struct="struct_declaration record_struct_declaration",
        enum="enum_declaration",
        type="delegate_declaration",
        method="method_declaration constructor_declaration destructor_declaration",
        function="local_function_statement",
    ),
    finders={
        "operator_declaration": _csharp_operator,
        "conversion_operator_declaration": _csharp_operator,
        "indexer_declaration": _csharp_operator,
        "property_declaration": _csharp_property,
    },
    wrappers={"global_statement": ""},
    groups=frozenset(("ERROR", "preproc_if", "preproc_else", "preproc_elif", "preproc_region")),
)


def _kotlin_class(node: Node) -> Definition | None:
    words = node_text(node)[:200].split("{")[0].split()
    kind: SymbolKind = "class"
    if "interface" in words[:6]:
        kind = "interface"
    elif "enum" in words[:6]:
        kind = "enum"
    body = find_child(node, ("class_body", "enum_class_body"))
    return Definition(node, kind, node_text(node.child_by_field_name("name")), body, body)


def _kotlin_object(node: Node) -> Definition | None:
    body = find_child(node, ("class_body",))
    name = node_text(node.child_by_field_name("name")) or "Companion"
    return Definition(node, "class", name, body, body)


def _kotlin_property(node: Node) -> Definition | None:
    name = find_child(node, ("variable_declaration",))
    return Definition(node, "constant", node_text(name).split(":")[0].strip(), None, None)


KOTLIN = Rules(
    definitions={
        "function_declaration": "function",
        "secondary_constructor": "method",
        "type_alias": "type",
    },
    finders={
        "class_declaration": _kotlin_class,
        "object_declaration": _kotlin_object,
        "companion_object": _kotlin_object,
        "property_declaration": _kotlin_property,
    },
    comments=frozenset(("line_comment", "block_comment", "multiline_comment")),
    bodies=frozenset(("function_body", "class_body", "block")),
)


def _swift_type(node: Node) -> Definition | None:
    kinds: dict[str, SymbolKind] = {
        "class": "class", "struct": "struct", "enum": "enum", "extension": "impl",
        "actor": "class",
    }  # fmt: skip
    kind = kinds.get(node_text(node.child_by_field_name("declaration_kind")), "class")
    body = node.child_by_field_name("body")
    return Definition(node, kind, node_text(node.child_by_field_name("name")), body, body)


def _swift_property(node: Node) -> Definition | None:
    name = node_text(node.child_by_field_name("name"))
    return Definition(node, "constant", one_line(name, 80), node.child_by_field_name("value"), None)


SWIFT = Rules(
    definitions=by_kind(
        function="function_declaration",
        method="init_declaration deinit_declaration subscript_declaration",
        interface="protocol_declaration",
        type="typealias_declaration",
    ),
    finders={"class_declaration": _swift_type, "property_declaration": _swift_property},
    comments=frozenset(("comment", "multiline_comment")),
)


def _scala_value(node: Node) -> Definition | None:
    name = one_line(node_text(node.child_by_field_name("pattern")), 80)
    return Definition(node, "constant", name, node.child_by_field_name("value"), None)


SCALA = Rules(
    definitions=by_kind(
        class_="object_definition class_definition",
        module="package_object",
        trait="trait_definition",
        enum="enum_definition",
        function="function_definition function_declaration",
        type="type_definition",
        constant="given_definition",
    ),
    finders={"val_definition": _scala_value},
    groups=frozenset(("ERROR", "package_clause", "template_body", "extension_definition")),
    comments=frozenset(("comment", "block_comment")),
)
