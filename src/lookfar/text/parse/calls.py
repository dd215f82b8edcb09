"""Find the calls in source code, and what is needed to tell which definitions they reach.

Takes a parsed document; returns facts about this one file. Nothing is resolved here: which file an
import means, and who defines a method, is decided when the call graph is queried.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from lookfar.common.lines import Lines
from lookfar.model import CallFacts, CallSite, CodeSymbol, Document, Section, Symbol
from lookfar.text.normalise import ByteOffsets
from lookfar.text.parse.call_expressions import (
    EMPTY,
    OWN,
    PARENT,
    UNKNOWN,
    simplify,
    simplify_type,
)
from lookfar.text.parse.call_rules import CALL_RULES, Bound, CallRules, Import
from lookfar.text.parse.comments import compile_query
from lookfar.text.parse.grammars.rules import node_text
from lookfar.text.parse.languages import find_language
from lookfar.text.parse.syntax_tree import parse_tree

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

_LONGEST_CALLEE = 1_000
"""In a chain of calls, each call contains the one before it."""
_MOST_CALLS = 20_000
_DEEPEST = 4
_CONTAINERS = frozenset(("class", "interface", "struct", "trait", "impl", "enum", "module"))
_NAME = re.compile(r"[^\W\d][\w$]*[!?]?|\$[\w$]+|#?[^\W\d][\w$]*")
_WORDS = re.compile(r"[^\W\d][\w$]*")


def find_calls(document: Document) -> CallFacts | None:
    """Return the facts of one source file; None without a grammar, or if it was not parsed."""
    rules = CALL_RULES.get(document.language)
    language = find_language(document.language)
    if rules is None or language is None:
        return None
    tree = parse_tree(language, document.text)
    if tree is None:
        return None
    return _Reader(document, rules).read(tree, language.grammar)


# --- one file ------------------------------------------------------------------------------------


class _Scope:
    """A function or class of a file, with the names that it binds."""

    __slots__ = ("bound", "end", "is_class", "parent", "section", "start")

    def __init__(self, start: int, end: int, parent: int, is_class: bool) -> None:
        self.start, self.end, self.parent, self.is_class = start, end, parent, is_class
        self.section = -1
        self.bound: dict[str, set[str]] = {}


class _Reader:
    """Reads the facts of one file from the nodes that a query finds."""

    def __init__(self, document: Document, rules: CallRules) -> None:
        self._document = document
        self._rules = rules
        self._char = ByteOffsets(document.text).char
        self._line_of = Lines(document.text).line_of
        self._sections = document.sections
        self._section_starts = [section.span.start for section in document.sections]
        self._kinds = {symbol.section: symbol.kind for symbol in document.symbols}
        self._paths: dict[str, str] = {}
        self._scopes: list[_Scope] = []
        self._starts: list[int] = []
        self._variables: dict[int, dict[str, set[str]]] = {}
        self._attributes: list[tuple[int, str, str, int]] = []
        """Class section, name, expression and scope of what methods set on their object."""

    def read(self, tree: Tree, grammar: str) -> CallFacts:
        import tree_sitter

        query = compile_query(grammar, _compose_query(self._document.language))
        nodes = tree_sitter.QueryCursor(query).captures(tree.root_node)
        self._open_scopes(nodes.get("function", ()), nodes.get("class", ()))
        imports = list(self._read_imports(nodes.get("import", ())))
        for node in nodes.get("parameter", ()):
            self._bind_parameter(node)
        for node in nodes.get("bind", ()):
            self._bind(node, self._rules.bindings[node.type])
        for section, name, expression, scope in self._attributes:
            value = self._substitute(expression, scope, 0) if expression else ""
            self._variables.setdefault(section, {}).setdefault(name, set()).add(value)
        if exported := self._find_default(nodes.get("import", ())):
            self._variables.setdefault(-1, {})["default"] = {exported}
        calls = sorted(set(self._read_calls(nodes)), key=lambda call: call.line)
        return CallFacts(
            language=self._document.language,
            symbols=tuple(self._read_symbols()),
            calls=tuple(calls[:_MOST_CALLS]),
            imports=tuple(dict.fromkeys(imports)),
            variables=self._known_variables(),
        )

    def _known_variables(self) -> dict[int, dict[str, str]]:
        """Return the names of the file and of its classes that stand for one expression."""
        known: dict[int, dict[str, str]] = {}
        for section, names in sorted(self._variables.items()):
            for name, values in names.items():
                if value := _only(values):
                    known.setdefault(section, {})[name] = value
        return known

    def _simplify(self, written: str) -> str:
        """Reduce an expression; the same ones occur again and again in a file."""
        path = self._paths.get(written)
        if path is None:
            path = self._paths[written] = simplify(written, self._rules)
        return path

    # -- scopes --

    def _open_scopes(self, functions: Sequence[Node], classes: Sequence[Node]) -> None:
        spans = [(node.start_byte, -node.end_byte, False) for node in functions]
        spans += [(node.start_byte, -node.end_byte, True) for node in classes]
        open_scopes: list[int] = []
        for start, negative_end, is_class in sorted(set(spans)):
            while open_scopes and self._scopes[open_scopes[-1]].end <= start:
                open_scopes.pop()
            scope = _Scope(start, -negative_end, open_scopes[-1] if open_scopes else -1, is_class)
            if is_class:
                scope.section = self._find_container(start, -negative_end)
            open_scopes.append(len(self._scopes))
            self._scopes.append(scope)
            self._starts.append(start)

    def _find_container(self, start: int, end: int) -> int:
        """Return the section of the class that a node defines, or -1."""
        # The last byte is inside the body, where comments above do not matter.
        section = self._section_at(self._char(end - 1))
        while section >= 0 and (
            self._kinds.get(section) not in _CONTAINERS
            or self._sections[section].span.start > self._char(start)
        ):
            section = self._sections[section].parent
        return section

    def _scope_at(self, byte: int) -> int:
        number = bisect_right(self._starts, byte) - 1
        while number >= 0 and self._scopes[number].end <= byte:
            number = self._scopes[number].parent
        return number

    def _section_at(self, offset: int) -> int:
        number = bisect_right(self._section_starts, offset) - 1
        while number >= 0 and self._sections[number].span.end <= offset:
            number = self._sections[number].parent
        return number if number >= 0 and self._sections[number].path else -1

    # -- names --

    def _note(self, scope: int, name: str, value: str) -> None:
        """Record what a name stands for, in its scope."""
        if scope >= 0 and not self._scopes[scope].is_class:
            self._scopes[scope].bound.setdefault(name, set()).add(value)
            return
        section = self._scopes[scope].section if scope >= 0 else -1
        if scope < 0 or section >= 0:
            self._variables.setdefault(section, {}).setdefault(name, set()).add(value)

    def _bind_parameter(self, node: Node) -> None:
        scope = self._scope_at(node.start_byte)
        text = node_text(node)
        own = (
            text in self._rules.own
            and scope >= 0
            and (parent := self._scopes[scope].parent) >= 0
            and self._scopes[parent].is_class
        )
        if own:
            self._note(scope, text, OWN)
            return
        for name in _WORDS.findall(text.partition("=")[0]):
            self._note(scope, name, UNKNOWN)

    def _bind(self, node: Node, bound: Bound) -> None:
        first = node.child_by_field_name(bound.name) if bound.name else node.named_child(0)
        if first is None:
            return
        given = node.child_by_field_name(bound.type) if bound.type else None
        value = node.child_by_field_name(bound.value) if bound.value else None
        if node.type == "variable_declaration" and given is not None:
            first = node.named_child(1) or first
        name, written = node_text(first), ""
        if first.type in ("variable_declarator", "init_declarator"):
            written = node_text(first.child_by_field_name("value"))
            inner = first.child_by_field_name("name") or first.child_by_field_name("declarator")
            name = node_text(inner)
        written = written or (node_text(value) if value is not None else "")
        expression = self._evaluate(node_text(given) if given is not None else "", written)
        scope = self._scope_at(node.start_byte)
        name = name.lstrip("*&").strip()
        if _NAME.fullmatch(name):
            if node.type in ("assignment_expression",) and not self._is_local(scope, name):
                return
            self._note(scope, name, expression)
        elif (attribute := self._own_attribute(name, scope)) is not None:
            self._attributes.append((*attribute, expression, scope))
        elif "." not in name and "->" not in name and "[" not in name[1:]:
            for word in _WORDS.findall(name[:_LONGEST_CALLEE]):
                self._note(scope, word, UNKNOWN)

    def _is_local(self, scope: int, name: str) -> bool:
        """Whether an assignment binds a new name: in PHP always, in scripts a declared one."""
        if self._document.language == "php":
            return True
        while scope >= 0:
            if name in self._scopes[scope].bound:
                return True
            scope = self._scopes[scope].parent
        return False

    def _evaluate(self, given: str, written: str) -> str:
        if given and (expression := simplify_type(given)) != UNKNOWN:
            implied = expression in ("var()", "auto()", "let()", "val()")
            if not implied:
                return expression
        if not written or written in EMPTY:
            return "" if written else UNKNOWN
        return self._simplify(written)

    def _own_attribute(self, name: str, scope: int) -> tuple[int, str] | None:
        """Return class section and name of an attribute that is set on the object itself."""
        head, dot, rest = name.replace("->", ".").partition(".")
        if not dot or not _NAME.fullmatch(rest) or head not in self._rules.own:
            return None
        while scope >= 0 and not self._scopes[scope].is_class:
            scope = self._scopes[scope].parent
        section = self._scopes[scope].section if scope >= 0 else -1
        return (section, rest) if section >= 0 else None

    def _read_imports(self, nodes: Iterable[Node]) -> Iterable[Import]:
        read = self._rules.read_import
        for node in nodes if read is not None else ():
            kind = node.type
            if kind == "export_statement" and node.child_by_field_name("source") is None:
                continue
            if kind == "variable_declarator":
                value = node.child_by_field_name("value")
                if value is None or value.type not in ("call_expression", "await_expression"):
                    continue
            assert read is not None
            yield from read(node_text(node))

    def _find_default(self, nodes: Iterable[Node]) -> str:
        """Return what a script exports by default; empty if it has no name."""
        for node in nodes:
            if node.type == "export_statement" and any(c.type == "default" for c in node.children):
                declared = node.child_by_field_name("declaration")
                if declared is not None:
                    return node_text(declared.child_by_field_name("name"))
                value = node_text(node.child_by_field_name("value"))
                return value if _NAME.fullmatch(value) else ""
        return ""

    # -- calls --

    def _read_calls(self, nodes: Mapping[str, Sequence[Node]]) -> Iterable[CallSite]:
        rules = self._rules
        for node in nodes.get("call", ()):
            field_name = rules.calls[node.type]
            callee = node.child_by_field_name(field_name) if field_name else node.named_child(0)
            if callee is not None:
                yield from self._read_callee(node, node_text(callee))
        for node in nodes.get("creation", ()):
            field_name = rules.creations[node.type]
            callee = node.child_by_field_name(field_name) if field_name else node.named_child(0)
            if callee is not None:
                yield from self._read_callee(node, node_text(callee).lstrip("*&"))
        for node in nodes.get("direct", ()):
            receiver, name = rules.direct[node.type]
            called = node.child_by_field_name(name)
            before = node.child_by_field_name(receiver)
            if called is None:
                continue
            path = self._simplify(node_text(before)) if before is not None else ""
            line = self._line_of(self._char(called.start_byte))
            yield from self._place(called.start_byte, line, node_text(called), path)
        for node in nodes.get("decorator", ()):
            yield from self._read_callee(node, node_text(node))

    def _read_callee(self, node: Node, written: str) -> Iterable[CallSite]:
        if len(written) > _LONGEST_CALLEE:  # A long chain: only its last name is of use.
            written = "?." + written[-80:].rpartition(".")[2]
        path = self._simplify(written)
        if path == UNKNOWN:
            tail = re.search(r"(?:\.|->|::)\s*([^\W\d][\w$]*)\s*$", written)
            path = f"?.{tail[1]}" if tail else UNKNOWN
        receiver, _, name = path.rpartition(".")
        if path in (OWN, PARENT):
            receiver, name = path, "constructor"
        if path != UNKNOWN and not name.endswith("()"):
            # The name is at the end of a chain that may begin lines above.
            line = self._line_of(self._char(node.start_byte)) + written.count("\n")
            yield from self._place(node.start_byte, line, name, receiver)

    def _place(self, byte: int, line: int, name: str, receiver: str) -> Iterable[CallSite]:
        name = name.strip("$@")
        if not _NAME.fullmatch(name):
            return
        scope = self._scope_at(byte)
        if receiver.startswith(("@", "^")):
            resolved = receiver
        elif receiver:
            resolved = self._substitute(receiver, scope, 0)
        else:
            value = self._look_up(name, scope)
            if value is not None:
                path = self._substitute(value, scope, 1) if value != UNKNOWN else UNKNOWN
                if path == UNKNOWN or path.endswith("()") or path in (OWN, PARENT):
                    return  # A parameter or a computed value: which function it is, is not known.
                receiver, _, name = path.rpartition(".")
            resolved = receiver
        section = self._section_at(self._char(byte))
        yield CallSite(section, line, name, resolved)

    def _look_up(self, name: str, scope: int) -> str | None:
        """Return the expression of a local name; None if no function around binds it."""
        while scope >= 0:
            values = self._scopes[scope].bound.get(name)
            if values is not None:
                return _only(values) or UNKNOWN
            scope = self._scopes[scope].parent
        return None

    def _substitute(self, path: str, scope: int, depth: int) -> str:
        """Replace a local name at the start of a path by what it stands for."""
        head, dot, rest = path.partition(".")
        bare = head.removesuffix("()")
        value = self._look_up(bare, scope)
        if value is None:
            return path
        if value == UNKNOWN or depth > _DEEPEST or value.partition(".")[0] == head:
            return UNKNOWN
        if bare != head:
            value = UNKNOWN if value.endswith("()") else f"{value}()"
        if value == UNKNOWN:
            return UNKNOWN
        return self._substitute(f"{value}{dot}{rest}", scope, depth + 1)

    # -- definitions --

    def _read_symbols(self) -> Iterable[CodeSymbol]:
        text = self._document.text
        symbols = self._document.symbols
        scripted = self._document.language in ("typescript", "tsx")
        for number, symbol in enumerate(symbols):
            after = symbols[number + 1] if number + 1 < len(symbols) else None
            section = self._sections[symbol.section]
            at = _find_name(text, symbol, section)
            marks = "p" if _is_property(symbol) else ""
            declared = any("overload" in mark for mark in symbol.decorators) or (
                scripted
                and after is not None
                and after.name == symbol.name
                and self._sections[after.section].parent == section.parent
            )
            marks += "o" if declared else ""
            yield CodeSymbol(
                section=symbol.section,
                parent=section.parent,
                title=section.title,
                kind=symbol.kind,
                line=self._line_of(at),
                end_line=section.span.end_line,
                returns=simplify_type(symbol.returns) if symbol.returns else "",
                bases=_read_bases(symbol),
                marks=marks + ("t" if "test" in symbol.tags else ""),
            )


def _only(values: set[str]) -> str:
    """Return the one expression that a name stands for; empty if there are several or none."""
    known = {value for value in values if value}
    return next(iter(known)) if len(known) == 1 and UNKNOWN not in known else ""


def _find_name(text: str, symbol: Symbol, section: Section) -> int:
    """Return the offset of a definition's name, not of the same word in a comment above it."""
    start, end = section.span.start, max(section.body, section.span.start + 1)
    before = symbol.signature.partition(symbol.name)[0]
    at = text.find(before + symbol.name, start, end) if before else -1
    if at >= 0:
        return at + len(before)
    word = re.compile(rf"(?<![\w$]){re.escape(symbol.name)}(?![\w$])")
    match = word.search(text, start, end)
    return match.start() if match else start


