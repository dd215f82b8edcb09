"""Rules for Haskell and Elixir."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lookfar.model import SymbolKind
from lookfar.text.parse.grammars.rules import (
    Definition,
    Find,
    Rules,
    find_child,
    node_text,
    nth,
    one_line,
)

if TYPE_CHECKING:
    from tree_sitter import Node


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

_ELIXIR_SCOPES: dict[str, SymbolKind] = {
    "defmodule": "module", "defprotocol": "interface", "defimpl": "impl",
}  # fmt: skip
_ELIXIR_FUNCTIONS: dict[str, SymbolKind] = {
    "def": "function", "defp": "function", "defmacro": "macro", "defmacrop": "macro",
    "defguard": "function", "defguardp": "function", "defdelegate": "function",
    "test": "function",
}  # fmt: skip


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
