"""Rules for Go, Rust, Zig, C and C++."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lookfar.model import SymbolKind
from lookfar.text.parse.grammars.rules import (
    Definition,
    Find,
    Rules,
    by_kind,
    find_child,
    node_text,
    nth,
    one_line,
)

if TYPE_CHECKING:
    from tree_sitter import Node
_DECLARATORS = frozenset(
    ("pointer_declarator", "reference_declarator", "attributed_declarator", "array_declarator",
     "parenthesized_declarator", "init_declarator")
)  # fmt: skip
_TYPE_KINDS: dict[str, SymbolKind] = {
    "struct_specifier": "struct", "union_specifier": "struct", "class_specifier": "class",
    "enum_specifier": "enum",
}  # fmt: skip
_GROUPS = frozenset(
    ("ERROR", "preproc_ifdef", "preproc_if", "preproc_else", "preproc_elif", "preproc_elifdef",
     "linkage_specification", "declaration_list")
)  # fmt: skip
# A call of a constructor looks like a declared function, so only types count in a function.
_LOCAL_KINDS: frozenset[SymbolKind] = frozenset(("struct", "class", "enum", "type"))
_MACROS = frozenset(("preproc_def", "preproc_function_def"))
_NESTED = re.compile(
    rb"\b(?:struct|class|union|enum)\b[^;(){}]*\{|#[ \t]*define\b|\btypedef\b|\busing\s+\w+\s*="
)


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


def _find_function_declarator(node: Node) -> Node | None:
    """Return the function declarator inside pointers and references, or None."""
    at = node.child_by_field_name("declarator")
    for _ in range(8):
        if at is None or at.type in ("function_declarator", "operator_cast"):
            return at
        if at.type not in ("pointer_declarator", "reference_declarator", "attributed_declarator"):
            return None
        at = at.child_by_field_name("declarator") or nth(at, at.named_child_count - 1)
    return None


def _find_declared_name(node: Node | None) -> str:
    """Return the name inside a declarator, or an empty string."""
    for _ in range(8):
        if node is None or node.type not in _DECLARATORS:
            break
        node = node.child_by_field_name("declarator") or nth(node, node.named_child_count - 1)
    if node is None or node.type not in ("identifier", "type_identifier", "qualified_identifier"):
        return ""
    return one_line(node_text(node), 120)


def _without_arguments(name: str) -> str:
    """Return a name without the arguments of a template: ``hash<int>`` is ``hash``."""
    return name if "operator" in name else name.partition("<")[0].rstrip()


def _find_function(node: Node) -> Definition | None:
    declarator = _find_function_declarator(node)
    body = node.child_by_field_name("body") or find_child(node, ("try_statement",))
    if declarator is None:
        return None
    if declarator.type == "operator_cast":
        name = one_line(node_text(declarator).partition("(")[0], 120)
        return Definition(node, "function", name, body, body)
    named = declarator.child_by_field_name("declarator")
    parameters = declarator.child_by_field_name("parameters")
    if named is not None and named.type == "function_declarator":
        # ``API int (name)(int a)``: the macro was taken for the type, and the type for the name.
        inner = nth(named.child_by_field_name("parameters") or named, 0)
        named = inner.child_by_field_name("type") if inner is not None else None
    elif named is not None and named.type == "parenthesized_declarator":
        named = nth(named, 0)
        if named is None or named.type != "identifier":
            return None  # A pointer to a function.
    name = one_line(node_text(named), 120)
    owner, _, last = name.rpartition("::") if "<" not in name else _split_template(name)
    owner = _without_arguments(owner.rpartition("::")[2] if "<" not in owner else owner)
    kind: SymbolKind = "method" if owner else "function"
    return Definition(node, kind, _without_arguments(last or name), body, body, parameters, owner)


def _split_template(name: str) -> tuple[str, str, str]:
    """Split ``Outer<A::B>::name`` at the last ``::`` outside of angle brackets."""
    depth = 0
    at = -1
    for index, character in enumerate(name):
        depth += (character == "<") - (character == ">")
        if depth <= 0 and name.startswith("::", index):
            at = index
    if at < 0:
        return "", "", name
    return _without_arguments(name[:at]).rpartition("::")[2], "::", name[at + 2 :]


def _find_type(node: Node) -> Definition | None:
    body = node.child_by_field_name("body")
    if body is None:
        return None
    name = _without_arguments(one_line(node_text(node.child_by_field_name("name")), 120))
    name = name.rpartition("::")[2]
    return Definition(node, _TYPE_KINDS[node.type], name, body, body) if name else None


def _find_inner_type(node: Node) -> Definition | None:
    """Return the type that a declaration defines on the way, or None."""
    inner = node.child_by_field_name("type")
    if inner is None or inner.type not in _TYPE_KINDS:
        return None
    definition = _find_type(inner)
    return definition._replace(node=node) if definition is not None else None


def _find_declaration(node: Node) -> Definition | list[Definition] | None:
    function = _find_function(node)
    if function is not None:
        return function if function.name else None
    definition = _find_inner_type(node)
    if definition is not None:
        return definition
    if find_child(node, ("storage_class_specifier",)) is not None:
        words = node_text(node)[:80].split("=")[0].split()
        if "extern" in words and "{" not in words:
            return None  # It is defined elsewhere.
    definitions: list[Definition] = []
    declarators = node.children_by_field_name("declarator")
    for declarator in declarators:
        name = _find_declared_name(declarator).rpartition("::")[2]
        if name:
            value = declarator.child_by_field_name("value")
            definitions.append(Definition(node, "constant", name, value, None, part=declarator))
    return definitions[0] if len(definitions) == len(declarators) == 1 else definitions


def _find_member(node: Node) -> Definition | None:
    return _find_function(node) or _find_inner_type(node)


def _find_typedef(node: Node) -> Definition | list[Definition] | None:
    inner = node.child_by_field_name("type")
    declarators = node.children_by_field_name("declarator")
    body = inner.child_by_field_name("body") if inner is not None else None
    definitions: list[Definition] = []
    for declarator in declarators:
        name = _find_typedef_name(declarator)
        if name:
            definitions.append(Definition(node, "type", name, None, None, part=declarator))
    if inner is None or body is None or not definitions:
        return definitions[0] if len(definitions) == len(declarators) == 1 else definitions
    own = _find_type(inner)
    kind = _TYPE_KINDS.get(inner.type, "struct")
    # ``typedef struct tag {...} Name``: the tag is another name of the type.
    inside = node if own is not None and own.name != definitions[0].name else body
    first = definitions[0]._replace(kind=kind, body=body, inside=inside)
    return [first, *definitions[1:]] if len(definitions) > 1 else first


def _find_typedef_name(declarator: Node) -> str:
    at: Node | None = declarator
    for _ in range(8):
        if at is None or at.type in ("type_identifier", "identifier", "primitive_type"):
            break
        inner = at.child_by_field_name("declarator")
        at = inner if inner is not None else nth(at, at.named_child_count - 1)
    return one_line(node_text(at), 120)


def _find_macro(node: Node) -> Definition | None:
    name = node.child_by_field_name("name")
    value = node.child_by_field_name("value")
    kind: SymbolKind = "macro" if node.type == "preproc_function_def" else "constant"
    parameters = node.child_by_field_name("parameters")
    return Definition(node, kind, node_text(name), value, None, parameters)


_FINDERS: dict[str, Find] = {
    "function_definition": _find_function,
    "declaration": _find_declaration,
    "field_declaration": _find_member,
    "struct_specifier": _find_type,
    "union_specifier": _find_type,
    "class_specifier": _find_type,
    "enum_specifier": _find_type,
    "type_definition": _find_typedef,
    "preproc_function_def": _find_macro,
    "preproc_def": _find_macro,
}
C = Rules(
    finders=_FINDERS,
    groups=_GROUPS,
    nested=_NESTED,
    local_kinds=_LOCAL_KINDS,
    everywhere=_MACROS,
)
CPP = Rules(
    definitions={
        "namespace_definition": "module",
        "alias_declaration": "type",
        "concept_definition": "type",
    },
    finders=_FINDERS,
    wrappers={"template_declaration": ""},
    groups=frozenset((*_GROUPS, "friend_declaration")),
    nested=_NESTED,
    local_kinds=_LOCAL_KINDS,
    everywhere=_MACROS,
)
