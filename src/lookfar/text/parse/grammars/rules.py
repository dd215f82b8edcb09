"""The form of the rules that find definitions in a syntax tree, and helpers to read nodes.

A rule looks at one node and a few of its children; it does not walk the tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, cast

from lookfar.model import SymbolKind

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


class Definition(NamedTuple):
    node: Node
    """The node at which its signature starts."""
    kind: SymbolKind
    name: str
    body: Node | None
    """The node before which its signature ends; None without a body."""
    inside: Node | None
    """The node whose children may be definitions, too."""
    parameters: Node | None = None
    owner: str = ""
    """The type of a method that is defined outside of it."""
    part: Node | None = None
    """Its part of a statement with several definitions, such as one of ``a, b = 1, 2``."""


Find = Callable[["Node"], Definition | list[Definition] | None]
"""Returns what a node defines; a node can define several names."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How to find definitions in one grammar."""

    definitions: Mapping[str, SymbolKind] = field(default_factory=dict)
    """Node types that are definitions, with the kind they define."""
    finders: Mapping[str, Find] = field(default_factory=dict)
    """Node types that need a function to decide."""
    wrappers: Mapping[str, str] = field(default_factory=dict)
    """Node types around one definition, and the field that contains it; empty for the last."""
    groups: frozenset[str] = frozenset(("ERROR",))
    """Node types that contain definitions but are not definitions."""
    comments: frozenset[str] = frozenset(("comment",))
    attributes: frozenset[str] = frozenset()
    """Siblings that belong to the definition after them."""
    bodies: frozenset[str] = frozenset()
    """Node types of bodies that are not in a named field."""
    joins: bool = False
    """Neighbours with the same name are one definition: equations, clauses."""
    members: frozenset[str] = frozenset()
    """Node types of constants that are definitions inside a type, too."""
    everywhere: frozenset[str] = frozenset()
    """Node types that are definitions even in a function, such as macros."""
    closures: frozenset[str] = frozenset()
    """Groups that are functions without a name; constants inside them are local."""
    nested: re.Pattern[bytes] | None = None
    """What a function must contain to be searched for definitions; by default, many lines."""
    local_kinds: frozenset[SymbolKind] | None = None
    """The kinds of definitions that a function may contain; any but constants by default."""


def by_kind(**node_types: str) -> dict[str, SymbolKind]:
    """Return the definitions of a grammar from its node types, listed by the kind they define."""
    return {
        node_type: cast("SymbolKind", kind.rstrip("_"))
        for kind, names in node_types.items()
        for node_type in names.split()
    }


def node_text(node: Node | None) -> str:
    raw = node.text if node is not None else None
    return raw.decode("utf-8", "replace") if raw else ""


def nth(node: Node, index: int) -> Node | None:
    """Return a named child, or None."""
    return node.named_child(index) if 0 <= index < node.named_child_count else None


def one_line(text: str, longest: int = 400) -> str:
    return " ".join(text[: 4 * longest].split())[:longest]


@cache
def load_parser(grammar: str) -> Parser:
    """Return the parser for a grammar, loaded once per process."""
    import tree_sitter

    module, _, function = grammar.rpartition(".")
    language = getattr(import_module(module), function)()
    return tree_sitter.Parser(tree_sitter.Language(language))


def find_child(node: Node, types: tuple[str, ...]) -> Node | None:
    return next((child for child in node.named_children if child.type in types), None)
