"""Rules for JavaScript, TypeScript and TSX."""

from __future__ import annotations

import re
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
_OPEN_VALUES = frozenset(("object", "as_expression", "satisfies_expression", "call_expression"))
"""Values that may contain definitions."""
_EXPORTS = ("module.exports.", "exports.")
_REFERENCES = frozenset(("identifier", "member_expression", "call_expression"))
"""Values defined elsewhere; exporting one does not define it."""
_DEFINING_CALL = re.compile(r"(?:[\w$.]+\.)?_*define\w*")
"""Calls that define a property: ``Object.defineProperty(Shelf.prototype, "size", ...)``."""
_ACCESSORS = frozenset(("get", "set", "value"))
"""Keys of a property's description, which are not names."""


def _find_value(node: Node, name: str, value: Node | None, kind: SymbolKind) -> Definition:
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
        if value.type == "call_expression" and name[:1].isupper() and _wraps_function(value):
            return Definition(node, "function", name, value, value)
        if value.type in _OPEN_VALUES:
            return Definition(node, kind, name, value, value)
    return Definition(node, kind, name, value, None)


def _wraps_function(call: Node) -> bool:
    """Whether a call receives a function first: ``forwardRef(...)``, ``memo(...)``."""
    arguments = call.child_by_field_name("arguments")
    first = nth(arguments, 0) if arguments is not None else None
    if first is not None and first.type == "call_expression":
        return _wraps_function(first)
    return first is not None and first.type in _FUNCTIONS


def _is_required(value: Node | None) -> bool:
    """Whether a value is an import: ``require("x")`` or ``require("x").y``."""
    for _ in range(4):
        if value is None or value.type not in ("member_expression", "call_expression"):
            return False
        if value.type == "call_expression":
            return node_text(value.child_by_field_name("function")) == "require"
        value = value.child_by_field_name("object")
    return False


def _find_variables(node: Node) -> Definition | list[Definition] | None:
    declared = [child for child in node.named_children if child.type == "variable_declarator"]
    definitions: list[Definition] = []
    for declarator in declared:
        name, value = (
            declarator.child_by_field_name("name"),
            declarator.child_by_field_name("value"),
        )
        if name is None or _is_required(value):
            continue
        if name.type == "identifier":
            start = node if len(declared) == 1 else declarator
            definitions.append(_find_value(start, node_text(name), value, "constant"))
        elif name.type in ("object_pattern", "array_pattern"):
            definitions += _find_unpacked(node, name, value)
    if len(declared) == 1 and len(definitions) == 1:
        return definitions[0]
    return definitions


def _find_unpacked(node: Node, pattern: Node, value: Node | None) -> list[Definition]:
    """Return the names of ``const { first, second: other } = value``."""
    definitions = []
    for child in pattern.named_children:
        name: Node | None = child
        if child.type == "pair_pattern":
            name = child.child_by_field_name("value")
        elif child.type == "object_assignment_pattern":
            name = child.child_by_field_name("left")
        if name is not None and name.type in (
            "identifier",
            "shorthand_property_identifier_pattern",
        ):
            text = node_text(name)
            definitions.append(Definition(node, "constant", text, value, None, part=child))
    return definitions


def _find_in_expression(node: Node) -> Definition | None:
    inner = nth(node, 0)
    if inner is None:
        return None
    if inner.type == "assignment_expression":
        return _find_assigned(node, inner)
    if inner.type == "call_expression":
        return _find_defined_property(node, inner)
    if inner.type == "internal_module":
        return Definition(
            inner, "module", node_text(inner.child_by_field_name("name")),
            inner.child_by_field_name("body"), inner.child_by_field_name("body"),
        )  # fmt: skip
    return None


def _find_assigned(node: Node, assignment: Node) -> Definition | None:
    left, right = assignment.child_by_field_name("left"), assignment.child_by_field_name("right")
    while right is not None and right.type == "assignment_expression":
        right = right.child_by_field_name("right")
    if left is None or left.type not in ("member_expression", "identifier"):
        return None
    if _is_required(right) or right is None:
        return None
    written = one_line(node_text(left), 120)
    owner, dot, name = written.partition(".prototype")
    if dot and (not name or name.startswith(".")):
        definition = _find_value(node, name[1:] or owner, right, "method")
        if not name:
            return definition._replace(kind="impl") if right.type == "object" else None
        is_real = definition.kind in ("class", "function") or definition.inside is not None
        return (
            definition._replace(kind="method", owner=owner)
            if is_real or _is_written_here(right)
            else None
        )
    if written in ("module.exports", "exports") and right.type in (*_FUNCTIONS, "class"):
        own = node_text(right.child_by_field_name("name"))
        return _find_value(node, own or "module.exports", right, "constant")
    exported = written.startswith(_EXPORTS)
    name = written.removeprefix("module.").removeprefix("exports.") if exported else written
    definition = _find_value(node, name, right, "constant")
    is_real = definition.kind != "constant" or definition.inside is not None
    return definition if is_real or (exported and _is_written_here(right)) else None


