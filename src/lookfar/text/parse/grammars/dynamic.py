"""Rules for Python, Ruby, PHP, Lua, shell scripts, Haskell and Elixir."""

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
_RUBY_ACCESSORS = frozenset(("attr_reader", "attr_writer", "attr_accessor", "attr"))
_RUBY_DEFINERS = frozenset(
    ("define_method", "define_singleton_method", "alias_method", "def_delegator", "delegate",
     "def_delegators", "def_instance_delegator", "def_instance_delegators")
)  # fmt: skip
_RUBY_CLASSES = frozenset(("Class", "Struct", "Module", "Data"))
BASH = Rules(
    definitions={"function_definition": "function"},
    groups=frozenset(("ERROR", "compound_statement", "if_statement")),
)
_ELIXIR_SCOPES: dict[str, SymbolKind] = {
    "defmodule": "module", "defprotocol": "interface", "defimpl": "impl",
}  # fmt: skip
_ELIXIR_FUNCTIONS: dict[str, SymbolKind] = {
    "def": "function", "defp": "function", "defmacro": "macro", "defmacrop": "macro",
    "defguard": "function", "defguardp": "function", "defdelegate": "function",
    "test": "function",
}  # fmt: skip


def _find_python_names(node: Node) -> Definition | list[Definition] | None:
    inner = nth(node, 0)
    if inner is None or inner.type != "assignment":
        return None
    left, right = inner.child_by_field_name("left"), inner.child_by_field_name("right")
    if left is None or (right is None and _is_in_python_class(node)):
        return None  # An annotation without a value is a field of its class.
    if left.type == "identifier":
        names = [left]
        while right is not None and right.type == "assignment":
            named = right.child_by_field_name("left")
            names += [named] if named is not None and named.type == "identifier" else []
            right = right.child_by_field_name("right")
    elif left.type in ("pattern_list", "tuple_pattern"):
        names = [child for child in left.named_children if child.type == "identifier"]
    else:
        return None
    definitions = [
        Definition(node, "constant", node_text(name), right, None, part=name) for name in names
    ]
    return definitions[0] if len(definitions) == 1 else definitions


def _is_in_python_class(node: Node) -> bool:
    block = node.parent
    return block is not None and block.parent is not None and block.parent.type.startswith("class")


def _find_python_alias(node: Node) -> Definition | None:
    return Definition(node, "type", one_line(node_text(nth(node, 0)), 80), None, None)


PYTHON = Rules(
    definitions={"function_definition": "function", "class_definition": "class"},
    finders={
        "expression_statement": _find_python_names,
        "type_alias_statement": _find_python_alias,
    },
    wrappers={"decorated_definition": "definition"},
    groups=frozenset(
        ("ERROR", "if_statement", "elif_clause", "else_clause", "try_statement", "except_clause",
         "finally_clause", "with_statement", "block", "for_statement", "while_statement",
         "match_statement", "case_clause")
    ),
    members=frozenset(("expression_statement",)),
    nested=re.compile(rb"\b(?:def|class)\s+\w"),
)  # fmt: skip


def _find_ruby_scope(node: Node) -> Definition | None:
    kind: SymbolKind = "class" if node.type == "class" else "module"
    body = node.child_by_field_name("body")
    owner, _, name = node_text(node.child_by_field_name("name")).rpartition("::")
    # A comment above the first member is a child of the class, not of its body.
    return Definition(node, kind, name, body, node, owner=owner.replace("::", "."))


