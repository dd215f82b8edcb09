"""Parse source code into a tree of definitions with exact spans.

Sections are definitions (functions, methods, classes, types, top-level constants), each from the
comments and decorators above it to the end of its last line, with a ``Symbol`` for each. Without a
grammar, or for text that a grammar should not parse (huge, minified, deeply nested or mostly
errors), line rules find where definitions start.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal
from zlib import compress

from lookfar.common.lines import Lines
from lookfar.model import Document, Section, Symbol, SymbolKind, Visibility
from lookfar.text.normalise import ByteOffsets
from lookfar.text.parse.boundaries import find_boundaries
from lookfar.text.parse.grammars import (
    RULES,
    Definition,
    Rules,
    load_parser,
    node_text,
    nth,
    one_line,
)
from lookfar.text.parse.languages import Language, detect_language, find_language

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

_DEEPEST = 6
"""Maximum level of sections, as in prose."""
_LONG_FUNCTION = 40
"""Definitions inside functions of at least this many lines get sections."""
_DEEPEST_WALK = 48
_LARGEST = 512_000
_LONGEST_AVERAGE_LINE = 300
_DEEPEST_BRACKETS = 200
_TRIED_FROM = 3_072
_TRIED = (1_024, 4_096)
_ERROR_EVERY = 80
"""With an error more often than every so many bytes, it is not a program in this language."""
_MOST_REPETITIVE = 30
"""Text that compresses better than this is data, not a program."""
_NESTING_COMMENTS = {
    "kotlin": ("/*", "*/"), "swift": ("/*", "*/"), "rust": ("/*", "*/"), "scala": ("/*", "*/"),
    "haskell": ("{-", "-}"),
}  # fmt: skip
_CONTAINERS = frozenset(("class", "interface", "struct", "trait", "impl", "enum", "module"))
_TRAILING = re.compile(rb"[ \t;,)]*(?:(?://|#|--)[^\n]*)?\n")
_BRACKETS = {ord("("): 1, ord("["): 1, ord("{"): 1, ord(")"): -1, ord("]"): -1, ord("}"): -1}
_NOT_BRACKETS = bytes(code for code in range(256) if code not in _BRACKETS)
_CPP_SIGNS = re.compile(
    r"^[ \t]*(?:class|namespace|template[ \t]*<|using[ \t]+\w+[ \t]*=|public:|private:|protected:)"
    r"|\bstd::|^#include[ \t]*<(?:string|vector|memory|utility|map|functional|type_traits)>",
    re.MULTILINE,
)
_EXPORT_MACRO = re.compile(
    rb"\b(class|struct|union)([ \t]+[A-Z][A-Z0-9_]{2,}(?:\([^()\n]*\))?)"
    rb"(?=[ \t]+\w+(?:::\w+)*\s*(?:final\b|[:{]))"
)
_WORD = re.compile(r"(?<![@\w.])[A-Za-z_]+")
_TAGS = {
    "async": "async", "suspend": "async", "static": "static", "abstract": "abstract",
    "virtual": "virtual", "override": "override", "final": "final", "sealed": "sealed",
    "const": "const", "unsafe": "unsafe", "extern": "extern", "inline": "inline",
    "constexpr": "constexpr", "readonly": "readonly", "partial": "partial", "get": "getter",
    "set": "setter", "declare": "declare", "default": "default", "mutating": "mutating",
}  # fmt: skip
_VISIBLE: dict[str, Visibility] = {
    "public": "public", "open": "public", "pub": "public", "private": "private",
    "fileprivate": "private", "protected": "protected", "internal": "", "defp": "private",
    "defmacrop": "private",
}  # fmt: skip
_TEST_NAME = re.compile(r"^(?:test(?=[_A-Z])|Test(?=[_A-Z])|it$|spec_)|(?:Test|Tests|Spec)$")
_TEST_MARKS = re.compile(r"(?<!\w)(?:test|Test|Fact|Theory|TestMethod|ParameterizedTest)\b")
_DOC_ATTRIBUTES = re.compile(
    r"@(?:doc|spec|impl|typedoc|deprecated|since|tag|type|typep|opaque|callback)\b"
)
_QUOTED = re.compile(r"^[rRbBuUfF]{0,2}(\"\"\"|'''|\"|')(.*)\1$", re.DOTALL)


def parse(uri: str, text: str) -> Document:
    """Parse one source file; an unknown language is read as plain text."""
    language = detect_language(uri) or _PLAIN
    if language.language == "c" and uri.lower().endswith(".h") and _CPP_SIGNS.search(text):
        language = find_language("cpp") or language
    lines = Lines(text)
    tree = parse_tree(language, text)
    if tree is not None:
        outline = _Outline(text, lines, language)
        outline.read(tree)
        sections, symbols = outline.sections, outline.symbols
    else:
        sections, symbols = _outline_by_lines(text, lines, language)
    return Document(
        uri=uri,
        text=text,
        title="",
        lane="code",
        language=language.language,
        body=0,
        sections=tuple(sections),
        symbols=tuple(symbols),
    )


_PLAIN = Language("Plain", "text", (), tier="plain")


def parse_tree(language: Language, text: str) -> Tree | None:
    """Return the syntax tree, or None without a grammar or if the text is unsuitable."""
    if not language.grammar or not text.strip() or len(text) > _LARGEST:
        return None
    data = text.encode("utf-8")
    if not _is_parseable(text, data, _NESTING_COMMENTS.get(language.language)):
        return None
    if language.language in ("c", "cpp"):
        # ``class LIB_EXPORT Name {`` is not C++ before preprocessing.
        data = _EXPORT_MACRO.sub(lambda match: match[1] + b" " * len(match[2]), data)
    try:
        parser = load_parser(language.grammar)
    except (ImportError, AttributeError):
        # Without this grammar the file is still read, by line rules.
        return None
    if len(data) > _TRIED_FROM and all(_is_garbage(parser, data[:size]) for size in _TRIED):
        return None
    return parser.parse(data)


def _is_garbage(parser: Parser, data: bytes) -> bool:
    """Whether the start of a file has so many errors that parsing the rest would take too long."""
    # A comment or long string that is cut off would count as errors.
    for opening, closing in ((b"/*", b"*/"), (b"{-", b"-}"), (b"#[[", b"]]")):
        at = data.rfind(opening)
        if at > data.rfind(closing):
            data = data[:at]
    for quotes in (b'"""', b"'''"):
        if data.count(quotes) % 2:
            data = data[: data.rfind(quotes)]
    data = data[: data.rfind(b"\n") + 1]
    tree = parser.parse(data).root_node
    if not tree.has_error:
        return False
    dump = str(tree)
    errors = dump.count("(ERROR") + dump.count("(MISSING") + dump.count("(UNEXPECTED")
    return errors * _ERROR_EVERY > max(len(data), 8 * _ERROR_EVERY)


