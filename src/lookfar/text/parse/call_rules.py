"""Tables that say how each grammar writes calls, scopes, variables and imports."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Bound(NamedTuple):
    """The fields of a node that binds a variable; a missing field has an empty name."""

    name: str = ""
    """Without it, the first child is the name."""
    type: str = ""
    value: str = ""


Import = tuple[str, str, str]
"""The name that an import binds, the module, and the name there (empty: the module itself)."""


@dataclass(frozen=True, slots=True)
class CallRules:
    """How one grammar writes what the call graph needs."""

    calls: Mapping[str, str]
    """Calls, and the field with the called expression; without a field, the first child."""
    direct: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Calls that have fields for the receiver and the name."""
    creations: Mapping[str, str] = field(default_factory=dict)
    """Nodes that create an object, and the field with its class."""
    functions: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    bindings: Mapping[str, Bound] = field(default_factory=dict)
    parameters: str = ""
    """Query for parameters without a type, captured as ``@parameter``."""
    imports: tuple[str, ...] = ()
    read_import: Callable[[str], list[Import]] | None = None
    own: frozenset[str] = frozenset(("this", "self"))
    """Names of the object whose method runs."""
    parents: frozenset[str] = frozenset(("super",))
    implicit: bool = True
    """Whether a bare name can be a method of the same class."""


_SPACE = re.compile(r"\s+")
_QUOTED = re.compile(r"[\"'`]([^\"'`]*)[\"'`]")
_COMMENT = re.compile(r"#[^\n]*|//[^\n]*|/\*.*?\*/", re.DOTALL)


def _list_names(clause: str) -> list[tuple[str, str]]:
    """Split ``a, b as c`` into pairs of the name there and the name here."""
    pairs = []
    for part in clause.split(","):
        words = [word for word in part.split() if word not in ("type", "typeof")]
        if len(words) == 1:
            pairs.append((words[0], words[0]))
        elif len(words) == 3 and words[1] == "as":
            pairs.append((words[0], words[2]))
    return pairs


def read_python_import(text: str) -> list[Import]:
    """Return the names that a Python import binds."""
    text = _SPACE.sub(" ", _COMMENT.sub("", text)).replace("\\", "")
    if text.startswith("import "):
        imports = []
        for module, bound in _list_names(text.removeprefix("import ")):
            # ``import a.b`` binds ``a``; ``import a.b as c`` binds the module ``a.b``.
            plain = module == bound
            root = module.partition(".")[0] if plain else module
            imports.append((root if plain else bound, root, ""))
        return imports
    source, _, names = text.removeprefix("from ").partition(" import ")
    if names.strip(" ()") == "*":
        return [("*", source.strip(), "")]
    return [(bound, source.strip(), name) for name, bound in _list_names(names.strip(" ()"))]


_NAMESPACE = re.compile(r"\*\s*as\s+([\w$]+)")
_BRACES = re.compile(r"\{([^{}]*)\}")
_REQUIRE = re.compile(r"=\s*(?:await\s+)?(?:require|import)\(\s*[\"'`]([^\"'`]+)[\"'`]\s*\)")


def read_script_import(text: str) -> list[Import]:
    """Return the names that an ES import, a re-export or a ``require`` binds."""
    text = _COMMENT.sub(" ", text) if "/" in text.partition("from")[0] else text
    if text.startswith(("import", "export")):
        head, separator, source = text.rpartition("from")
        quoted = _QUOTED.search(source) if separator else None
        if quoted is None:
            return []
        module = quoted[1]
        head = head[6:].strip()
        if head == "*":
            return [("*", module, "")]
        imports = [(match[1], module, "") for match in _NAMESPACE.finditer(head)]
        for braces in _BRACES.finditer(head):
            imports += [(bound, module, name) for name, bound in _list_names(braces[1])]
        default = re.match(r"(?:type\s+)?([\w$]+)\s*(?:,|$)", head)
        if default and default[1] != "type":
            imports.append((default[1], module, "default"))
        return imports
    required = _REQUIRE.search(text[:2_000])
    if required is None:
        return []
    bound = text.partition("=")[0].strip()
    if bound.startswith("{"):
        return [
            (here.strip(), required[1], there.strip())
            for there, _, here in (
                part.partition(":") if ":" in part else (part, "", part)
                for part in bound.strip("{} \n").split(",")
            )
            if there.strip()
        ]
    return [(bound, required[1], "")] if re.fullmatch(r"[\w$]+", bound) else []


def read_go_import(text: str) -> list[Import]:
    """Return the name of an imported Go package."""
    quoted = _QUOTED.search(text)
    if quoted is None:
        return []
    alias = text[: quoted.start()].strip()
    parts = [part for part in quoted[1].split("/") if not re.fullmatch(r"v\d+", part)]
    return [(alias or (parts[-1] if parts else ""), quoted[1], "")]


