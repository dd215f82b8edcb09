"""Compile users' glob patterns so that no pattern can be slow.

Supports ``*``, ``**``, ``?``, ``[...]`` and ``{a,b}``, as in gitignore: a pattern without ``/``
matches the last component at any depth (``*.md``); one with ``/`` matches the whole path from the
root (``docs/*.md``); ``**`` as a component matches any number of components; ``docs/`` and
``docs/**`` match everything below ``docs``. Wildcards match a leading dot, case matters, and both
sides are compared in NFC, because macOS writes decomposed names. Malformed or too long patterns
raise ``InvalidPattern``.

Matching is linear in practice: a glob consists of fixed-width pieces between stars, and the
leftmost match of each piece is as good as any later one. So every piece is an atomic group, which
the regular-expression engine never re-enters: the worst case is pattern length times path length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final
from unicodedata import normalize

from lookfar.errors import InvalidPattern

BETWEEN: Final = "\0\0"
"""Separates several globs in one text; no path has it."""
MAX_LENGTH: Final = 1_000
MAX_PATTERNS: Final = 1_000
MAX_ALTERNATIVES: Final = 64
MAX_COMPILED: Final = 16_000
"""Characters of one pattern after brace expansion, because compiling takes time per character."""

_MAX_NESTING: Final = 8
_STAR: Final = "*"
_SLASH: Final = "/"
_ANY_FOLDERS: Final = "(?:[^/]++/)*?"
_POSIX: Final = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t\n\r\f\v",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


class Malformed(ValueError):
    """Raised for a pattern that cannot be compiled; ignore files skip such a line."""


def _character_class(pattern: str, start: int) -> tuple[str, int]:
    """Return the expression for the ``[...]`` at ``start``, and the position after it."""
    at = start + 1
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    items: list[str] = []
    first = at
    while (char := pattern[at : at + 1]) != "]" or at == first:
        if not char:
            raise Malformed("a '[' is never closed")
        if char == "[" and pattern[at + 1 : at + 2] == ":":
            end = pattern.find("]", at + 2)
            if end > at + 2 and pattern[end - 1] == ":":
                name = pattern[at + 2 : end - 1]
                if name not in _POSIX:
                    raise Malformed(f"[:{name}:] is not a character class")
                items.append(_POSIX[name])
                at = end + 1
                continue
        low, at = _class_member(pattern, at)
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("", "]"):
            high, at = _class_member(pattern, at + 1)
            if low <= high:
                items.append(f"{re.escape(low)}-{re.escape(high)}")
        else:
            items.append(re.escape(low))
    body = "".join(items)
    if negated:
        return f"[^/{body}]", at + 1
    return (f"(?!/)[{body}]" if body else "(?!)"), at + 1


def _class_member(pattern: str, at: int) -> tuple[str, int]:
    """Return one character inside ``[...]``, unescaped, and the position after it."""
    if pattern[at] == "\\":
        at += 1
        if at == len(pattern):
            raise Malformed("a '[' is never closed")
    return pattern[at], at + 1


def _tokens(pattern: str) -> Iterator[str]:
    """Yield the tokens of a pattern: ``*``, ``/`` or an expression of width one."""
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "[":
            expression, at = _character_class(pattern, at)
            yield expression
            continue
        if char == "\\":
            at += 1
            if at == len(pattern):
                raise Malformed("it ends in a lone backslash")
            char = pattern[at]
            yield _SLASH if char == "/" else re.escape(char)
        elif char == "?":
            yield "[^/]"
        elif char in "*/":
            yield char
        else:
            yield re.escape(char)
        at += 1


def _component(tokens: Sequence[str]) -> str:
    """Return the expression for one path component."""
    pieces: list[list[str]] = [[]]
    for token in tokens:
        if token == _STAR:
            pieces.append([])
        else:
            pieces[-1].append(token)
    if len(pieces) == 1:
        return "".join(pieces[0])
    middle = "".join(f"(?>[^/]*?{''.join(piece)})" for piece in pieces[1:-1] if piece)
    # The last piece must end the component, so only its last match counts.
    last = f"(?>[^/]*{''.join(pieces[-1])})"
    return "".join(pieces[0]) + middle + last


def translate(pattern: str) -> str:
    """Return the expression for a pattern without braces, relative to the root.

    The pattern has no leading or trailing slash.
    """
    components: list[list[str]] = [[]]
    for token in _tokens(pattern):
        if token == _SLASH:
            components.append([])
        else:
            components[-1].append(token)
    if any(not component for component in components):
        raise Malformed("it has an empty component")
    # Runs of components between `**`: the first starts the path, the last ends it.
    runs: list[list[str]] = [[]]
    for component in components:
        if len(component) > 1 and all(token == _STAR for token in component):
            if len(runs) == 1 or runs[-1]:
                runs.append([])
        else:
            runs[-1].append(_component(component))
    if len(runs) == 1:
        return "/".join(runs[0])
    start = "".join(f"{component}/" for component in runs[0])
    middle = "".join(f"(?>{_ANY_FOLDERS}{'/'.join(run)}/)" for run in runs[1:-1])
    end = _ANY_FOLDERS + "/".join(runs[-1]) if runs[-1] else "(?s:.+)"
    return start + middle + end


def as_literal(pattern: str) -> str | None:
    """Return the text that a pattern matches literally, or None if it has a wildcard."""
    if "\\" not in pattern:
        return None if any(char in pattern for char in "*?[") else pattern
    if re.search(r"(?<!\\)(?:\\\\)*[*?[]", pattern) or re.search(r"(?<!\\)(?:\\\\)*\\$", pattern):
        return None
    return re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL)


def _expand_braces(pattern: str, nesting: int = 0) -> list[str]:
    """Expand ``{a,b}`` to a list of patterns, in the order written."""
    if nesting > _MAX_NESTING:
        raise Malformed(f"its braces are nested more than {_MAX_NESTING} deep")
    results = [""]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        end = at + 1
        choices = [char]
        if char == "\\":
            end = at + 2
            choices = [pattern[at:end]]
        elif char == "[":
            end = _character_class(pattern, at)[1]
            choices = [pattern[at:end]]
        elif char == "{":
            parts, end = _alternatives(pattern, at)
            choices = [text for part in parts for text in _expand_braces(part, nesting + 1)]
        if len(results) * len(choices) > MAX_ALTERNATIVES:
            raise Malformed(f"its braces expand to more than {MAX_ALTERNATIVES} patterns")
        results = [head + choice for head in results for choice in choices]
        at = end
    return results


def _alternatives(pattern: str, start: int) -> tuple[list[str], int]:
    """Return the parts of the ``{...}`` at ``start``, and the position after it."""
    parts: list[str] = []
    depth, at, begin = 0, start, start + 1
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif char == "[":
            at = _character_class(pattern, at)[1] - 1
        elif char == "{":
            depth += 1
        elif char == "," and depth == 1:
            parts.append(pattern[begin:at])
            begin = at + 1
        elif char == "}":
            depth -= 1
            if not depth:
                return [*parts, pattern[begin:at]], at + 1
        at += 1
    raise Malformed("a '{' is never closed")


def split_anchor(pattern: str) -> tuple[bool, str]:
    """Return whether a pattern matches the last component only, and its text for ``translate``."""
    body = pattern.removeprefix("./")
    anchored = body.startswith("/")
    body = body.removeprefix("/")
    if body.endswith("/"):
        inner = body[:-1]
        body = f"{inner}/**" if anchored or "/" in inner else f"**/{inner}/**"
    return not anchored and "/" not in body, body


def _invalid(pattern: str, why: str, hint: str) -> InvalidPattern:
    short = pattern if len(pattern) <= 80 else pattern[:77] + "..."
    return InvalidPattern(
        f"The pattern {short!r} cannot be used: {why}.", hint=hint, details={"pattern": short}
    )


def _compile(pattern: str) -> tuple[list[str], list[str]]:
    """Return the expressions of a glob for the last component and for the whole path."""
    if not pattern:
        raise _invalid(pattern, "it is empty", "Omit it, or write ** for every file.")
    if len(pattern) > MAX_LENGTH or "\0" in pattern:
        why = f"it is longer than {MAX_LENGTH} characters or contains a NUL byte"
        raise _invalid(pattern, why, "Write several shorter patterns instead.")
    if pattern.startswith("!"):
        raise _invalid(
            pattern,
            "'!' does not negate here",
            "Use the opposite list (include or exclude), or write \\! for a literal one.",
        )
    if re.search(r"(?<!\\)(?:\\\\)*\\[\w. ]", pattern):
        raise _invalid(
            pattern, "'\\' escapes a wildcard", "Write / between folders on every system: docs/*.md"
        )
    names: list[str] = []
    paths: list[str] = []
    try:
        expanded = _expand_braces(normalize("NFC", pattern))
        if sum(map(len, expanded)) > MAX_COMPILED:
            raise Malformed("its braces expand to too much text")
        for choice in expanded:
            last_only, body = split_anchor(choice)
            if ".." in body.split("/") or "." in body.split("/"):
                raise Malformed("'.' and '..' have no meaning in it")
            (names if last_only else paths).append(translate(body))
    except Malformed as error:
        raise _invalid(
            pattern, str(error), "Patterns look like *.md, docs/** or src/**/*.{py,ts}."
        ) from error
    return names, paths


class GlobSet:
    """Matches a path against several globs at once."""

    __slots__ = ("_in_names", "_in_paths", "_names", "_paths", "patterns")

    def __init__(self, patterns: Sequence[str]) -> None:
        if len(patterns) > MAX_PATTERNS:
            raise InvalidPattern(
                f"There are {len(patterns)} patterns; the limit is {MAX_PATTERNS}.",
                hint="Combine patterns with wildcards, or list folders instead of files.",
            )
        self.patterns = tuple(patterns)
        names: list[tuple[str, str]] = []
        paths: list[tuple[str, str]] = []
        for pattern in self.patterns:
            for_name, for_path = _compile(pattern)
            names.extend((expression, pattern) for expression in for_name)
            paths.extend((expression, pattern) for expression in for_path)
        # One capturing group per glob identifies the glob that matched.
        self._names = [pattern for _, pattern in names]
        self._paths = [pattern for _, pattern in paths]
        self._in_names = re.compile("|".join(f"({regex})" for regex, _ in names)) if names else None
        self._in_paths = re.compile("|".join(f"({regex})" for regex, _ in paths)) if paths else None

    def match(self, uri: str) -> str | None:
        """Return the first glob that matches (those for the last component first), or None."""
        if not uri.isascii():
            uri = normalize("NFC", uri)
        if self._in_names is not None:
            match = self._in_names.fullmatch(uri, uri.rfind("/") + 1)
            if match is not None and match.lastindex is not None:
                return self._names[match.lastindex - 1]
        if self._in_paths is not None:
            match = self._in_paths.fullmatch(uri)
            if match is not None and match.lastindex is not None:
                return self._paths[match.lastindex - 1]
        return None


@lru_cache(maxsize=256)
def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that tests relative POSIX paths; ``InvalidPattern`` if it is malformed.

    The pattern may be several, joined by ``BETWEEN``: a path matches if one of them does, and none
    of those that begin with ``!``.
    """
    patterns = pattern.split(BETWEEN)
    unwanted = GlobSet([one[1:] for one in patterns if one.startswith("!")])
    wanted = GlobSet([one for one in patterns if not one.startswith("!")])
    if not unwanted.patterns:
        return lambda uri: wanted.match(uri) is not None
    return lambda uri: (
        (not wanted.patterns or wanted.match(uri) is not None) and unwanted.match(uri) is None
    )
