"""Parse source code with its grammar.

Text that a grammar should not parse has no tree: huge, minified, deeply nested or mostly errors.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import TYPE_CHECKING
from zlib import compress

from lookfar.text.parse.grammars.rules import load_parser
from lookfar.text.parse.languages import Language

if TYPE_CHECKING:
    from tree_sitter import Parser, Tree

_LARGEST = 600_000
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
_NOT_A_BREAK = re.compile(rb"[^\r\n]")
_USUAL_DEPTH = 8
_NOT_BRACKETS = bytes(code for code in range(256) if code not in b"()[]{}")
_AS_ROUND = bytes.maketrans(b"[{]}", b"(())")
_OPENING = ord("(")
_EXPORT_MACRO = re.compile(
    rb"\b(class|struct|union)([ \t]+[A-Z][A-Z0-9_]{2,}(?:\([^()\n]*\))?)"
    rb"(?=[ \t]+\w+(?:::\w+)*\s*(?:final\b|[:{]))"
)
_MACRO = rb"[A-Z][A-Z0-9_]{2,}(?:\([^()\n]*\))?"
# Looks behind after the first letter: a search is quicker if a pattern starts with characters.
_MACRO_WORD = rb"[A-Z](?<![\w#].)[A-Z0-9_]{2,}(?:\([^()\n]*\))?"
_NAME = rb"(?:~?[A-Za-z_]\w*(?:::~?\w+)*|operator[ \t]*(?:\(\)|[^\s\w(]{1,3}))"
_NESTED_CALL = rb"\((?:[^()\\]|\((?:[^()\\]|\([^()\\]*\))*\))*\)"
"""Arguments of a macro; without a backslash, which continues the line of a definition."""
_MACROS = (
    # A condition: only what it encloses matters.
    (re.compile(rb"^([ \t]*#[ \t]*(?:el)?if)\b(?:[^\n\\]|\\\r?\n|\\)*", re.MULTILINE), b" 1"),
    # On a line of its own: ``FMT_EXPORT``, ``Q_OBJECT``, ``BEGIN_NAMESPACE(x)``.
    (
        re.compile(
            rb"^(?<!\\\n)(?<!\\\r\n)[ \t]*[A-Z][A-Z0-9_]{2,}(?:"
            + _NESTED_CALL
            + rb")?[ \t]*(?=\r?$)(?!\r?\n[ \t]*[<.?:+*/&|=,)-])",
            re.MULTILINE,
        ),
        b"",
    ),
    # Before a type and a name: ``API_EXPORT int open(``.
    (
        re.compile(
            _MACRO_WORD + rb"(?=\s+(?:[a-z_~][\w:]*|[A-Z]\w*[a-z]\w*)"
            rb"[\w:<>,*&~ \t]*?[ \t*&]" + _NAME + rb"[ \t]*\()"
        ),
        b"",
    ),
    # Before a keyword: ``EXPORT template <typename T>``.
    (
        re.compile(_MACRO_WORD + rb"(?=\s+(?:template|class|struct|union|enum)\b)"),
        b"",
    ),
    # Before a constructor: ``CONSTEXPR Shelf(int size) : size_(size) {}``.
    (
        re.compile(_MACRO_WORD + rb"(?=\s+\w+\([^;{}]{0,300}\)\s*(?:noexcept\s*)?:\s*\w+[({])"),
        b"",
    ),
    # In a condition: ``if CONSTEXPR (size > 1)``.
    (re.compile(rb"(\bif)[ \t]+[A-Z][A-Z0-9_]{2,}(?=[ \t]*\()"), b""),
    # After the parameters or the name: ``int count() GUARDED_BY(lock);``.
    (
        re.compile(rb"\s(?<=[\w)]\s)\s*" + _MACRO + rb"(?=\s*(?:[;{]|const\b|override\b|->))"),
        b"",
    ),
    # Between a keyword and a name: ``class EXPORT_MACRO Name``.
    (re.compile(rb"(\b(?:class|struct|union|enum))[ \t]+" + _MACRO + rb"(?=[ \t]+\w)"), b""),
    # A parameter of a template: ``template <typename T, ENABLE_IF(is_integral<T>::value)>``.
    (re.compile(rb"([<,]\s*)[A-Z][A-Z0-9_]{2,}" + _NESTED_CALL + rb"(?=\s*[,>])"), b"int"),
)
"""Macros around declarations, which are not C++ before preprocessing, and what replaces each."""


@lru_cache(maxsize=1)
def parse_tree(language: Language, text: str, largest: int = _LARGEST) -> Tree | None:
    """Return the syntax tree, or None without a grammar or if the text is unsuitable.

    A text of more than ``largest`` characters is. The last tree is kept, because definitions,
    comments and calls are read one after the other.
    """
    if not language.grammar or not text.strip() or len(text) > largest:
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
    tree = parser.parse(data)
    if language.language in ("c", "cpp") and tree.root_node.has_error:
        return _parse_without_macros(parser, data, tree)
    return tree


def _parse_without_macros(parser: Parser, data: bytes, tree: Tree) -> Tree:
    """Return the tree without macros around declarations, if it has fewer errors."""
    blanked = data
    for pattern, instead in _MACROS:
        for _ in range(3):  # Several may follow each other.
            shorter = pattern.sub(partial(_blank, instead), blanked)
            if shorter == blanked:
                break
            blanked = shorter
    if blanked == data:
        return tree
    other = parser.parse(blanked)
    return other if _measure_errors(other) < _measure_errors(tree) else tree


def _blank(instead: bytes, match: re.Match[bytes]) -> bytes:
    """Replace all of a match but its group, if it has one, so that no line or offset changes."""
    kept: bytes = match[1] if match.re.groups else b""
    rest = match[0][len(kept) + len(instead) :]
    return kept + instead + _NOT_A_BREAK.sub(b" ", rest)


def _measure_errors(tree: Tree) -> tuple[int, int]:
    """Return how many bytes a grammar could not parse, and how many errors there are."""
    size = errors = 0
    waiting = [(tree.root_node, False)] if tree.root_node.has_error else []
    while waiting:
        node, is_inside = waiting.pop()
        for child in node.children:
            is_error = child.type == "ERROR" or child.is_missing
            errors += is_error
            if is_error and not is_inside:
                size += child.end_byte - child.start_byte
            if child.has_error:
                waiting.append((child, is_inside or is_error))
    return size, errors


def gives_up(tree: Tree, longest: int) -> bool:
    """Return whether a grammar could not parse a part of the text longer than ``longest`` bytes."""
    waiting = [tree.root_node] if tree.root_node.has_error else []
    while waiting:
        node = waiting.pop()
        if node.type == "ERROR" and node.end_byte - node.start_byte > longest:
            return True
        waiting += [child for child in node.children if child.has_error]
    return False


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
    return not (len(data) > _TRIED_FROM and _is_repetitive(data)) and _is_shallow(data)


def _is_repetitive(data: bytes) -> bool:
    """Whether a text compresses so well that it is data."""
    # The whole does not compress to less than its start, which usually is too much already.
    start = compress(data[: len(data) // 4], 1)
    if len(start) * _MOST_REPETITIVE > 1.2 * len(data):
        return False
    return len(compress(data, 1)) * _MOST_REPETITIVE < len(data)


def _is_shallow(data: bytes) -> bool:
    """Whether brackets are nested at most ``_DEEPEST_BRACKETS`` deep."""
    brackets = outer = data.translate(_AS_ROUND, _NOT_BRACKETS)
    for _ in range(_USUAL_DEPTH):
        outer = outer.replace(b"()", b"")
    # Each round made the nesting shallower by one at most, so the loop below is seldom needed.
    if outer.count(b"(") + _USUAL_DEPTH <= _DEEPEST_BRACKETS:
        return True
    depth = 0
    for bracket in brackets:
        depth += 1 if bracket == _OPENING else -1
        if depth > _DEEPEST_BRACKETS:
            return False
        if depth < 0:
            depth = 0
    return True