def _find_ruby_call(node: Node) -> Definition | list[Definition] | None:
    """Return what a call at the level of a class defines, such as ``attr_reader :name``."""
    word = node_text(node.child_by_field_name("method"))
    arguments = node.child_by_field_name("arguments")
    if arguments is None or node.child_by_field_name("receiver") is not None:
        return None
    if word in _RUBY_ACCESSORS:
        return [
            Definition(node, "method", name, None, None, part=argument)
            for argument in arguments.named_children
            if (name := _read_ruby_symbol(argument))
        ]
    if word not in _RUBY_DEFINERS:
        return None
    symbols = [argument for argument in arguments.named_children if _read_ruby_symbol(argument)]
    block = node.child_by_field_name("block")
    body = block.child_by_field_name("body") if block is not None else None
    if word in ("delegate", "def_delegators", "def_instance_delegators"):
        return [
            Definition(node, "method", _read_ruby_symbol(argument), None, None, part=argument)
            for argument in symbols[0 if word == "delegate" else 1 :]
        ]
    named = symbols[-1 if word.startswith("def_") else 0] if symbols else None
    if named is None:
        return None
    return Definition(node, "method", _read_ruby_symbol(named), block, body)


def _read_ruby_symbol(node: Node) -> str:
    """Return the name that a symbol or string is, or an empty string."""
    if node.type not in ("simple_symbol", "string", "delimited_symbol"):
        return ""
    name = node_text(node).lstrip(":").strip("\"'")
    return name if "#{" not in name else ""


def _find_ruby_alias(node: Node) -> Definition | None:
    name = node_text(node.child_by_field_name("name")).lstrip(":")
    return Definition(node, "method", name, None, None)


def _find_ruby_constant(node: Node) -> Definition | list[Definition] | None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is not None and left.type == "left_assignment_list":
        return [
            Definition(node, "constant", node_text(name), right, None, part=name)
            for name in left.named_children
            if name.type == "constant"
        ]
    if left is None or right is None or left.type not in ("constant", "scope_resolution"):
        return None
    name = node_text(left)
    made = node_text(right.child_by_field_name("receiver")) if right.type == "call" else ""
    block = right.child_by_field_name("block") if made in _RUBY_CLASSES else None
    if made in _RUBY_CLASSES:
        body = block.child_by_field_name("body") if block is not None else None
        kind: SymbolKind = "module" if made == "Module" else "class"
        return Definition(node, kind, name, block, body)
    return Definition(node, "constant", name, right, None)


RUBY = Rules(
    definitions={"method": "method", "singleton_method": "method"},
    finders={
        "class": _find_ruby_scope,
        "module": _find_ruby_scope,
        "call": _find_ruby_call,
        "alias": _find_ruby_alias,
        "assignment": _find_ruby_constant,
    },
    groups=frozenset(
        ("ERROR", "body_statement", "singleton_class", "begin", "if", "unless", "then", "else",
         "elsif", "call", "do_block", "block", "block_body", "argument_list", "rescue", "ensure",
         "if_modifier", "unless_modifier")
    ),
    members=frozenset(("assignment",)),
    nested=re.compile(rb"\b(?:def|class|module|define_method)\b"),
)  # fmt: skip


def _find_lua_function(node: Node) -> Definition | None:
    name = one_line(node_text(node.child_by_field_name("name")), 120).replace(":", ".")
    body = node.child_by_field_name("body")
    return Definition(node, "function", name, body, body, node.child_by_field_name("parameters"))


def _find_lua_values(node: Node) -> Definition | list[Definition] | None:
    at = node if node.type == "assignment_statement" else nth(node, 0)
    if at is None or at.type != "assignment_statement":
        return None
    names, values = nth(at, 0), nth(at, 1)
    if names is None or values is None:
        return None
    several = names.named_child_count > 1
    definitions = []
    for number, name in enumerate(names.named_children):
        value = nth(values, min(number, values.named_child_count - 1))
        if value is None or (at is node and value.type in ("nil", "false", "true")):
            continue
        title = one_line(node_text(name), 80)
        definitions.append(_find_lua_value(node, title, value, name if several else None))
    return definitions if several else (definitions[0] if definitions else None)


def _find_lua_value(node: Node, title: str, value: Node, part: Node | None) -> Definition:
    if value.type == "function_definition":
        body = value.child_by_field_name("body")
        parameters = value.child_by_field_name("parameters")
        return Definition(node, "function", title, body, body, parameters, part=part)
    inside = value if value.type in ("table_constructor", "function_call") else None
    return Definition(node, "constant", title, value, inside, part=part)


