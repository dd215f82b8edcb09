"""Read a regular expression for RE2: translate its classes, and find out what every match contains.

The syntax is RE2's. Classes and word boundaries at either end know all of Unicode, which RE2's do
not. Syntax that RE2 lacks or reads otherwise than its writer meant is rejected with its equivalent.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NoReturn

from lookfar.errors import InvalidArgument
from lookfar.ports import EVERYTHING, AllOf, AnyOf, Need
from lookfar.store.keywords.signatures import SHORTEST, fold

_WORD: Final = (
    r"\p{L}\p{Nl}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}"
    r"\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}"
)
NOT_WORD: Final = f"[^{_WORD}]"
_CLASSES: Final = {
    "d": r"\p{Nd}",
    "s": r"\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}",
    "w": _WORD,
}
"""As in ripgrep. RE2 has no category for Alphabetic, so it is written as letters, letter numbers,
marks, and the letters among the symbols."""

_TOKEN: Final = re.compile(
    r"""(?xs)
    \\[pP]\{[^}]*+\}? | \\x\{[^}]*+\}? | \\b\{[a-z-]++\} | \\.?
    | \[\^?\]?(?:\\[pP]\{[^}]*+\}|\\.|\[:\^?\w++:\]|[^\]\\])*+\]
    | \(\?(?:P?<\w++>|[a-zA-Z-]*+[:)]|[^)]?[=!]?) | \(
    | [*+?]\?? | \{\d++(?:,\d*+)?\}\??
    | .
    """
)
_IN_CLASS: Final = re.compile(r"\\[pP]\{[^}]*\}|\\.|\[:\^?\w+:\]", re.DOTALL)
_REJECTED_ESCAPES: Final = {
    "n": "Search for one of the lines: a match is within one line.",
    "u": r"Write \x{1F600}.", "U": r"Write \x{1F600}.", "N": r"Write \x{1F600}.",
    "<": r"Write \b.", ">": r"Write \b.", "Z": "Write $.", "h": r"Write [ \t].",
    "R": "Write $: a match is within one line.", "C": "Write a dot.", "K": "Leave it out.",
    "Q": "Escape each character, or search for a literal text.",
    **dict.fromkeys("123456789kg", "Repeat the part itself: there are no back references."),
}  # fmt: skip
_REJECTED_GROUPS: Final = {
    **dict.fromkeys(
        ("(?=", "(?!", "(?<=", "(?<!"),
        "Search for the main part and filter the result: look-around takes more than linear time.",
    ),
    "(?>": "Write (?:...).",
    "(?P=": "Repeat the part itself: there are no back references.",
}


class Expression(NamedTuple):
    source: str
    """In RE2 syntax."""
    fold: bool
    """Whether case is ignored in all of it."""
    need: Need
    """What a document must contain to have a match; necessary, but not sufficient."""
    starts_word: bool
    """Whether no word character may precede a match."""
    ends_word: bool


def read_expression(pattern: str, *, fold: bool, smart: bool) -> Expression:
    """Read an expression; with ``smart``, ignore case unless it has an upper-case letter."""
    tokens = _TOKEN.findall(pattern)
    for token in tokens:
        _check(token, pattern)
    starts, ends = _take_edges(tokens)
    if not pattern.isascii() and (r"\b" in tokens or r"\B" in tokens):
        _reject(
            r"within an expression, \b and \B know ASCII words only", pattern,
            r"Put \b at the beginning and the end, or match whole words.",
        )  # fmt: skip
    if smart:
        written = "".join(_IN_CLASS.sub("", token) for token in tokens if _has_letters(token))
        fold = written.lower() == written != written.upper()
    any_case = fold or any(re.match(r"\(\?[a-zA-Z]*i", token) for token in tokens)
    source = "".join(map(_translate, tokens))
    return Expression(source, fold, _derive_need(tokens, any_case), starts, ends)


def _reject(why: str, pattern: str, hint: str) -> NoReturn:
    raise InvalidArgument(
        f"The expression is not valid: {why}.", hint=hint, details={"pattern": pattern}
    )


def _check(token: str, pattern: str) -> None:
    if token == "\n":
        _reject("it contains a line break", pattern, _REJECTED_ESCAPES["n"])
    if token[0] == "\\" and token[1:] in _REJECTED_ESCAPES:
        _reject(f"{token} is not supported", pattern, _REJECTED_ESCAPES[token[1:]])
    if token.startswith(r"\b{"):
        _reject(f"{token} is not supported", pattern, r"Write \b.")
    if token in _REJECTED_GROUPS:
        _reject(f"{token} is not supported", pattern, _REJECTED_GROUPS[token])
    if token[0] != "[" or token == "[":
        return
    inside = _IN_CLASS.sub("_", token)
    if any(operator in inside[2:] for operator in ("&&", "--", "~~")):
        _reject(f"classes cannot be combined, as in {token}", pattern,
                r"List the characters that may match, and write - as \-.")  # fmt: skip
    for escape in _IN_CLASS.findall(token):
        if escape in (r"\D", r"\S", r"\W"):
            _reject(f"{escape} is not supported in brackets", pattern,
                    r"Write . for any character, [\p{L}\p{N}] for letters and digits.")  # fmt: skip
        if escape != r"\n" and escape[1:] in _REJECTED_ESCAPES:
            _reject(f"{escape} is not supported", pattern, _REJECTED_ESCAPES[escape[1:]])


def _take_edges(tokens: list[str]) -> tuple[bool, bool]:
    r"""Remove ``\b`` from the beginning and the end, and return where it was.

    It stays if a character next to it is not part of a word, or if an alternative begins or ends
    there: RE2's ``\b`` is right for these, for ASCII.
    """
    depth = 0
    for token in tokens:
        if depth == 0 and token == "|":
            return False, False
        depth += (token[0] == "(" and not token.endswith(")")) - (token == ")")
    first = 0
    while first < len(tokens) and re.fullmatch(r"\(\?[a-zA-Z-]+\)", tokens[first]):
        first += 1
    ends = len(tokens) > first + 1 and tokens[-1] == r"\b" and not _is_sign(tokens[-2])
    if ends:
        del tokens[-1]
    starts = len(tokens) > first + 1 and tokens[first] == r"\b" and not _is_sign(tokens[first + 1])
    if starts:
        del tokens[first]
    return starts, ends


def _literal(token: str) -> str:
    """Return the character that a token stands for; empty if it is not a single character."""
    if len(token) == 2 and token[0] == "\\" and not token[1].isalnum():
        return token[1]
    return token if len(token) == 1 and token not in ".^$|()*+?\\" else ""


def _is_sign(token: str) -> bool:
    char = _literal(token)
    return char != "" and not char.isalnum() and char != "_"


def _has_letters(token: str) -> bool:
    return _literal(token) != "" or token[0] == "["


def _translate(token: str) -> str:
    if len(token) == 2 and token[0] == "\\" and token[1].lower() in _CLASSES:
        return f"[{'^' if token[1].isupper() else ''}{_CLASSES[token[1].lower()]}]"
    if token in (r"\A", r"\z"):
        return "^" if token == r"\A" else "$"
    if token[0] == "[" and token != "[":
        return _IN_CLASS.sub(lambda part: _CLASSES.get(part[0][1:], part[0]), token)
    return token


def _derive_need(tokens: list[str], fold_case: bool) -> Need:
    """Return the texts that every match contains, as far as that is easily known."""
    branches: list[list[Need]] = [[]]
    outer: list[list[list[Need]]] = []
    run = ""

    def end_run() -> None:
        nonlocal run
        if len(run.encode()) >= SHORTEST:
            branches[-1].append(fold(run.encode()))
        run = ""

    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else ""
        optional = following[:1] in ("*", "?") or following[:2] == "{0"
        char = _literal(token)
        if char and (char.isascii() or not fold_case or char.lower() == char.upper()):
            if optional:
                end_run()
            else:
                run += char
            continue
        end_run()
        if token == "|":
            branches.append([])
        elif token[0] == "(" and not token.endswith(")"):
            outer.append(branches)
            branches = [[]]
        elif token == ")" and outer:
            need = _any_of(branches)
            branches = outer.pop()
            if not optional and need != EVERYTHING:
                branches[-1].append(need)
    end_run()
    return _any_of(branches)


def _any_of(branches: list[list[Need]]) -> Need:
    needs = [needs[0] if len(needs) == 1 else AllOf(tuple(needs)) for needs in branches]
    if EVERYTHING in needs:
        return EVERYTHING
    return needs[0] if len(needs) == 1 else AnyOf(tuple(needs))
