"""Find the keywords, strings, comments and names of source code, to colour them.

Languages with a grammar are read from their syntax tree, others by a few lexical rules. The work
is bounded: a text that is too long, or that takes too long, is coloured only at its beginning.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

from lookfar.text.normalise import ByteOffsets
from lookfar.text.parse.languages import Language, find_language, language_of_fence
from lookfar.text.parse.syntax_tree import parse_tree

if TYPE_CHECKING:
    from tree_sitter import Node

Token = tuple[int, int, str]
"""The offsets of a token, and its class."""

KEYWORD: Final = "k"
STRING: Final = "s"
COMMENT: Final = "c"
NUMBER: Final = "n"
NAME: Final = "f"
"""The name of a function or a class where it is defined or called."""
TYPE: Final = "t"
ATTRIBUTE: Final = "a"
"""A decorator, an annotation, or the key of a data format."""
CLASSES: Final = (KEYWORD, STRING, COMMENT, NUMBER, NAME, TYPE, ATTRIBUTE)

MOST_SECONDS: Final = 1.0
_MOST_CHARS: Final = 400_000
_CHECKED_EVERY: Final = 500
"""How many nodes to visit before checking the time again."""

_IS_COMMENT: Final = re.compile(r"comment")
_IS_STRING: Final = re.compile(r"string|char_literal|character_literal|regex|heredoc_body|rune")
_IS_INTERPOLATED: Final = re.compile(r"interpolation|substitution|interpolated_expr")
_IS_NUMBER: Final = re.compile(
    r"number|integer|float|decimal|int_literal|hex_literal|real_literal|long_literal"
)
_CONSTANTS: Final = frozenset({
    "true", "false", "none", "null", "nil", "undefined", "boolean", "boolean_literal", "bool",
    "null_literal", "nil_literal", "True", "False", "None",
})  # fmt: skip
_IS_TYPE: Final = re.compile(
    r"type_identifier$|^primitive_type$|^predefined_type$|^builtin_type$|^type_constructor$"
    r"|^void_type$|^integral_type$|^floating_point_type$|^boolean_type$|^sized_type_specifier$"
)
_IS_DEFINITION: Final = re.compile(
    r"function|method|class|struct|interface|trait|enum|module|constructor|_item$|proc"
)
_IS_CALL: Final = re.compile(r"call|invocation|command$|macro_invocation|new_expression")
_IS_DECORATION: Final = re.compile(r"decorator|annotation|attribute_item|attribute_list")
_MEMBER: Final = re.compile(r"attribute|member|field|selector|property|navigation|scoped")
_WORD: Final = re.compile(rb"[A-Za-z_#@][A-Za-z_]*[!?]?")


def highlight(text: str, language: str) -> list[Token]:
    """Return the tokens of a text in order; none overlap. ``language`` may be that of a fence."""
    known = find_language(language) or find_language(language_of_fence(language))
    if known is None or not text.strip():
        return []
    deadline = time.monotonic() + MOST_SECONDS
    text = text[:_MOST_CHARS]
    tree = parse_tree(known, text)
    if tree is not None:
        found = _walk(tree.root_node, text.encode("utf-8"), deadline)
        char = ByteOffsets(text).char
        return [(char(start), char(end), kind) for start, end, kind in found]
    return list(_scan(text, known, deadline))


def _walk(root: Node, data: bytes, deadline: float) -> Iterator[Token]:
    """Yield the tokens of a syntax tree, in bytes and in order."""
    # A string token without a node is the part of a literal next to an interpolation.
    waiting: list[tuple[Node, Node | None] | Token] = [(root, None)]
    seen = 0
    while waiting:
        seen += 1
        if seen % _CHECKED_EVERY == 0 and time.monotonic() > deadline:
            return
        entry = waiting.pop()
        if len(entry) == 3:
            yield entry
            continue
        node, parent = entry
        kind = node.type
        if _IS_COMMENT.search(kind) and node.is_named:
            yield node.start_byte, node.end_byte, COMMENT
        elif _IS_STRING.search(kind) and node.is_named:
            waiting += reversed(_split_string(node))
        elif node.child_count == 0:
            leaf = _classify(node, parent, data)
            if leaf and node.end_byte > node.start_byte:
                yield node.start_byte, node.end_byte, leaf
        elif parent is not None and _IS_DECORATION.search(kind) and node.child_count < 3:
            yield node.start_byte, node.end_byte, ATTRIBUTE
        else:
            waiting += [(child, node) for child in reversed(node.children)]


def _split_string(node: Node) -> list[tuple[Node, Node | None] | Token]:
    """Return the parts of a string literal: characters, and expressions inside it."""
    parts: list[tuple[Node, Node | None] | Token] = []
    at = node.start_byte
    for child in node.children:
        if _IS_INTERPOLATED.search(child.type) and child.is_named:
            if child.start_byte > at:
                parts.append((at, child.start_byte, STRING))
            parts += [(inner, child) for inner in child.children]
            at = child.end_byte
    if node.end_byte > at:
        parts.append((at, node.end_byte, STRING))
    return parts


def _classify(node: Node, parent: Node | None, data: bytes) -> str:
    """Return the class of a leaf, or an empty text."""
    kind = node.type
    if kind in _CONSTANTS or _IS_NUMBER.search(kind):
        return NUMBER
    if not node.is_named:
        return KEYWORD if _WORD.fullmatch(data, node.start_byte, node.end_byte) else ""
    if _IS_TYPE.search(kind):
        return TYPE
    if kind in ("self", "this", "super", "crate", "visibility_modifier", "mutable_specifier"):
        return KEYWORD
    if "identifier" not in kind and kind not in ("word", "constant", "variable", "name", "symbol"):
        return ""
    if parent is None:
        return ""
    if _is_named_by(parent, node):
        return NAME
    if _IS_DECORATION.search(parent.type):
        return ATTRIBUTE
    return ""


def _is_named_by(parent: Node, node: Node) -> bool:
    """Return whether a leaf is the name in a definition, or what a call calls."""
    kind = parent.type
    if _IS_DEFINITION.search(kind) or _IS_CALL.search(kind):
        for field in ("name", "function", "method", "declarator", "macro", "constructor"):
            named = parent.child_by_field_name(field)
            if named is not None and named.id == node.id:
                return True
        return False
    if _MEMBER.search(kind) and parent.parent is not None and _IS_CALL.search(parent.parent.type):
        called = parent.parent.child_by_field_name("function")
        last = parent.children[-1] if parent.children else None
        return (
            called is not None
            and called.id == parent.id
            and last is not None
            and last.id == node.id
        )
    return False


# -- languages without a grammar -----------------------------------------------------------------

_KEYWORDS: Final = frozenset(
    "abstract and as async await begin bool break case catch class const continue def default "
    "defer del do done echo elif else elsif end enum esac except export extends extern false fi "
    "final finally fn for foreach from func function global goto if impl implements import in "
    "include inline int interface is lambda let local loop match mod module mut namespace new nil "
    "none not null of or override package private proc protected protocol pub public raise "
    "readonly record rescue return sealed self static string struct super switch then this throw "
    "throws trait true try type typedef union unless until use using val var virtual void when "
    "where while with yield select insert update delete create table values join left right inner "
    "outer group order by having limit set into drop alter index primary key references distinct "
    "arg cmd copy entrypoint env expose label run user volume workdir".split()
)
_STRINGS: Final = r"""\"(?:[^"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`[^`\n]*`"""
_KEY_OF: Final = {
    "yaml": r"^[ \t]*(?:-[ \t]+)*[\w./$-]+(?=:(?:\s|$))",
    "toml": r"^[ \t]*[\w.\"'-]+(?=[ \t]*=)|^[ \t]*\[+[^\]\n]*\]+",
    "ini": r"^[ \t]*[\w.-]+(?=[ \t]*[=:])|^[ \t]*\[[^\]\n]*\]",
    "json": r'"(?:[^"\\\n]|\\.)*"(?=\s*:)',
    "css": r"(?<=[{;\s])[a-z-]+(?=[ \t]*:)",
    "hcl": r"^[ \t]*[\w-]+(?=[ \t]*=)",
    "make": r"^[\w./%$()-]+(?=[ \t]*:(?!=))",
    "diff": r"^@@.*$",
}
_TAGS: Final = frozenset({"html", "xml", "vue", "svelte", "astro", "template"})


@cache
def _lexer(language: Language) -> re.Pattern[str]:
    """Return one pattern with a group for each class of tokens."""
    comments = [rf"{re.escape(sign)}[^\n]*" for sign in language.line_comment]
    if language.block_comment:
        opening, closing = map(re.escape, language.block_comment)
        comments.append(rf"{opening}(?:(?!{closing}).)*(?:{closing}|\Z)")
    if language.language == "yaml":
        comments = [r"(?:^|(?<=\s))#[^\n]*"]
    groups = []
    if comments:
        groups.append(f"(?P<c>{'|'.join(f'(?s:{comment})' for comment in comments)})")
    if language.language == "diff":
        groups += [r"(?P<s>^\+[^\n]*)", r"(?P<k>^-[^\n]*)"]
    keys = _KEY_OF.get({"scss": "css", "less": "css"}.get(language.language, language.language))
    if keys:
        groups.append(f"(?P<a>{keys})")
    if language.language in _TAGS:
        groups.append(r"(?P<f></?[A-Za-z][\w:.-]*|/?>)")
    if language.language != "diff":
        groups.append(f"(?P<s>{_STRINGS})")
        colours = r"#[0-9a-fA-F]{3,8}\b|" if language.rules == "css" else ""
        groups.append(rf"(?P<n>{colours}\b\d[\w.]*\b)")
        groups.append(r"(?P<w>\b[A-Za-z_]\w*\b)")
    return re.compile("|".join(groups), re.MULTILINE)


def _scan(text: str, language: Language, deadline: float) -> Iterator[Token]:
    """Yield tokens by lexical rules."""
    plain = language.language in ("csv", "template") or language.category == "data"
    is_keyword: Callable[[str], bool] = _KEYWORDS.__contains__
    for count, match in enumerate(_lexer(language).finditer(text)):
        if count % _CHECKED_EVERY == 0 and time.monotonic() > deadline:
            return
        kind = match.lastgroup or ""
        if kind == "w":
            word = match[0].lower() if language.language in ("sql", "dockerfile") else match[0]
            constant = word in ("true", "false", "null", "none", "yes", "no")
            if not is_keyword(word) or (plain and not constant):
                continue
            kind = NUMBER if constant else KEYWORD
        if match.end() > match.start():
            yield match.start(), match.end(), kind