def _find_lua_field(node: Node) -> Definition | None:
    """Return a function in a table; other fields are part of the table."""
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is None or value is None or value.type != "function_definition":
        return None
    return _find_lua_value(node, one_line(node_text(name), 80), value, None)


LUA = Rules(
    finders={
        "function_declaration": _find_lua_function,
        "variable_declaration": _find_lua_values,
        "assignment_statement": _find_lua_values,
        "field": _find_lua_field,
    },
    groups=frozenset(
        ("ERROR", "block", "if_statement", "elseif_statement", "else_statement", "do_statement",
         "for_statement", "while_statement", "repeat_statement", "return_statement",
         "expression_list", "table_constructor", "function_call", "arguments",
         "function_definition")
    ),
    closures=frozenset(("function_definition",)),
    nested=re.compile(rb"\bfunction\b"),
)  # fmt: skip


def _find_php_constants(node: Node) -> list[Definition]:
    return [
        Definition(node, "constant", node_text(nth(child, 0)), nth(child, 1), None, part=child)
        for child in node.named_children
        if child.type == "const_element"
    ]


def _find_php_define(node: Node) -> Definition | None:
    """Return the constant of ``define("NAME", 1)``."""
    call = nth(node, 0)
    if call is None or call.type != "function_call_expression":
        return None
    arguments = call.child_by_field_name("arguments")
    first = nth(arguments, 0) if arguments is not None else None
    if first is None or node_text(call.child_by_field_name("function")) != "define":
        return None
    return Definition(node, "constant", node_text(first).strip("\"'"), arguments, None)


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
    finders={
        "const_declaration": _find_php_constants,
        "expression_statement": _find_php_define,
    },
    groups=frozenset(("ERROR", "if_statement", "compound_statement", "else_clause")),
    members=frozenset(("const_declaration",)),
    nested=re.compile(rb"\b(?:function|class)\s+\w"),
)


def _haskell_named(kind: SymbolKind, inside: str = "") -> Find:
    def find(node: Node) -> Definition | None:
        name = one_line(node_text(node.child_by_field_name("name")), 120)
        body = node.child_by_field_name(inside) if inside else None
        if kind == "impl":
            name = f"{name} {one_line(node_text(node.child_by_field_name('patterns')), 80)}".strip()
        return Definition(node, kind, name, body, body) if name else None

    return find


HASKELL = Rules(
    finders={
        "signature": _haskell_named("function"),
        "function": _haskell_named("function"),
        "bind": _haskell_named("function"),
        "data_type": _haskell_named("type"),
        "newtype": _haskell_named("type"),
        "type_synonym": _haskell_named("type"),
        "type_synomym": _haskell_named("type"),
        "type_family": _haskell_named("type"),
        "class": _haskell_named("trait", "declarations"),
        "instance": _haskell_named("impl", "declarations"),
    },
    groups=frozenset(("ERROR", "declarations", "imports")),
    comments=frozenset(("comment", "haddock")),
    attributes=frozenset(("pragma",)),
    joins=True,
)


def _elixir_call(node: Node) -> Definition | None:
    word = node_text(node.child_by_field_name("target"))
    kind = _ELIXIR_SCOPES.get(word) or _ELIXIR_FUNCTIONS.get(word)
    given = find_child(node, ("arguments",))
    first = nth(given, 0) if given is not None else None
    if kind is None or first is None:
        return None
    body = find_child(node, ("do_block",))
    if word in _ELIXIR_SCOPES:
        return Definition(node, kind, one_line(node_text(first), 120), body, body)
    if first.type == "binary_operator":
        first = first.child_by_field_name("left") or first
    name = first.child_by_field_name("target") if first.type == "call" else first
    title = one_line(node_text(name), 120).strip('"')
    return Definition(node, kind, title, body, None, find_child(first, ("arguments",)))


ELIXIR = Rules(
    finders={"call": _elixir_call},
    attributes=frozenset(("unary_operator",)),
    joins=True,
)
