"""Find where definitions start by rules for single lines, for languages without a grammar.

Only definitions at the left margin are found; a definition ends where the next one starts. Also
used for files that no grammar should parse: huge, minified or badly broken ones.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lookfar.model import SymbolKind

_WORD = r"[\w$]+"
_MOST = 5_000
"""At most this many definitions per file; the rest belongs to the last one."""
_LONGEST_LINE = 400
"""Longer lines are data or minified code and are ignored."""


class Boundary(NamedTuple):
    """A definition found by a line rule."""

    start: int
    """Start of its line."""
    kind: SymbolKind
    name: str


def _rule(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE | re.IGNORECASE)


def _cased(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


_MODIFIERS = (
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|sealed|async|"
    r"open|override|virtual|inline|extern|const|constexpr|unsafe|partial|suspend|data|case|lazy|"
    r"implicit|declare|readonly|external|pub|fileprivate)[ \t]+)*"
)
_BRACED = (
    rf"^{_MODIFIERS}(?P<word>class|interface|struct|enum|union|trait|object|namespace|module|"
    rf"protocol|extension|record|contract|library|message|service|function|func|fun|fn|def|type|"
    rf"typealias|mixin|rpc|event|modifier)[ \t]+(?P<name>{_WORD})"
)
# A C-like function: a line that starts with a word, looks like a call, and has no semicolon.
_C_LIKE = (
    r"^(?![ \t#/*}])(?!(?:if|for|while|switch|return|else|do|case)\b)[\w:<>,*&~\[\] \t]*?[ \t*&]"
    r"(?P<called>[\w:~]+)[ \t]*\([^;{}\n]*\)?[^;\n]*$"
)

RULES: dict[str, re.Pattern[str]] = {
    "braces": _cased(f"{_BRACED}|{_C_LIKE}"),
    "script": _cased(
        rf"^{_MODIFIERS}(?P<word>class|interface|enum|namespace|module|type|function\*?)[ \t]+"
        rf"(?P<name>{_WORD})|^{_MODIFIERS}(?:const|let|var)[ \t]+(?P<constant>{_WORD})"
        r"|^(?:module\.)?(?P<called>[\w$]+(?:\.[\w$]+)+)[ \t]*=(?!=)"
    ),
    "python": _cased(
        r"^(?:async[ \t]+)?(?P<word>def|class|proc|func|method|template|macro|type)[ \t]+"
        r"(?P<name>\w+)|^(?P<constant>[A-Z][A-Z0-9_]+)[ \t]*="
    ),
    "go": _cased(
        r"^(?P<word>func)[ \t]+(?:\([^)\n]*\)[ \t]*)?(?P<name>\w+)|^(?P<other>type)[ \t]+"
        r"(?P<called>\w+)|^(?:var|const)[ \t]+(?P<constant>\w+)"
    ),
    "rust": _cased(
        r"^(?:pub(?:\([^)\n]*\))?[ \t]+)?(?:(?:async|unsafe|const|extern(?:[ \t]+\"C\")?)[ \t]+)*"
        r"(?P<word>fn|struct|enum|trait|union|mod|type|macro_rules!)[ \t]+(?P<name>\w+)"
        r"|^(?:unsafe[ \t]+)?(?P<other>impl)\b[^\n{]*?(?P<called>\w+)(?:<[^\n{]*>)?[ \t]*(?:\{|$)"
    ),
    "ruby": _cased(
        r"^[ \t]{0,4}(?P<word>def|class|module|struct|enum|macro)[ \t]+(?P<name>[\w.:?!]+)"
    ),
    "shell": _cased(
        r"^(?:function[ \t]+(?P<name>[\w:.-]+)|(?P<called>[\w:.-]+)[ \t]*\(\))"
        r"|^@test[ \t]+(?P<quoted>\"[^\"\n]*\"|'[^'\n]*')"
    ),
    "lua": _cased(
        r"^(?:local[ \t]+)?(?P<word>function)[ \t]+(?P<name>[\w.:]+)"
        r"|^(?:local[ \t]+)?(?P<called>[\w.]+)[ \t]*=[ \t]*function\b"
    ),
    "haskell": _cased(
        r"^(?P<word>data|newtype|class|instance|type|module|port)[ \t]+(?P<name>[\w'.]+)"
        r"|^(?P<called>[a-z_][\w']*)[ \t]*(?:::|:(?!:))"
    ),
    "elixir": _cased(
        r"^[ \t]{0,2}(?P<word>defmodule|defprotocol|defimpl|defp?|defmacrop?|defstruct)[ \t]+"
        r"(?P<name>[\w.?!]+)"
    ),
    "zig": _cased(
        r"^(?:pub[ \t]+)?(?:export[ \t]+|inline[ \t]+)?(?P<word>fn)[ \t]+(?P<name>\w+)"
        r"|^(?:pub[ \t]+)?(?:const|var)[ \t]+(?P<constant>\w+)"
        r"|^test[ \t]+(?P<quoted>\"[^\"\n]*\")"
    ),
    "objc": _cased(
        r"^@(?P<word>interface|implementation|protocol)[ \t]+(?P<name>\w+)"
        rf"|^[-+][ \t]*\([^)\n]*\)[ \t]*(?P<called>\w+)|{_C_LIKE.replace('called', 'function')}"
    ),
    "graphql": _cased(
        r"^(?:extend[ \t]+)?(?P<word>type|interface|enum|union|input|scalar|query|mutation|"
        r"subscription|fragment|directive)[ \t]+(?P<name>@?\w+)"
    ),
    "perl": _cased(r"^[ \t]{0,4}(?P<word>sub|package)[ \t]+(?P<name>[\w:]+)"),
    "r": _cased(r"^(?P<called>[\w.]+)[ \t]*(?:<-|=)[ \t]*function\b"),
    "julia": _cased(
        r"^(?:mutable[ \t]+)?(?P<word>function|struct|macro|module|abstract type)[ \t]+"
        r"(?P<name>[\w.!]+)|^(?P<called>\w+!?)\([^\n=]*\)[ \t]*="
    ),
    "ml": _cased(
        r"^(?P<word>let|and|module|type|class|exception|val|external|namespace)[ \t]+"
        r"(?:rec[ \t]+|inline[ \t]+|private[ \t]+|mutable[ \t]+)*(?P<name>[\w'.]+)"
    ),
    "erlang": _cased(
        r"^-(?P<word>module|record|type|spec)\(?[ \t]*(?P<name>\w+)|^(?P<called>[a-z]\w*)\("
    ),
    "lisp": _cased(r"^\((?P<word>def[\w*-]*|ns)[ \t]+(?:\^\S+[ \t]+)*\(?(?P<name>[^\s()]+)"),
    "powershell": _rule(r"^(?P<word>function|filter|class|enum)[ \t]+(?P<name>[\w:-]+)"),
    "batch": _cased(r"^:(?P<called>[A-Za-z_]\w*)"),
    "vim": _cased(r"^[ \t]*(?P<word>function)!?[ \t]+(?P<name>[\w:#.]+)"),
    "pascal": _rule(
        r"^[ \t]*(?P<word>procedure|function|constructor|destructor|program|unit)[ \t]+"
        r"(?P<name>[\w.]+)"
    ),
    "fortran": _rule(
        r"^[ \t]*(?!end)(?:(?:pure|elemental|recursive|integer|real|logical)[ \t]+)*"
        r"(?P<word>subroutine|function|module|program)[ \t]+(?P<name>\w+)"
    ),
    "basic": _rule(
        r"^[ \t]*(?:(?:public|private|friend|protected|shared)[ \t]+)*"
        r"(?P<word>sub|function|class|module|structure|interface|enum|property)[ \t]+(?P<name>\w+)"
    ),
    "verilog": _cased(
        r"^[ \t]*(?P<word>module|interface|package|class|function|task)[ \t]+(?:automatic[ \t]+)?"
        r"(?P<name>\w+)"
    ),
    "labels": _cased(r"^(?P<called>[A-Za-z_.$][\w.$]*):"),
    "sql": _rule(
        r"^[ \t]*create[ \t]+(?:or[ \t]+replace[ \t]+)?(?:(?:temp|temporary|unique|materialized|"
        r"global|local|unlogged)[ \t]+)*(?P<word>table|view|function|procedure|trigger|index|type|"
        r"schema|database|sequence|extension)[ \t]+(?:if[ \t]+not[ \t]+exists[ \t]+)?"
        r"(?P<name>[\w.\"`\[\]]+)"
    ),
    "css": _cased(r"^(?P<called>[^\s{}/][^{};\n]*?)[ \t]*\{"),
    "html": _rule(
        r"^[ \t]{0,8}<(?P<word>head|body|header|main|section|article|nav|footer|aside|template|"
        r"script|style|form|table|h[1-3]|target|itemgroup|propertygroup|dependencies|bean|"
        r"xsl:template)\b(?P<name>[^>\n]{0,120})"
    ),
    "component": _cased(
        r"^<(?P<word>script|template|style)\b(?P<name>[^>\n]{0,120})"
        r"|^[ \t]{0,2}(?:export[ \t]+)?(?:async[ \t]+)?function[ \t]+(?P<called>[\w$]+)"
        r"|^[ \t]{0,2}(?:export[ \t]+)?const[ \t]+(?P<constant>[\w$]+)[ \t]*="
    ),
    "yaml": _cased(r"^(?:- )?(?P<called>[\w\"'$][^\s:#]*[^:\n]*?):(?:[ \t]|$)"),
    "json": _cased(r"^[ \t]{1,4}\"(?P<called>[^\"\n]+)\"[ \t]*:[ \t]*[{\[]"),
    "toml": _cased(r"^\[\[?(?P<called>[^\]\n]+)\]"),
    "hcl": _cased(
        r"^(?P<word>resource|data|module|variable|output|provider|locals|terraform|\w+)"
        r"(?P<name>(?:[ \t]+\"[^\"\n]*\")*)[ \t]*\{"
    ),
    "dockerfile": _rule(r"^from[ \t]+(?P<called>[^\n]+)"),
    "make": _cased(r"^(?P<called>[\w./%$(){}-][^\n:=#]*?)[ \t]*::?(?![=:])"),
    "cmake": _rule(
        r"^[ \t]*(?P<word>function|macro|add_executable|add_library|add_custom_target|add_test|"
        r"project|option)[ \t]*\([ \t]*(?P<name>[^\s)]+)"
    ),
    "diff": _cased(r"^diff --git a/(?P<called>\S+)|^\+\+\+ (?P<name>\S+)"),
}

_KINDS: dict[str, SymbolKind] = {
    "class": "class", "interface": "interface", "protocol": "interface", "struct": "struct",
    "structure": "struct", "record": "struct", "union": "struct", "message": "struct",
    "data": "type", "newtype": "type", "trait": "trait", "mixin": "trait", "enum": "enum",
    "namespace": "module", "module": "module", "mod": "module", "package": "module",
    "object": "class", "extension": "impl", "impl": "impl", "implementation": "impl",
    "instance": "impl", "defmodule": "module", "defprotocol": "interface", "defimpl": "impl",
    "type": "type", "typealias": "type", "input": "type", "scalar": "type", "contract": "class",
    "library": "module", "service": "interface", "macro": "macro", "macro_rules!": "macro",
    "defmacro": "macro", "defmacrop": "macro", "function": "function", "function*": "function",
    "func": "function", "fun": "function", "fn": "function", "def": "function",
    "defp": "function", "defn": "function", "defun": "function", "sub": "function",
    "proc": "function", "method": "function", "procedure": "function", "subroutine": "function",
    "task": "function", "rpc": "function", "let": "function", "val": "constant",
    "program": "module", "unit": "module", "table": "type", "view": "type", "trigger": "function",
}  # fmt: skip
_QUOTES = "\"'` \t"
_PLACED = frozenset({"css", "yaml", "json", "toml", "make", "dockerfile", "hcl", "html", "diff"})
"""Rules whose names are not functions."""


def find_boundaries(text: str, rules: str) -> list[Boundary]:
    """Return the definitions that ``rules`` find, in order."""
    pattern = RULES.get(rules)
    if pattern is None:
        return []
    boundaries: list[Boundary] = []
    for match in pattern.finditer(_blank_long_lines(text)):
        groups = {group: value for group, value in match.groupdict().items() if value}
        word = groups.get("word", groups.get("other", "")).lower()
        name = next(
            (
                groups[group]
                for group in ("name", "called", "constant", "quoted", "function")
                if group in groups
            ),
            "",
        )
        name = " ".join(name.replace('"', " ").split()).strip(_QUOTES)
        if rules in ("hcl", "html", "component"):
            name = f"{word} {name}".strip()
        name = (name or word)[:120]
        if not name:
            continue
        kind: SymbolKind
        if "constant" in groups:
            kind = "constant"
        elif word:
            kind = _KINDS.get(word, "other")
        else:
            kind = "other" if rules in _PLACED or "quoted" in groups else "function"
        boundaries.append(Boundary(match.start(), kind, name))
        if len(boundaries) == _MOST:
            break
    return boundaries


def _blank_long_lines(text: str) -> str:
    """Blank lines that are too long for a definition; offsets stay the same."""
    if len(text) < _LONGEST_LINE or not _LONG.search(text):
        return text
    return _LONG.sub(lambda match: " " * (match.end() - match.start()), text)


_LONG = re.compile(rf"^.{{{_LONGEST_LINE},}}$", re.MULTILINE)
