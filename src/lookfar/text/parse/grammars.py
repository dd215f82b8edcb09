"""Rules that find definitions in the syntax trees of each grammar.

A rule looks at one node and a few of its children; it does not walk the tree.
"""

from __future__ import annotations

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


Find = Callable[["Node"], Definition | None]


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


def _by_kind(**node_types: str) -> dict[str, SymbolKind]:
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


# --- JavaScript and TypeScript -----------------------------------------------------------------

_FUNCTIONS = frozenset(("arrow_function", "function_expression", "function", "generator_function"))


def _script_value(node: Node, name: str, value: Node | None, kind: SymbolKind) -> Definition:
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
        if value.type in ("object", "as_expression", "satisfies_expression", "call_expression"):
            return Definition(node, kind, name, value, value)
    return Definition(node, kind, name, value, None)


def _is_required(value: Node | None) -> bool:
    if value is None or value.type != "call_expression":
        return False
    return node_text(value.child_by_field_name("function")) == "require"


def _script_variable(node: Node) -> Definition | None:
    declared = [child for child in node.named_children if child.type == "variable_declarator"]
    if not declared:
        return None
    name = declared[0].child_by_field_name("name")
    if name is None or name.type != "identifier":
        return None
    value = declared[0].child_by_field_name("value") if len(declared) == 1 else None
    if _is_required(value):
        return None  # An import.
    return _script_value(node, node_text(name), value, "constant")


_EXPORTS = ("module.exports.", "exports.")
_REFERENCES = frozenset(("identifier", "member_expression", "call_expression"))
"""Values defined elsewhere; exporting one does not define it."""


def _script_expression(node: Node) -> Definition | None:
    inner = nth(node, 0)
    if inner is None:
        return None
    if inner.type == "assignment_expression":
        left, right = inner.child_by_field_name("left"), inner.child_by_field_name("right")
        if left is None or left.type not in ("member_expression", "identifier"):
            return None
        if _is_required(right):
            return None
        written = one_line(node_text(left), 120)
        name = written.removeprefix("module.").removeprefix("exports.")
        definition = _script_value(
            node, name if written.startswith(_EXPORTS) else written, right, "constant"
        )
        made = written.startswith(_EXPORTS) and right is not None and right.type not in _REFERENCES
        is_real = definition.kind != "constant" or definition.inside is not None or made
        return definition if is_real else None
    if inner.type == "internal_module":
        return Definition(
            inner, "module", node_text(inner.child_by_field_name("name")),
            inner.child_by_field_name("body"), inner.child_by_field_name("body"),
        )  # fmt: skip
    return None


def _script_field(node: Node) -> Definition | None:
    name = node.child_by_field_name("name") or node.child_by_field_name("property")
    value = node.child_by_field_name("value")
    if name is None or value is None or value.type not in _FUNCTIONS:
        return None
    return _script_value(node, node_text(name), value, "method")


def _script_pair(node: Node) -> Definition | None:
    key, value = node.child_by_field_name("key"), node.child_by_field_name("value")
    if key is None or value is None or value.type not in _FUNCTIONS:
        return None
    return _script_value(node, node_text(key).strip("\"'"), value, "method")


_SCRIPT = Rules(
    definitions=_by_kind(
        function="function_declaration generator_function_declaration function_signature",
        class_="class_declaration abstract_class_declaration",
        interface="interface_declaration",
        enum="enum_declaration",
        type="type_alias_declaration",
        module="internal_module module",
        method="method_definition abstract_method_signature",
    ),
    finders={
        "lexical_declaration": _script_variable,
        "variable_declaration": _script_variable,
        "expression_statement": _script_expression,
        "public_field_definition": _script_field,
        "field_definition": _script_field,
        "pair": _script_pair,
    },
    wrappers={"export_statement": "", "ambient_declaration": ""},
    groups=frozenset(
        ("ERROR", "arguments", "object", "call_expression", "arrow_function",
         "satisfies_expression", "function_expression", "statement_block", "as_expression",
         "parenthesized_expression",
         "expression_statement", "return_statement")
    ),
    attributes=frozenset(("decorator",)),
)  # fmt: skip