def _is_parseable(text: str, data: bytes, comment: tuple[str, str] | None) -> bool:
    """Whether parsing takes linear and not quadratic time."""
    if len(text) > _LONGEST_AVERAGE_LINE * (text.count("\n") + 1):
        return False
    if comment and text.count(comment[0]) > text.count(comment[1]) + 8:
        return False
    if text.count("<") > text.count(">") + _DEEPEST_BRACKETS and text.count("<") * 16 > len(text):
        return False
    if len(data) > _TRIED_FROM and len(compress(data, 1)) * _MOST_REPETITIVE < len(data):
        return False
    depth = 0
    for bracket in data.translate(None, _NOT_BRACKETS):
        depth += _BRACKETS[bracket]
        if depth > _DEEPEST_BRACKETS:
            return False
        if depth < 0:
            depth = 0
    return True


def comment_text(raw: str) -> str:
    lines = []
    for line in raw.strip().split("\n"):
        line = _COMMENT_MARKS.sub("", line)
        line = line.strip().removesuffix("*/").removesuffix("-}").removesuffix("]]")
        lines.append(_XML_TAG.sub("", line).rstrip())
    return "\n".join(lines).strip()


_COMMENT_MARKS = re.compile(
    r"^[ \t]*(?:/\*[*!]*|\*(?!/)|//[/!]*|#+(?!\[)|--\[\[|--+[ \t]?[|^]?|\{-[ \t]?[|^]?|;+|%+)?"
    r"[ \t]?"
)
_XML_TAG = re.compile(r"</?(?:summary|remarks|returns|param|c|see|para|value|inheritdoc)\b[^>]*>")


