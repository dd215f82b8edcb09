"""Find the lines of a text that match a pattern, as ripgrep does, in linear time.

The syntax of expressions is RE2's. Classes and word boundaries at either end know all of Unicode,
which RE2's do not. Syntax that RE2 lacks or reads otherwise than its writer meant is rejected with
its equivalent. Of each expression we also derive which texts a matching document must contain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple, NoReturn, Protocol, get_args

from lookfar.errors import InvalidArgument
from lookfar.model import Case
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
_MOST_MEMORY: Final = 32 << 20
"""For RE2, per expression."""
_NEWLINE: Final = b"\n"
_LONGEST: Final = 10_000
_HINTS: Final = {
    "missing )": r"Close the group, or escape it: \(",
    "unexpected )": r"Escape it: \)",
    "missing ]": r"Close the class, or escape it: \[",
    "no argument": r"Escape the sign, for example \*.",
    "trailing": "Escape the backslash: \\\\",
    "invalid character class": r"Write \pL, \p{Lu} or \p{Greek}, and ranges as [a-z].",
    "invalid perl operator": "Flags: i, m, s, U. A group that is not captured: (?:...)",
    "bad repetition": "Repeat once. No match takes more than linear time.",
    "invalid escape": "Write the character itself, or its code as \\x{1F600}.",
}
_USUAL_HINT: Final = "Use fewer or smaller repetitions, at most 1,000."


class LineSpan(NamedTuple):
    """Offsets of a matching line, without its line break."""

    start: int
    end: int


Find = Callable[[bytes, int], int]
"""Returns the start of the first match at or after an offset; -1 if there is none."""
Spans = Callable[[bytes], Iterator[tuple[int, int]]]
"""Yields the matches in one line, as byte offsets, from left to right."""


class Matcher(NamedTuple):
    case: Literal["sensitive", "insensitive"]
    need: Need
    """What a document must contain to have a match."""
    find: Find
    spans: Spans

    def lines(self, text: bytes) -> Iterator[LineSpan]:
        """Yield the lines that match, in order."""
        at, find = 0, self.find
        while (hit := find(text, at)) >= 0:
            start = text.rfind(_NEWLINE, at, hit) + 1 or at
            end = text.find(_NEWLINE, hit)
            if end < 0:
                end = len(text)
            yield LineSpan(start, end)
            at = end + 1

    def count(self, text: bytes) -> int:
        number, find = 0, self.find
        hit = find(text, 0)
        while hit >= 0:
            number += 1
            at = text.find(_NEWLINE, hit) + 1
            hit = find(text, at) if at else -1
        return number


def make_matcher(pattern: str, *, regex: bool, case: Case, whole_words: bool) -> Matcher:
    if not isinstance(pattern, str):
        raise InvalidArgument("The pattern must be a string.", hint="Pass a str.")
    if not pattern:
        raise InvalidArgument("The pattern is empty.", hint="Write a text or a regular expression.")
    if len(pattern) > _LONGEST:
        raise InvalidArgument(
            f"The pattern has {len(pattern):,} characters.", hint=f"Use at most {_LONGEST:,}."
        )
    if any("\ud800" <= character <= "\udfff" for character in pattern):
        raise InvalidArgument(
            "The pattern contains a lone surrogate.", hint="Send valid Unicode text."
        )
    if case not in get_args(Case):
        cases = ", ".join(get_args(Case))
        raise InvalidArgument(
            f"{case!r} is not a way to handle case.", hint=f"Use one of: {cases}."
        )
    if not regex and "\n" in pattern:
        raise InvalidArgument(
            "The pattern contains a line break, and lines are matched one by one.",
            hint="Search for one of the lines.",
        )
    source = pattern if regex else re.sub(r"([!-/:;=?@\[-^`{-~])", r"\\\1", pattern)
    read = read_expression(source, fold=case == "insensitive", smart=case == "smart")
    if not regex and not read.fold and not whole_words:
        return Matcher("sensitive", read.need, *_match_text(pattern.encode()))
    _compile(read.source, pattern)  # A stray parenthesis would close the group around it below.
    starts, ends = read.starts_word or whole_words, read.ends_word or whole_words
    flags = "(?im)" if read.fold else "(?m)"
    after = f"(?:$|{NOT_WORD})" if ends else ""
    first = later = _compile(f"{flags}({read.source}){after}", pattern, capture=ends)
    if starts:
        first = _compile(f"{flags}(?:^|{NOT_WORD})({read.source}){after}", pattern, capture=True)
        later = _compile(f"{flags}{NOT_WORD}({read.source}){after}", pattern, capture=True)

    def find(text: bytes, at: int) -> int:
        # There is no line after the last line break, although an expression may match there.
        match = first.search(text, at) if at < len(text) else None
        begin = match.span()[0] if match is not None else -1
        return begin if begin < len(text) else -1

    group = 1 if starts or ends else 0

    def spans(line: bytes) -> Iterator[tuple[int, int]]:
        # An empty match next to the previous one does not count.
        at, last = 0, -1
        while at <= len(line):
            match = first.search(line, 0) if at == 0 else later.search(
                line, _previous_character(line, at) if starts else at
            )  # fmt: skip
            if match is None:
                return
            start, end = match.span(group)
            if start == end == last:
                at += 1
                while at < len(line) and line[at] & 0xC0 == 0x80:
                    at += 1
                continue
            yield start, end
            last = at = end

    return Matcher("insensitive" if read.fold else "sensitive", read.need, find, spans)


def _match_text(wanted: bytes) -> tuple[Find, Spans]:
    def find(text: bytes, at: int) -> int:
        return text.find(wanted, at)

    def spans(line: bytes) -> Iterator[tuple[int, int]]:
        at = line.find(wanted)
        while at >= 0:
            yield at, at + len(wanted)
            at = line.find(wanted, at + len(wanted))

    return find, spans


def _previous_character(line: bytes, at: int) -> int:
    """Return the offset of the character before the one at ``at``."""
    at -= 1
    while line[at] & 0xC0 == 0x80:
        at -= 1
    return at


class _Match(Protocol):
    def span(self, group: int = 0) -> tuple[int, int]: ...


class _Compiled(Protocol):
    """The part of RE2's interface used here."""

    def search(self, text: bytes, pos: int = 0) -> _Match | None: ...


