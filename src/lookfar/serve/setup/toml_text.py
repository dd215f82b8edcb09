"""TOML edited as text: one table put in, brought up to date or taken out.

Takes: the text of somebody's settings. Gives: the same text with our table in it or out of it,
comments and order as they were. Refuses (``Malformed``): a text that is no TOML, and a way of
writing (one inline table for everything) in which a table cannot be added; every result is
parsed again and compared with what was meant.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lookfar.serve.setup.malformed import Malformed, newline_of

_STRING: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}'
    r"|'''(?:[^']|'{1,2}(?!'))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_BLANK: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_KEY: Final = re.compile(
    r"[ \t]*(?:([A-Za-z0-9_-]+)|(\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'))[ \t]*(\.)?"
)
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class _Statement:
    """A header or a pair of the text."""

    path: tuple[str, ...]
    """From the top of the document."""
    table: tuple[str, ...]
    start: int
    end: int
    """Behind the end of its last line."""
    value: tuple[int, int] | None
    """Where the value of a pair stands; None of a header."""


def put(text: str, path: Sequence[str], entry: Mapping[str, Any]) -> str:
    """The text with these keys in the table at ``path``; other keys of it stay."""
    path = tuple(path)
    wanted = _parsed(text)
    table = wanted
    for depth, key in enumerate(path):
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise Malformed(f"{'.'.join(path[: depth + 1])} is no table")
    missing = {key: value for key, value in entry.items() if table.get(key) != value}
    table.update(missing)
    for key, value in missing.items():
        text = _set(text, path, key, value)
    return _checked(text, wanted)


def drop(text: str, path: Sequence[str]) -> str:
    """The text without the table at ``path``, however it is written."""
    path = tuple(path)
    wanted = _parsed(text)
    table = wanted
    for key in path[:-1]:
        table = table.get(key, {})
        if not isinstance(table, dict):
            return text
    if path[-1] not in table:
        return text
    del table[path[-1]]
    gone = [each for each in _statements(text) if each.path[: len(path)] == path]
    for each in reversed(gone):
        before, after = text[: each.start], text[each.end :]
        blank = re.search(r"(?:^|\n)(\r?\n)\Z", before)
        if each.value is None and blank and not after.strip():
            before = before[: blank.start(1)]  # The line that parted it from what is above.
        text = before + after
    return _checked(text, wanted, empty=path[:-1])


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Malformed(str(error)) from None


def _checked(text: str, wanted: dict[str, Any], empty: tuple[str, ...] = ()) -> str:
    """The text, if it says what was meant; a table may have gone with all that was in it."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        found = {}
    meant = copy.deepcopy(wanted)
    for depth in range(len(empty), 0, -1):
        _forget_if_empty(meant, empty[:depth])
        _forget_if_empty(found, empty[:depth])
    if found != meant:
        raise Malformed("our table cannot be edited in the way this file is written")
    return text


def _forget_if_empty(data: dict[str, Any], path: tuple[str, ...]) -> None:
    for key in path[:-1]:
        data = data.get(key, {})
    if data.get(path[-1]) == {}:
        del data[path[-1]]


# --- writing ----------------------------------------------------------------------------------


def _appended(text: str, path: tuple[str, ...], key: str, value: Any) -> str:
    nl = newline_of(text)
    if text and not text.endswith("\n"):
        text += nl
    between = nl if text else ""
    return f"{text}{between}[{_dotted(path)}]{nl}{_dotted((key,))} = {as_toml(value)}{nl}"


def _set(text: str, path: tuple[str, ...], key: str, value: Any) -> str:
    statements = list(_statements(text))
    for each in statements:
        if each.value is not None and each.path == (*path, key):
            return text[: each.value[0]] + as_toml(value) + text[each.value[1] :]
    for each in statements:
        if each.value is not None and each.path == path:  # lookfar = { command = ... }
            begin, end = each.value
            table = tomllib.loads(f"x = {text[begin:end]}")["x"] | {key: value}
            return text[:begin] + as_toml(table) + text[end:]
    beside = [each for each in statements if each.value and each.path[:-1] == path]
    header = [each for each in statements if each.value is None and each.path == path]
    nl = newline_of(text)
    for each in beside[-1:] or header:
        table_path = each.path if each.value is None else each.table
        row = f"{_dotted((*path, key)[len(table_path) :])} = {as_toml(value)}{nl}"
        above = text[: each.end]
        return above + ("" if above.endswith("\n") else nl) + row + text[each.end :]
    if not path:  # Whatever stands below a header belongs to it.
        return f"{_dotted((key,))} = {as_toml(value)}{nl}{nl if text else ''}{text}"
    return _appended(text, path, key, value)


def _dotted(path: Sequence[str]) -> str:
    return ".".join(key if _BARE.fullmatch(key) else as_toml(key) for key in path)


def as_toml(value: Any) -> str:
    """A value as a file has it."""
    if isinstance(value, dict):
        inner = ", ".join(f"{_dotted((key,))} = {as_toml(each)}" for key, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return str(value)  # Dates write themselves as TOML does.


# --- reading ----------------------------------------------------------------------------------


def _statements(text: str) -> Iterator[_Statement]:
    """Headers and pairs in their order. The text is known to be TOML."""
    table: tuple[str, ...] = ()
    at = _skip(text, 0)
    while at < len(text):
        start = text.rfind("\n", 0, at) + 1
        if text[at] == "[":
            twice = text.startswith("[[", at)
            table, behind = _key(text, at + 1 + twice)
            end = _line_end(text, behind)
            yield _Statement(table, table, start, end, None)
        else:
            key, equals = _key(text, at)
            begin = equals + 1
            while text[begin] in " \t":
                begin += 1
            behind = _value_end(text, begin)
            end = _line_end(text, behind)
            yield _Statement((*table, *key), table, start, end, (begin, behind))
        at = _skip(text, end)


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _key(text: str, at: int) -> tuple[tuple[str, ...], int]:
    parts: list[str] = []
    while found := _KEY.match(text, at):
        parts.append(found[1] or tomllib.loads(f"x = {found[2]}")["x"])
        at = found.end()
        if not found[3]:
            break
    return tuple(parts), at


def _value_end(text: str, at: int) -> int:
    """Where a value ends: at its last character, not at the comment or the blanks behind it."""
    depth, end = 0, at
    while at < len(text):
        if string := _STRING.match(text, at):
            at = end = string.end()
            continue
        char = text[at]
        if char in "#\n" and not depth:
            break
        if char == "#":
            at = text.find("\n", at)
            continue
        depth += (char in "[{") - (char in "]}")
        at += 1
        if char not in " \t\r\n":
            end = at
    return end
