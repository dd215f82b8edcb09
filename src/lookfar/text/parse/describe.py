"""Describe a definition in a syntax tree as a ``Symbol``: signature, documentation, tags."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from lookfar.model import Symbol, SymbolKind, Visibility
from lookfar.text.parse.grammars.rules import Definition, node_text, nth, one_line

if TYPE_CHECKING:
    from tree_sitter import Node

CONTAINERS = frozenset(("class", "interface", "struct", "trait", "impl", "enum", "module"))
_TYPES = CONTAINERS - {"module"}
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
TEST_NAME = re.compile(r"^(?:test(?=[_A-Z])|Test(?=[_A-Z])|it$|spec_)|(?:Test|Tests|Spec)$")
_TEST_MARKS = re.compile(r"(?<!\w)(?:test|Test|Fact|Theory|TestMethod|ParameterizedTest)\b")
_QUOTED = re.compile(r"^[rRbBuUfF]{0,2}(\"\"\"|'''|\"|')(.*)\1$", re.DOTALL)


class Describer:
    """Describes the definitions of one file."""

    def __init__(self, language: str, data: bytes) -> None:
        self._language = language
        self._data = data

    def describe(
        self,
        outer: Node,
        definition: Definition,
        around: SymbolKind | None,
        around_name: str,
        comments: list[Node],
        attributes: list[Node],
        section: int,
    ) -> Symbol:
        """Describe a definition in ``outer``; ``around`` is the kind of what contains it."""
        node, data, language = definition.node, self._data, self._language
        kind = definition.kind
        if kind == "function" and around in _TYPES:
            kind = "method"
        stop = definition.body.start_byte if definition.body is not None else node.end_byte
        from_byte = outer.start_byte if outer.type == "template_declaration" else node.start_byte
        decorators = self._decorators(outer, node, attributes)
        written = _read_without_comments(node, data, from_byte, min(stop, from_byte + 2_000))
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
        visibility = declared or _default_visibility(language, definition.name, words, around)
        if self._is_exported(outer, around, visibility, words):
            tags.append("export")
        if _is_test(definition.name, decorators, node.type):
            tags.append("test")
        docstring = self._docstring(definition, comments, attributes)
        parent = definition.owner or around_name
        parent_kind: SymbolKind | Literal[""] = "class" if definition.owner else around or ""
        return Symbol(
            section=section,
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
            generics=_generics(node, outer, language),
        )

    def _decorators(self, outer: Node, node: Node, attributes: list[Node]) -> tuple[str, ...]:
        texts = [node_text(attribute) for attribute in attributes]
        for around in (outer, node) if outer.id != node.id else (node,):
            # One child after the other: the first is seldom a decorator.
            for position in range(around.named_child_count):
                child = around.named_child(position)
                kind = child.type if child is not None else ""
                if child is None or kind not in _BEFORE_NAME:
                    break
                if kind in _DECORATORS:
                    texts.append(node_text(child))
                elif kind == "modifiers":
                    texts += [node_text(m) for m in child.named_children if m.type in _DECORATORS]
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

    def _is_exported(
        self, outer: Node, around: SymbolKind | None, visibility: str, words: list[str]
    ) -> bool:
        language = self._language
        if language in ("javascript", "typescript", "tsx"):
            if outer.type == "export_statement":
                return True
            return outer.type == "expression_statement" and node_text(outer)[:40].startswith(
                ("module.exports", "exports.")
            )
        if language in ("python", "go"):
            top = around is None
            return top and visibility == "public"
        if language in ("c", "cpp"):
            return around in (None, "module") and "static" not in words
        return visibility == "public" and around in (None, "module")


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
_BEFORE_NAME = _DECORATORS | {
    "modifiers", "comment", "modifier", "line_comment", "block_comment",
}  # fmt: skip
"""What may come before the name of a definition."""
_PARAMETER_FIELDS = ("parameters", "parameter", "class_parameters")
_PARAMETER_TYPES = frozenset(
    ("function_value_parameters", "parameters", "formal_parameters", "parameter_list",
     "class_parameters", "method_parameters")
)  # fmt: skip
_RETURN_FIELDS = ("return_type", "result", "returns")
_RECEIVERS = frozenset(("self", "cls", "&self", "&mut self", "mut self", "this"))


def find_parameters(node: Node) -> Node | None:
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


def _generics(node: Node, outer: Node, language: str) -> tuple[str, ...]:
    given = node.child_by_field_name("type_parameters")
    if given is None and outer.type == "template_declaration":
        given = outer.child_by_field_name("parameters")
    if given is None and language in ("csharp", "go"):
        given = next((c for c in node.named_children[:8] if c.type == "type_parameter_list"), None)
    return tuple(one_line(node_text(child), 80) for child in given.named_children) if given else ()


def _read_without_comments(node: Node, data: bytes, start: int, stop: int) -> str:
    """Return the text from ``start`` to ``stop`` without comments between the parameters."""
    parameters = node.child_by_field_name("parameters")
    inside = (*node.children, *(parameters.children if parameters else ()))
    pieces = []
    for comment in sorted(
        (child for child in inside if "comment" in child.type), key=lambda child: child.start_byte
    ):
        if start <= comment.start_byte < stop:
            pieces.append(data[start : comment.start_byte])
            start = comment.end_byte
    return b"".join((*pieces, data[start:stop])).decode("utf-8", "replace")


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


def _default_visibility(
    language: str, name: str, words: list[str], around: SymbolKind | None
) -> Visibility:
    """Return the visibility of a definition without a visibility keyword."""
    if language == "python":
        hidden = name.startswith("_") and not (name.startswith("__") and name.endswith("__"))
        return "private" if hidden else "public"
    if language == "go":
        return "public" if name[:1].isupper() else "private"
    if language == "rust":
        return "public" if around == "trait" else "private"
    if language in ("javascript", "typescript", "tsx"):
        return "private" if name.startswith("#") else ""
    if language == "java" and around == "interface":
        return "public"
    if language in ("zig", "c") and ("static" in words or language == "zig"):
        return "private"
    return ""


def _is_test(name: str, decorators: tuple[str, ...], node_type: str) -> bool:
    if TEST_NAME.search(name) or node_type == "test_declaration":
        return True
    return any(_TEST_MARKS.search(decorator) for decorator in decorators)


def _dedent(text: str) -> str:
    lines = text.strip("\n").split("\n")
    return "\n".join(line.strip() for line in lines).strip()[:4_000]