def _is_written_here(value: Node) -> bool:
    """Whether a value is written here and not a reference to one."""
    return value.type not in _REFERENCES


def _find_defined_property(node: Node, call: Node) -> Definition | None:
    """Return the property that ``defineGetter(object, "name", function () {})`` defines."""
    arguments = call.child_by_field_name("arguments")
    if arguments is None or arguments.named_child_count < 3:
        return None
    if not _DEFINING_CALL.fullmatch(node_text(call.child_by_field_name("function"))):
        return None
    owner, name, value = nth(arguments, 0), nth(arguments, 1), nth(arguments, 2)
    if owner is None or name is None or name.type != "string" or value is None:
        return None
    holder = one_line(node_text(owner), 80).removeprefix("module.").removesuffix(".prototype")
    if holder == "exports" or owner.type not in ("identifier", "member_expression"):
        holder = ""
    definition = _find_value(node, node_text(name).strip("\"'`"), value, "method")
    return definition._replace(kind="method", owner=holder)


def _find_named_function(node: Node) -> Definition | None:
    """Return a function expression with a name of its own, such as a callback."""
    name = node_text(node.child_by_field_name("name"))
    return _find_value(node, name, node, "constant") if name else None


def _find_export(node: Node) -> Definition | list[Definition] | None:
    """Return the value of ``export default``, if it is not declared with a name."""
    value = node.child_by_field_name("value")
    if value is None or value.type in ("identifier", "member_expression"):
        return None
    name = node_text(value.child_by_field_name("name")) if value.type != "call_expression" else ""
    if value.type == "call_expression":
        arguments = value.child_by_field_name("arguments")
        first = nth(arguments, 0) if arguments is not None else None
        if first is not None and first.type == "identifier" and not name:
            return None
        if first is not None and first.type in _FUNCTIONS:
            name = node_text(first.child_by_field_name("name"))
    definition = _find_value(node, name or "default", value, "constant")
    if value.type == "call_expression" and _wraps_function(value):
        return definition._replace(kind="function")
    return definition


def _find_field(node: Node) -> Definition | None:
    name = node.child_by_field_name("name") or node.child_by_field_name("property")
    value = node.child_by_field_name("value")
    if name is None or value is None:
        return None
    if value.type in _FUNCTIONS:
        return _find_value(node, node_text(name), value, "method")
    words = node_text(node)[: name.start_byte - node.start_byte].split()
    return _find_value(node, node_text(name), value, "constant") if "static" in words else None


def _find_pair(node: Node) -> Definition | None:
    key, value = node.child_by_field_name("key"), node.child_by_field_name("value")
    if key is None or value is None or value.type not in _FUNCTIONS:
        return None
    name = node_text(key).strip("\"'")
    if name in _ACCESSORS:
        name = node_text(value.child_by_field_name("name")) or name
    return _find_value(node, name, value, "method")


SCRIPT = Rules(
    definitions=by_kind(
        function="function_declaration generator_function_declaration function_signature",
        class_="class_declaration abstract_class_declaration",
        interface="interface_declaration",
        enum="enum_declaration",
        type="type_alias_declaration",
        module="internal_module module",
        method="method_definition abstract_method_signature method_signature",
    ),
    finders={
        "lexical_declaration": _find_variables,
        "variable_declaration": _find_variables,
        "expression_statement": _find_in_expression,
        "public_field_definition": _find_field,
        "field_definition": _find_field,
        "function_expression": _find_named_function,
        "generator_function": _find_named_function,
        "export_statement": _find_export,
        "pair": _find_pair,
    },
    wrappers={"export_statement": "", "ambient_declaration": ""},
    groups=frozenset(
        ("ERROR", "arguments", "object", "call_expression", "arrow_function",
         "satisfies_expression", "function_expression", "statement_block", "as_expression",
         "parenthesized_expression", "if_statement", "else_clause", "try_statement",
         "new_expression", "member_expression", "await_expression",
         "expression_statement", "return_statement")
    ),
    attributes=frozenset(("decorator",)),
    members=frozenset(("public_field_definition", "field_definition")),
    closures=frozenset(("arrow_function", "function_expression")),
    nested=re.compile(rb"function|=>|\bclass\b|\)\s*\{"),
)  # fmt: skip