# --- sections by line rules ----------------------------------------------------------------------


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
                tags=("test",) if _TEST_NAME.search(boundary.name) else (),
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


# --- sections by grammar -------------------------------------------------------------------------


@dataclass(slots=True)
class _Lead:
    """Comments and attributes that belong to the definition after them."""

    start: int = -1
    end: int = -1
    comments: list[Node] = field(default_factory=list)
    attributes: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Place:
    """The current section of a walk, and its depth."""

    section: int = -1
    kind: SymbolKind | None = None
    name: str = ""
    path: tuple[str, ...] = ()
    level: int = 0
    start: int = 0
    end: int = 0


class _Outline:
    """Walks the definitions of one tree."""

    def __init__(self, text: str, lines: Lines, language: Language) -> None:
        self._text = text
        self._data = text.encode("utf-8")
        self._lines = lines
        self._language = language.language
        self._rules: Rules = RULES[language.language]
        self._char = ByteOffsets(text).char
        self._lead = _Lead()
        self._floor = 0
        """Where the last definition ended, in bytes."""
        self._row = -1
        """The line on which the last node that is not a comment ended."""
        self._last: tuple[str, int, int] = ("", -2, -1)
        """Name, parent and position of the last section, for clauses that join it."""
        self._definitions: list[tuple[int, int, int, _Place, str, Symbol]] = []
        self.sections: list[Section] = []
        self.symbols: list[Symbol] = []

    def read(self, tree: Tree) -> None:
        root = tree.root_node
        self._walk(root, _Place(end=len(self._data)), 0)
        char, lines = self._char, self._lines
        first = char(self._definitions[0][0]) if self._definitions else len(self._text)
        shift = 0
        if self._text[:first].strip():
            self.sections.append(Section(0, -1, 0, "", (), lines.span(0, first), 0))
            shift = 1
        for number, (start, end, body, place, title, symbol) in enumerate(self._definitions):
            ordinal = number + shift
            parent = place.section + shift if place.section >= 0 else -1
            span = lines.span(char(start), char(end))
            path = (*place.path, title)
            self.sections.append(
                Section(ordinal, parent, place.level + 1, title, path, span, char(body))
            )
            self.symbols.append(
                Symbol(
                    ordinal, symbol.kind, symbol.name, symbol.signature, symbol.docstring,
                    symbol.decorators, symbol.tags, symbol.visibility, symbol.parent,
                    symbol.parent_kind, symbol.parameters, symbol.returns, symbol.generics,
                )
            )  # fmt: skip

    def _walk(self, around: Node, place: _Place, depth: int) -> None:
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
                definition = self._find(node)
                if definition is not None and self._admits(definition, place):
                    self._define(node, definition, place, depth)
                    self._after(node)
                    continue
            if kind in groups and depth < _DEEPEST_WALK:
                self._walk(node, place, depth + 1)
            self._after(node)

    def _after(self, node: Node) -> None:
        self._row = node.end_point[0]
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
        if comment and lead.start < 0 and node.start_point[0] == self._row:
            return  # It is about the code before it on the same line.
        if lead.start < 0:
            lead.start = start
        lead.end = end
        (lead.comments if comment else lead.attributes).append(node)

    def _apart(self, end: int, start: int) -> bool:
        """Whether there is a blank line between two offsets."""
        return self._data.count(b"\n", end, start) > 1

    def _find(self, node: Node) -> Definition | None:
        rules = self._rules
        for _ in range(6):
            field_name = rules.wrappers.get(node.type)
            if field_name is None:
                break
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
        return Definition(node, kind, one_line(name, 120), body, inside, _parameters(node))

    def _admits(self, definition: Definition, place: _Place) -> bool:
        if not definition.name or place.level >= _DEEPEST:
            return False
        if definition.kind == "constant":
            return place.kind in (None, "module")
        return True

    def _define(self, outer: Node, definition: Definition, place: _Place, depth: int) -> None:
        data, lead = self._data, self._lead
        start = outer.start_byte
        comments: list[Node] = []
        attributes: list[Node] = []
        if lead.start >= 0 and not self._apart(lead.end, start):
            start, comments, attributes = lead.start, lead.comments, lead.attributes
        self._lead = _Lead()
        line = data.rfind(b"\n", 0, start) + 1
        if not data[line:start].strip():
            start = line
        start = max(start, self._floor, place.start)
        # A directive ends with its line; the text after it is not a comment on it.
        ended = data[outer.end_byte - 1 : outer.end_byte] == b"\n"
        trailing = None if ended else _TRAILING.match(data, outer.end_byte)
        end = min(trailing.end() if trailing else outer.end_byte, place.end)
        head = (
            definition.body.start_byte if definition.body is not None else definition.node.end_byte
        )
        title = f"{definition.owner}.{definition.name}" if definition.owner else definition.name
        if end <= start:
            return
        if self._join_clause(definition, place, end):
            return
        symbol = self._symbol(outer, definition, place, comments, attributes)
        number = len(self._definitions)
        body = data.find(b"\n", head, end) + 1 or end
        self._definitions.append((start, end, body, place, title, symbol))
        self._last = (definition.name, place.section, number)
        if definition.inside is not None and self._is_open(definition):
            here = _Place(
                number, symbol.kind, definition.name, (*place.path, title), place.level + 1,
                max(start, min(head, end)), end,
            )  # fmt: skip
            # The first member may be on the same line as the signature.
            self._floor, self._row = here.start, definition.inside.start_point[0]
            self._walk(definition.inside, here, depth + 1)
        self._floor = end

    def _is_open(self, definition: Definition) -> bool:
        """Whether to search inside: in types, and in long functions."""
        if definition.kind in _CONTAINERS:
            return True
        node = definition.node
        return node.end_point[0] - node.start_point[0] >= _LONG_FUNCTION

    def _join_clause(self, definition: Definition, place: _Place, end: int) -> bool:
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

    # --- symbols ---------------------------------------------------------------------------------

    def _symbol(
        self,
        outer: Node,
        definition: Definition,
        place: _Place,
        comments: list[Node],
        attributes: list[Node],
    ) -> Symbol:
        node, data, language = definition.node, self._data, self._language
        kind = definition.kind
        if kind == "function" and (place.kind in _CONTAINERS - {"module"}):
            kind = "method"
        stop = definition.body.start_byte if definition.body is not None else node.end_byte
        from_byte = outer.start_byte if outer.type == "template_declaration" else node.start_byte
        decorators = self._decorators(outer, node, attributes)
        written = data[from_byte : min(stop, from_byte + 2_000)].decode("utf-8", "replace")
        written = _strip_decorators(written, language)
        if kind == "constant":
            line_end = data.find(b"\n", from_byte, node.end_byte)
            until = line_end if line_end >= 0 else node.end_byte
            written = data[from_byte : min(until, from_byte + 800)].decode("utf-8", "replace")
            signature = one_line(written, 200).rstrip(" {[(;")
        else:
            signature = (
                one_line(written).removesuffix("=>").rstrip(" {;" if kind == "type" else " {=:;")
            )
        named_at = written.find(definition.name)
        words = _WORD.findall(written[:named_at] if named_at > 0 else signature)
        tags = list(dict.fromkeys(_TAGS[word] for word in words if word in _TAGS))
        declared: Visibility = next((_VISIBLE[word] for word in words if word in _VISIBLE), "")
        visibility = declared or _default_visibility(language, definition.name, words, place)
        if self._is_exported(outer, place, visibility, words):
            tags.append("export")
        if _is_test(definition.name, decorators, node.type):
            tags.append("test")
        docstring = self._docstring(definition, comments, attributes)
        parent = definition.owner or place.name
        parent_kind: SymbolKind | Literal[""] = "class" if definition.owner else place.kind or ""
        return Symbol(
            section=0,
            kind=kind,
            name=definition.name,
            signature=signature,
            docstring=docstring,
            decorators=decorators,
            tags=tuple(tags),
            visibility=visibility,
            parent=parent,
            parent_kind=parent_kind,
            parameters=_parameter_list(definition, language),
            returns=_returns(definition, language),
            generics=_generics(node, outer),
        )

    def _decorators(self, outer: Node, node: Node, attributes: list[Node]) -> tuple[str, ...]:
        texts = [node_text(attribute) for attribute in attributes]
        for around in (outer, node) if outer.id != node.id else (node,):
            for child in around.named_children:
                if child.type in _DECORATORS:
                    texts.append(node_text(child))
                elif child.type == "modifiers":
                    texts += [node_text(m) for m in child.named_children if m.type in _DECORATORS]
                elif child.type not in ("comment", "modifier", "line_comment", "block_comment"):
                    break
        return tuple(dict.fromkeys(one_line(text, 200) for text in texts))

    def _docstring(
        self, definition: Definition, comments: list[Node], attributes: list[Node]
    ) -> str:
        if (
            self._language == "python"
            and definition.body is not None
            and definition.body.type == "block"
        ):
            first = nth(definition.body, 0)
            if first is not None and first.type == "expression_statement":
                first = nth(first, 0)
            if first is not None and first.type == "string":
                quoted = _QUOTED.match(node_text(first))
                return _dedent(quoted[2]) if quoted else ""
        for attribute in attributes if self._language == "elixir" else ():
            text = node_text(attribute)
            if text.startswith(("@doc ", "@typedoc ")):
                quoted = _QUOTED.match(text.partition(" ")[2].lstrip("~Ss").strip())
                return _dedent(quoted[2]) if quoted else ""
        text = "\n".join(filter(None, (comment_text(node_text(node)) for node in comments)))
        if text or definition.kind != "module" or definition.body is None:
            return text[:4_000]
        return self._module_doc(definition.body)

    def _module_doc(self, body: Node) -> str:
        for child in body.named_children[:2] if self._language == "elixir" else ():
            text = node_text(child)
            if text.startswith("@moduledoc "):
                quoted = _QUOTED.match(text.partition(" ")[2].lstrip("~Ss").strip())
                return _dedent(quoted[2]) if quoted else ""
        return ""

    def _is_exported(self, outer: Node, place: _Place, visibility: str, words: list[str]) -> bool:
        language = self._language
        if language in ("javascript", "typescript", "tsx"):
            if outer.type == "export_statement":
                return True
            return outer.type == "expression_statement" and node_text(outer)[:40].startswith(
                ("module.exports", "exports.")
            )
        if language in ("python", "go"):
            top = place.kind is None
            return top and visibility == "public"
        if language in ("c", "cpp"):
            return place.kind in (None, "module") and "static" not in words
        return visibility == "public" and place.kind in (None, "module")


