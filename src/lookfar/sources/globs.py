"""File patterns of users, compiled so that no pattern can be slow.

Takes: globs with ``*``, ``**``, ``?``, ``[...]`` and ``{a,b}``. Gives: matchers
for relative POSIX paths. Refuses: patterns that are malformed, too long or too
many, with ``InvalidPattern`` and the way out.

Meaning, as in gitignore: a pattern without ``/`` is compared with the last
component at any depth (``*.md``); one with ``/`` is compared with the whole path
from the root (``docs/*.md``); ``**`` as a component stands for any number of
components; ``docs/`` and ``docs/**`` mean everything below ``docs``. Wildcards
match a leading dot, case counts, and both sides are compared in NFC, because
macOS writes decomposed names.

Why matching is linear in practice: a glob is fixed-width pieces between stars,
and for each piece the leftmost place is always as good as any later one. So
every piece becomes an atomic group, which the regular-expression engine never
re-enters: the worst case is pattern length times path length, never a power.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final
from unicodedata import normalize

from lookfar.errors import InvalidPattern

MAX_LENGTH: Final = 1_000
MAX_PATTERNS: Final = 1_000
MAX_ALTERNATIVES: Final = 64
MAX_COMPILED: Final = 16_000
"""Characters of one pattern after its braces are expanded; compiling costs time per character."""

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
    """A pattern that means nothing; its text says why. Ignore files drop such a line."""


def _character_class(pattern: str, start: int) -> tuple[str, int]:
    """The expression for the ``[...]`` at ``start`` and the position after it."""
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
    """One character inside ``[...]``, unescaped, and the position after it."""
    if pattern[at] == "\\":
        at += 1
        if at == len(pattern):
            raise Malformed("a '[' is never closed")
    return pattern[at], at + 1


def _tokens(pattern: str) -> Iterator[str]:
    """One token per character matched: ``*``, ``/`` or an expression of width one."""
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
    """The expression for one path component."""
    pieces: list[list[str]] = [[]]
    for token in tokens:
        if token == _STAR:
            pieces.append([])
        else:
            pieces[-1].append(token)
    if len(pieces) == 1:
        return "".join(pieces[0])
    middle = "".join(f"(?>[^/]*?{''.join(piece)})" for piece in pieces[1:-1] if piece)
    # The last piece must end the component, so only its last place can do.
    last = f"(?>[^/]*{''.join(pieces[-1])})"
    return "".join(pieces[0]) + middle + last


def translate(pattern: str) -> str:
    """The expression that fully matches the paths a brace-free pattern means.

    The pattern is taken from the root on: no leading or trailing slash.
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


def literal_of(pattern: str) -> str | None:
    """The plain text a pattern stands for, or None when it has a wildcard."""
    if "\\" not in pattern:
        return None if any(char in pattern for char in "*?[") else pattern
    if re.search(r"(?<!\\)(?:\\\\)*[*?[]", pattern) or re.search(r"(?<!\\)(?:\\\\)*\\$", pattern):
        return None
    return re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL)


def _expand_braces(pattern: str, nesting: int = 0) -> list[str]:
    """All patterns that ``{a,b}`` stands for, in the order written."""
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
            choices = [each for part in parts for each in _expand_braces(part, nesting + 1)]
        if len(results) * len(choices) > MAX_ALTERNATIVES:
            raise Malformed(f"its braces stand for more than {MAX_ALTERNATIVES} patterns")
        results = [head + choice for head in results for choice in choices]
        at = end
    return results


def _alternatives(pattern: str, start: int) -> tuple[list[str], int]:
    """The parts of the ``{...}`` at ``start`` and the position after it."""
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


def rooted(pattern: str) -> tuple[bool, str]:
    """Whether a pattern means the last component only, and its text for ``translate``."""
    body = pattern.removeprefix("./")
    anchored = body.startswith("/")
    body = body.removeprefix("/")
    if body.endswith("/"):
        inner = body[:-1]
        body = f"{inner}/**" if anchored or "/" in inner else f"**/{inner}/**"
    return not anchored and "/" not in body, body


def _invalid(pattern: str, why: str, hint: str) -> InvalidPattern:
    shown = pattern if len(pattern) <= 80 else pattern[:77] + "..."
    return InvalidPattern(
        f"The pattern {shown!r} cannot be used: {why}.", hint=hint, details={"pattern": shown}
    )


def _compile(pattern: str) -> tuple[list[str], list[str]]:
    """Expressions for the last component and for the whole path that a user's glob means."""
    if not pattern:
        raise _invalid(pattern, "it is empty", "Leave it out, or write ** for every file.")
    if len(pattern) > MAX_LENGTH or "\0" in pattern:
        why = f"it is longer than {MAX_LENGTH} characters or holds a zero byte"
        raise _invalid(pattern, why, "Write several shorter patterns instead.")
    if pattern.startswith("!"):
        raise _invalid(
            pattern,
            "'!' does not negate here",
            "Use the opposite list (include or exclude), or write \\! for a name that starts so.",
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
        for each in expanded:
            last_only, body = rooted(each)
            if ".." in body.split("/") or "." in body.split("/"):
                raise Malformed("'.' and '..' have no meaning in it")
            (names if last_only else paths).append(translate(body))
    except Malformed as error:
        raise _invalid(
            pattern, str(error), "Patterns look like *.md, docs/** or src/**/*.{py,ts}."
        ) from error
    return names, paths


class GlobSet:
    """Several globs asked at once: which of them, if any, matches a path?"""

    __slots__ = ("_in_names", "_in_paths", "_names", "_paths", "patterns")

    def __init__(self, patterns: Sequence[str]) -> None:
        if len(patterns) > MAX_PATTERNS:
            raise InvalidPattern(
                f"There are {len(patterns)} patterns, more than the {MAX_PATTERNS} allowed.",
                hint="Join patterns with wildcards, or list folders instead of files.",
            )
        self.patterns = tuple(patterns)
        names: list[tuple[str, str]] = []
        paths: list[tuple[str, str]] = []
        for pattern in self.patterns:
            for_name, for_path = _compile(pattern)
            names.extend((expression, pattern) for expression in for_name)
            paths.extend((expression, pattern) for expression in for_path)
        # One capturing group per glob, so that one match also says which glob it was.
        self._names = [pattern for _, pattern in names]
        self._paths = [pattern for _, pattern in paths]
        self._in_names = re.compile("|".join(f"({each})" for each, _ in names)) if names else None
        self._in_paths = re.compile("|".join(f"({each})" for each, _ in paths)) if paths else None

    def match(self, uri: str) -> str | None:
        """The first glob that matches (those for the last component first), or None."""
        if not uri.isascii():
            uri = normalize("NFC", uri)
        if self._in_names is not None:
            found = self._in_names.fullmatch(uri, uri.rfind("/") + 1)
            if found is not None and found.lastindex is not None:
                return self._names[found.lastindex - 1]
        if self._in_paths is not None:
            found = self._in_paths.fullmatch(uri)
            if found is not None and found.lastindex is not None:
                return self._paths[found.lastindex - 1]
        return None


@lru_cache(maxsize=256)
def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """A test of relative POSIX paths against one glob; ``InvalidPattern`` if it means nothing."""
    globs = GlobSet((pattern,))
    return lambda uri: globs.match(uri) is not None
