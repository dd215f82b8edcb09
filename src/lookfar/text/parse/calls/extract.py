"""Read what one source file contributes to the call graph, with one query over its syntax tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from lookfar.model import CallFacts, Document
from lookfar.text.parse.calls.bindings import bind_parameters, bind_variables
from lookfar.text.parse.calls.call_rules import CALL_RULES
from lookfar.text.parse.calls.imports import find_default_export, read_imports
from lookfar.text.parse.calls.scopes import Captured, Scopes, Sections
from lookfar.text.parse.calls.sites import read_sites
from lookfar.text.parse.calls.symbols import read_symbols
from lookfar.text.parse.comments import compile_query
from lookfar.text.parse.languages import Language, find_language
from lookfar.text.parse.syntax_tree import parse_tree

if TYPE_CHECKING:
    from tree_sitter import Tree


def find_calls(document: Document) -> CallFacts | None:
    """Return the facts of one source file; None without a grammar, or if it was not parsed."""
    rules = CALL_RULES.get(document.language)
    language = find_language(document.language)
    tree = parse_tree(language, document.text) if rules and language else None
    if rules is None or language is None or tree is None:
        return None
    nodes = _find_nodes(tree, language)
    sections = Sections(document)
    scopes = Scopes(nodes["function"], nodes["class"], sections)
    bind_parameters(nodes["parameter"], rules, scopes)
    bind_variables(nodes["bind"], document.language, rules, scopes)
    if exported := find_default_export(nodes["default"]):
        scopes.set_default(exported)
    return CallFacts(
        language=document.language,
        symbols=tuple(read_symbols(document)),
        calls=read_sites(nodes["callee"], nodes["direct"], rules, scopes, sections),
        imports=read_imports(nodes["import"], rules.read_import),
        variables=scopes.list_variables(),
    )


def _find_nodes(tree: Tree, language: Language) -> Mapping[str, list[Captured]]:
    """Return the nodes that the call graph needs, by their role and in the order of the text."""
    import tree_sitter

    patterns = _list_patterns(language.language)
    query = compile_query(language.grammar, " ".join(pattern for _, pattern in patterns))
    # Not ``captures``: it returns the nodes in the order of their memory addresses.
    matches = tree_sitter.QueryCursor(query).matches(tree.root_node)
    nodes: dict[str, list[Captured]] = {role: [] for role in _ROLES}
    append = [nodes[role].append for role, _ in patterns]
    for number, captured in matches:
        append[number](captured)
    return nodes


@cache
def _list_patterns(language: str) -> Sequence[tuple[str, str]]:
    """Return the patterns of a query, each with the role of the nodes that it finds."""
    rules = CALL_RULES[language]
    patterns: list[tuple[str, str]] = []
    for kind, name in (*rules.calls.items(), *rules.creations.items()):
        patterns.append(("callee", f"({kind} {_child(name)} @at)"))
    patterns += [("callee", pattern) for pattern in rules.decorators]
    for kind, (receiver, name) in rules.direct.items():
        patterns.append(("direct", f"({kind} {receiver}: (_) @receiver {name}: (_) @at)"))
        patterns.append(("direct", f"({kind} !{receiver} {name}: (_) @at)"))
    patterns += [("function", f"({kind}) @at") for kind in rules.functions]
    patterns += [("class", f"({kind}) @at") for kind in rules.classes]
    for kind, bound in rules.bindings.items():
        patterns.append(("bind", f"({kind} {_child(bound.name)} @name) @at"))
    patterns += [("parameter", pattern) for pattern in rules.parameters]
    patterns += [("import", pattern) for pattern in rules.imports]
    patterns += [("default", rules.default)] if rules.default else []
    return patterns


def _child(name: str) -> str:
    """Return the pattern of a field or, without a name, of the first child."""
    return f"{name}: (_)" if name else ". (_)"


_ROLES = ("callee", "direct", "function", "class", "bind", "parameter", "import", "default")