def _compile(source: str, pattern: str, *, capture: bool = False) -> _Compiled:
    """Compile an expression in RE2's own syntax; RE2 caches recent ones."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    options.never_capture = not capture
    options.never_nl = True
    try:
        expression: Any = re2.compile(source, options)
    except re2.error as error:
        why = error.args[0] if error.args else error
        why = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        hint = next((hint for kind, hint in _HINTS.items() if why.startswith(kind)), _USUAL_HINT)
        raise InvalidArgument(
            f"The expression is not valid: {why}.", hint=hint, details={"pattern": pattern}
        ) from error
    return expression  # type: ignore[no-any-return]


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
        _check_token(token, pattern)
    starts, ends = _take_edges(tokens)
    if re.search(r"(?!_)[^\W\x00-\x7f]", pattern) and (r"\b" in tokens or r"\B" in tokens):
        _reject(
            r"within an expression, \b and \B know ASCII words only", pattern,
            r"Put \b at the beginning and the end, or match whole words.",
        )  # fmt: skip
    if smart:
        written = "".join(
            _IN_CLASS.sub("", token) for token in tokens if _literal(token) or token[0] == "["
        )
        fold = written.lower() == written != written.upper()
    any_case = fold or any(re.match(r"\(\?[a-zA-Z]*i", token) for token in tokens)
    source = "".join(map(_translate, tokens))
    return Expression(source, fold, _derive_need(tokens, any_case), starts, ends)


def _reject(why: str, pattern: str, hint: str) -> NoReturn:
    raise InvalidArgument(
        f"The expression is not valid: {why}.", hint=hint, details={"pattern": pattern}
    )


def _check_token(token: str, pattern: str) -> None:
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
