"""Find the lines of a text that match a pattern, as ripgrep does, in linear time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple, Protocol, get_args

from lookfar.errors import InvalidArgument
from lookfar.model import Case
from lookfar.ports import Need
from lookfar.retrieve.grep import syntax
from lookfar.retrieve.grep.literals import derive_literal_need, derive_need

_MOST_MEMORY: Final = 32 << 20
"""For RE2, per expression."""
_NEWLINE: Final = b"\n"


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
    if not regex:
        return _match_literal(pattern, _ignores_case(case, pattern, pattern != ""), whole_words)
    parsed = syntax.parse(pattern)
    smart = case == "smart" and parsed.has_literal and not parsed.has_upper
    fold = case == "insensitive" or smart
    node = syntax.parse(pattern, fold=True).node if fold else parsed.node
    return _match_expression(node, fold, whole_words)


def _check(pattern: object) -> None:
    if not isinstance(pattern, str):
        raise InvalidArgument("The pattern must be a string.", hint="Pass a str.")
    if not pattern:
        raise InvalidArgument("The pattern is empty.", hint="Write a text or a regular expression.")
    if len(pattern) > syntax.LONGEST:
        raise InvalidArgument(
            f"The pattern has {len(pattern):,} characters.", hint=f"Use at most {syntax.LONGEST:,}."
        )
    if any("\ud800" <= character <= "\udfff" for character in pattern):
        raise InvalidArgument(
            "The pattern contains a lone surrogate.", hint="Send valid Unicode text."
        )


def _ignores_case(case: Case, pattern: str, literal: bool) -> bool:
    return case == "insensitive" or (
        case == "smart" and literal and not any(map(str.isupper, pattern))
    )


def _match_literal(pattern: str, fold: bool, whole_words: bool) -> Matcher:
    if "\n" in pattern:
        raise InvalidArgument(
            "The pattern contains a line break, and lines are matched one by one.",
            hint="Search for one of the lines.",
        )
    if fold:
        node = syntax.Sequence(
            tuple(syntax.Char(char, char.lower() != char.upper()) for char in pattern)
        )
        expression = _match_expression(node, fold, whole_words)
        return expression._replace(need=derive_literal_need(pattern, fold=True))
    wanted = pattern.encode()
    need = derive_literal_need(pattern, fold=False)
    if whole_words:
        return Matcher("sensitive", need, *_match_whole_words(wanted))

    def find(text: bytes, at: int) -> int:
        return text.find(wanted, at)

    def spans(line: bytes) -> Iterator[tuple[int, int]]:
        at = line.find(wanted)
        while at >= 0:
            yield at, at + len(wanted)
            at = line.find(wanted, at + len(wanted))

    return Matcher("sensitive", need, find, spans)


def _match_whole_words(wanted: bytes) -> tuple[Find, Spans]:
    """Match a text that is not next to a word character."""

    def find(text: bytes, at: int) -> int:
        at = text.find(wanted, at)
        while at >= 0 and (_follows_word(text, at) or _precedes_word(text, at + len(wanted))):
            at = text.find(wanted, at + 1)
        return at

    def spans(line: bytes) -> Iterator[tuple[int, int]]:
        at = find(line, 0)
        while at >= 0:
            yield at, at + len(wanted)
            at = find(line, at + len(wanted))

    return find, spans


def _follows_word(text: bytes, at: int) -> bool:
    """Return whether the character before ``at`` is a word character."""
    if at == 0:
        return False
    start = at - 1
    while text[start] & 0xC0 == 0x80:
        start -= 1
    return _is_word(text[start:at])


def _precedes_word(text: bytes, at: int) -> bool:
    """Return whether the character at ``at`` is a word character."""
    if at >= len(text):
        return False
    end = at + 1
    while end < len(text) and text[end] & 0xC0 == 0x80:
        end += 1
    return _is_word(text[at:end])


def _is_word(character: bytes) -> bool:
    if len(character) == 1:
        return character.isalnum() or character == b"_"
    return _compile(syntax.WORD_CHARACTER).fullmatch(character) is not None


class _Match(Protocol):
    def span(self) -> tuple[int, int]: ...


class _Compiled(Protocol):
    """The part of RE2's interface used here."""

    def search(self, text: bytes, pos: int = 0) -> _Match | None: ...

    def fullmatch(self, text: bytes) -> _Match | None: ...


