"""Rules for Java, C#, Kotlin, Swift and Scala."""

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
    nth,
    one_line,
)

if TYPE_CHECKING:
    from tree_sitter import Node


_LOCAL_TYPES = re.compile(rb"\b(?:class|interface|enum|record)\s+\w|\bnew\b[^;{}]*\{")


def _find_java_constants(node: Node) -> list[Definition] | None:
    """Return the constants of a field declaration; other fields are part of their class."""
    words = node_text(find_child(node, ("modifiers",))).split()
    if node.type == "field_declaration" and not {"static", "final"} <= set(words):
        return None
    return [
        Definition(
            node, "constant", node_text(declarator.child_by_field_name("name")),
            declarator.child_by_field_name("value"), None, part=declarator,
        )
        for declarator in node.children_by_field_name("declarator")
    ]  # fmt: skip


def _find_java_enum_constant(node: Node) -> Definition | None:
    """Return a constant of an enumeration that has members of its own."""
    body = node.child_by_field_name("body")
    name = node_text(node.child_by_field_name("name"))
    return Definition(node, "class", name, body, body) if body is not None else None


JAVA = Rules(
    definitions=by_kind(
        class_="class_declaration record_declaration",
        interface="interface_declaration annotation_type_declaration",
        enum="enum_declaration",
        method="method_declaration constructor_declaration compact_constructor_declaration"
        " annotation_type_element_declaration",
    ),
    finders={
        "field_declaration": _find_java_constants,
        "constant_declaration": _find_java_constants,
        "enum_constant": _find_java_enum_constant,
    },
    groups=frozenset(
        ("ERROR", "enum_body_declarations", "local_variable_declaration", "variable_declarator",
         "object_creation_expression", "class_body", "return_statement", "expression_statement",
         "argument_list", "method_invocation", "assignment_expression", "if_statement", "block",
         "try_statement", "lambda_expression", "parenthesized_expression")
    ),
    comments=frozenset(("line_comment", "block_comment")),
    members=frozenset(("field_declaration", "constant_declaration")),
    nested=_LOCAL_TYPES,
)  # fmt: skip


def _find_csharp_operator(node: Node) -> Definition | None:
    operator = node.child_by_field_name("operator")
    body = node.child_by_field_name("body")
    name = f"operator {node_text(operator)}" if operator is not None else "this[]"
    return Definition(node, "method", name, body, None, node.child_by_field_name("parameters"))


def _find_csharp_property(node: Node) -> Definition | None:
    body = node.child_by_field_name("accessors") or node.child_by_field_name("value")
    name = node_text(node.child_by_field_name("name"))
    return Definition(node, "other", name, body, None) if name else None


def _find_csharp_fields(node: Node) -> list[Definition] | None:
    """Return events and constants; other fields are part of their class."""
    words = {node_text(child) for child in node.named_children if child.type == "modifier"}
    is_event = node.type == "event_field_declaration"
    if not is_event and "const" not in words and not {"static", "readonly"} <= words:
        return None
    declared = find_child(node, ("variable_declaration",))
    if declared is None:
        return None
    kind: SymbolKind = "other" if is_event else "constant"
    return [
        Definition(
            node, kind, node_text(child.child_by_field_name("name")),
            nth(child, child.named_child_count - 1) if child.named_child_count > 1 else None,
            None, part=child,
        )
        for child in declared.named_children
        if child.type == "variable_declarator"
    ]  # fmt: skip


# ``int Twice(int n) =>`` or, with the brace on the next line, ``int Twice(int n)``.
_LOCAL_FUNCTION = re.compile(
    rb"\n[ \t]+(?:(?:static|async|unsafe)[ \t]+)*[\w<>\[\]?,.]+[ \t]+\w+[ \t]*"
    rb"(?:<[\w, ]*>)?\([^()\n]*\)[ \t]*(?:=>|\{|\r?\n[ \t]*\{)"
)
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
        "operator_declaration": _find_csharp_operator,
        "conversion_operator_declaration": _find_csharp_operator,
        "indexer_declaration": _find_csharp_operator,
        "property_declaration": _find_csharp_property,
        "event_declaration": _find_csharp_property,
        "event_field_declaration": _find_csharp_fields,
        "field_declaration": _find_csharp_fields,
    },
    wrappers={"global_statement": ""},
    groups=frozenset(("ERROR", "preproc_if", "preproc_else", "preproc_elif", "preproc_region")),
    members=frozenset(("field_declaration",)),
    nested=_LOCAL_FUNCTION,
)


