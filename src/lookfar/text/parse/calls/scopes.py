"""Find out what the names in a source file stand for, scope by scope.

Expressions and types are reduced to short paths that the call graph can follow.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from lookfar.model import Document
from lookfar.text.parse.grammars.rules import node_text, nth

if TYPE_CHECKING:
    from tree_sitter import Node

    from lookfar.text.parse.calls.call_rules import CallRules


UNKNOWN = "?"
OWN = "@"
PARENT = "^"
LONGEST = 20_000
"""Longer expressions, in characters, are not understood."""
_LONGEST_KEPT = 200
"""Longer expressions, in characters, are not kept: they rarely occur twice."""
NAME = re.compile(r"[^\W\d][\w$]*[!?]?|\$[\w$]+|#?[^\W\d][\w$]*")
_PATH = re.compile(r"[@^]?[\w$]*(?:\(\))?(?:\.[\w$]+(?:\(\))?)*")
_PLAIN = re.compile(r"[\w$]+(?:\.[\w$]+)*")
_BRACKET = re.compile(r"[()\[\]{}]")
_GENERIC = re.compile(r"<[\w\s,.:&'\[\]?|*]*>")
_NEW = re.compile(r"^(?:await\s+|new\s+|&|\*|yield\s+)+")
_WRAPPED = re.compile(
    r"^(?:[\w.]+\.)?(?:Optional|Final|ClassVar|Type|type|Rc|Arc|Box|Option|Readonly|Partial|Ref)"
    r"[\[<](.*)[\]>]$",
    re.DOTALL,
)
"""Types that stand for the type inside them."""
_SPACE = re.compile(r"\s")
_LOOSE = re.compile(r"\s*([.()])\s*")
EMPTY = frozenset(("None", "null", "undefined", "nil", "False", "True", "void"))
Captured = dict[str, list["Node"]]
"""The nodes of one match of a query, by name; ``at`` is the node that was looked for."""
_DEEPEST = 4
CONTAINERS = frozenset(("class", "interface", "struct", "trait", "impl", "enum", "module"))
_LONGEST_PATTERN = 1_000
_WORDS = re.compile(r"[^\W\d][\w$]*")
_INFERRED = frozenset(("var()", "auto()", "let()", "val()"))
_NESTED = frozenset(("variable_declarator", "init_declarator"))
"""Nodes with the name and the value of a variable, inside the one with its type."""
_OPAQUE = frozenset(
    ("arrow_function", "function_expression", "generator_function", "string", "template_string")
)
"""Values whose text, which may be long, is never a path."""


def simplify(written: str, rules: CallRules) -> str:
    """Reduce an expression to a path such as ``a.b().c``; ``?`` if it is anything else."""
    if len(written) <= _LONGEST_KEPT:
        return _simplify_short(written, rules)
    written = written.strip()
    return _simplify(written, rules) if len(written) <= LONGEST else UNKNOWN


@lru_cache(maxsize=8192)
def _simplify_short(written: str, rules: CallRules) -> str:
    return _simplify(written.strip(), rules)


def _simplify(written: str, rules: CallRules) -> str:
    if _PLAIN.fullmatch(written):
        head, dot, rest = written.partition(".")
        if head in rules.own:
            return OWN + dot + rest
        return PARENT + dot + rest if head in rules.parents else written
    creates = written.startswith("new ")
    written = _NEW.sub("", written)
    if "(" in written or "[" in written or "{" in written:
        written = _empty_brackets(written)
    if "<" in written:
        written = _GENERIC.sub("", written)
    written = written.replace("?.", ".").replace("->", ".").replace("::", ".").replace("!", "")
    if _SPACE.search(written):
        written = _LOOSE.sub(r"\1", written)
    written = written.replace("{}", "()")
    head, dot, rest = written.partition(".")
    if head in rules.own:
        written = OWN + dot + rest
    elif head in rules.parents or head == "super()":
        written = PARENT + dot + rest
    if not written or _PATH.fullmatch(written) is None:
        return UNKNOWN
    return written if not creates or written.endswith("()") else f"{written}()"


def _empty_brackets(written: str) -> str:
    """Remove what is inside round and curly brackets; square ones make it unknown."""
    outside: list[str] = []
    depth = start = 0
    for match in _BRACKET.finditer(written):
        bracket = match[0]
        if bracket in "([{":
            if depth == 0:
                outside.append(written[start : match.start()])
                outside.append("?" if bracket == "[" else bracket)
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                outside.append(bracket)
                start = match.end()
    return "".join((*outside, written[start:])) if depth == 0 else UNKNOWN


@lru_cache(maxsize=4096)
def simplify_type(written: str) -> str:
    """Return the class that a type names, as an expression for an object of it; or ``?``."""
    written = written.strip().lstrip(":").strip().strip("\"'").strip()
    for _ in range(3):
        wrapped = _WRAPPED.match(written)
        if wrapped is None:
            break
        written = wrapped[1].strip().strip("\"'")
    parts = [part.strip().rstrip("?") for part in written.split("|")]
    parts = [part for part in parts if part not in EMPTY]
    if len(parts) != 1:
        return UNKNOWN
    name = re.sub(
        r"^(?:&|\*|mut |const |dyn |impl |'\w+ |struct |static |final |readonly )+", "", parts[0]
    )
    name = re.split(r"[\[<]", name)[0].rstrip("&* ").replace("::", ".").replace("\\", ".")
    return f"{name}()" if re.fullmatch(r"[\w$]+(?:\.[\w$]+)*", name) else UNKNOWN


class Nesting:
    """Spans of which some contain others, in the order of their starts."""

    __slots__ = ("ends", "parents", "starts")

    def __init__(self, starts: list[int], ends: list[int], parents: list[int]) -> None:
        self.starts, self.ends, self.parents = starts, ends, parents

    def find(self, at: int) -> int:
        """Return the number of the innermost span around a position, or -1."""
        number = bisect_right(self.starts, at) - 1
        while number >= 0 and self.ends[number] <= at:
            number = self.parents[number]
        return number


class Sections:
    """The sections and lines of a document by byte offset."""

    def __init__(self, document: Document) -> None:
        sections = document.sections
        starts = [section.span.start for section in sections]
        ends = [section.span.end for section in sections]
        if not document.text.isascii():
            offsets = _count_bytes(document.text, {*starts, *ends})
            starts, ends = [offsets[at] for at in starts], [offsets[at] for at in ends]
        if sections and not sections[0].path:
            ends[0] = starts[0]  # The text before the first definition is not inside of any.
        self._nesting = Nesting(starts, ends, [section.parent for section in sections])
        self.find = self._nesting.find
        kinds = {symbol.section: symbol.kind for symbol in document.symbols}
        self._are_containers = [kinds.get(s.ordinal) in CONTAINERS for s in sections]
        self._breaks = [match.start() for match in re.finditer(b"\n", document.text.encode())]

    def find_line(self, start: int) -> int:
        """Return the line of a byte offset, from 1."""
        # Not ``start_point`` of a node, which crashes in tree-sitter 0.26.0.
        return bisect_left(self._breaks, start) + 1

    def find_container(self, start: int, end: int) -> int:
        """Return the section of the class that a node defines, or -1."""
        # The last byte is inside the body, where comments above do not matter.
        number = self.find(end - 1)
        nesting = self._nesting
        while number >= 0 and not (
            self._are_containers[number] and nesting.starts[number] <= start
        ):
            number = nesting.parents[number]
        return number


def _count_bytes(text: str, offsets: set[int]) -> dict[int, int]:
    """Return the byte offset of every character offset."""
    counted, before, size = {}, 0, 0
    for offset in sorted(offsets):
        size += len(text[before:offset].encode())
        counted[offset] = size
        before = offset
    return counted


class Scopes:
    """The functions and classes of a file, with the names that they bind.

    A name stands for an expression. With several different ones it is unknown; the expression of a
    name that was only set to something empty, such as ``None``, is empty.
    """

    def __init__(
        self, functions: Sequence[Captured], classes: Sequence[Captured], sections: Sections
    ) -> None:
        spans = {(c["at"][0].start_byte, -c["at"][0].end_byte, False) for c in functions}
        spans |= {(c["at"][0].start_byte, -c["at"][0].end_byte, True) for c in classes}
        starts: list[int] = []
        ends: list[int] = []
        self._parents: list[int] = []
        self._are_classes: list[bool] = []
        self._sections: list[int] = []
        """By scope: the section of a class; -1 for others."""
        open_scopes: list[int] = []
        for number, (start, negative_end, is_class) in enumerate(sorted(spans)):
            end = -negative_end
            while open_scopes and ends[open_scopes[-1]] <= start:
                open_scopes.pop()
            starts.append(start)
            ends.append(end)
            self._parents.append(open_scopes[-1] if open_scopes else -1)
            self._are_classes.append(is_class)
            self._sections.append(sections.find_container(start, end) if is_class else -1)
            open_scopes.append(number)
        self._bound: list[dict[str, str]] = [{} for _ in starts]
        self._local_names: set[str] = set()
        self._variables: dict[int, dict[str, str]] = {}
        self.find = Nesting(starts, ends, self._parents).find

    def is_method(self, scope: int) -> bool:
        """Whether a scope is directly inside a class."""
        parent = self._parents[scope] if scope >= 0 else -1
        return parent >= 0 and self._are_classes[parent]

    def find_class(self, scope: int) -> int:
        """Return the section of the class around a scope, or -1."""
        while scope >= 0 and not self._are_classes[scope]:
            scope = self._parents[scope]
        return self._sections[scope] if scope >= 0 else -1

    def bind(self, scope: int, name: str, value: str) -> None:
        """Record what a name stands for: in its function, its class or the file."""
        if scope >= 0 and not self._are_classes[scope]:
            _merge(self._bound[scope], name, value)
            self._local_names.add(name)
            return
        section = self._sections[scope] if scope >= 0 else -1
        if scope < 0 or section >= 0:
            self.bind_variable(section, name, value)

    def bind_variable(self, section: int, name: str, value: str) -> None:
        """Record what an attribute of a class, or with -1 a variable of the file, stands for."""
        _merge(self._variables.setdefault(section, {}), name, value)

    def set_default(self, exported: str) -> None:
        """Record what a script exports by default."""
        self._variables.setdefault(-1, {})["default"] = exported

    def list_variables(self) -> dict[int, dict[str, str]]:
        """Return the names of the file and of its classes that stand for one expression."""
        known: dict[int, dict[str, str]] = {}
        for section, names in sorted(self._variables.items()):
            values = {name: value for name, value in names.items() if value and value != UNKNOWN}
            if values:
                known[section] = values
        return known

    def is_local(self, name: str) -> bool:
        """Whether any function of the file binds a name."""
        return name in self._local_names

    def look_up(self, name: str, scope: int) -> str | None:
        """Return the expression of a local name; None if no function around binds it."""
        if name not in self._local_names:
            return None
        while scope >= 0:
            value = self._bound[scope].get(name)
            if value is not None:
                return value or UNKNOWN
            scope = self._parents[scope]
        return None

    def substitute(self, path: str, scope: int, depth: int = 0) -> str:
        """Replace a local name at the start of a path by what it stands for."""
        head, dot, rest = path.partition(".")
        bare = head.removesuffix("()")
        value = self.look_up(bare, scope)
        if value is None:
            return path
        if value == UNKNOWN or depth > _DEEPEST or value.partition(".")[0] == head:
            return UNKNOWN
        if bare != head:
            value = UNKNOWN if value.endswith("()") else f"{value}()"
        if value == UNKNOWN:
            return UNKNOWN
        return self.substitute(f"{value}{dot}{rest}", scope, depth + 1)


def _merge(names: dict[str, str], name: str, value: str) -> None:
    before = names.get(name)
    if not before:
        names[name] = value
    elif value and value != before:
        names[name] = UNKNOWN


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
