"""Parse source code into a tree of definitions with exact spans.

Sections are definitions (functions, methods, classes, types, constants), each from the comments
and decorators above it to the end of its last line, with a ``Symbol`` for each. Without a syntax
tree, line rules find where definitions start.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lookfar.common.lines import Lines
from lookfar.model import Document, Section, Symbol, SymbolKind
from lookfar.text.normalise import ByteOffsets
from lookfar.text.parse.boundaries import find_boundaries
from lookfar.text.parse.describe import (
    CONTAINERS,
    TEST_NAME,
    Describer,
    comment_text,
    find_parameters,
)
from lookfar.text.parse.formats import find_searched_end
from lookfar.text.parse.grammars import RULES
from lookfar.text.parse.grammars.rules import Definition, Rules, node_text, nth, one_line
from lookfar.text.parse.languages import (
    Language,
    detect_interpreter,
    detect_language,
    find_language,
)
from lookfar.text.parse.syntax_tree import parse_tree

if TYPE_CHECKING:
    from tree_sitter import Node, Tree


_DEEPEST = 6
"""Maximum level of sections, as in prose."""
_LONG_FUNCTION = 40
"""Definitions inside functions of at least this many lines get sections."""
_DEEPEST_WALK = 48
_TRAILING = re.compile(rb"[ \t;,)]*(?:(?://|#|--)[^\n]*)?\n")
_DOC_ATTRIBUTES = re.compile(
    r"@(?:doc|spec|impl|typedoc|deprecated|since|tag|type|typep|opaque|callback)\b"
)
_CPP_SIGNS = re.compile(
    r"^[ \t]*(?:class|namespace|template[ \t]*<|using[ \t]+\w+[ \t]*=|public:|private:|protected:)"
    r"|\bstd::|^#include[ \t]*<(?:string|vector|memory|utility|map|functional|type_traits)>",
    re.MULTILINE,
)
_PLAIN = Language("Plain", "text", (), tier="plain")


def parse(uri: str, text: str) -> Document:
    """Parse one source file; an unknown language is read as plain text."""
    language = detect_language(uri) or detect_interpreter(text) or _PLAIN
    if language.language == "c" and uri.lower().endswith(".h") and _CPP_SIGNS.search(text):
        language = find_language("cpp") or language
    whole, text = text, text[: find_searched_end(uri, len(text))]
    lines = Lines(text)
    tree = parse_tree(language, text)
    if tree is not None:
        outline = Definitions(text, lines, language)
        outline.read(tree)
        sections, symbols = outline.sections, outline.symbols
    else:
        sections, symbols = _outline_by_lines(text, lines, language)
    return Document(
        uri=uri,
        text=whole,
        title="",
        lane="code",
        language=language.language,
        body=0,
        sections=tuple(sections),
        symbols=tuple(symbols),
    )


def _outline_by_lines(
    text: str, lines: Lines, language: Language
) -> tuple[list[Section], list[Symbol]]:
    boundaries = find_boundaries(text, language.rules) if language.tier != "plain" else []
    sections: list[Section] = []
    symbols: list[Symbol] = []
    marks = (*language.line_comment, "@", "[", "*", "/*")
    starts = []
    floor = 0
    for boundary in boundaries:
        starts.append(_above(text, boundary.start, floor, marks))
        floor = boundary.start + 1
    first = starts[0] if starts else len(text)
    if text[:first].strip():
        sections.append(Section(0, -1, 0, "", (), lines.span(0, first), 0))
    for index, boundary in enumerate(boundaries):
        start = starts[index]
        end = starts[index + 1] if index + 1 < len(boundaries) else len(text)
        line_end = text.find("\n", boundary.start) + 1 or len(text)
        signature = one_line(text[boundary.start : line_end])
        ordinal = len(sections)
        sections.append(
            Section(
                ordinal, -1, 1, boundary.name, (boundary.name,), lines.span(start, end), line_end
            )
        )
        symbols.append(
            Symbol(
                section=ordinal,
                kind=boundary.kind,
                name=boundary.name,
                signature=signature.rstrip("{ "),
                docstring=comment_text(text[start : boundary.start])
                if language.category == "program"
                else "",
                tags=("test",) if TEST_NAME.search(boundary.name) else (),
            )
        )
    return sections, symbols


def _above(text: str, start: int, floor: int, marks: tuple[str, ...]) -> int:
    """Return where the comments directly above the line at ``start`` start."""
    while start > floor:
        line = text.rfind("\n", 0, start - 1) + 1
        if line < floor or not text[line : start - 1].lstrip().startswith(marks):
            break
        start = line
    return start


@dataclass(slots=True)
class _Lead:
    """Comments and attributes that belong to the definition after them."""

    start: int = -1
    end: int = -1
    comments: list[Node] = field(default_factory=list)
    attributes: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Scope:
    """The current section of a walk, and its depth."""

    section: int = -1
    kind: SymbolKind | None = None
    name: str = ""
    path: tuple[str, ...] = ()
    level: int = 0
    start: int = 0
    end: int = 0
    local: bool = False
    """Whether it is inside a function, where constants are not definitions."""


class Definitions:
    """Walks the definitions of one tree."""

    def __init__(self, text: str, lines: Lines, language: Language) -> None:
        self._text = text
        self._data = text.encode("utf-8")
        self._lines = lines
        self._language = language.language
        self._rules: Rules = RULES[language.language]
        self._char = ByteOffsets(text).char
        self._describer = Describer(language.language, self._data)
        self._lead = _Lead()
        self._floor = 0
        """Where the last definition ended, in bytes."""
        self._ended = -1
        """Where the last node that is not a comment ended, in bytes."""
        self._last: tuple[str, int, int] = ("", -2, -1)
        """Name, parent and position of the last section, for clauses that join it."""
        self._definitions: list[tuple[int, int, int, _Scope, str, Symbol]] = []
        self._shift = 0
        """By how much the number of a section is higher than that of its definition."""
        self.sections: list[Section] = []
        self.symbols: list[Symbol] = []

    def read(self, tree: Tree) -> None:
        root = tree.root_node
        self._walk(root, _Scope(end=len(self._data)), 0)
        char, lines = self._char, self._lines
        first = char(self._definitions[0][0]) if self._definitions else len(self._text)
        shift = self._count_before(first)
        if shift:
            self.sections.append(Section(0, -1, 0, "", (), lines.span(0, first), 0))
        for start, end, body, place, title, symbol in self._definitions:
            parent = place.section + shift if place.section >= 0 else -1
            span = lines.span(char(start), char(end))
            path = (*place.path, title)
            self.sections.append(
                Section(symbol.section, parent, place.level + 1, title, path, span, char(body))
            )
            self.symbols.append(symbol)

    def _count_before(self, first: int) -> int:
        """Return how many sections there are before the first definition: one if it has text."""
        return 1 if self._text[:first].strip() else 0

    def _walk(self, around: Node, place: _Scope, depth: int) -> None:
        rules = self._rules
        comments, attributes, groups = rules.comments, rules.attributes, rules.groups
        definitions, finders, wrappers = rules.definitions, rules.finders, rules.wrappers
        for node in around.named_children:
            kind = node.type
            if kind in comments:
                self._note(node, comment=True)
                continue
            if kind in attributes and self._leads(node):
                self._note(node, comment=False)
                continue
            if kind in definitions or kind in finders or kind in wrappers:
                defined = self._find(node)
                if defined is not None and self._define_all(node, defined, place, depth):
                    self._after(node)
                    continue
            if kind in groups and depth < _DEEPEST_WALK:
                within = place
                if kind in rules.closures and not place.local and not _is_called(node):
                    within = replace(place, local=True)
                self._walk(node, within, depth + 1)
            self._after(node)

    def _after(self, node: Node) -> None:
        self._ended = node.end_byte
        if self._lead.start >= 0:
            self._lead = _Lead()

    def _leads(self, node: Node) -> bool:
        """Whether an attribute belongs to the next definition; in Elixir only some do."""
        if self._language != "elixir":
            return True
        return _DOC_ATTRIBUTES.match(node_text(node)[:16]) is not None

    def _note(self, node: Node, *, comment: bool) -> None:
        start, end = node.start_byte, node.end_byte
        lead = self._lead
        if lead.start >= 0 and self._apart(lead.end, start):
            lead = self._lead = _Lead()
        # A directive ends where the next line starts.
        same_line = self._ended >= 0 and self._data.find(b"\n", self._ended - 1, start) < 0
        if comment and lead.start < 0 and same_line:
            return  # It is about the code before it on the same line.
        if lead.start < 0:
            lead.start = start
        lead.end = end
        (lead.comments if comment else lead.attributes).append(node)

    def _apart(self, end: int, start: int) -> bool:
        """Whether there is a blank line between two offsets."""
        return self._data.count(b"\n", end, start) > 1

    def _find(self, node: Node) -> Definition | list[Definition] | None:
        rules = self._rules
        for _ in range(6):
            field_name = rules.wrappers.get(node.type)
            if field_name is None:
                break
            whole = rules.finders[node.type](node) if node.type in rules.finders else None
            if whole is not None:
                return whole
            inner = node.child_by_field_name(field_name) if field_name else None
            if inner is None:
                inner = node.child_by_field_name("declaration") or node.child_by_field_name("value")
            if inner is None and node.named_child_count:
                inner = nth(node, node.named_child_count - 1)
            if inner is None:
                return None
            node = inner
        finder = rules.finders.get(node.type)
        if finder is not None:
            return finder(node)
        kind = rules.definitions.get(node.type)
        if kind is None:
            return None
        name = node_text(node.child_by_field_name("name"))
        if not name:
            name = "constructor" if "constructor" in node.type else ""
            name = name or node.type.partition("_")[0]
        body = node.child_by_field_name("body")
        if body is None and rules.bodies:
            body = next(
                (child for child in node.named_children if child.type in rules.bodies), None
            )
        inside = body
        if body is not None and body.type == "function_body" and body.named_child_count == 1:
            inside = nth(body, 0)
        return Definition(node, kind, one_line(name, 120), body, inside, find_parameters(node))

    def _admits(self, definition: Definition, place: _Scope) -> bool:
        if not definition.name or place.level >= _DEEPEST:
            return False
        rules, kind, node_type = self._rules, definition.kind, definition.node.type
        if node_type in rules.everywhere:
            return True
        if place.local:
            local = rules.local_kinds
            return kind in local if local is not None else kind != "constant"
        if kind != "constant" or place.kind in (None, "module"):
            return True
        return place.kind in CONTAINERS and node_type in rules.members

    def _define_all(
        self, outer: Node, defined: Definition | list[Definition], place: _Scope, depth: int
    ) -> bool:
        """Record what a node defines; return whether it was anything."""
        if isinstance(defined, Definition):
            if not self._admits(defined, place):
                inside = defined.inside
                if defined.kind != "constant" or inside is None or not self._is_open(defined):
                    return False
                self._walk(inside, place, depth + 1)
                return True
            self._define(outer, defined, place, depth, outer.start_byte, outer.end_byte)
            return True
        admitted = [definition for definition in defined if self._admits(definition, place)]
        start = outer.start_byte
        for number, definition in enumerate(admitted, 1):
            part = definition.part or definition.node
            end = outer.end_byte if number == len(admitted) else part.end_byte
            self._define(outer, definition, place, depth, start, end)
            start = end
        return bool(admitted)

    def _define(
        self, outer: Node, definition: Definition, place: _Scope, depth: int, start: int, end: int
    ) -> None:
        data = self._data
        start, comments, attributes = self._take_lead(start)
        start = max(start, self._floor, place.start)
        # A directive ends with its line; the text after it is not a comment on it.
        ended = data[end - 1 : end] == b"\n"
        trailing = None if ended else _TRAILING.match(data, end)
        end = min(trailing.end() if trailing else end, place.end)
        head = (
            definition.body.start_byte if definition.body is not None else definition.node.end_byte
        )
        title = f"{definition.owner}.{definition.name}" if definition.owner else definition.name
        if end <= start:
            return
        if self._join_clause(definition, place, end):
            return
        number = len(self._definitions)
        if number == 0:
            self._shift = self._count_before(self._char(start))
        symbol = self._describer.describe(
            outer, definition, place.kind, place.name, comments, attributes, number + self._shift
        )
        body = data.find(b"\n", min(head, end), end) + 1 or end
        self._definitions.append((start, end, body, place, title, symbol))
        self._last = (definition.name, place.section, number)
        if definition.inside is not None and self._is_open(definition):
            is_function = symbol.kind in ("function", "method")
            here = _Scope(
                number, symbol.kind, definition.name, (*place.path, title), place.level + 1,
                max(start, min(definition.inside.start_byte, end)), end,
                is_function or (place.local and symbol.kind not in CONTAINERS),
            )  # fmt: skip
            # The first member may be on the same line as the signature.
            self._floor, self._ended = here.start, definition.inside.start_byte + 1
            self._walk(definition.inside, here, depth + 1)
        self._floor = end

    def _take_lead(self, start: int) -> tuple[int, list[Node], list[Node]]:
        """Return where a definition starts with its comments and attributes, and those nodes."""
        lead = self._lead
        comments: list[Node] = []
        attributes: list[Node] = []
        if lead.start >= 0 and not self._apart(lead.end, start):
            start, comments, attributes = lead.start, lead.comments, lead.attributes
        self._lead = _Lead()
        line = self._data.rfind(b"\n", 0, start) + 1
        if not self._data[line:start].strip():
            start = line
        return start, comments, attributes

    def _is_open(self, definition: Definition) -> bool:
        """Whether to search inside: in types, and in functions that may contain definitions."""
        if definition.kind in CONTAINERS:
            return True
        node, nested = definition.node, self._rules.nested
        inside = definition.inside
        if nested is not None and inside is not None:
            return nested.search(self._data, inside.start_byte, inside.end_byte) is not None
        return self._data.count(b"\n", node.start_byte, node.end_byte) >= _LONG_FUNCTION

    def _join_clause(self, definition: Definition, place: _Scope, end: int) -> bool:
        """Extend the last definition if this one is another clause of it; return whether it was."""
        name, section, number = self._last
        if not self._rules.joins or name != definition.name or section != place.section:
            return False
        if number != len(self._definitions) - 1 or definition.kind not in ("function", "macro"):
            return False
        start, _, body, before, title, symbol = self._definitions[number]
        self._definitions[number] = (start, end, body, before, title, symbol)
        self._floor = end
        return True


def _is_called(node: Node) -> bool:
    """Whether a function without a name is called on the spot, as a wrapper around a module."""
    parent = node.parent
    if parent is None or parent.type != "parenthesized_expression":
        return False
    call = parent.parent
    return call is not None and call.type == "call_expression"