# --- Python ------------------------------------------------------------------------------------


def _python_statement(node: Node) -> Definition | None:
    inner = nth(node, 0)
    if inner is None or inner.type != "assignment":
        return None
    left = inner.child_by_field_name("left")
    if left is None or left.type != "identifier":
        return None
    return Definition(node, "constant", node_text(left), inner.child_by_field_name("right"), None)


def _python_alias(node: Node) -> Definition | None:
    return Definition(node, "type", one_line(node_text(nth(node, 0)), 80), None, None)


_PYTHON = Rules(
    definitions={"function_definition": "function", "class_definition": "class"},
    finders={"expression_statement": _python_statement, "type_alias_statement": _python_alias},
    wrappers={"decorated_definition": "definition"},
    groups=frozenset(
        ("ERROR", "if_statement", "elif_clause", "else_clause", "try_statement", "except_clause",
         "finally_clause", "with_statement", "block")
    ),
)  # fmt: skip


# --- Go ----------------------------------------------------------------------------------------


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


_GO = Rules(
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


# --- Java, C#, Kotlin, Scala, PHP, Swift -------------------------------------------------------

_JAVA = Rules(
    definitions=_by_kind(
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


_CSHARP = Rules(
    definitions=_by_kind(
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
    body = _child(node, ("class_body", "enum_class_body"))
    return Definition(node, kind, node_text(node.child_by_field_name("name")), body, body)


def _kotlin_object(node: Node) -> Definition | None:
    body = _child(node, ("class_body",))
    name = node_text(node.child_by_field_name("name")) or "Companion"
    return Definition(node, "class", name, body, body)


def _kotlin_property(node: Node) -> Definition | None:
    name = _child(node, ("variable_declaration",))
    return Definition(node, "constant", node_text(name).split(":")[0].strip(), None, None)


def _child(node: Node, types: tuple[str, ...]) -> Node | None:
    return next((child for child in node.named_children if child.type in types), None)


_KOTLIN = Rules(
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


_SWIFT = Rules(
    definitions=_by_kind(
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


_SCALA = Rules(
    definitions=_by_kind(
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

_PHP = Rules(
    definitions=_by_kind(
        module="namespace_definition",
        class_="class_declaration",
        interface="interface_declaration",
        trait="trait_declaration",
        enum="enum_declaration",
        function="function_definition",
        method="method_declaration",
    ),
    groups=frozenset(("ERROR", "if_statement", "compound_statement")),
)


# --- Rust --------------------------------------------------------------------------------------


def _rust_impl(node: Node) -> Definition | None:
    name = one_line(node_text(node.child_by_field_name("type")), 120)
    body = node.child_by_field_name("body")
    return Definition(node, "impl", name.split("<")[0].lstrip("&"), body, body)


_RUST = Rules(
    definitions=_by_kind(
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


# --- C and C++ ---------------------------------------------------------------------------------


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
_C = Rules(finders=_C_FINDERS, groups=_C_GROUPS)
_CPP = Rules(
    definitions={
        "namespace_definition": "module",
        "alias_declaration": "type",
        "concept_definition": "type",
    },
    finders=_C_FINDERS,
    wrappers={"template_declaration": ""},
    groups=_C_GROUPS,
)


# --- Ruby, Shell, Lua, Haskell, Elixir, Zig ----------------------------------------------------


def _ruby_scope(node: Node) -> Definition | None:
    kind: SymbolKind = "class" if node.type == "class" else "module"
    body = node.child_by_field_name("body")
    # A comment above the first member is a child of the class, not of its body.
    return Definition(node, kind, node_text(node.child_by_field_name("name")), body, node)


_RUBY = Rules(
    definitions={"method": "method", "singleton_method": "method"},
    finders={"class": _ruby_scope, "module": _ruby_scope},
    groups=frozenset(("ERROR", "body_statement", "singleton_class", "begin", "if", "unless")),
)

_BASH = Rules(
    definitions={"function_definition": "function"},
    groups=frozenset(("ERROR", "compound_statement", "if_statement")),
)


def _lua_function(node: Node) -> Definition | None:
    name = one_line(node_text(node.child_by_field_name("name")), 120)
    body = node.child_by_field_name("body")
    return Definition(node, "function", name, body, body, node.child_by_field_name("parameters"))


def _lua_value(node: Node) -> Definition | None:
    at = node if node.type == "assignment_statement" else nth(node, 0)
    if at is None or at.type != "assignment_statement":
        return None
    name, values = nth(at, 0), nth(at, 1)
    value = nth(values, 0) if values is not None else None
    if name is None or value is None:
        return None
    title = one_line(node_text(name), 80)
    if value.type == "function_definition":
        body = value.child_by_field_name("body")
        return Definition(
            node, "function", title, body, body, value.child_by_field_name("parameters")
        )
    return Definition(node, "constant", title, value, None)


_LUA = Rules(
    finders={
        "function_declaration": _lua_function,
        "variable_declaration": _lua_value,
        "assignment_statement": _lua_value,
    },
)


def _haskell_named(kind: SymbolKind, inside: str = "") -> Find:
    def find(node: Node) -> Definition | None:
        name = one_line(node_text(node.child_by_field_name("name")), 120)
        body = node.child_by_field_name(inside) if inside else None
        if kind == "impl":
            name = f"{name} {one_line(node_text(node.child_by_field_name('patterns')), 80)}".strip()
        return Definition(node, kind, name, body, body) if name else None

    return find


_HASKELL = Rules(
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
    given = _child(node, ("arguments",))
    first = nth(given, 0) if given is not None else None
    if kind is None or first is None:
        return None
    body = _child(node, ("do_block",))
    if word in _ELIXIR_SCOPES:
        return Definition(node, kind, one_line(node_text(first), 120), body, body)
    if first.type == "binary_operator":
        first = first.child_by_field_name("left") or first
    name = first.child_by_field_name("target") if first.type == "call" else first
    title = one_line(node_text(name), 120).strip('"')
    return Definition(node, kind, title, body, None, _child(first, ("arguments",)))


_ELIXIR = Rules(
    finders={"call": _elixir_call},
    attributes=frozenset(("unary_operator",)),
    joins=True,
)


def _zig_variable(node: Node) -> Definition | None:
    name = _child(node, ("identifier",))
    kinds: dict[str, SymbolKind] = {
        "struct_declaration": "struct", "enum_declaration": "enum", "union_declaration": "struct",
        "opaque_declaration": "struct", "error_set_declaration": "enum",
    }  # fmt: skip
    value = _child(node, tuple(kinds))
    if value is not None:
        return Definition(node, kinds[value.type], node_text(name), value, value)
    return Definition(node, "constant", node_text(name), None, None)


def _zig_test(node: Node) -> Definition | None:
    named, body = _child(node, ("string", "identifier")), _child(node, ("block",))
    return Definition(node, "function", node_text(named).strip('"') or "test", body, None)


_ZIG = Rules(
    definitions={"function_declaration": "function"},
    finders={"variable_declaration": _zig_variable, "test_declaration": _zig_test},
)

RULES: dict[str, Rules] = {
    "javascript": _SCRIPT, "typescript": _SCRIPT, "tsx": _SCRIPT, "python": _PYTHON, "go": _GO,
    "java": _JAVA, "rust": _RUST, "c": _C, "cpp": _CPP, "csharp": _CSHARP, "kotlin": _KOTLIN,
    "swift": _SWIFT, "ruby": _RUBY, "php": _PHP, "scala": _SCALA, "bash": _BASH, "lua": _LUA,
    "haskell": _HASKELL, "elixir": _ELIXIR, "zig": _ZIG,
}  # fmt: skip
"""Rules by language, for every language with a grammar."""