def _compile(source: str) -> _Compiled:
    """Compile an expression in RE2's own syntax; RE2 caches recent ones."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    options.never_capture = True
    try:
        expression: Any = re2.compile(source, options)
    except re2.error as error:
        why = error.args[0] if error.args else error
        why = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise InvalidArgument(
            f"The expression cannot be used: {why}.",
            hint="Use fewer or smaller repetitions, and classes such as \\pL or \\p{Greek}.",
        ) from error
    return expression  # type: ignore[no-any-return]


def _match_expression(node: syntax.Node, fold: bool, whole_words: bool) -> Matcher:
    case: Literal["sensitive", "insensitive"] = "insensitive" if fold else "sensitive"
    need = derive_need(node)
    # RE2 only has ``\b``, which is right if the expression begins and ends with word characters.
    known = not whole_words or syntax.is_between_words(node)
    if whole_words:
        node = syntax.Sequence((syntax.Assertion("word_start"), node, syntax.Assertion("word_end")))
    exact = _compile(f"(?m){syntax.to_re2(node)}") if known else None
    if not syntax.has_boundary(node):
        assert exact is not None
        return Matcher(case, need, _make_find(exact), _make_spans(_make_search(exact)))
    return Matcher(case, need, *_match_boundaries(node, exact))


def _make_find(expression: _Compiled) -> Find:
    def find(text: bytes, at: int) -> int:
        # There is no line after the last line break, although an expression may match there.
        if at >= len(text):
            return -1
        match = expression.search(text, at)
        begin = match.span()[0] if match is not None else -1
        return begin if begin < len(text) else -1

    return find


Search = Callable[[bytes, int], tuple[int, int] | None]
"""Returns the first match in a line from an offset on."""


def _make_search(expression: _Compiled) -> Search:
    def search(line: bytes, at: int) -> tuple[int, int] | None:
        match = expression.search(line, at)
        return match.span() if match is not None else None

    return search


def _make_spans(search: Search) -> Spans:
    """Return all matches of a line; an empty match next to the previous one does not count."""

    def spans(line: bytes) -> Iterator[tuple[int, int]]:
        at, last = 0, -1
        while at <= len(line):
            match = search(line, at)
            if match is None:
                return
            start, end = match
            if start == end == last:
                at = _next_character(line, at)
                continue
            yield match
            last = at = end

    return spans


def _next_character(line: bytes, at: int) -> int:
    """Return the offset of the character after the one at ``at``."""
    at += 1
    while at < len(line) and line[at] & 0xC0 == 0x80:
        at += 1
    return at


def _match_boundaries(node: syntax.Node, exact: _Compiled | None) -> tuple[Find, Spans]:
    """Match an expression with word boundaries.

    RE2 matches ASCII lines. For other lines, RE2 finds candidates without the boundaries, and each
    candidate is matched by a simulation.
    """
    from lookfar.retrieve.grep.simulate import Program

    loose = _compile(f"(?m){syntax.to_re2(node, boundaries=False)}")
    program = Program(node)

    def search(line: bytes, at: int) -> tuple[int, int] | None:
        if exact is not None and line.isascii():
            match = exact.search(line, at)
            return match.span() if match is not None else None
        text = line.decode()
        simulated = program.search(text, len(line[:at].decode()))
        if simulated is None:
            return None
        start = len(text[: simulated[0]].encode())
        return start, start + len(text[simulated[0] : simulated[1]].encode())

    quick = _make_find(exact) if exact is not None else None
    possible = _make_find(loose)

    def find(text: bytes, at: int) -> int:
        if quick is not None and text.isascii():
            return quick(text, at)
        while (hit := possible(text, at)) >= 0:
            start = text.rfind(_NEWLINE, at, hit) + 1 or at
            end = text.find(_NEWLINE, hit)
            end = len(text) if end < 0 else end
            match = search(text[start:end], 0)
            if match is not None:
                return start + match[0]
            at = end + 1
        return -1

    return find, _make_spans(search)
