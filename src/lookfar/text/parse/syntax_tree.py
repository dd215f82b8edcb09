"""Parse source code with its grammar.

Text that a grammar should not parse has no tree: huge, minified, deeply nested or mostly errors.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from zlib import compress

from lookfar.text.parse.grammars.rules import load_parser
from lookfar.text.parse.languages import Language

if TYPE_CHECKING:
    from tree_sitter import Parser, Tree

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
_BRACKETS = {ord("("): 1, ord("["): 1, ord("{"): 1, ord(")"): -1, ord("]"): -1, ord("}"): -1}
_NOT_BRACKETS = bytes(code for code in range(256) if code not in _BRACKETS)
_EXPORT_MACRO = re.compile(
    rb"\b(class|struct|union)([ \t]+[A-Z][A-Z0-9_]{2,}(?:\([^()\n]*\))?)"
    rb"(?=[ \t]+\w+(?:::\w+)*\s*(?:final\b|[:{]))"
)


@lru_cache(maxsize=1)
def parse_tree(language: Language, text: str) -> Tree | None:
    """Return the syntax tree, or None without a grammar or if the text is unsuitable.

    The last tree is kept, because definitions, comments and calls are read one after the other.
    """
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
