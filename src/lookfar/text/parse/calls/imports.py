"""Read the names that the imports of a source file bind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from lookfar.text.parse.calls.expressions import NAME
from lookfar.text.parse.grammars.rules import node_text

if TYPE_CHECKING:
    from lookfar.text.parse.calls.scopes import Captured

Import = tuple[str, str, str]
"""The name that an import binds, the module, and the name there (empty: the module itself)."""

_SPACE = re.compile(r"\s+")
_QUOTED = re.compile(r"[\"'`]([^\"'`]*)[\"'`]")
_COMMENT = re.compile(r"#[^\n]*|//[^\n]*|/\*.*?\*/", re.DOTALL)


def read_imports(
    matches: Iterable[Captured], read: Callable[[str], list[Import]] | None
) -> tuple[Import, ...]:
    """Return what the imports of a file bind; ``read`` reads the text of one import."""
    if read is None:
        return ()
    return tuple(
        dict.fromkeys(bound for match in matches for bound in read(node_text(match["at"][0])))
    )


def find_default_export(matches: Iterable[Captured]) -> str:
    """Return the name of what a script exports by default; empty if it has none."""
    for match in matches:
        node = match["at"][0]
        declared = node.child_by_field_name("declaration")
        if declared is not None:
            return node_text(declared.child_by_field_name("name"))
        value = node_text(node.child_by_field_name("value"))
        return value if NAME.fullmatch(value) else ""
    return ""


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
    if not text.startswith(("import", "export")):
        return _read_require(text) if "require(" in text or "import(" in text else []
    text = _remove_comments(text)
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


def _remove_comments(text: str) -> str:
    return _COMMENT.sub(" ", text) if "/" in text.partition("from")[0] else text


def _read_require(text: str) -> list[Import]:
    """Return the names that ``x = require("module")`` or a dynamic import binds."""
    text = _remove_comments(text)
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


@lru_cache(maxsize=2048)
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