_DECORATORS = frozenset(
    (
        "decorator",
        "annotation",
        "marker_annotation",
        "attribute_list",
        "attribute",
        "attribute_item",
    )
)
_PARAMETER_FIELDS = ("parameters", "parameter", "class_parameters")
_PARAMETER_TYPES = frozenset(
    ("function_value_parameters", "parameters", "formal_parameters", "parameter_list",
     "class_parameters", "method_parameters")
)  # fmt: skip
_RETURN_FIELDS = ("return_type", "result", "returns")
_RECEIVERS = frozenset(("self", "cls", "&self", "&mut self", "mut self", "this"))


def _parameters(node: Node) -> Node | None:
    for name in _PARAMETER_FIELDS:
        if (parameters := node.child_by_field_name(name)) is not None:
            return parameters
    return next((child for child in node.named_children if child.type in _PARAMETER_TYPES), None)


def _parameter_list(definition: Definition, language: str) -> tuple[str, ...]:
    node = definition.parameters
    if node is None:
        if language != "swift":
            return ()
        given = [child for child in definition.node.named_children if child.type == "parameter"]
    elif node.type == "identifier":
        return (node_text(node),)
    else:
        given = [
            child
            for child in node.named_children
            if "comment" not in child.type
            and child.type not in ("keyword_separator", "positional_separator")
        ]
    listed: list[str] = []
    for child in given:
        text = one_line(node_text(child), 160)
        if language == "go" and child.type == "parameter_declaration":
            names = child.children_by_field_name("name")
            kind = node_text(child.child_by_field_name("type"))
            listed += [f"{node_text(n)} {kind}" for n in names] or [text]
        elif text not in _RECEIVERS and not (text == "void" and language in ("c", "cpp")):
            listed.append(text)
    return tuple(listed)


