"""Find the module constants and imports that a function or class uses, one line each.

Nothing is parsed: declarations at the top of a file are recognised by how their lines start, which
is so fast that every passage of an answer can show them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache, lru_cache
from typing import Final, NamedTuple

LONGEST_LINE: Final = 160
_NEVER_BEGINS: Final = frozenset(("", "\n", " ", "\t", "}", ")", "]", "*", "@"))
MOST_LINES: Final = 6
_LARGEST: Final = 512_000
"""Larger files, in characters, are treated as data."""
_GROUPS: Final = ("const (", "var (", "import (")

_IDENTIFIER: Final = re.compile(r"(?<![\w$.])(?<!::)(?<!->)[^\W\d][\w$]*|(?<=\.\.\.)[^\W\d][\w$]*")
_NAMES: Final = re.compile(r"[^\W\d][\w$]*")
_AFTER_AS: Final = re.compile(r"[\w$.*]+\s+as\s+(?=[\w$])|[\w$]+\s*:\s*(?=[\w$])")
_ASSIGNED: Final = r"^[ \t]*(?:(?:const|let|var|val|auto)[ \t]+)?{}[ \t]*(?::=|=(?!=))"
_NOT_NAMES: Final = frozenset(("self", "crate", "super", "this", "_"))
_NOT_CODE: Final = {
    "python": re.compile(
        r"(?<![fF\w])[rRbBuU]{0,2}(?:\"\"\"[\s\S]*?(?:\"\"\"|\Z)|'''[\s\S]*?(?:'''|\Z)"
        r"|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')|#[^\n]*"
    ),
    "ruby": re.compile(r"\"(?:[^\"\\\n#]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|#(?!\{)[^\n]*"),
    "": re.compile(r"/\*[\s\S]*?(?:\*/|\Z)|//[^\n]*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"),
}
"""Comments and strings, whose words are not uses."""


class Rules(NamedTuple):
    """How declarations of a language start."""

    constants: str
    """A pattern whose group ``name`` is the defined name."""
    imports: str = ""
    """A pattern whose group ``names`` contains the imported names."""
    last_part: bool = False
    """Only the last part of an imported path is a name in this file."""
    indented: str = ""
    """A pattern on every indented line that declares a constant; without it, only lines without
    indentation declare anything."""


_SCRIPT: Final = Rules(
    r"^(?:export[ \t]+)?(?:const|let|var)[ \t]+(?P<name>[\w$]+)[ \t]*(?::[^=\n]*)?="
    r"(?![ \t]*require\()",
    r"^import[ \t]+(?:type[ \t]+)?(?P<names>[^;'\"]{0,1000}?)\sfrom\s*['\"][^'\"\n]*['\"]"
    r"|^(?:const|let|var)[ \t]+(?P<bound>[\w$]+|\{[^}]{0,1000}\})[ \t]*=[ \t]*require\([^\n]*",
)
_JVM: Final = r"^import[ \t]+(?:static[ \t]+)?(?P<names>[\w.]+(?:[ \t]+as[ \t]+\w+)?)"
_RULES: Final[dict[str, Rules]] = {
    "python": Rules(
        r"^(?P<name>\w+)[ \t]*(?::[^=\n]+)?=(?!=)",
        r"^(?:from[ \t]+[\w.]+[ \t]+)?import[ \t]+(?P<names>\([^)]{0,1000}\)|[^\n(#]+)",
    ),
    "javascript": _SCRIPT,
    "typescript": _SCRIPT,
    "tsx": _SCRIPT,
    "go": Rules(
        r"^(?:(?:const|var)[ \t]+|\t)(?P<name>\w+)(?:(?:[ \t]+[\w.*\[\]]+)?[ \t]*=(?!=)|$)",
        r"^(?:import[ \t]+|\t)(?:(?P<bound>[\w.]+)[ \t]+)?\"(?P<names>[^\"\n]+)\"[ \t]*$",
        last_part=True,
        indented=r"^\t(?:\w+ +)?\"|^\t\w+(?:(?: +[\w.*\[\]]+)? += |$)",
    ),
    "rust": Rules(
        r"^(?:pub(?:\([^)\n]*\))?[ \t]+)?(?:const|static(?:[ \t]+mut)?)[ \t]+(?P<name>\w+)[ \t]*:",
        r"^(?:pub(?:\([^)\n]*\))?[ \t]+)?use[ \t]+"
        r"(?P<names>(?:::)?\w+(?:::[\w:*{},\s]{1,1000}|\s+as\s+\w+)?);",
    ),
    "java": Rules(
        r"^[ \t]+(?=[^=\n(]*\bstatic\b)(?=[^=\n(]*\bfinal\b)"
        r"[^=\n(;]*?[ \t](?P<name>\w+)[ \t]*(?:=|;)",
        _JVM,
        last_part=True,
        indented="static",
    ),
    "kotlin": Rules(
        r"^[ \t]*(?:(?:private|internal|public)[ \t]+)?const[ \t]+val[ \t]+(?P<name>\w+)"
        r"|^(?:(?:private|internal|public)[ \t]+)?va[lr][ \t]+(?P<other>\w+)",
        _JVM,
        last_part=True,
        indented="const",
    ),
    "scala": Rules(r"^(?:private[ \t]+)?va[lr][ \t]+(?P<name>\w+)", _JVM, last_part=True),
    "csharp": Rules(
        r"^[ \t]+(?=[^=\n(]*\b(?:const|static[ \t]+readonly)\b)[^=\n(;]*?[ \t](?P<name>\w+)[ \t]*=",
        indented="const|readonly",
    ),
    "c": Rules(
        r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)"
        r"|^(?:static|const|extern)\b[^=;\n(){}]*?\b(?P<other>\w+)[ \t]*"
        r"(?:\[[^\]\n]*\])*[ \t]*(?:=|;)",
        indented="define",
    ),
    "ruby": Rules(r"^[ \t]*(?P<name>[A-Z]\w*)[ \t]*=(?![=~>])", indented=r"^[ \t]+[A-Z]\w* *="),
    "php": Rules(
        r"^[ \t]*(?:(?:private|public|protected|final)[ \t]+)*const[ \t]+(?P<name>\w+)[ \t]*=",
        r"^use[ \t]+(?:function[ \t]+|const[ \t]+)?(?P<names>[^;]{1,1000});",
        last_part=True,
        indented="const",
    ),
    "swift": Rules(r"^(?:(?:private|fileprivate|public)[ \t]+)?(?:let|var)[ \t]+(?P<name>\w+)"),
}
_RULES["cpp"] = Rules(
    rf"{_RULES['c'].constants}|^(?:inline[ \t]+)?constexpr\b[^=;\n()]*?\b(?P<third>\w+)[ \t]*[={{]",
    r"^using[ \t]+(?P<names>[\w:]+);",
    last_part=True,
    indented="define",
)


class _Declared(NamedTuple):
    """A line of the file that declares names."""

    line: int
    text: str
    names: frozenset[str]
    imports: bool


def used_lines(
    text: str, language: str, start_line: int, end_line: int, limit: int = MOST_LINES
) -> tuple[tuple[int, str], ...]:
    """Return number and text of the declarations that lines ``start_line`` to ``end_line`` use.

    Constants come first if there are more than ``limit``: the name of an import says enough.
    """
    rules = _RULES.get(language)
    if rules is None or limit < 1 or len(text) > _LARGEST:
        return ()
    part = text.split("\n", end_line)[max(start_line, 1) - 1 : end_line]
    used = _find_uses("\n".join(part), language)
    declarations = [
        declared
        for declared in _find_declarations(text, language)
        if not declared.names.isdisjoint(used) and not start_line <= declared.line <= end_line
    ]
    declarations.sort(key=lambda declared: (declared.imports, declared.line))
    return tuple((declared.line, declared.text) for declared in sorted(declarations[:limit]))


def _find_uses(part: str, language: str) -> frozenset[str]:
    """Return the names that a part of a file uses and does not assign itself."""
    bare = _NOT_CODE.get(language, _NOT_CODE[""]).sub(" ", part)
    names = frozenset(_IDENTIFIER.findall(bare))
    assigned = re.compile(_ASSIGNED.format(r"(?P<name>[\w$]+)"), re.MULTILINE)
    bound = frozenset(match["name"] for match in assigned.finditer(bare))
    everywhere = frozenset(re.findall(r"\b(?:global|nonlocal)[ \t]+([\w, \t]+)", bare))
    return names - bound.difference(*(_NAMES.findall(listed) for listed in everywhere))


@lru_cache(maxsize=16)
def _find_declarations(text: str, language: str) -> tuple[_Declared, ...]:
    """Return the declarations of a file; cached for several passages of one file."""
    constants, imports, indented = _patterns(language)
    starts = _line_starts(text)
    lines = [at for at in starts if text[at : at + 1] not in _NEVER_BEGINS]
    if indented is not None:
        inside = (text.rfind("\n", 0, match.start() + 1) + 1 for match in indented.finditer(text))
        lines = sorted({*lines, *inside})
    quoted = _Quoted(text, language)
    declarations = []
    grouped = False
    for at in lines:
        if text[at] not in " \t":
            grouped = text.startswith(_GROUPS, at)
        elif language == "go" and not grouped:
            continue  # A statement of a function, not a member of a group.
        match = constants.match(text, at)
        is_import = match is None
        if match is None and imports is not None:
            match = imports.match(text, at)
        if match is not None and not quoted.covers(at):
            names = _imported(match, language) if is_import else _bound(match)
            line = bisect_right(starts, at)
            short = _format_declaration(text, match, is_import)
            declarations.append(_Declared(line, short, names - _NOT_NAMES, is_import))
    return tuple(declarations)


class _Quoted:
    """Multi-line comments and strings, scanned from the start of a file to its end."""

    def __init__(self, text: str, language: str) -> None:
        self._text = text
        python = language == "python"
        self._marks = {'"""': '"""', "'''": "'''"} if python else {"/*": "*/"}
        self._at = 0
        self._closing = ""

    def covers(self, offset: int) -> bool:
        """Whether an offset is inside a comment or string; offsets must not decrease."""
        text = self._text
        while self._at < offset:
            if self._closing:
                end = text.find(self._closing, self._at, offset)
                if end < 0:
                    break
                self._at, self._closing = end + len(self._closing), ""
            opening = {
                start: mark
                for mark in self._marks
                if (start := text.find(mark, self._at, offset)) >= 0
            }
            if not opening:
                self._at = offset
                break
            first = min(opening)
            self._at, self._closing = first + len(opening[first]), self._marks[opening[first]]
        return bool(self._closing)


def _bound(match: re.Match[str]) -> frozenset[str]:
    return frozenset(name for name in match.groupdict().values() if name)


def _imported(match: re.Match[str], language: str) -> frozenset[str]:
    """Return the names that an import statement binds."""
    groups = match.groupdict()
    if groups.get("bound"):
        return frozenset(_NAMES.findall(_AFTER_AS.sub("", groups["bound"])))
    written = groups.get("names") or ""
    if _RULES[language].last_part:
        return frozenset(re.findall(r"([\w$-]+)\s*(?=,|$)", written.strip()))
    if language == "python":
        # ``import a.b`` binds ``a``; ``as`` binds only the new name.
        listed = (part.strip(" ()\n\t\\") for part in re.sub(r"#[^\n]*", "", written).split(","))
        return frozenset(re.split(r"\s+as\s+", name)[-1].split(".")[0] for name in listed if name)
    return frozenset(_NAMES.findall(_AFTER_AS.sub("", written)))


def _format_declaration(text: str, match: re.Match[str], whole: bool) -> str:
    """Return a declaration as one line: the first line of a constant, or a whole import."""
    end = text.find("\n", match.end() if whole else match.start())
    written = text[match.start() : end if end >= 0 else len(text)]
    line = " ".join(written.split()) if whole else written.strip()
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1].rstrip()}…"


@cache
def _patterns(
    language: str,
) -> tuple[re.Pattern[str], re.Pattern[str] | None, re.Pattern[str] | None]:
    rules = _RULES[language]
    imports = re.compile(rules.imports, re.MULTILINE) if rules.imports else None
    indented = re.compile(rules.indented, re.MULTILINE) if rules.indented else None
    return re.compile(rules.constants, re.MULTILINE), imports, indented


def _line_starts(text: str) -> list[int]:
    starts = [0]
    at = text.find("\n") + 1
    while at:
        starts.append(at)
        at = text.find("\n", at) + 1
    return starts
