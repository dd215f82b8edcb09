"""Reduce expressions and types of source code to short paths that the call graph can follow."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