def _returns(definition: Definition, language: str) -> str:
    node = definition.node
    if definition.kind not in ("function", "method"):
        return ""
    for name in _RETURN_FIELDS:
        if (given := node.child_by_field_name(name)) is not None:
            return one_line(node_text(given).lstrip(": ").removeprefix("-> "), 200)
    if language in ("c", "cpp", "java", "zig"):
        given = node.child_by_field_name("type")
        returned = one_line(node_text(given), 200)
        declarator = node.child_by_field_name("declarator")
        if declarator is not None:
            at = declarator
            for _ in range(8):
                if at.type != "pointer_declarator":
                    break
                returned += "*"
                inner = at.child_by_field_name("declarator")
                if inner is None:
                    break
                at = inner
            for child in at.named_children:
                if child.type == "trailing_return_type":
                    returned = one_line(node_text(child).removeprefix("->"), 200)
        return returned
    if language in ("javascript", "typescript", "tsx") and definition.parameters is not None:
        value = definition.parameters.parent
        given = value.child_by_field_name("return_type") if value is not None else None
        return one_line(node_text(given).lstrip(": "), 200)
    return ""


def _generics(node: Node, outer: Node) -> tuple[str, ...]:
    given = node.child_by_field_name("type_parameters")
    if given is None and outer.type == "template_declaration":
        given = outer.child_by_field_name("parameters")
    if given is None:
        given = next((c for c in node.named_children[:8] if c.type == "type_parameter_list"), None)
    return tuple(one_line(node_text(child), 80) for child in given.named_children) if given else ()


