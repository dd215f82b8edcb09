"""Read what the variables, parameters and attributes of a source file stand for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lookfar.text.parse.calls.call_rules import CallRules
from lookfar.text.parse.calls.expressions import EMPTY, NAME, OWN, UNKNOWN, simplify, simplify_type
from lookfar.text.parse.calls.scopes import Captured, Scopes
from lookfar.text.parse.grammars.rules import node_text, nth

if TYPE_CHECKING:
    from tree_sitter import Node

_LONGEST_PATTERN = 1_000
_WORDS = re.compile(r"[^\W\d][\w$]*")
_INFERRED = frozenset(("var()", "auto()", "let()", "val()"))
_NESTED = frozenset(("variable_declarator", "init_declarator"))
"""Nodes with the name and the value of a variable, inside the one with its type."""
_OPAQUE = frozenset(
    ("arrow_function", "function_expression", "generator_function", "string", "template_string")
)
"""Values whose text, which may be long, is never a path."""


def bind_parameters(matches: Iterable[Captured], rules: CallRules, scopes: Scopes) -> None:
    """Bind parameters without a type."""
    for match in matches:
        node = match["at"][0]
        scope = scopes.find(node.start_byte)
        text = node_text(node)
        if text in rules.own and scopes.is_method(scope):
            scopes.bind(scope, text, OWN)
            continue
        for name in _WORDS.findall(text.partition("=")[0]):
            scopes.bind(scope, name, UNKNOWN)


def bind_variables(
    matches: Iterable[Captured], language: str, rules: CallRules, scopes: Scopes
) -> None:
    """Bind variables, typed parameters and the attributes of classes."""
    attributes: list[tuple[int, str, str, int]] = []
    last = None
    for match in matches:
        node, first = match["at"][0], match["name"][0]
        if node == last:
            continue
        last, kind = node, node.type
        name, expression = _read_binding(node, first, kind, rules)
        scope = scopes.find(node.start_byte)
        if NAME.fullmatch(name):
            # In PHP an assignment declares a variable, in scripts it does not.
            assigns = kind == "assignment_expression" and language != "php"
            if assigns and scopes.look_up(name, scope) is None:
                continue
            scopes.bind(scope, name, expression)
        elif attribute := _read_own_attribute(name, rules):
            section = scopes.find_class(scope)
            if section >= 0:
                attributes.append((section, attribute, expression, scope))
        elif "." not in name and "->" not in name and "[" not in name[1:]:
            for word in _WORDS.findall(name[:_LONGEST_PATTERN]):
                scopes.bind(scope, word, UNKNOWN)
    for section, name, expression, scope in attributes:
        value = scopes.substitute(expression, scope) if expression else ""
        scopes.bind_variable(section, name, value)


def _read_binding(node: Node, first: Node, kind: str, rules: CallRules) -> tuple[str, str]:
    """Return the name, or pattern, that a node binds, and what it stands for."""
    bound = rules.bindings[kind]
    by_field = node.child_by_field_name
    given = by_field(bound.type) if bound.type else None
    value = by_field(bound.value) if bound.value else None
    if kind == "variable_declaration" and given is not None:
        first = nth(node, 1) or first
    if first.type in _NESTED:
        value = first.child_by_field_name("value") or value
        inner = first.child_by_field_name("name") or first.child_by_field_name("declarator")
        name = node_text(inner)
    else:
        name = node_text(first)
    expression = UNKNOWN
    if given is not None:
        expression = simplify_type(node_text(given))
    if (expression == UNKNOWN or expression in _INFERRED) and value is not None:
        expression = _evaluate(value, rules)
    elif expression in _INFERRED:
        expression = UNKNOWN
    return name.lstrip("*&").strip(), expression


def _evaluate(value: Node, rules: CallRules) -> str:
    """Return what a value stands for; empty for ``None`` and the like."""
    if value.type in _OPAQUE:
        return UNKNOWN
    written = node_text(value)
    if not written:
        return UNKNOWN
    return "" if written in EMPTY else simplify(written, rules)


def _read_own_attribute(name: str, rules: CallRules) -> str:
    """Return the attribute that is set on the object itself, as in ``self.size = 1``."""
    head, dot, rest = name.replace("->", ".").partition(".")
    return rest if dot and head in rules.own and NAME.fullmatch(rest) else ""
