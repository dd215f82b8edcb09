"""Find the lines of a text that match a pattern, as ripgrep does, in linear time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple, Protocol, get_args

from lookfar.errors import InvalidArgument
from lookfar.model import Case
from lookfar.ports import Need
from lookfar.retrieve.grep.expression import NOT_WORD, read_expression

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
    _check(pattern)
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
    source = pattern if regex else re.sub(r"([!-/:-@\[-^`{-~])", r"\\\1", pattern)
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


def _check(pattern: object) -> None:
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