def read_path_import(text: str) -> list[Import]:
    """Return the names of a Java, Kotlin, Scala, C# or PHP import: the last part of a path."""
    text = _SPACE.sub(" ", _COMMENT.sub(" ", text)).strip(" ;")
    text = re.sub(r"^(?:global )?(?:import|using|use)(?: static| function| const)? ", "", text)
    imports = []
    for part in text.split(","):
        path, _, alias = part.strip().partition(" as ")
        path = path.replace("\\", ".").strip(".")
        name = path.rpartition(".")[2]
        if re.fullmatch(r"\w+", name):
            imports.append((alias.strip() or name, path.rpartition(".")[0], name))
    return imports


def read_rust_import(text: str) -> list[Import]:
    """Return the names that a Rust ``use`` binds, also from nested braces."""
    written = _SPACE.sub(" ", _COMMENT.sub(" ", text)).partition("use ")[2].rstrip("; ")
    imports: list[Import] = []

    def read(prefix: str, rest: str) -> None:
        head, brace, inner = rest.partition("{")
        if brace:
            depth, start = 0, 0
            body = inner.rpartition("}")[0]
            for at, character in enumerate(body + ","):
                depth += (character == "{") - (character == "}")
                if character == "," and depth == 0:
                    if piece := body[start:at].strip():
                        read(prefix + head, piece)
                    start = at + 1
            return
        path, _, alias = (prefix + rest).strip().partition(" as ")
        module, _, name = path.rpartition("::")
        if name == "self":
            module, _, name = module.rpartition("::")
        imports.append((alias.strip() or name, module, name))

    read("", written)
    return imports


_SCRIPT = CallRules(
    calls={"call_expression": "function"},
    creations={"new_expression": "constructor"},
    functions=(
        "function_declaration", "function_expression", "arrow_function", "method_definition",
        "generator_function_declaration", "generator_function",
    ),
    classes=("class_declaration", "class"),
    bindings={
        "variable_declarator": Bound("name", "type", "value"),
        "for_in_statement": Bound("left"),
        "catch_clause": Bound("parameter"),
        "assignment_expression": Bound("left", "", "right"),
        "field_definition": Bound("property", "", "value"),
    },
    parameters="(formal_parameters [(identifier) (assignment_pattern) (rest_pattern)"
    " (object_pattern) (array_pattern)] @parameter)"
    " (arrow_function parameter: (identifier) @parameter)",
    imports=("import_statement", "export_statement", "variable_declarator"),
    read_import=read_script_import,
    implicit=False,
)  # fmt: skip
_TYPED_SCRIPT = CallRules(
    calls=_SCRIPT.calls,
    creations=_SCRIPT.creations,
    functions=_SCRIPT.functions,
    classes=(*_SCRIPT.classes, "abstract_class_declaration"),
    bindings={
        **{kind: bound for kind, bound in _SCRIPT.bindings.items() if kind != "field_definition"},
        "required_parameter": Bound("pattern", "type", ""),
        "optional_parameter": Bound("pattern", "type", ""),
        "public_field_definition": Bound("name", "type", "value"),
    },
    parameters="(arrow_function parameter: (identifier) @parameter)",
    imports=_SCRIPT.imports,
    read_import=read_script_import,
    implicit=False,
)
_C = CallRules(
    calls={"call_expression": "function"},
    functions=("function_definition",),
    bindings={
        "parameter_declaration": Bound("declarator", "type"),
        "declaration": Bound("declarator", "type"),
        "field_declaration": Bound("declarator", "type"),
    },
    imports=("preproc_include",),
)