def _find_kotlin_class(node: Node) -> Definition | None:
    words = node_text(node)[:200].split("{")[0].split()
    kind: SymbolKind = "class"
    if "interface" in words[:6]:
        kind = "interface"
    elif "enum" in words[:6]:
        kind = "enum"
    body = find_child(node, ("class_body", "enum_class_body"))
    # The parameters of the constructor may be properties.
    return Definition(node, kind, node_text(node.child_by_field_name("name")), body, node)


def _find_kotlin_object(node: Node) -> Definition | None:
    body = find_child(node, ("class_body",))
    name = node_text(node.child_by_field_name("name")) or "Companion"
    return Definition(node, "class", name, body, body)


def _find_kotlin_parameter(node: Node) -> Definition | None:
    """Return a parameter of a constructor that is a property as well."""
    name = find_child(node, ("identifier", "simple_identifier"))
    words = node_text(node).partition(":")[0].split()
    if name is None or not {"val", "var"}.intersection(words):
        return None
    return Definition(node, "constant", node_text(name), None, None)


def _find_kotlin_alias(node: Node) -> Definition | None:
    return Definition(node, "type", node_text(node.child_by_field_name("type")), None, None)


def _find_kotlin_property(node: Node) -> Definition | None:
    name = find_child(node, ("variable_declaration",))
    if name is None:
        return None  # Several names at once.
    return Definition(node, "constant", node_text(name).split(":")[0].strip(), None, None)


KOTLIN = Rules(
    definitions={
        "function_declaration": "function",
        "secondary_constructor": "method",
    },
    finders={
        "class_declaration": _find_kotlin_class,
        "object_declaration": _find_kotlin_object,
        "companion_object": _find_kotlin_object,
        "property_declaration": _find_kotlin_property,
        "class_parameter": _find_kotlin_parameter,
        "type_alias": _find_kotlin_alias,
    },
    comments=frozenset(("line_comment", "block_comment", "multiline_comment")),
    bodies=frozenset(("function_body", "class_body", "block")),
    members=frozenset(("property_declaration", "class_parameter")),
    nested=re.compile(rb"\b(?:fun|class|object|interface)\b"),
    groups=frozenset(
        (
            "ERROR",
            "primary_constructor",
            "class_parameters",
            "enum_class_body",
            "property_declaration",
            "object_literal",
            "class_body",
            "call_expression",
            "value_arguments",
            "value_argument",
            "annotated_lambda",
            "lambda_literal",
            "statements",
            "block",
            "return_expression",
            "jump_expression",
            "if_expression",
            "control_structure_body",
            "function_body",
            "navigation_expression",
        )
    ),
)


def _find_swift_type(node: Node) -> Definition | None:
    kinds: dict[str, SymbolKind] = {
        "class": "class", "struct": "struct", "enum": "enum", "extension": "impl",
        "actor": "class",
    }  # fmt: skip
    kind = kinds.get(node_text(node.child_by_field_name("declaration_kind")), "class")
    body = node.child_by_field_name("body")
    return Definition(node, kind, node_text(node.child_by_field_name("name")), body, body)


def _find_swift_property(node: Node) -> Definition | None:
    name = node_text(node.child_by_field_name("name"))
    value = node.child_by_field_name("value") or node.child_by_field_name("computed_value")
    name = name.removeprefix("var ").removeprefix("let ")
    return Definition(node, "constant", one_line(name, 80), value, None)


SWIFT = Rules(
    definitions=by_kind(
        function="function_declaration protocol_function_declaration",
        method="init_declaration deinit_declaration subscript_declaration",
        interface="protocol_declaration",
        type="typealias_declaration",
    ),
    finders={
        "class_declaration": _find_swift_type,
        "property_declaration": _find_swift_property,
        "protocol_property_declaration": _find_swift_property,
    },
    comments=frozenset(("comment", "multiline_comment")),
    members=frozenset(("property_declaration", "protocol_property_declaration")),
    groups=frozenset(("ERROR", "statements")),
    nested=re.compile(rb"\b(?:func|class|struct|enum)\s+\w"),
)


def _find_scala_value(node: Node) -> Definition | None:
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
    finders={"val_definition": _find_scala_value, "var_definition": _find_scala_value},
    members=frozenset(("val_definition", "var_definition")),
    nested=re.compile(rb"\b(?:def|class|object|trait)\s+\w"),
    groups=frozenset(("ERROR", "package_clause", "template_body", "extension_definition", "block")),
    comments=frozenset(("comment", "block_comment")),
)