def _is_property(symbol: Symbol) -> bool:
    return "getter" in symbol.tags or any("property" in mark for mark in symbol.decorators)


_PARENTS = re.compile(r"(?:\bextends|\bimplements|(?<!:):(?!:)|<|\bwith)\s+(.*)$", re.DOTALL)


def _read_bases(symbol: Symbol) -> tuple[str, ...]:
    """Return the parents of a class, from its signature."""
    if symbol.kind not in _CONTAINERS:
        return ()
    after = symbol.signature.partition(symbol.name)[2].lstrip()
    if after.startswith("("):
        listed = after[1:].rpartition(")")[0]
        if ":" in after.rpartition(")")[2]:  # Kotlin: parameters, then the parents.
            listed = after.rpartition(")")[2].partition(":")[2]
    else:
        match = _PARENTS.search(after)
        listed = match[1] if match else ""
    listed = re.sub(r"\[[^\[\]]*\]|<[^<>]*>|\([^()]*\)", "", listed)
    names = re.split(r",|\bimplements\b|\bextends\b|\bwith\b", listed)
    cleaned = (
        re.sub(r"\b(?:public|private|protected|virtual)\b", "", name).strip() for name in names
    )
    return tuple(
        name.replace("::", ".").replace("\\", ".").strip(".")
        for name in cleaned
        if re.fullmatch(r"[\w$.:\\]+", name)
    )


@cache
def _compose_query(language: str) -> str:
    rules = CALL_RULES[language]
    parts = [f"({kind}) @call" for kind in rules.calls]
    parts += [f"({kind}) @direct" for kind in rules.direct]
    parts += [f"({kind}) @creation" for kind in rules.creations]
    parts += [f"({kind}) @function" for kind in rules.functions]
    parts += [f"({kind}) @class" for kind in rules.classes]
    parts += [f"({kind}) @bind" for kind in rules.bindings]
    parts += [f"({kind}) @import" for kind in rules.imports]
    if language == "python":
        parts += ["(decorator (identifier) @decorator)", "(decorator (attribute) @decorator)"]
    return " ".join((*parts, rules.parameters))