CALL_RULES: dict[str, CallRules] = {
    "python": CallRules(
        calls={"call": "function"},
        functions=("function_definition", "lambda"),
        classes=("class_definition",),
        bindings={
            "typed_parameter": Bound("", "type"),
            "typed_default_parameter": Bound("name", "type"),
            "default_parameter": Bound("name"),
            "assignment": Bound("left", "type", "right"),
            "named_expression": Bound("name", "", "value"),
            "for_statement": Bound("left"),
            "for_in_clause": Bound("left"),
            "as_pattern": Bound("alias"),
        },
        parameters="(parameters (identifier) @parameter) (lambda_parameters (identifier)"
        " @parameter) (list_splat_pattern (identifier) @parameter)"
        " (dictionary_splat_pattern (identifier) @parameter)",
        imports=("import_statement", "import_from_statement"),
        read_import=read_python_import,
        own=frozenset(("self", "cls")),
        implicit=False,
    ),
    "javascript": _SCRIPT,
    "typescript": _TYPED_SCRIPT,
    "tsx": _TYPED_SCRIPT,
    "go": CallRules(
        calls={"call_expression": "function"},
        creations={"composite_literal": "type"},
        functions=("function_declaration", "method_declaration", "func_literal"),
        bindings={
            "parameter_declaration": Bound("name", "type"),
            "short_var_declaration": Bound("left", "", "right"),
            "var_spec": Bound("name", "type", "value"),
            "const_spec": Bound("name", "type", "value"),
            "range_clause": Bound("left"),
            "field_declaration": Bound("name", "type"),
        },
        imports=("import_spec",),
        read_import=read_go_import,
        own=frozenset(),
        implicit=False,
    ),
    "java": CallRules(
        calls={},
        direct={"method_invocation": ("object", "name")},
        creations={"object_creation_expression": "type"},
        functions=("method_declaration", "constructor_declaration", "lambda_expression"),
        classes=("class_declaration", "interface_declaration", "enum_declaration",
                 "record_declaration"),
        bindings={
            "formal_parameter": Bound("name", "type"),
            "local_variable_declaration": Bound("declarator", "type"),
            "field_declaration": Bound("declarator", "type"),
            "enhanced_for_statement": Bound("name", "type"),
        },
        imports=("import_declaration",),
        read_import=read_path_import,
    ),
    "csharp": CallRules(
        calls={"invocation_expression": "function"},
        creations={"object_creation_expression": "type"},
        functions=("method_declaration", "constructor_declaration", "local_function_statement",
                   "lambda_expression"),
        classes=("class_declaration", "interface_declaration", "struct_declaration",
                 "record_declaration"),
        bindings={
            "parameter": Bound("name", "type"),
            "variable_declaration": Bound("", "type"),
            "property_declaration": Bound("name", "type"),
        },
        imports=("using_directive",),
        parents=frozenset(("base",)),
    ),
    "rust": CallRules(
        calls={"call_expression": "function"},
        functions=("function_item", "closure_expression"),
        classes=("impl_item", "trait_item"),
        bindings={
            "parameter": Bound("pattern", "type"),
            "let_declaration": Bound("pattern", "type", "value"),
            "field_declaration": Bound("name", "type"),
        },
        imports=("use_declaration",),
        read_import=read_rust_import,
        own=frozenset(("self", "Self")),
        implicit=False,
    ),
    "c": _C,
    "cpp": CallRules(
        calls=_C.calls,
        creations={"new_expression": "type"},
        functions=("function_definition", "lambda_expression"),
        classes=("class_specifier", "struct_specifier"),
        bindings=_C.bindings,
        imports=_C.imports,
    ),
    "kotlin": CallRules(
        calls={"call_expression": ""},
        functions=("function_declaration", "lambda_literal"),
        classes=("class_declaration", "object_declaration"),
        bindings={
            "parameter": Bound(),
            "variable_declaration": Bound(),
            "class_parameter": Bound(),
        },
        imports=("import",),
        read_import=read_path_import,
    ),
    "swift": CallRules(
        calls={"call_expression": ""},
        functions=("function_declaration", "init_declaration", "lambda_literal"),
        classes=("class_declaration", "protocol_declaration"),
        bindings={"parameter": Bound("name"), "property_declaration": Bound("name", "", "value")},
    ),
    "ruby": CallRules(
        calls={},
        direct={"call": ("receiver", "method")},
        functions=("method", "singleton_method", "block", "do_block"),
        classes=("class", "module"),
        bindings={"assignment": Bound("left", "", "right")},
        parameters="(method_parameters (identifier) @parameter)"
        " (block_parameters (identifier) @parameter)",
    ),
    "php": CallRules(
        calls={"function_call_expression": "function"},
        direct={
            "member_call_expression": ("object", "name"),
            "nullsafe_member_call_expression": ("object", "name"),
            "scoped_call_expression": ("scope", "name"),
        },
        creations={"object_creation_expression": ""},
        functions=("function_definition", "method_declaration", "anonymous_function"),
        classes=("class_declaration", "interface_declaration", "trait_declaration"),
        bindings={
            "simple_parameter": Bound("name", "type"),
            "property_promotion_parameter": Bound("name", "type"),
            "assignment_expression": Bound("left", "", "right"),
        },
        imports=("namespace_use_declaration",),
        read_import=read_path_import,
        own=frozenset(("$this", "self", "static")),
        parents=frozenset(("parent",)),
        implicit=False,
    ),
    "scala": CallRules(
        calls={"call_expression": "function"},
        creations={"instance_expression": ""},
        functions=("function_definition", "lambda_expression"),
        classes=("class_definition", "object_definition", "trait_definition"),
        bindings={
            "parameter": Bound("name", "type"),
            "class_parameter": Bound("name", "type"),
            "val_definition": Bound("pattern", "type", "value"),
            "var_definition": Bound("pattern", "type", "value"),
        },
        imports=("import_declaration",),
        read_import=read_path_import,
    ),
    "lua": CallRules(
        calls={"function_call": "name"},
        functions=("function_declaration", "function_definition"),
        parameters="(parameters (identifier) @parameter)",
        implicit=False,
    ),
    "elixir": CallRules(calls={"call": "target"}, implicit=False),
    "zig": CallRules(
        calls={"call_expression": "function"},
        functions=("function_declaration",),
        bindings={"parameter": Bound("name", "type")},
        implicit=False,
    ),
    "bash": CallRules(calls={"command": "name"}, implicit=False),
}  # fmt: skip
"""By the name of the language. Haskell is missing: its calls are not a node of their own."""
