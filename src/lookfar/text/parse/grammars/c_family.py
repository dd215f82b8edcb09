"""Rules for C and C++."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lookfar.model import SymbolKind
from lookfar.text.parse.grammars.rules import (
    Definition,
    Find,
    Rules,
    node_text,
    nth,
    one_line,
)

if TYPE_CHECKING:
    from tree_sitter import Node


def _declared(node: Node) -> Node | None:
    """Return the function declarator inside pointers and references, or None."""
    at = node.child_by_field_name("declarator")
    for _ in range(8):
        if at is None or at.type == "function_declarator":
            return at
        if at.type not in ("pointer_declarator", "reference_declarator", "attributed_declarator"):
            return None
        at = at.child_by_field_name("declarator") or nth(at, at.named_child_count - 1)
    return None


def _c_function(node: Node) -> Definition | None:
    declarator = _declared(node)
    body = node.child_by_field_name("body")
    if declarator is None:
        return None
    named = declarator.child_by_field_name("declarator")
    if named is not None and named.type == "parenthesized_declarator":
        return None
    name = one_line(node_text(named), 120)
    owner, _, last = name.rpartition("::")
    owner = owner.rpartition("::")[2].split("<")[0]
    parameters = declarator.child_by_field_name("parameters")
    kind: SymbolKind = "method" if owner else "function"
    return Definition(node, kind, last or name, body, body, parameters, owner)


def _c_type(node: Node) -> Definition | None:
    kinds: dict[str, SymbolKind] = {
        "struct_specifier": "struct", "union_specifier": "struct", "class_specifier": "class",
        "enum_specifier": "enum",
    }  # fmt: skip
    body = node.child_by_field_name("body")
    if body is None:
        return None
    name = node_text(node.child_by_field_name("name"))
    return Definition(node, kinds[node.type], name, body, body) if name else None


def _c_declaration(node: Node) -> Definition | None:
    function = _c_function(node)
    if function is not None:
        return function
    inner = node.child_by_field_name("type")
    if inner is not None and inner.type.endswith("_specifier"):
        definition = _c_type(inner) if inner.child_by_field_name("body") is not None else None
        if definition is not None:
            return definition._replace(node=node)
    declarator = node.child_by_field_name("declarator")
    if declarator is None or declarator.type != "init_declarator":
        return None
    name = one_line(node_text(declarator.child_by_field_name("declarator")), 120)
    name = name.split("[")[0].lstrip("*& ").removeprefix("const ").lstrip("*& ")
    return Definition(node, "constant", name, declarator.child_by_field_name("value"), None)


def _c_typedef(node: Node) -> Definition | None:
    inner = node.child_by_field_name("type")
    name = one_line(node_text(node.child_by_field_name("declarator")), 120)
    if inner is not None and inner.child_by_field_name("body") is not None:
        definition = _c_type(inner)
        kind: SymbolKind = definition.kind if definition else "struct"
        return Definition(node, kind, name, inner.child_by_field_name("body"), None)
    return Definition(
        node, "type", name.lstrip("*(& ").split("(")[0].rstrip(")") or name, None, None
    )


def _c_macro(node: Node) -> Definition | None:
    name = node.child_by_field_name("name")
    value = node.child_by_field_name("value")
    kind: SymbolKind = "macro" if node.type == "preproc_function_def" else "constant"
    if kind == "constant" and value is None:
        return None
    parameters = node.child_by_field_name("parameters")
    return Definition(node, kind, node_text(name), value, None, parameters)


_C_FINDERS: dict[str, Find] = {
    "function_definition": _c_function,
    "declaration": _c_declaration,
    "field_declaration": _c_function,
    "struct_specifier": _c_type,
    "union_specifier": _c_type,
    "class_specifier": _c_type,
    "enum_specifier": _c_type,
    "type_definition": _c_typedef,
    "preproc_function_def": _c_macro,
    "preproc_def": _c_macro,
}
_C_GROUPS = frozenset(
    ("ERROR", "preproc_ifdef", "preproc_if", "preproc_else", "preproc_elif", "preproc_elifdef",
     "linkage_specification", "declaration_list")
)  # fmt: skip
C = Rules(finders=_C_FINDERS, groups=_C_GROUPS)
CPP = Rules(
    definitions={
        "namespace_definition": "module",
        "alias_declaration": "type",
        "concept_definition": "type",
    },
    finders=_C_FINDERS,
    wrappers={"template_declaration": ""},
    groups=_C_GROUPS,
)