def _strip_decorators(written: str, language: str) -> str:
    """Remove decorators from the start of a signature."""
    if language == "csharp":
        while written.startswith("["):
            end = _closing(written, "[", "]")
            written = written[end:].lstrip()
    elif written.startswith("@"):
        while written.startswith("@") and not written.startswith("@interface"):
            match = _ANNOTATION.match(written)
            if match is None:
                break
            rest = written[match.end() :]
            if rest.startswith("("):
                rest = rest[_closing(rest, "(", ")") :]
            written = rest.lstrip()
    elif written.startswith("#["):
        written = written[_closing(written[1:], "[", "]") + 1 :].lstrip()
    return written


_ANNOTATION = re.compile(r"@[\w.:]+[ \t]*")


def _closing(text: str, opening: str, closing: str) -> int:
    depth = 0
    for index, character in enumerate(text):
        if character == opening:
            depth += 1
        elif character == closing:
            depth -= 1
            if depth == 0:
                return index + 1
    return len(text)


def _default_visibility(language: str, name: str, words: list[str], place: _Place) -> Visibility:
    """Return the visibility of a definition without a visibility keyword."""
    if language == "python":
        hidden = name.startswith("_") and not (name.startswith("__") and name.endswith("__"))
        return "private" if hidden else "public"
    if language == "go":
        return "public" if name[:1].isupper() else "private"
    if language == "rust":
        return "public" if place.kind == "trait" else "private"
    if language in ("javascript", "typescript", "tsx"):
        return "private" if name.startswith("#") else ""
    if language == "java" and place.kind == "interface":
        return "public"
    if language in ("zig", "c") and ("static" in words or language == "zig"):
        return "private"
    return ""


def _is_test(name: str, decorators: tuple[str, ...], node_type: str) -> bool:
    if _TEST_NAME.search(name) or node_type == "test_declaration":
        return True
    return any(_TEST_MARKS.search(decorator) for decorator in decorators)


def _dedent(text: str) -> str:
    lines = text.strip("\n").split("\n")
    return "\n".join(line.strip() for line in lines).strip()[:4_000]
